"""Which objects are not there, over a real port."""

import json
import threading
import urllib.request
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from coldnotify_matcher.looking.missing_endpoints import routes
from coldnotify_schemas.protocol import PUBLISHES_PER_REQUEST_MAX
from coldnotify_streams.core.partition_progress import OwningPhase
from coldnotify_testkit.engine_bench import DOMAIN, GROUP, PARTITION, EngineBench
from coldnotify_testkit.fetching import fetch
from coldnotify_testkit.served_routes import served_in_a_thread


@pytest.fixture
def bench() -> EngineBench:
    return EngineBench()


@pytest.fixture
def port(bench: EngineBench) -> Iterator[int]:
    current: Any = SimpleNamespace(
        worker=SimpleNamespace(partitions={PARTITION: bench.partition}, lock=threading.RLock())
    )
    with served_in_a_thread(routes(current)) as port:
        yield port


def ask(port: int, body: bytes, group: str = GROUP) -> tuple[int, Any]:
    url = f"http://127.0.0.1:{port}/v1/domains/{DOMAIN}/groups/{group}/missing"
    answer = fetch(urllib.request.Request(url, body, method="POST"))
    return answer.status, answer.json()


def test_what_is_published_and_not_deleted_is_there(port: int, bench: EngineBench) -> None:
    bench.version("there", 1)
    bench.version("slash/ed", 1)
    bench.publish("deleted", b'{"version":1,"deleted":true}')
    bench.opened("only-wanted", session=1, client="client-1")
    bench.settle()
    names = ["there", "slash/ed", "deleted", "only-wanted", "never", "never"]
    assert ask(port, json.dumps({"objects": names}).encode()) == (
        200,
        {"missing": ["deleted", "only-wanted", "never"]},
    )
    assert ask(port, b'{"objects": []}') == (200, {"missing": []})


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "is no list of names"),
        (b"[]", "is no list of names"),
        (b'{"objects": [1]}', "is no list of names"),
        (b'{"objects": ["\xff"]}', "is no list of names"),
        (b'{"objects": [""]}', "object: "),
        (json.dumps({"objects": ["o"] * (PUBLISHES_PER_REQUEST_MAX + 1)}).encode(), "are more than the 1000"),
    ],
)
def test_what_is_wrong_names_the_field(port: int, body: bytes, words: str) -> None:
    status, answer = ask(port, body)
    assert (status, answer["field"]) == (400, "objects")
    assert words in answer["error"]


def test_who_does_not_serve_the_group_says_so(port: int, bench: EngineBench) -> None:
    assert ask(port, b'{"objects": ["o"]}', "another-group")[0] == 503
    bench.partition.phase = OwningPhase.LOADING
    assert ask(port, b'{"objects": ["o"]}')[0] == 503
