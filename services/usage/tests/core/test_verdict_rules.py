"""A tenant measured against its agreement: rates, what is exceeded, the nodes' shares."""

from collections.abc import Mapping

import msgspec
from coldnotify_schemas.tenant_usage import CUMULATIVE, Rates, Verdict, encode_verdict, parse_verdict
from coldnotify_schemas.tenants import Agreement
from coldnotify_usage.core.highs import NO_COUNTS, Counts
from coldnotify_usage.core.verdict_rules import Judge, Measured

T = 1_795_384_800_000
NO_RATES = (0.0,) * len(CUMULATIVE)


def counts(publishes: int = 0, **others: int) -> Counts:
    given = {"publishes": publishes, **others}
    return tuple(given.get(name, 0) for name in CUMULATIVE)


def measured(
    risen: Counts = NO_COUNTS,
    *,
    gauges: tuple[int, ...] = (0, 0, 0),
    doors: Mapping[str, tuple[float, ...]] | None = None,
    tellers: Mapping[str, tuple[float, ...]] | None = None,
    held: Mapping[str, tuple[int, ...]] | None = None,
) -> Measured:
    return Measured(risen, NO_RATES, gauges, doors or {}, tellers or {}, held or {})


def judged(per_s: list[int], agreement: Agreement) -> list[tuple[str, ...]]:
    """What is exceeded, second by second, by so many publishes in each."""
    judge, risen, found = Judge(T, NO_COUNTS), 0, []
    for second, publishes in enumerate(per_s, 1):
        risen += publishes
        found.append(judge.judge(T + 1000 * second, measured(counts(risen)), agreement).exceeded)
    return found


def test_within_the_agreement_nothing_is_exceeded() -> None:
    assert set(judged([100] * 60, Agreement(in_per_s=100))) == {()}


def test_a_burst_is_allowed_but_a_lasting_excess_is_not() -> None:
    agreement = Agreement(in_per_s=100, burst_s=2)
    assert judged([0, 0, 300, 100], agreement)[2:] == [(), ()]
    found = judged([200, 200, 200, 200], agreement)
    assert found == [(), (), ("in_per_s",), ("in_per_s",)]


def test_the_verdict_ends_soon_after_the_excess() -> None:
    found = judged([10_000] * 30 + [0] * 5, Agreement(in_per_s=100, burst_s=2))
    assert found[29] == ("in_per_s",)
    assert found[32:] == [(), (), ()]


def test_each_limit_has_its_own_count() -> None:
    judge = Judge(T, NO_COUNTS)
    rates = Agreement(in_per_s=10, in_bytes_per_s=10, out_per_s=10, out_bytes_per_s=10)
    agreement = msgspec.structs.replace(rates, objects_max=4, clients_max=5)
    risen = counts(0, bytes=1000, out_bytes=1000)
    verdict = judge.judge(T + 1000, measured(risen, gauges=(5, 5, 5)), agreement)
    assert verdict.exceeded == ("in_bytes_per_s", "out_bytes_per_s", "objects_max")


def test_a_verdict_contains_partitions_counts_if_they_are_limited() -> None:
    judge = Judge(T, NO_COUNTS)
    held = {"partition-3": (1, 2, 3)}
    assert judge.judge(T + 1000, measured(held=held), Agreement(in_per_s=1)).held == {}
    for agreement in (Agreement(objects_max=1), Agreement(clients_max=1), Agreement(registrations_max=1)):
        assert judge.judge(T + 1000, measured(held=held), agreement).held == held


def test_the_last_minute_contains_the_counts_of_that_minute() -> None:
    judge = Judge(T, NO_COUNTS)
    verdict = judge.judge(T + 1000, measured(counts(7)))
    assert verdict.per_min == Rates(publishes=7), "not drawn out to a minute"
    for second in range(2, 200):
        verdict = judge.judge(T + 1000 * second, measured(counts(7 * second)))
    assert abs(verdict.per_min.publishes - 7 * 60) < 0.01
    for second in range(200, 280):
        verdict = judge.judge(T + 1000 * second, measured(counts(7 * 199)))
    assert verdict.per_min == Rates()


def test_shares_follow_each_nodes_demand() -> None:
    def rate(admitted: float, refused: float = 0.0, admitted_bytes: float = 0.0) -> tuple[float, ...]:
        given = {"admitted": admitted, "refused": refused, "admitted_bytes": admitted_bytes}
        return tuple(given.get(name, 0.0) for name in CUMULATIVE)

    judge = Judge(T, NO_COUNTS)
    doors = {"http-1": rate(33, refused=60), "http-2": rate(0), "gateway-1": rate(0)}
    shares = judge.judge(T, measured(doors=doors), Agreement(in_per_s=100)).shares
    assert shares["http-1"] > 0.9
    assert 0.99 < sum(shares.values()) <= 1
    by_bytes = {"http-1": rate(1, admitted_bytes=9e6), "http-2": rate(50, admitted_bytes=50)}
    shares = judge.judge(T, measured(doors=by_bytes), Agreement(in_per_s=1000, in_bytes_per_s=1e7)).shares
    assert shares["http-1"] > 0.8
    assert judge.judge(T, measured(doors=doors), Agreement(out_per_s=1)).shares == {}, (
        "nothing that comes in is limited"
    )


def test_nodes_can_parse_a_verdict() -> None:
    judge = Judge(T, NO_COUNTS)
    verdict = judge.judge(T + 5, measured(counts(3, bytes=8), gauges=((1 << 70), 2, 3)), Agreement(in_per_s=0.1))
    again: Verdict = parse_verdict(encode_verdict(verdict))
    assert (again, again.until_ms) == (verdict, T + 20_005)


def rates(**per_s: float) -> tuple[float, ...]:
    return tuple(per_s.get(name, 0.0) for name in CUMULATIVE)


def test_a_thinned_tenant_exceeds_its_agreement_although_its_deliveries_do_not() -> None:
    judge, found = Judge(T, NO_COUNTS), []
    for second in range(1, 11):
        risen = counts(publishes=10 * second, deliveries=10 * second, out_bytes=100 * second, thinned=90 * second)
        found.append(judge.judge(T + 1000 * second, measured(risen), Agreement(out_per_s=10)).exceeded)
    assert found[0] == found[-1] == ("out_per_s",)
    verdict = judge.judge(T + 11_000, measured(risen), Agreement(out_bytes_per_s=100))
    assert verdict.per_min.deliveries_wanted == 1000
    assert verdict.per_min.out_bytes_wanted == 10_000


def test_matchers_share_deliveries_by_their_demand() -> None:
    tellers = {"m-1": rates(deliveries=10, thinned=70), "m-2": rates(deliveries=0)}
    judged_out = Judge(T, NO_COUNTS).judge(T + 1000, measured(tellers=tellers), Agreement(out_per_s=20))
    assert judged_out.shares == {}
    assert judged_out.out_shares["m-1"] > 0.9
    assert judged_out.out_shares["m-2"] > 0
    assert sum(judged_out.out_shares.values()) <= 1
    unlimited = Judge(T, NO_COUNTS).judge(T + 1000, measured(tellers=tellers), Agreement(in_per_s=20))
    assert unlimited.out_shares == {}
    assert parse_verdict(encode_verdict(judged_out)) == judged_out


def test_nodes_share_an_agreement_that_refuses_publishes_because_of_deliveries() -> None:
    doors = {"h-1": rates(admitted=1, refused=9), "h-2": rates()}
    refusing = Judge(T, NO_COUNTS).judge(T + 1000, measured(doors=doors), Agreement(out_per_s=20, over="refuse"))
    assert refusing.shares["h-1"] > 0.9
    thinning = Judge(T, NO_COUNTS).judge(T + 1000, measured(doors=doors), Agreement(out_per_s=20))
    assert thinning.shares == {}
