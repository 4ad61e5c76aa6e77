"""What domains used: each publish once, however it came and whoever owns its partition; each delivery once."""

import pytest
from coldnotify_matcher.engine.tenants.use import Use
from coldnotify_schemas.partitioner import partition_of
from coldnotify_schemas.topics import TopicNames
from coldnotify_testkit.engine_bench import DOMAIN, OTHER_GATEWAY, PARTITION, PARTITIONS, PREFIX, EngineBench

TOPICS = TopicNames()

STRAY_GROUP = next(f"stray-{i}" for i in range(100) if partition_of("d", f"stray-{i}", PARTITIONS) != PARTITION)
VALUE = b'{"version":5,"payload":"12345"}'


def used(bench: EngineBench) -> dict[str, tuple[int, ...]]:
    """Since the last time."""
    return {domain: use.counts for domain, use in bench.partition.take_use().items()}


def test_it_counts_sums() -> None:
    use = Use()
    use.publish(10)
    use.publish(5)
    use.deliver(3, 300)
    use.thin(4)
    assert use.counts == (2, 15, 3, 300, 4)


def test_publishes_and_deliveries_are_counted_with_their_bytes() -> None:
    bench = EngineBench()
    for session in (1, 2, 3):
        bench.opened("o", session=session, client=f"client-{session}")
    bench.opened("o", session=4, client="client-4", gateway=OTHER_GATEWAY)
    assert used(bench) == {}
    bench.publish("o", VALUE)
    bench.publish("nobody's", VALUE)
    bench.settle()
    size = len(f"{PREFIX}o") + len(f"{PREFIX}nobody's") + 2 * len(VALUE)
    assert used(bench) == {DOMAIN: (2, size, 4, 4 * len('o"12345"'), 0)}
    assert used(bench) == {}


@pytest.mark.parametrize("value", [b"{", b'{"verson": 1}', VALUE])
def test_also_what_is_rejected_or_stale_was_published(value: bytes) -> None:
    bench = EngineBench()
    bench.version("o", 7)
    bench.settle()
    used(bench)
    bench.publish("o", value)
    bench.settle()
    assert used(bench)[DOMAIN][:2] == (1, len(f"{PREFIX}o") + len(value))


def test_a_description_is_a_publish() -> None:
    bench = EngineBench()
    bench.describe("o", b'{"description":{}}', timestamp_ms=5)
    bench.settle()
    assert used(bench)[DOMAIN][0] == 1


def test_what_is_at_home_elsewhere_is_counted_there() -> None:
    bench = EngineBench()
    bench.log.append(TOPICS.objects, f"d/{STRAY_GROUP}/o".encode(), VALUE)
    for key in (b"no-key", b"a b/g/o", b"\xff", None):
        bench.log.append(TOPICS.objects, key, VALUE)
    bench.settle()
    assert used(bench) == {}


def test_what_an_owner_writes_down_again_is_no_publish() -> None:
    bench = EngineBench()
    bench.version("o", 7)
    bench.settle()
    bench.version("o", 5)
    bench.settle()
    assert bench.log.end(TOPICS.objects) == 3, "the newest version was repaired"
    assert used(bench)[DOMAIN][0] == 2


def test_a_successor_counts_what_its_predecessor_has_not_committed_and_nothing_else() -> None:
    bench = EngineBench()
    bench.version("o", 1)
    bench.settle()
    assert used(bench)[DOMAIN][0] == 1
    for version in (2, 3):
        bench.version("o", version)
    bench.version("other", 1)
    bench.load()
    assert used(bench)[DOMAIN][0] == 3
    bench.load()
    assert used(bench) == {}
