"""What became of a record, over a real port: each outcome, waiting until it is read, and what is not known."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest
from coldnotify_matcher.looking import ledger
from coldnotify_matcher.looking.outcome_endpoints import OutcomeEndpoints, routes
from coldnotify_schemas.partitioner import partition_of
from coldnotify_streams.core.partition_progress import OwningPhase
from coldnotify_streams.step_bell import StepBell
from coldnotify_testkit.engine_bench import DOMAIN, GROUP, PARTITION, PARTITIONS, EngineBench
from coldnotify_testkit.fetching import fetch
from coldnotify_testkit.served_routes import served_in_a_thread

OTHER_GROUP = next(g for g in map(str, range(100)) if partition_of(DOMAIN, g, PARTITIONS) != PARTITION)
SAME_PARTITION = next(f"x{g}" for g in range(1000) if partition_of(DOMAIN, f"x{g}", PARTITIONS) == PARTITION)
LONG_S = 100
"""A question waits so long for what does not come; a busy machine needs less for the answer."""


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coldnotify_matcher.looking.outcome_endpoints.OUTCOME_WAIT_S_MAX", LONG_S)


@pytest.fixture
def bench() -> EngineBench:
    return EngineBench()


@pytest.fixture
def current(bench: EngineBench) -> Any:
    worker = SimpleNamespace(partitions={PARTITION: bench.partition}, lock=threading.RLock(), bell=StepBell())
    return SimpleNamespace(worker=worker)


@pytest.fixture
def port(current: Any) -> Iterator[int]:
    shown = [*ledger.routes(current), *routes(current)]
    with served_in_a_thread(shown) as port:
        yield port


def ask(
    port: int, offsets: str, *, wait_s: float | str = 0, partition: int | str = PARTITION, group: str = GROUP
) -> tuple[int, Any]:
    query = f"partition={partition}&offsets={offsets}&wait_s={wait_s}"
    answer = fetch(f"http://127.0.0.1:{port}/v1/domains/{DOMAIN}/groups/{group}/outcomes?{query}")
    return answer.status, answer.json()


def items(port: int, offsets: str, **more: Any) -> list[dict[str, Any]]:
    status, body = ask(port, offsets, **more)
    assert status == 200, body
    found: list[dict[str, Any]] = body["items"]
    return found


def test_each_outcome_and_what_was_the_newest_then(port: int, bench: EngineBench) -> None:
    bench.publish("o", b'{"version":5,"payload":{"fps": 1}}', timestamp_ms=1000)
    bench.publish("o", b'{"version":5,"payload":{"fps":1}}', timestamp_ms=2000)
    bench.publish("o", b'{"version":4}', timestamp_ms=3000)
    bench.publish("o", b'{"version":5,"payload":{"fps":2}}', timestamp_ms=4000)
    bench.publish("o", b'{"version":1,"incarnation":2}', timestamp_ms=5000)
    bench.publish("o", b'{"version":9,"incarnation":1}', timestamp_ms=6000)
    bench.publish("o", b'{"verson":9}', timestamp_ms=7000)
    bench.settle()

    five = {"version": 5, "published_ms": 1000}
    again = {"version": 1, "incarnation": 2, "published_ms": 5000}
    *six, rejected = items(port, "0,1,2,3,4,5,6")
    assert [(one["offset"], one["object"], one["outcome"], one["newest"]) for one in six] == [
        (0, "o", "published", five),
        (1, "o", "repeated", five),
        (2, "o", "stale", five),
        (3, "o", "altered", five),
        (4, "o", "published", again),
        (5, "o", "stale", again),
    ]
    assert (rejected["outcome"], "verson" in rejected["reason"]) == ("rejected", True)


def test_an_outcome_says_the_id_of_its_record(port: int, bench: EngineBench) -> None:
    bench.publish("o", b'{"version":5}')
    bench.publish("o", b'{"if_version":5,"id":"a"}')
    bench.publish("o", b'{"if_version":5,"id":"b"}')
    bench.settle()
    plain, won, lost = items(port, "0,1,2")
    assert "id" not in plain
    assert [(one["id"], one["outcome"]) for one in (won, lost)] == [("a", "published"), ("b", "refused")]


def test_it_is_waited_until_the_record_is_read_and_no_step_is_waited_for(
    port: int, bench: EngineBench, current: Any
) -> None:
    bench.version("o", 2)
    bench.version("o", 1)
    with ThreadPoolExecutor() as pool, current.worker.lock:  # as in a step that waits for Kafka
        asked = pool.submit(items, port, "1", wait_s=LONG_S)
        while current.worker.bell._next is None:
            assert not asked.done(), asked.result()
            time.sleep(0.01)
        bench.read()
        current.worker.bell.ring()
        (item,) = asked.result(60)
    assert (item["outcome"], item["newest"]["version"]) == ("stale", 2)


def test_what_is_just_being_taken_in_is_not_taken_for_forgotten(
    port: int, bench: EngineBench, current: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coldnotify_matcher.looking.outcome_endpoints._LOOK_AGAIN_S", 60)
    bench.version("o", 1)
    bench.settle()
    slots = bench.engine.history._outcomes
    published, slots[0] = slots[0], None  # as between the rise of the position and the rest of a record's handling
    with ThreadPoolExecutor() as pool:
        asked = pool.submit(items, port, "0", wait_s=LONG_S)
        while current.worker.bell._next is None:
            assert not asked.done(), asked.result()
            time.sleep(0.001)
        slots[0] = published
        current.worker.bell.ring()
        assert asked.result(60)[0]["outcome"] == "published"


def test_what_is_not_read_in_time_is_unknown(port: int, bench: EngineBench) -> None:
    bench.version("o", 1)
    bench.settle()
    read, not_yet = items(port, "0,1", wait_s=0.3)
    assert read["outcome"] == "published"
    assert (not_yet["outcome"], not_yet["reason"]) == ("unknown", "the matcher has read up to offset 0 so far")


def test_an_offset_that_nothing_is_remembered_of_is_unknown_and_not_waited_for_long(
    port: int, bench: EngineBench
) -> None:
    bench.publish("o", None)
    bench.version("o", 1)
    bench.settle()
    begin_s = time.monotonic()
    nothing, there = items(port, "999999999,1", wait_s=0)
    assert (nothing["outcome"], there["outcome"]) == ("unknown", "published")
    bench.engine.history._outcomes[0] = None
    (item,) = items(port, "0", wait_s=LONG_S)
    assert "nothing of this record is remembered" in item["reason"]
    assert time.monotonic() - begin_s < LONG_S / 2


def test_it_is_known_again_after_another_matcher_has_taken_over(port: int, bench: EngineBench, current: Any) -> None:
    bench.version("p", 1)  # nobody asks for it before: only its record is kept
    bench.version("o", 2)
    bench.version("o", 1)
    bench.settle()
    bench.load()
    current.worker.partitions = {PARTITION: bench.partition}
    assert [item["outcome"] for item in items(port, "0,1,2")] == ["published", "published", "stale"]


def test_a_partition_that_is_being_loaded_is_waited_for(port: int, bench: EngineBench, current: Any) -> None:
    bench.version("o", 1)
    bench.settle()
    bench.partition.phase = OwningPhase.LOADING
    assert ask(port, "0", wait_s=0.1)[0] == 503
    with ThreadPoolExecutor() as pool:
        asked = pool.submit(items, port, "0", wait_s=LONG_S)
        while current.worker.bell._next is None:
            time.sleep(0.01)
        bench.partition.phase = OwningPhase.OWNED
        assert asked.result(60)[0]["outcome"] == "published"


def test_what_is_of_another_group_or_in_a_wrong_partition_is_not_told(port: int, bench: EngineBench) -> None:
    bench.version("o", 1)
    bench.settle()
    (item,) = items(port, "0", group=SAME_PARTITION)
    assert (item["outcome"], item["reason"], "object" in item) == ("unknown", "the record is of another group", False)
    (item,) = items(port, "0", partition=PARTITION + 1)
    assert (item["outcome"], f"its group's, {PARTITION}" in item["reason"]) == ("unknown", True)


def test_another_matchers_group_is_refused_at_once(port: int, current: Any) -> None:
    begin_s = time.monotonic()
    assert ask(port, "0", group=OTHER_GROUP, wait_s=LONG_S)[0] == 503
    current.worker = None
    assert ask(port, "0", wait_s=LONG_S)[0] == 503
    assert time.monotonic() - begin_s < LONG_S / 2


async def test_beyond_a_bound_nobody_is_waited_with(bench: EngineBench, current: Any) -> None:
    bench.settle()
    shown = OutcomeEndpoints(current, waiting_max=0)
    query = {"partition": str(PARTITION), "offsets": "0", "wait_s": str(LONG_S)}
    request: Any = SimpleNamespace(match_info={"domain": DOMAIN, "group": GROUP}, query=query)
    begin_s = time.monotonic()
    assert '"unknown"' in ((await shown.outcomes(request)).text or "")
    assert time.monotonic() - begin_s < LONG_S / 2


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"offsets": "-1"}, "offsets"),
        ({"offsets": "1,"}, "offsets"),
        ({"offsets": ",".join("1" * 201)}, "offsets"),
        ({"offsets": "1", "partition": "x"}, "partition"),
        ({"offsets": "1", "wait_s": str(LONG_S + 1)}, "wait_s"),
        ({"offsets": "1", "wait_s": "nan"}, "wait_s"),
        ({"offsets": "1", "group": "a%20b"}, "group"),
    ],
)
def test_errors_name_what_is_wrong(port: int, arguments: Any, field: str) -> None:
    status, body = ask(port, **arguments)
    assert (status, body["field"]) == (400, field)


def test_the_ledger_says_it_with_who_lacks_the_version(port: int, bench: EngineBench) -> None:
    bench.opened("o")
    bench.version("o", 9)
    bench.version("o", 2)
    bench.settle()
    url = f"http://127.0.0.1:{port}/v1/domains/{DOMAIN}/groups/{GROUP}/objects/o/lacking?version=2"
    body = fetch(f"{url}&partition={PARTITION}&offset=1").json()
    assert (body["outcome"], body["newest"]["version"]) == ("stale", 9)
    for query in ("", f"&partition={PARTITION + 1}&offset=1", f"&partition={PARTITION}&offset=7"):
        assert "outcome" not in fetch(url + query).json()
    assert fetch(f"{url}&partition={PARTITION}").json()["field"] == "offset"
    assert fetch(f"{url}&offset=1").json()["field"] == "partition"
    assert fetch(f"{url}&partition={2**63}&offset=1").json()["field"] == "partition"
    assert fetch(f"{url}&partition={PARTITION + 1}&offset=-1").json()["field"] == "offset"
