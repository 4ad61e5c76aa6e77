"""Objects that are made when they are asked for: whatever the log says, nobody can tell them from the others."""

from random import Random
from typing import Any

import pytest
from coldnotify_matcher.engine import Engine
from coldnotify_matcher.engine.objects.object_map import ObjectMap
from coldnotify_matcher.engine.objects.objects import UNKNOWN, Obj
from coldnotify_matcher.record_headers import HeadedObjectRecord
from coldnotify_schemas.partitioner import partition_of
from coldnotify_schemas.records import PublicRecord
from coldnotify_testkit.engine_bench import DOMAIN, EPOCH, PARTITION, PARTITIONS, PREFIX

STRAY_GROUP = next(g for g in map(str, range(100)) if partition_of(DOMAIN, g, PARTITIONS) != PARTITION)
KEYS = [
    *(f"{PREFIX}{name}".encode() for name in ("a", "b", "c", "d/e", "ä", "x" * 255)),
    f"{PREFIX}{'x' * 256}".encode(),
    f"{DOMAIN}/{STRAY_GROUP}/a".encode(),
    f"{DOMAIN}/{PREFIX}a".encode(),
    f"{PREFIX}".encode(),
    f"{PREFIX}\udcff".encode(errors="surrogateescape"),
    b"not a key",
    b"do main/group/a",
    None,
]
VALUES = [
    *(b'{"version":%d}' % version for version in range(6)),
    b'{"version":3,"incarnation":1}',
    b'{"version":9223372036854775808}',
    b'{"version":2,"payload":{"a":1},"source":"client-1","expires_at":7}',
    b'{"version":2' + b" " * 10_000 + b"}",
    b'{"version":4,"deleted":true}',
    b'{"verson":5}',
    b"{}",
    b"{",
    None,
]


class Eager(Engine):
    """Makes every object at once, as a live one does."""

    def __init__(self) -> None:
        super().__init__(PARTITION, PARTITIONS, EPOCH)
        self.intake._keep_unmade = lambda _: False  # type: ignore[method-assign, assignment]


def record(key: bytes | None, value: bytes | None, offset: int, timestamp_ms: int) -> HeadedObjectRecord:
    return HeadedObjectRecord(key, value, offset, timestamp_ms, moved=False, traceparent="", since=b"")


def shown(obj: Obj) -> dict[str, Any]:
    return {name: getattr(obj, name) for name in Obj.__slots__}


def outcome(engine: Engine) -> tuple[object, ...]:
    step = engine.take_step(0)
    return step.state, step.seals, step.tombstones, step.inboxes, engine.state.counts


@pytest.mark.parametrize("seed", range(50))
def test_a_load_has_the_same_outcome_as_one_that_makes_every_object(seed: int) -> None:
    random = Random(seed)
    records = [
        (random.choice(KEYS), random.choice(VALUES), offset, random.choice((-1, 2, 5)), random.random() < 0.1)
        for offset in range(random.choice((3, 30)))
    ]
    committed = random.choice((None, 0, 10))
    engines = [Engine(PARTITION, PARTITIONS, EPOCH), Eager()]
    for engine in engines:
        engine.loading.start(committed)
        for key, value, offset, timestamp_ms, moved in records:
            said = record(key, value, offset, timestamp_ms)._replace(moved=moved, traceparent=f"trace {offset}")
            engine.on_object(said, 0)
        engine.finish_load(1, 2, 0, objects_committed=committed)

    lazy, eager = engines
    assert len(lazy.state.objects) == len(eager.state.objects)
    assert [lazy.state.objects.offset_of(key) for key in lazy.state.objects] == [
        obj.offset for obj in eager.state.objects.values()
    ]
    assert lazy.state.position == eager.state.position
    assert outcome(lazy) == outcome(eager)
    for key in KEYS:
        text = "" if key is None else key.decode(errors="surrogateescape")
        assert lazy.history.publishes(text) == eager.history.publishes(text)
        assert lazy.history.rejections(text) == eager.history.rejections(text)
    late = [(random.choice(KEYS), random.choice(VALUES)) for _ in range(10)]
    for engine in engines:
        for offset, (key, value) in enumerate(late, len(records)):
            engine.on_object(record(key, value, offset, 4), 0)
    assert outcome(lazy) == outcome(eager)
    assert {k: shown(obj) for k, obj in lazy.state.objects.items()} == {
        k: shown(obj) for k, obj in eager.state.objects.items()
    }


def test_an_object_is_made_when_it_is_asked_for_and_stays_the_same() -> None:
    objects = ObjectMap()
    objects.keep("d/g/a", PublicRecord(version=3), 7, 1000, "trace", None)
    objects.keep("d/g/b", PublicRecord(), 8, 1001, "", 5)

    assert "d/g/a" in objects
    assert (len(objects), objects.offset_of("d/g/a"), list(objects.made())) == (2, 7, [])
    assert objects.offset_of("d/g/b") == 5
    obj = objects["d/g/a"]
    assert (obj.version, obj.offset, obj.published_ms, obj.traceparent) == (3, 7, 1000, "trace")
    assert objects.get("d/g/a") is obj
    assert list(objects.made()) == [obj]
    assert objects.get("d/g/c") is None
    assert objects.offset_of("d/g/a") == 7
    assert objects["d/g/b"].version == 1001, "without a version it is the timestamp"
    del objects["d/g/a"]
    assert list(objects) == ["d/g/b"]


def test_what_is_loaded_for_nobody_is_not_made() -> None:
    engine = Engine(PARTITION, PARTITIONS, EPOCH)
    engine.loading.start(None)
    for offset in range(3):
        engine.on_object(record(f"{PREFIX}{offset}".encode(), b'{"version":1}', offset, 0), 0)
    engine.finish_load(1, 1, 0, objects_committed=0)

    assert len(engine.state.objects) == 3
    assert list(engine.state.objects.made()) == []


def test_the_version_is_what_the_object_would_say_and_makes_nothing() -> None:
    objects = ObjectMap()
    objects.keep(f"{PREFIX}a", PublicRecord(), 3, 17, "", None)
    assert objects.version_of(f"{PREFIX}a") == 17
    assert list(objects.made()) == []
    assert objects[f"{PREFIX}a"].version == objects.version_of(f"{PREFIX}a")
    assert objects.version_of(f"{PREFIX}b") == UNKNOWN
