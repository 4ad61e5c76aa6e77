"""The HTTP port of the service for tests: back-ends' programs run without Kafka."""

import http.client
import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from coldnotify import Message, Notification, Notify
from coldnotify.http_client import AskAgain, AskError, FoundObject, HttpClient
from coldnotify.http_publisher import HttpPublisher, NotApplied, PublishRejected, PublishTimeout
from coldnotify.testing import FakeService
from coldnotify_schemas.close_codes import CloseCode
from coldnotify_testkit.threaded_clients import CLIENT, DOMAIN, GROUP, LIMIT_S
from coldnotify_testkit.waiting import WAIT_S, wait_for
from websockets.exceptions import ConnectionClosedError
from websockets.sync.client import connect as websocket

ABOUT = DOMAIN, GROUP, "camera-config"


def test_a_back_end_and_a_device_meet(service: FakeService, make: Callable[..., Notify], tmp_path: Path) -> None:
    told: list[Notification] = []
    messages: list[Message] = []
    notify = make()
    notify.register(ABOUT[2]).subscribe(told.append)
    notify.channel("tasks").subscribe(messages.append)
    assert notify.connect(timeout_s=LIMIT_S)
    with HttpPublisher(service.http, outbox=tmp_path / "outbox") as publisher:
        accepted = publisher.publish(*ABOUT, {"fps": 5})
        assert accepted.applied_by(1.0, LIMIT_S) == (1, 0)
        publisher.send(DOMAIN, GROUP, "tasks", {"look": "north"}).wait(LIMIT_S)
    assert told[-1].payload == {"fps": 5}
    wait_for(lambda: [message.payload for message in messages] == [{"look": "north"}], "the message")
    HttpClient(service.http).reset(*ABOUT, {"fps": 1}).applied_by(1, LIMIT_S)
    assert (told[-1].version, told[-1].payload) == (0, {"fps": 1})


def test_a_share_of_nobody_is_not_success(service: FakeService) -> None:
    receipt = HttpPublisher(service.http).publish(*ABOUT, {"fps": 5})
    with pytest.raises(NotApplied, match="0 of 0 registered"):
        receipt.applied_by(0.9, timeout_s=0.1)
    assert receipt.applied_by(0, LIMIT_S) == (0, 0)


def test_a_client_whose_callbacks_raise_is_explained(service: FakeService, make: Callable[..., Notify]) -> None:
    def raises(_notification: Notification) -> None:
        raise KeyError("fps")

    notify = make(tries_max=1)
    notify.register(ABOUT[2]).subscribe(raises)
    assert notify.connect(timeout_s=LIMIT_S)
    HttpPublisher(service.http).publish(*ABOUT, {"fps": 5})
    client = HttpClient(service.http)
    wait_for(lambda: client.who_lacks(*ABOUT).parked == 1, "its callbacks are parked")
    (lacking,) = client.who_lacks(*ABOUT).clients
    assert lacking.callbacks is not None
    assert (lacking.client_id, lacking.callbacks.error) == (CLIENT, "KeyError: 'fps'")
    assert client.explain(DOMAIN, GROUP, CLIENT, ABOUT[2]).verdict == "parked"


def test_members_are_found_page_by_page(service: FakeService) -> None:
    names = [f"lamp-{number:04}" for number in range(1_500)]
    for name in names:
        service.enter(DOMAIN, GROUP, "Room = 410", name)
    found = HttpClient(service.http).find(DOMAIN, GROUP, "Room = 410")
    assert list(found) == [FoundObject(name, None, None) for name in names]


def test_it_refuses_as_a_test_says(service: FakeService) -> None:
    publisher = HttpPublisher(service.http, timeout_s=0.2)
    with service.lock:
        service.service.refused_publishes = {"much": ("too much", 50), "never": ("domain: may not", 0)}
    with pytest.raises(PublishTimeout, match="too much"):
        publisher.publish(DOMAIN, GROUP, "much")
    assert publisher.refused >= 1
    with pytest.raises(PublishRejected, match="domain: may not"):
        HttpPublisher(service.http).publish(DOMAIN, GROUP, "never")
    with service.lock:
        service.service.away = True
    with pytest.raises(AskAgain, match="no matcher serves"):
        HttpClient(service.http).who_lacks(*ABOUT)


def test_it_says_that_it_does_not_answer_a_request(service: FakeService) -> None:
    host, port = service.http.split(":")
    with closing(http.client.HTTPConnection(host, int(port), timeout=LIMIT_S)) as connection:
        for method, path, status in (
            ("GET", f"/v1/domains/{DOMAIN}/groups/{GROUP}/matrix", 501),
            ("DELETE", f"/v1/domains/{DOMAIN}/groups/{GROUP}/objects/o", 501),
            ("GET", "/", 404),
        ):
            connection.request(method, path)  # on one connection
            answer = connection.getresponse()
            assert (answer.status, list(json.loads(answer.read()))) == (status, ["error"])
        connection.request(
            "POST", f"/v1/domains/{DOMAIN}/groups/{GROUP}/objects/o", headers={"Content-Length": "9999999"}
        )
        assert connection.getresponse().status == 413
    with pytest.raises(AskError, match="FakeService does not answer GET"):
        HttpClient(service.http)._ask("GET", f"/v1/domains/{DOMAIN}/groups/{GROUP}/matrix")


def test_its_port_is_opened_once_and_closed_with_it() -> None:
    with FakeService() as service:
        address = service.http
        assert service.open_http(1) == address
    with pytest.raises(AskError, match="refused"):
        HttpClient(address).who_lacks(*ABOUT)


def test_a_client_connects_by_websocket(service: FakeService, make: Callable[..., Notify]) -> None:
    told: list[Notification] = []
    notify = make(address=f"ws://{service.http}")
    notify.register(ABOUT[2]).subscribe(told.append)
    assert notify.connect(timeout_s=LIMIT_S)
    service.publish(*ABOUT, {"long": "x" * 4_000}, wait=True, timeout_s=LIMIT_S)
    service.drop_all()
    service.publish(*ABOUT, {"fps": 6}, wait=True, timeout_s=LIMIT_S)
    assert [one.payload for one in told[-2:]] == [{"long": "x" * 4_000}, {"fps": 6}]
    service.close_all(CloseCode.GOING_AWAY)
    wait_for(lambda: service.accepted >= 3, "it comes back")
    service.publish(*ABOUT, {"fps": 7}, wait=True, timeout_s=LIMIT_S)


def test_text_is_refused_and_so_is_a_request_that_is_no_websocket(service: FakeService) -> None:
    with websocket(f"ws://{service.http}/v1/connect", open_timeout=WAIT_S) as page:
        page.send("text")
        with pytest.raises(ConnectionClosedError) as closed:
            page.recv(LIMIT_S)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1003
    host, port = service.http.split(":")
    with closing(http.client.HTTPConnection(host, int(port), timeout=LIMIT_S)) as connection:
        connection.request("GET", "/v1/connect")
        assert connection.getresponse().status == 426
