"""A partition's usage: counts against a naive model (repetitions, losses, other orders, starts anew), rates, bounds."""

import random
from collections import defaultdict
from collections.abc import Iterable

from coldnotify_schemas.tenant_usage import CUMULATIVE, TenantCounters, UsageRecord, Verdict
from coldnotify_schemas.tenants import Agreement
from coldnotify_usage.core.highs import NO_COUNTS, Counts
from coldnotify_usage.core.partition_usage import NODE_SILENT_MS, Counted, PartitionUsage, SeenKey
from coldnotify_usage.core.seen import DAY_MS, HOUR_MS, SeenCounts
from hypothesis import given
from hypothesis import strategies as st

T = 1_795_384_800_000
"""The start of an hour; the day ends two hours later."""
LIMITED = Agreement(in_per_s=100, burst_s=1)


def usage(room: int = 10_000) -> PartitionUsage:
    made = PartitionUsage(lambda tenant: tenant != "elsewhere", lambda: made.seen_count < room)
    return made


def record(at_ms: int, node: str = "n", boot: str = "b", **tenants: TenantCounters) -> UsageRecord:
    return UsageRecord(node=node, boot=boot, at_ms=at_ms, tenants=tenants)


def verdicts(of: PartitionUsage, at_ms: int, agreement: Agreement | None = LIMITED) -> dict[str, Verdict]:
    return dict(of.verdicts(at_ms, lambda _name: agreement))


def naively(read: Iterable[UsageRecord]) -> dict[tuple[str, str, int], Counts]:
    """By tenant, span and start: all maxima, and their differences."""
    high: dict[tuple[str, str, str], dict[int, list[int]]] = defaultdict(
        lambda: defaultdict(lambda: [0] * len(CUMULATIVE))
    )
    for one in read:
        for name, counters in one.tenants.items():
            kept = high[name, one.node, one.boot][one.at_ms // HOUR_MS]
            for number, field in enumerate(CUMULATIVE):
                kept[number] = max(kept[number], getattr(counters, field))
    sums: dict[tuple[str, str, int], list[int]] = defaultdict(lambda: [0] * len(CUMULATIVE))
    for (name, _, _), hours in high.items():
        before = [0] * len(CUMULATIVE)
        for hour, counts in sorted(hours.items()):
            for number in range(len(CUMULATIVE)):
                rise = max(counts[number] - before[number], 0)
                sums[name, "hour", hour * HOUR_MS][number] += rise
                sums[name, "day", hour * HOUR_MS // DAY_MS * DAY_MS][number] += rise
                before[number] = max(before[number], counts[number])
    return {key: tuple(counts) for key, counts in sums.items() if any(counts)}


def told(counted: Iterable[Counted]) -> dict[tuple[str, str, int], Counts]:
    return {(c.tenant, c.span, c.start_ms): c.counts for c in counted if any(c.counts)}


@st.composite
def written(draw: st.DrawFn) -> list[UsageRecord]:
    """What nodes that start anew write of a few tenants within three hours, across midnight."""
    records = []
    for node in range(draw(st.integers(1, 3))):
        at_ms, boot = T, 0
        counts: dict[str, list[int]] = defaultdict(lambda: [0] * len(CUMULATIVE))
        for _ in range(draw(st.integers(0, 12))):
            at_ms += draw(st.sampled_from([1000, 1000, 60_000, 1_200_000]))
            if draw(st.integers(0, 5)) == 0:
                boot += 1
                counts.clear()
            for name in draw(st.sets(st.sampled_from(["one", "two"]), min_size=1)):
                for number in range(len(CUMULATIVE)):
                    counts[name][number] += draw(st.integers(0, 5))
            tenants = {name: TenantCounters(**dict(zip(CUMULATIVE, n, strict=True))) for name, n in counts.items()}
            records.append(record(min(at_ms, T + 3 * HOUR_MS - 1), f"node-{node}", f"boot-{boot}", **tenants))
    return records


@given(written(), st.randoms())
def test_counts_are_those_of_a_naive_model(read: list[UsageRecord], draw: random.Random) -> None:
    kept = [one for one in read if draw.random() > 0.2]
    again = kept + [one for one in kept if draw.random() < 0.3]
    draw.shuffle(again)
    made = usage()
    for one in again:
        made.on_record(one, one.at_ms, T + DAY_MS)
    assert told(made.take_counted()) == naively(kept)
    assert list(made.take_counted()) == []


@given(written(), st.randoms())
def test_a_takeover_resumes_counting_from_the_stored_counters(read: list[UsageRecord], draw: random.Random) -> None:
    """Killed at drawn times; what was read since it was stored is read again."""
    stored: dict[SeenKey, SeenCounts] = {}
    counted: dict[tuple[str, str, int], Counts] = {}
    made, durable = usage(), 0
    position = 0
    while position < len(read):
        made.on_record(read[position], read[position].at_ms, T + DAY_MS)
        position += 1
        if draw.random() < 0.4:
            for key, seen in made.take_changed():
                assert seen is not None
                stored[key] = SeenCounts.decode(seen.encode())
            durable = position
        if draw.random() < 0.3:
            counted |= told(made.take_counted())
        if draw.random() < 0.2:
            made, position = usage(), durable
            for key, seen in stored.items():
                made.load(key, SeenCounts.decode(seen.encode()))
    counted |= told(made.take_counted())
    assert counted == naively(read)


def test_a_key_is_read_as_it_was_written() -> None:
    key = SeenKey("a.tenant", "http-1", "9f")
    assert SeenKey.decode(key.encode()) == key


def test_uncountable_records_are_set_aside_and_all_others_counted() -> None:
    made = usage(room=1)
    aside = made.on_record(
        record(
            T, one=TenantCounters(publishes=1), two=TenantCounters(publishes=1), elsewhere=TenantCounters(publishes=1)
        ),
        T,
        T,
    )
    assert [(one.tenant, one.reason) for one in aside] == [("two", "room"), ("elsewhere", "partition")]
    assert made.seen_count == 1
    for number in range(50):
        made.on_record(record(T, boot=str(number), elsewhere=TenantCounters(publishes=1)), T, T)
    assert made._said.keys() == {("n", "b")}, "what is set aside takes no memory"


def test_a_rate_is_what_rose_since_the_nodes_last_record() -> None:
    made = usage()
    for second in range(5):
        made.on_record(record(T + 1000 * second, one=TenantCounters(publishes=50 * second)), T + 1000 * second, T)
    assert verdicts(made, T + 4000)["one"].per_s.publishes == 50
    # One that said nothing of the tenant for a while says now what has happened in its last second.
    made.on_record(record(T + 30_000, two=TenantCounters(publishes=1)), T + 30_000, T)
    made.on_record(record(T + 31_000, one=TenantCounters(publishes=230)), T + 31_000, T)
    assert verdicts(made, T + 31_000)["one"].per_s.publishes == 30


def test_several_records_of_one_second_have_the_same_interval() -> None:
    made = usage()
    for second in (1, 2):
        for name in ("one", "two"):
            tenants = {name: TenantCounters(publishes=10 * second)}
            of_it = UsageRecord(node="n", boot="b", at_ms=T + 1000 * second, tenants=tenants)
            made.on_record(of_it, T + 1000 * second, T)
    assert {name: v.per_s.publishes for name, v in verdicts(made, T + 2000).items()} == {"one": 10, "two": 10}


def test_a_silent_node_has_no_rate() -> None:
    made = usage()
    for second in range(3):
        made.on_record(record(T + 1000 * second, one=TenantCounters(publishes=50 * second)), T + 1000 * second, T)
    made.clock.on_record(T + 2000, T + 2000)
    assert verdicts(made, T + 2100)["one"].per_s.publishes == 50
    assert verdicts(made, T + 5000)["one"].per_s.publishes == 0


def test_only_live_nodes_contribute_gauges() -> None:
    made = usage()
    made.on_record(record(T, "a", one=TenantCounters(objects=5)), T, T)
    made.on_record(record(T, "b", "first", one=TenantCounters(objects=7)), T, T)
    made.on_record(record(T + 1000, "b", "second", one=TenantCounters(objects=6)), T + 1000, T + 1000)
    assert verdicts(made, T + 1000)["one"].gauges == TenantCounters(objects=11), "of a node its newest start counts"
    at_ms = T + 1000 + NODE_SILENT_MS
    made.on_record(record(at_ms, "a", one=TenantCounters(objects=5)), at_ms, at_ms)
    assert verdicts(made, at_ms + 1)["one"].gauges == TenantCounters(objects=5)


def test_a_partition_that_has_moved_is_not_counted_twice() -> None:
    """Its owners say in its name what it has, each in another tenure."""
    made, limited = usage(), Agreement(clients_max=5)
    made.on_record(record(T, "partition-0", "7", one=TenantCounters(clients=3)), T, T)
    made.on_record(record(T, "partition-1", "7", one=TenantCounters(clients=1)), T, T)
    verdict = verdicts(made, T, limited)["one"]
    assert (verdict.gauges, verdict.held) == (
        TenantCounters(clients=4),
        {"partition-0": (0, 3, 0), "partition-1": (0, 1, 0)},
    )
    assert verdict.shares == verdict.out_shares == {}, "it is no node that lets in, or tells"
    made.on_record(record(T + 1000, "partition-0", "8", one=TenantCounters(clients=2)), T + 1000, T + 1000)
    verdict = verdicts(made, T + 1000, limited)["one"]
    assert (verdict.gauges, verdict.held) == (
        TenantCounters(clients=3),
        {"partition-0": (0, 2, 0), "partition-1": (0, 1, 0)},
    )
    assert verdicts(made, T + 2000, limited) == {}, "nothing has changed"


def test_a_verdict_is_written_when_it_changes_and_before_it_expires() -> None:
    made = usage()
    made.on_record(record(T, one=TenantCounters(publishes=1)), T, T)
    written = [second for second in range(60) if verdicts(made, T + 1000 * second)]
    assert written == [0, 10, 20, 30, 40, 50]
    assert verdicts(made, T + 60_000, None) == {}, "who has no limits needs none"
    made.on_record(record(T + 61_000, one=TenantCounters(publishes=1)), T + 61_000, T + 61_000)
    assert len([second for second in range(61, 76) if verdicts(made, T + 1000 * second, None)]) <= 3


def test_before_the_first_record_it_sends_no_verdict() -> None:
    made = usage()
    made.load(SeenKey("one", "n", "b"), SeenCounts())
    assert verdicts(made, T) == {}


def test_a_takeover_does_not_count_as_a_burst() -> None:
    """Records that waited are counted in the time in which they were made."""
    made = usage()
    seen = SeenCounts()
    seen.add(T, TenantCounters(publishes=1_000_000), None, T)
    made.load(SeenKey("one", "n", "b"), seen)
    now_ms = T + 30_000
    for second in range(1, 31):
        count = 1_000_000 + 90 * second
        made.on_record(record(T + 1000 * second, one=TenantCounters(publishes=count)), T + 1000 * second, now_ms)
    verdict = verdicts(made, now_ms)["one"]
    assert verdict.exceeded == ()
    assert verdict.per_s.publishes == 90


def test_a_closed_day_is_forgotten_and_removed_from_storage() -> None:
    made = usage()
    made.on_record(record(T, one=TenantCounters(publishes=1)), T, T)
    list(made.take_changed())
    late_ms = T + 3 * HOUR_MS + 1  # an hour behind the day's end
    for at_ms in (late_ms - 2000, late_ms):
        made.on_record(record(at_ms, "other", two=TenantCounters(publishes=1)), at_ms, at_ms)
        made.forget(at_ms, 100)
        made.forget(at_ms, 100)
    assert (SeenKey("one", "n", "b"), None) in list(made.take_changed())
    assert (made.seen_count, made.tenants, list(made._said)) == (1, 1, [("other", "b")])


def test_absurd_numbers_stay_numbers() -> None:
    made = usage()
    most = (1 << 63) - 1
    for boot in "ab":
        made.on_record(record(most, boot=boot, one=TenantCounters(publishes=most, objects=most)), T, T)
    assert {one.counts[0] for one in made.take_counted()} == {most}
    assert verdicts(made, T)["one"].gauges.objects == most
    assert (0,) * len(CUMULATIVE) == NO_COUNTS
