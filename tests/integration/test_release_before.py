"""Release 0.1.0, taken from the history: upgraded from and gone back to on the same data, and beside this one."""

import asyncio
import json
import os
import sys
import urllib.parse
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession
from coldnotify import Connection, Notify, State
from coldnotify.publisher import Publisher
from coldnotify_http.lists_endpoints import ListsEndpoints
from coldnotify_http.node_client import NodeClient
from coldnotify_http.settings import HttpSettings
from coldnotify_kafka.broker import EmbeddedBroker
from coldnotify_schemas.topics import DEFAULT_PREFIX, TopicNames
from coldnotify_testkit.child import Child
from coldnotify_testkit.fetching import fetch
from coldnotify_testkit.gateway_process import GatewayProcess
from coldnotify_testkit.matcher_process import PARTITION, MatcherProcess, records_of
from coldnotify_testkit.release_before import python_path, started_from, unpacked
from coldnotify_testkit.served_routes import served_alone
from coldnotify_testkit.stack import Recorder, Up
from coldnotify_testkit.waiting import wait_for

TOPICS = TopicNames()

pytestmark = pytest.mark.kafka

DOMAIN, GROUP = "animal.observer", "region-1"
LIMIT_S = 120
UNIT = """
import sys, threading
from coldnotify import Connection, Notify, State
address, state, *names = sys.argv[1:]
client = Notify("animal.observer", "region-1", "by-request", State(state), Connection(address, backoff_max_s=2))
for name in names:
    client.register(name).subscribe(lambda told: print("told", told.object_id, told.version, flush=True))
client.connect()
threading.Event().wait()
"""
"""A unit that lives until it is killed."""


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its packages."""
    return unpacked(tmp_path_factory.mktemp("release"))


def publish(kafka: str, name: str, *versions: int, topics_prefix: str = DEFAULT_PREFIX) -> None:
    with Publisher(kafka, topics_prefix=topics_prefix) as publisher:
        for version in versions:
            publisher.publish(DOMAIN, GROUP, name, version=version)


def describe(kafka: str, name: str, kind: str) -> None:
    with Publisher(kafka) as publisher:
        publisher.describe(DOMAIN, GROUP, name, {"Kind": kind})


def lamps(up: Up) -> list[str]:
    asked = urllib.parse.urlencode({"query": "Kind = lamp"})
    found = fetch(f"{up.http_url}/v1/domains/{DOMAIN}/groups/{GROUP}/objects?{asked}").json()
    return [one["object"] for one in found["items"]]


def wake(
    gateway: tuple[str, int], state: Path, *, query: str = "", errors: list[Exception] | None = None
) -> list[tuple[str, int | None]]:
    """What a unit is told from waking until it is caught up; or, with `errors`, until it has said one there."""
    told = Recorder()
    on_error = None if errors is None else errors.append
    client = Notify(DOMAIN, GROUP, "unit", State(state), Connection(*gateway, backoff_max_s=2), on_error=on_error)
    if query:
        client.register_query(query).subscribe(told)
    for name in ("a", "b"):
        client.register(name).subscribe(told)
    client.connect()
    try:
        if errors is None:
            assert client.wait_caught_up(timeout_s=LIMIT_S), client.status
        else:
            wait_for(lambda: errors and told.seen, "a problem, and what there is", LIMIT_S)
            assert not client.caught_up
    finally:
        client.disconnect()
    return sorted((one.object_id, one.version) for one in told.seen)


@pytest.mark.own_broker("release 0.1.0 can only start a Kafka of its own")
def test_there_and_back_on_the_same_data(monkeypatch: pytest.MonkeyPatch, release: Path, tmp_path: Path) -> None:
    up = Up(tmp_path)
    for turn, runs in enumerate((release, None, release, None)):
        with started_from(monkeypatch, runs):
            up.start()
        newest = 10 * turn + 5
        publish(up.kafka, "a", newest, newest - 1)
        publish(up.kafka, "b", turn + 1)
        describe(up.kafka, f"lamp-{turn}", "lamp")
        if runs is None:
            wait_for(lambda: lamps(up) == [f"lamp-{n}" for n in range(turn + 1)], "all descriptions")  # noqa: B023
        assert wake(up.gateway, tmp_path / "state") == [("a", newest), ("b", turn + 1)]
        publish(up.kafka, "a", newest - 2)
        assert wake(up.gateway, tmp_path / "state") == [], "the library hides what a release before tells again"
        assert up.stop() == 0


@pytest.mark.parametrize("service", ["gateway", "http"])
def test_the_release_does_not_start_with_a_rule_of_own(
    monkeypatch: pytest.MonkeyPatch, release: Path, tmp_path: Path, service: str
) -> None:
    """So it takes nobody who owns names for more than that."""
    rule = "sub:{domain}/{group}/{client}=>own:units/{client}/"
    argv = [sys.executable, "-m", "coldnotify_cli.main", service, f"--auth-token-rule={rule}"]
    with started_from(monkeypatch, release), Child(argv, tmp_path / "log") as old:
        wait_for(lambda: not old.running, "it ends", LIMIT_S)
        assert "--auth-token-rule" in old.output
        assert "a place is there twice" in old.output


@pytest.mark.parametrize("old", ["matcher", "gateway"])
def test_beside_each_other(
    monkeypatch: pytest.MonkeyPatch, release: Path, fresh_kafka: EmbeddedBroker, tmp_path: Path, old: str
) -> None:
    kafka = fresh_kafka.bootstrap
    with ExitStack() as stack:
        with started_from(monkeypatch, release if old == "matcher" else None):
            serving = stack.enter_context(MatcherProcess(kafka, tmp_path / "matcher.log"))
        with started_from(monkeypatch, release if old == "gateway" else None):
            gateway = stack.enter_context(GatewayProcess(kafka))
        serving.wait_serving()
        publish(kafka, "a", 5, 4)
        publish(kafka, "b", 1)
        at = ("127.0.0.1", gateway.port)
        assert wake(at, tmp_path / "state") == [("a", 5), ("b", 1)]
        publish(kafka, "b", 2)
        errors: list[Exception] = []
        assert wake(at, tmp_path / "state", query="Kind = lamp", errors=errors) == [("b", 2)]
        assert len(errors) == 1, "a query waits for a service that knows queries, and its application is told so"
        assert "older" in str(errors[0])
        for kind, one in (("matcher", serving), ("gateway", gateway)):
            (row,) = asyncio.run(listed(kind, one.url.removeprefix("http://")))
            facts = [row[name] is None for name in ("version", "uptime_s", "cpu")]
            assert (row["state"], facts) == ("ready", [old == kind] * 2 + [facts[2]]), (
                "a release before has no such facts"
            )


async def listed(kind: str, address: str) -> list[dict[str, Any]]:
    """The rows of an HTTP service's list of such processes."""
    asking = NodeClient(HttpSettings(matcher=address, gateway_http=address))
    try:
        async with (
            served_alone(ListsEndpoints(asking, overdue_s=60).routes()) as url,
            ClientSession() as client,
            client.get(f"{url}/v1/{kind}s") as response,
        ):
            rows: list[dict[str, Any]] = (await response.json())["items"]
            return rows
    finally:
        await asking.close()


def test_a_matcher_of_the_release_leaves_what_has_queries_alone(
    monkeypatch: pytest.MonkeyPatch, release: Path, fresh_kafka: EmbeddedBroker, tmp_path: Path
) -> None:
    """It would take a client's bucket with queries for one without, and write it so."""
    kafka, state = fresh_kafka.bootstrap, tmp_path / "state"
    describe(kafka, "lamp", "lamp")
    publish(kafka, "lamp", 3)
    with GatewayProcess(kafka) as gateway:
        at = ("127.0.0.1", gateway.port)
        with MatcherProcess(kafka, tmp_path / "new.log") as serving:
            serving.wait_serving()
            assert ("lamp", 3) in wake(at, state, query="Kind = lamp")
        with (
            started_from(monkeypatch, release),
            MatcherProcess(kafka, tmp_path / "old.log") as old,
        ):
            old.wait_for(lambda: "format 2" in old.output, "it says what it does not know")
        publish(kafka, "lamp", 4)
        with MatcherProcess(kafka, tmp_path / "again.log") as serving:
            serving.wait_serving()
            assert wake(at, state, query="Kind = lamp") == [("lamp", 4)], "nothing is lost meanwhile"


def send(kafka: str, payload: int) -> None:
    with Publisher(kafka) as publisher:
        publisher.send(DOMAIN, GROUP, "tasks", payload)


def follow(gateway: tuple[str, int], state: Path) -> list[object]:
    """What a unit is told of a channel from waking until it is caught up."""
    told: list[object] = []
    with Notify(DOMAIN, GROUP, "unit", State(state), Connection(*gateway, backoff_max_s=2)) as client:
        client.channel("tasks", since="oldest").subscribe(lambda message: told.append(message.payload))
        assert client.wait_caught_up(timeout_s=LIMIT_S), client.status
        wait_for(lambda: not client.status.waiting, "all callbacks have returned", LIMIT_S)
    return told


def test_a_matcher_of_the_release_leaves_what_has_channels_alone(
    monkeypatch: pytest.MonkeyPatch, release: Path, fresh_kafka: EmbeddedBroker, tmp_path: Path
) -> None:
    """It would take a client's bucket with channels for one without, and write it so."""
    kafka, state = fresh_kafka.bootstrap, tmp_path / "state"
    send(kafka, 1)
    with GatewayProcess(kafka) as gateway:
        at = ("127.0.0.1", gateway.port)
        with MatcherProcess(kafka, tmp_path / "new.log") as serving:
            serving.wait_serving()
            assert follow(at, state) == [1]
        with started_from(monkeypatch, release), MatcherProcess(kafka, tmp_path / "old.log") as old:
            old.wait_for(lambda: "format 2" in old.output, "it says what it does not know", LIMIT_S)
        send(kafka, 2)
        with MatcherProcess(kafka, tmp_path / "again.log") as serving:
            serving.wait_serving()
            assert follow(at, state) == [2], "nothing is lost meanwhile"


def sent_by_units(kafka: str) -> list[tuple[bytes | None, bytes | None]]:
    """(key, value) of what is in the log of channels."""
    return [(key, value) for key, value, _ in records_of(kafka, TOPICS.channels_1d, PARTITION)]


def test_what_a_client_publishes_waits_for_a_service_that_takes_it(
    monkeypatch: pytest.MonkeyPatch, release: Path, fresh_kafka: EmbeddedBroker, tmp_path: Path
) -> None:
    """A gateway of the release passes a Publish over, as receivers do with kinds of frame that they do not know."""
    kafka, state, outbox = fresh_kafka.bootstrap, tmp_path / "state", tmp_path / "outbox"
    key = f"{DOMAIN}/{GROUP}/tasks".encode()

    def client_at(gateway: GatewayProcess) -> Notify:
        connection = Connection("127.0.0.1", gateway.port, backoff_max_s=2)
        return Notify(DOMAIN, GROUP, "unit", State(state), connection, outbox=outbox)

    with MatcherProcess(kafka, tmp_path / "matcher.log") as serving:
        serving.wait_serving()
        with started_from(monkeypatch, release):
            old = GatewayProcess(kafka)
        with old, client_at(old) as client:
            told = Recorder()
            client.register("a").subscribe(told)
            sent = [client.send("tasks", number) for number in range(3)]
            client.publish("b", version=7)
            assert client.wait_caught_up(timeout_s=LIMIT_S), client.status
            for version in (1, 2):
                publish(kafka, "a", version)
                wait_for(lambda: told.seen and told.seen[-1].version == version, "the session goes on", LIMIT_S)  # noqa: B023
            assert not any(one is None or one.published for one in sent)
            assert client.pending().records == 4
            assert sent_by_units(kafka) == []
        with GatewayProcess(kafka) as new, client_at(new) as client:
            wait_for(lambda: client.pending().records == 0, "all is published", LIMIT_S)
            assert sent_by_units(kafka) == [(key, b"%d" % number) for number in range(3)], "once each, in order"
            (of_b,) = of_object(kafka, "b")
            assert of_b is not None
            assert json.loads(of_b)["version"] == 7


def of_object(kafka: str, name: str) -> list[bytes | None]:
    """The values of all records that there are of it."""
    key = f"{DOMAIN}/{GROUP}/{name}".encode()
    return [value for one, value, _ in records_of(kafka, TOPICS.objects, PARTITION) if one == key]


def test_a_matcher_of_the_release_writes_again_what_retention_has_removed(
    monkeypatch: pytest.MonkeyPatch, release: Path, fresh_kafka: EmbeddedBroker, tmp_path: Path
) -> None:
    """It takes the null for a mistake: the object is back while it serves, and is removed once more by this release."""
    kafka, state = fresh_kafka.bootstrap, tmp_path / "state"
    retention = {"matcher_retention": f"{DOMAIN}=10s"}

    def is_known(matcher: MatcherProcess) -> bool:
        status, body = matcher.get(f"/v1/domains/{DOMAIN}/groups/{GROUP}/objects/a")
        return status == 200 and json.loads(body)["version"] is not None

    publish(kafka, "a", 3)
    publish(kafka, "b", 1)
    with GatewayProcess(kafka) as gateway:
        at = ("127.0.0.1", gateway.port)
        with MatcherProcess(kafka, tmp_path / "new.log", **retention) as matcher:
            matcher.wait_for(lambda: None in of_object(kafka, "a"), "it is removed", LIMIT_S)
            matcher.wait_for(lambda: matcher.ready and not is_known(matcher), "it is not known", LIMIT_S)
        with started_from(monkeypatch, release), MatcherProcess(kafka, tmp_path / "old.log") as old:
            old.wait_serving()
            old.wait_for(lambda: (of_object(kafka, "a")[-1] or b"").startswith(b'{"version":3'), "it is back", LIMIT_S)
            assert ("a", 3) in wake(at, state)
        with MatcherProcess(kafka, tmp_path / "again.log", **retention) as matcher:
            matcher.wait_for(lambda: of_object(kafka, "a")[-1] is None, "it is removed once more", LIMIT_S)
            matcher.wait_for(lambda: matcher.ready and not is_known(matcher), "it is not known", LIMIT_S)
            publish(kafka, "a", 4)
            assert ("a", 4) in wake(at, state), "its versions go on"


def syncs_by_frames(up: Up) -> float:
    lines = fetch(f"http://{up.report['gateways_http'][0]}/metrics").text.splitlines()
    (line,) = (one for one in lines if one.startswith("coldnotify_gateway_syncs_by_frames_total "))
    return float(line.rpartition(" ")[2])


@pytest.mark.parametrize("by", ["web", "http"])
def test_its_client_wakes_by_requests_of_frames(up: Up, release: Path, tmp_path: Path, by: str) -> None:
    """Only that release has this form (an address http://...): deprecated, served by gateways and passed on."""
    before = syncs_by_frames(up)
    many = [f"{by}/{number}" for number in range(150)]  # more than a Hello carries: the whole set is said
    publish(up.kafka, many[0], 3, topics_prefix=up.topics.prefix)
    environ = {**os.environ, "PYTHONPATH": python_path(release)}
    argv = [sys.executable, "-c", UNIT, f"http://{up.report[by]}/v1/sync", str(tmp_path / "state"), *many]
    with Child(argv, tmp_path / "unit.log", environ) as unit:
        unit.wait_for(lambda: unit.output.count("told ") == len(many), "all is answered", LIMIT_S)
        assert f"told {many[0]} 3\n" in unit.output
        publish(up.kafka, many[1], 8, topics_prefix=up.topics.prefix)
        unit.wait_for(lambda: f"told {many[1]} 8\n" in unit.output, "a request that waits is answered", LIMIT_S)
    assert syncs_by_frames(up) >= before + 2, "this was that release's client"
