"""The endpoints that send to channels, over real HTTP, with a sender that does what the test says.

Stands for: message_bodies
"""

import asyncio
import base64
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer
from coldnotify.publisher import PublishError, Sent
from coldnotify_common.http.web import json_errors
from coldnotify_http.entrance import Entrance
from coldnotify_http.message_bodies import NamedMessage
from coldnotify_http.metrics import Metrics
from coldnotify_http.request_parts import Bodies
from coldnotify_http.sending import Sending
from coldnotify_http.settings import HttpSettings
from coldnotify_schemas.protocol import PUBLISHES_PER_REQUEST_MAX
from prometheus_client import CollectorRegistry

SETTINGS = HttpSettings(http_publishes_max=1000, http_body_timeout_s=0.5, http_body_bytes_max=1_000_000)
CHANNELS = "/v1/domains/d/groups/g/channels"


class FakeSender:
    def __init__(self) -> None:
        self.seen: list[NamedMessage] = []
        self.failures: dict[str, PublishError] = {}
        self.goes_on = asyncio.Event()
        """What the domain d has under way is acknowledged."""
        self.goes_on.set()

    async def send_messages_async(
        self, domain: str, group_id: str, messages: Sequence[NamedMessage], *, traceparent: str | None = None
    ) -> list[Sent | PublishError]:
        assert group_id == "g"
        self.seen += messages
        if domain == "d":
            await self.goes_on.wait()
        return [
            self.failures.get(name) or Sent(3, 40 + place, message.said.id)
            for place, (name, message) in enumerate(messages)
        ]


class Service:
    def __init__(self, sender: FakeSender, url: str, client: ClientSession, registry: CollectorRegistry) -> None:
        self.sender, self.url, self.client, self.registry = sender, url, client, registry

    async def post(self, path: str, said: Any, domain: str = "d") -> tuple[int, Any]:
        async with self.client.post(self.url + CHANNELS.replace("/d/", f"/{domain}/") + path, json=said) as response:
            return response.status, await response.json()


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    sender, registry = FakeSender(), CollectorRegistry()
    metrics = Metrics(registry)
    app = web.Application(middlewares=[json_errors], client_max_size=SETTINGS.http_body_bytes_max)
    app.add_routes(
        Sending(
            sender,
            Entrance(SETTINGS, metrics),
            metrics,
            Bodies(SETTINGS),
        ).routes()
    )
    async with TestServer(app) as server, ClientSession() as client:
        yield Service(sender, f"http://{server.host}:{server.port}", client, registry)


async def test_a_message_is_answered_with_where_it_is(service: Service) -> None:
    said = {
        "payload": {"look": "north"}, "id": "m-1", "to": ["solar", "camera"], "expires_at": 9, "source": "ops",
        "priority": "high",
    }  # fmt: skip
    status, answer = await service.post("/tasks", said)
    assert (status, answer) == (
        200,
        {"domain": "d", "group": "g", "channel": "tasks", "partition": 3, "offset": 40, "id": "m-1"},
    )
    ((name, message),) = service.sender.seen
    assert (name, message.payload) == ("tasks", b'{"look":"north"}' if b" " not in message.payload else message.payload)
    headers = message.said
    assert (headers.id, headers.to, headers.expires_at, headers.source) == ("m-1", ("camera", "solar"), 9, "ops")
    assert headers.high_priority


async def test_bytes_and_names_with_slashes_are_taken(service: Service) -> None:
    status, answer = await service.post("/a%2Fb/c", {"payload_base64": base64.b64encode(b"\xff\x00").decode()})
    assert (status, answer["channel"]) == (200, "a/b/c")
    ((_, message),) = service.sender.seen
    assert message.payload == b"\xff\x00"
    assert message.said.id == answer["id"]


async def test_many_are_answered_each_in_order(service: Service) -> None:
    service.sender.failures["b"] = PublishError("too large", indeterminate=False)
    messages = [{"channel": name, "payload": name} for name in ("a", "b", "a")]
    status, answer = await service.post("", {"messages": messages})
    assert status == 503
    assert [one.get("offset") for one in answer["results"]] == [40, None, 42]
    assert answer["results"][1] == {"channel": "b", "error": "too large", "outcome": "not published"}
    assert answer["error"].startswith("1 of 3 messages")


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ({}, "payload"),
        ({"payload": 1, "payload_base64": "AA=="}, "payload"),
        ({"payload_base64": "!"}, "payload_base64"),
        ({"payload": "x" * 65536}, "payload"),
        ({"payload": 1, "to": "camera"}, "to"),
        ({"payload": 1, "to": ["a b"]}, "to"),
        ({"payload": 1, "id": "x" * 65}, "id"),
        ({"payload": 1, "expires_at": -1}, "expires_at"),
        ({"payload": 1, "source": "a b"}, "source"),
        ({"payload": 1, "priority": "low"}, "priority"),
        ({"payload": 1, "priority": 1}, "priority"),
        ({"payload": 1, "too": ["a"]}, "message"),
        ([1], "message"),
    ],
)
async def test_an_error_names_the_field(service: Service, said: Any, field: str) -> None:
    status, answer = await service.post("/tasks", said)
    assert (status, answer["field"]) == (400, field)
    if isinstance(said, dict):
        status, answer = await service.post(
            "", {"messages": [{"channel": "x", "payload": 1}, {"channel": "y", **said}]}
        )
        assert (status, answer["field"], answer["place"]) == (400, field, 1)
    assert service.sender.seen == []


async def test_lists_that_are_none_or_too_long_are_refused(service: Service) -> None:
    wrong: list[Any] = [{"messages": 1}, {"message": []}, {"messages": [{"channel": "a", "payload": 1}] * 1001}]
    for said in wrong:
        status, answer = await service.post("", said)
        assert (status, answer["field"]) == (400, "messages")
    status, answer = await service.post("", {"messages": [{"payload": 1}]})
    assert (status, answer["place"]) == (400, 0)


async def test_without_room_nothing_is_sent(service: Service) -> None:
    status, _ = await service.post("", {"messages": [{"channel": "a", "payload": 1}] * 1000})
    refused = service.registry.get_sample_value("coldnotify_http_publishes_total", {"outcome": "refused"})
    assert (status == 503) == bool(refused)
    assert (status == 503) == (not service.sender.seen)


def several(*names: str) -> dict[str, Any]:
    return {"messages": [{"channel": name, "payload": name} for name in names]}


async def test_in_order_nothing_is_written_behind_what_is_not_acknowledged(service: Service) -> None:
    service.sender.failures["b"] = PublishError("Kafka is away", indeterminate=True)
    status, answer = await service.post("?in_order=yes", several("a", "b", "c"))
    assert (status, [name for name, _ in service.sender.seen]) == (503, ["a", "b"])
    assert answer["error"] == "2 of 3 messages were not acknowledged, see results"
    first, second, third = answer["results"]
    assert (first["partition"], first["offset"]) == (3, 40)
    assert (second["error"], second["outcome"]) == ("Kafka is away", "unknown: it may be published")
    assert third["outcome"] == "not published"
    # Without it all are tried.
    service.sender.seen.clear()
    assert (await service.post("?in_order=no", several("a", "b", "c")))[0] == 503
    assert [name for name, _ in service.sender.seen] == ["a", "b", "c"]
    service.sender.failures.clear()
    assert (await service.post("?in_order=yes", several("a", "b", "c")))[0] == 200


async def test_in_order_it_is_told_in_time_what_was_not_tried(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coldnotify_http.sending.IN_ORDER_S", 0.0)
    status, answer = await service.post("?in_order=yes", several("a", "b"))
    assert (status, [name for name, _ in service.sender.seen]) == (503, ["a"]), "one at least"
    assert [one.get("outcome") for one in answer["results"]] == [None, "not published"]


async def test_in_order_is_yes_or_no(service: Service) -> None:
    status, answer = await service.post("?in_order=perhaps", several("a"))
    assert (status, answer["field"]) == (400, "in_order")
    assert service.sender.seen == []


@pytest.mark.parametrize("in_order", ["yes", "no"])
async def test_a_permit_is_for_one_under_way_and_others_are_answered_meanwhile(in_order: str, service: Service) -> None:
    """1,000 messages, sent one by one, held 1,000 permits of 200: 57 of 59 publishes of another tenant were refused."""
    service.sender.goes_on.clear()
    many = [{"channel": "a", "payload": number} for number in range(PUBLISHES_PER_REQUEST_MAX)]
    async with asyncio.timeout(60):
        under_way = asyncio.create_task(service.post(f"?in_order={in_order}", {"messages": many}))
        while not service.sender.seen:  # noqa: ASYNC110  nobody sets an event for it
            await asyncio.sleep(0.01)
        permits = service.registry.get_sample_value("coldnotify_http_publishes_under_way")
        assert permits == (1 if in_order == "yes" else PUBLISHES_PER_REQUEST_MAX)
        status, _ = await service.post("/b", {"payload": 1}, "other")
        assert status == 200
        if in_order == "no":
            status, answer = await service.post("/b", {"payload": 1})
            assert (status, answer["outcome"]) == (503, "not published"), "who has them all gets no more"
        service.sender.goes_on.set()
        status, answer = await under_way
    assert (status, len(answer["results"])) == (200, PUBLISHES_PER_REQUEST_MAX)
    assert service.registry.get_sample_value("coldnotify_http_publishes_under_way") == 0
