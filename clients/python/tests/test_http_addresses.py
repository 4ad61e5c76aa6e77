"""Several nodes of the HTTP service: which one is asked, and when another one is."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from random import Random
from typing import Any

import pytest
from coldnotify import _http_addresses as module
from coldnotify._core.session.address_book import AddressBook
from coldnotify._http_addresses import REST_S, bases_of
from coldnotify.http_client import AskAgain, HttpClient
from coldnotify.http_publisher import HttpPublisher, Published, PublishError, PublishTimeout

PUBLISHED = {"version": 7, "partition": 3, "offset": 41}
NOT_NOW = {"error": "too much", "outcome": "not published"}
WAIT_S = 60


class Node:
    """A node that answers with what the test says, and counts what it was asked."""

    def __init__(self) -> None:
        self.status, self.answer = 200, dict[str, Any](PUBLISHED)
        self.retry_after: str | None = None
        self.silent = False
        self.asked = 0
        node = self

        class Handler(BaseHTTPRequestHandler):
            def handle_any(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                node.asked += 1
                if node.silent:
                    self.connection.shutdown(socket.SHUT_RDWR)
                    return
                said = json.dumps(node.answer).encode()
                self.send_response(node.status)
                if node.retry_after is not None:
                    self.send_header("Retry-After", node.retry_after)
                self.send_header("Content-Length", str(len(said)))
                self.end_headers()
                self.wfile.write(said)

            do_GET = do_POST = handle_any  # noqa: N815

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def new_node() -> Iterator[Callable[[], Node]]:
    with ExitStack() as stack:

        def new() -> Node:
            node = Node()
            stack.callback(node.stop)
            return node

        yield new


def closed() -> str:
    """An address at which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ([], "url: is empty"),
        (["a:1", ""], r"url\[1\]: '' is neither"),
        ([("a:1", 0)], r"url\[0\]: the weight 0 is not from 1 to 1000"),
        ([("a:1", True)], r"url\[0\]: the weight True"),
        (["a:1", "http://a:1/"], r"url\[1\]: 'http://a:1/' is there twice"),
    ],
)
def test_a_bad_list_of_addresses_is_refused_by_its_place(url: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        HttpPublisher(url)


def test_a_home_that_is_wrong_is_named() -> None:
    with pytest.raises(ValueError, match="home: ''"):
        HttpPublisher("a:1", home="")


def test_nodes_are_drawn_by_weight_behind_the_home() -> None:
    bases = bases_of([("a:1", 3), "b:1"], "url")
    first = [AddressBook(bases, REST_S, Random(seed)).next(0.0) for seed in range(1000)]
    assert 700 < first.count("http://a:1") < 800
    assert AddressBook(bases, REST_S, Random(1), "http://c:1").next(0.0) == "http://c:1"


def test_one_that_failed_rests_and_comes_back_behind_the_others() -> None:
    nodes = AddressBook(bases_of(["a:1", "b:1"], "url"), REST_S, Random(1))
    first = nodes.next(0.0)
    assert first is not None
    nodes.failed(first, 0.0)
    second = nodes.next(0.0)
    assert second is not None
    assert second != first
    nodes.failed(second, 1.0, 2.0)
    assert nodes.next(1.5) == first, "all rest: the one that failed first"
    assert nodes.next(3.0) == second
    assert nodes.next(REST_S + 1) == first


def test_a_node_that_cannot_be_reached_is_passed_over_and_rests(new_node: Callable[[], Node]) -> None:
    node = new_node()
    publisher = HttpPublisher([node.address], home=closed())
    assert publisher.publish("d", "g", "a") == Published(7, 3, 41)
    assert publisher.publish("d", "g", "a") == Published(7, 3, 41)
    assert node.asked == 2


def test_a_home_is_asked_first_while_it_answers(new_node: Callable[[], Node]) -> None:
    home, other = new_node(), new_node()
    publisher = HttpPublisher([(other.address, 1000)], home=home.address)
    publisher.publish("d", "g", "a")
    home.status, home.answer, home.retry_after = 503, NOT_NOW, "3600"
    publisher.publish("d", "g", "a")
    publisher.publish("d", "g", "a")
    assert (home.asked, other.asked) == (2, 2)


def test_refused_by_all_of_them_it_is_refused(new_node: Callable[[], Node]) -> None:
    nodes = [new_node(), new_node()]
    for node in nodes:
        node.status, node.answer, node.retry_after = 503, NOT_NOW, "0.05"
    publisher = HttpPublisher([node.address for node in nodes], timeout_s=1)
    with pytest.raises(PublishTimeout, match="too much"):
        publisher.publish("d", "g", "a")
    assert all(node.asked for node in nodes)
    with pytest.raises(AskAgain):
        HttpClient([node.address for node in nodes], timeout_s=1).explain("d", "g", "c", "a")


def test_a_publish_that_may_have_been_taken_is_not_sent_to_another_node(new_node: Callable[[], Node]) -> None:
    silent, other = new_node(), new_node()
    silent.silent = True
    publisher = HttpPublisher([other.address], home=silent.address)
    with pytest.raises(PublishError) as error:
        publisher.publish("d", "g", "a")
    assert error.value.indeterminate
    assert other.asked == 0
    publisher.publish("d", "g", "a")
    assert (silent.asked, other.asked) == (1, 1), "the next one is"
    unknown = HttpPublisher([other.address], home=silent.address)
    silent.silent, silent.status, silent.retry_after = False, 503, "1"
    silent.answer = {"error": "Kafka", "outcome": "unknown: it may be published"}
    with pytest.raises(PublishError):
        unknown.publish("d", "g", "a")
    assert other.asked == 1


def test_a_question_is_asked_of_another_node(new_node: Callable[[], Node]) -> None:
    silent, other = new_node(), new_node()
    silent.silent = True
    other.answer = {"description": None, "version": None, "revision": None}
    publisher = HttpPublisher([other.address], home=silent.address)
    assert publisher.description("d", "g", "a").description is None
    assert (silent.asked, other.asked) == (1, 1)


def test_a_node_that_takes_no_connection_is_given_up_early(
    new_node: Callable[[], Node], monkeypatch: pytest.MonkeyPatch
) -> None:
    node = new_node()
    monkeypatch.setattr(module, "CONNECT_S_MAX", 0.2)
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full, ExitStack() as stack:
        address = full.getsockname()
        for _ in range(4):  # its queue is full: it answers no further SYN
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(address)
        publisher = HttpPublisher([node.address], home=f"127.0.0.1:{address[1]}", timeout_s=WAIT_S)
        assert publisher.publish("d", "g", "a") == Published(7, 3, 41)
