"""The load of matchers by partition, and the effect of more matchers or more partitions. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from coldnotify_common.plurals import number_of
from coldnotify_schemas.partitioner import partition_of

UNEVEN = 1.2
"""A matcher with so many times an even share has too much."""
_MORE_MATCHERS, _MORE_PARTITIONS = (1, 2, 4), (2, 4)
_SHOWN = 5


class PartitionLoad(NamedTuple):
    """The records of one partition in the time that was looked at."""

    matcher: str
    partition: int
    records: int
    """Publishes, requests and messages."""


class GroupLoad(NamedTuple):
    """The publishes of one group, as matchers list them."""

    domain: str
    group: str
    publishes: float


def plan(
    loads: Sequence[PartitionLoad], groups: Sequence[GroupLoad], cores: Mapping[str, float | None], seconds: float
) -> list[str]:
    """Returns the plan as lines. `cores`: by matcher, the part of a core that it uses; None: it is not known."""
    total = sum(one.records for one in loads)
    by_matcher: defaultdict[str, list[PartitionLoad]] = defaultdict(list)
    for one in loads:
        by_matcher[one.matcher].append(one)
    there = f"{number_of(len(loads), 'partition')}, {number_of(len(by_matcher), 'matcher')}"
    if not total:
        return [f"{there}: nothing came within {seconds:g} s"]
    even = 1 / len(by_matcher)
    lines = [f"{there}: {total / seconds:.1f} records/s"]
    for matcher, its in sorted(by_matcher.items()):
        share = _sum(its) / total
        core = cores.get(matcher)
        used = "" if core is None else f", {core:.0%} of a core"
        too_much = "; too much" if share > UNEVEN * even and len(by_matcher) > 1 else ""
        heaviest = ", ".join(
            f"{one.partition} {one.records / total:.0%}" for one in sorted(its, key=lambda one: -one.records)[:_SHOWN]
        )
        lines.append(f"{matcher}: {share:.0%} of them{used}, {number_of(len(its), 'partition')} ({heaviest}){too_much}")
    lines += [_too_much(one, total, even) for one in loads if one.records / total > even and len(by_matcher) > 1]
    loaded = [one.records for one in loads]
    for more in _MORE_MATCHERS:
        matchers = len(by_matcher) + more
        if matchers <= len(loads):
            lines.append(f"{matchers} matchers: the busiest has {_busiest(loaded, matchers) / total:.0%} at best")
    lines += _more_partitions(len(loads), len(by_matcher), groups)
    return lines


def _too_much(one: PartitionLoad, total: int, even: float) -> str:
    return (
        f"partition {one.partition} alone has {one.records / total:.0%}, more than an even share ({even:.0%}): it is "
        f"too much for {one.matcher} and any other, and only more partitions divide it"
    )


def _more_partitions(partitions: int, matchers: int, groups: Sequence[GroupLoad]) -> Iterable[str]:
    total = sum(one.publishes for one in groups)
    if not total:
        return
    heaviest = max(groups, key=lambda one: one.publishes)
    for times in _MORE_PARTITIONS:
        count = partitions * times
        loads = [0.0] * count
        for one in groups:
            loads[partition_of(one.domain, one.group, count)] += one.publishes
        busiest = _busiest(loads, matchers) / total
        yield (
            f"{count} partitions: the heaviest has {max(loads) / total:.0%} of the publishes of {len(groups)} groups, "
            f"and the busiest of {matchers} matchers {busiest:.0%} at best"
        )
    yield (
        f"one group is never divided: {heaviest.domain}/{heaviest.group} has {heaviest.publishes / total:.0%} of the "
        "publishes"
    )


def _busiest(loads: Sequence[float], matchers: int) -> float:
    """Returns the load of the busiest of so many matchers, if each partition goes to who has least, heaviest first."""
    sums = [0.0] * matchers
    for load in sorted(loads, reverse=True):
        sums[sums.index(min(sums))] += load
    return max(sums)


def _sum(loads: Iterable[PartitionLoad]) -> int:
    return sum(one.records for one in loads)
