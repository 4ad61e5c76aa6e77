"""Queries are held against what a record would say of its object, in turns, before it is taken in."""

import pytest
from coldnotify_matcher.engine.interests.by_query import sets
from coldnotify_schemas import internal_pb2, wire_pb2
from coldnotify_schemas.digest import MODULUS
from coldnotify_schemas.interests import query_hash
from coldnotify_testkit.counted_turns import turn_of
from coldnotify_testkit.engine_bench import EPOCH, PREFIX, EngineBench, pages, query_interest

TEXTS = [f'NAME LIKE "(o|x|ox){{{number + 40}}}" OR a > {number}' for number in range(10)]


@pytest.fixture(autouse=True)
def dear(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sets, "DEAR_US", 100)


@pytest.fixture
def bench() -> EngineBench:
    """A client with dear queries is live."""
    bench = EngineBench()
    queries = [query_interest(text) for text in TEXTS]
    digest = sum(map(query_hash, TEXTS)) % MODULUS
    bench.request(open=internal_pb2.Open(digest=digest, interests=queries, epoch=EPOCH, ask=1))
    bench.settle()
    bench.told.clear()
    return bench


def turns(bench: EngineBench, key: str, value: bytes, timestamp_ms: int = 1) -> int:
    """How many the record takes, if one evaluation is all that a turn has."""
    count = 1
    while not bench.engine.ahead.prepare(key.encode(), value, timestamp_ms, turn_of(0)):
        assert bench.engine.take_step(bench.now_ms).inboxes == []
        count += 1
        assert count < 100
    return count


def test_a_description_and_nobody_is_told_half_of_it(bench: EngineBench) -> None:
    value = b'{"description":{"a":5}}'
    assert turns(bench, f"describe:{PREFIX}lamp", value) == len(TEXTS)
    asked = bench.engine.state.members.sets._evaluated
    bench.describe("lamp", value, timestamp_ms=1)
    bench.settle()
    (told,) = [item.fan_out.newest for item in bench.items() if item.HasField("fan_out")]
    assert sorted(told.entered) == sorted(query_hash(text) for text in TEXTS[:5])
    assert bench.engine.state.members.sets._evaluated == asked == 0


def test_an_object_that_comes(bench: EngineBench) -> None:
    assert turns(bench, f"{PREFIX}{'o' * 60}", b'{"version":1}') == len(TEXTS)
    bench.version("o" * 60, 1)
    bench.settle()
    (told,) = [item.fan_out.newest for item in bench.items() if item.HasField("fan_out")]
    assert len(told.entered) == len(TEXTS)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (f"{PREFIX}there", b'{"version":2}'),
        (f"{PREFIX}there", b'{"version":2,"deleted":true}'),
        (f"{PREFIX}other", b'{"version":2,"deleted":true}'),
        (f"{PREFIX}other", b"no JSON"),
        (f"describe:{PREFIX}there", b"no JSON"),
        (f"describe:{PREFIX}there", b'{"description":{"b":1}}'),
        (f"describe:{PREFIX}never", b'{"description":null}'),
        ("stranger.domain/g/there", b'{"version":2}'),
        ("no key", b'{"version":2}'),
    ],
)
def test_what_holds_no_query_against_anything_takes_no_turn(bench: EngineBench, key: str, value: bytes) -> None:
    bench.version("there", 1)
    bench.describe("there", b'{"description":{"b":1}}', timestamp_ms=1)
    bench.settle()
    assert turns(bench, key, value) == 1


def test_queries_that_come_meanwhile_are_held_against_it_too(bench: EngineBench) -> None:
    bench.version("there", 1)
    bench.settle()
    value = b'{"description":{"a":5}}'
    key = f"describe:{PREFIX}lamp".encode()
    assert not bench.engine.ahead.prepare(key, value, 1, turn_of(3))
    bench.request(register=wire_pb2.Register(request=1, interests=[query_interest("a = 5")]))
    bench.settle()
    bench.catch_up(bench.engine.state.position - 1, ask=2)
    bench.settle()
    bench.told.clear()
    turns(bench, key.decode(), value)
    bench.describe("lamp", value, timestamp_ms=1)
    bench.settle()
    said = [hash_ for item in bench.items() for hash_ in item.fan_out.newest.entered]
    said += [hash_ for page in pages(bench.items()) for newest in page.newest for hash_ in newest.entered]
    assert sorted(said) == sorted([*(query_hash(text) for text in TEXTS[:5]), query_hash("a = 5")])
