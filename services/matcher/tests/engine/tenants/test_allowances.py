"""Allowances: what may be told a second, debts, turns, and whose a domain is."""

from coldnotify_matcher.engine.tenants.allowances import WAIT_MS_MAX, Allowance, Allowances, OutAgreement

T = 1_700_000_000_000


def allowance(per_s: float | None = 10, bytes_per_s: float | None = None, burst_s: float = 2) -> Allowance:
    made = Allowance()
    made.agree(OutAgreement("acme", per_s, bytes_per_s, burst_s), T)
    return made


def told_within(one: Allowance, ms: int, deliveries: int) -> int:
    """How much is told of things that wait, each of so many deliveries, by who asks whenever it is worth while."""
    now_ms, told = T, 0
    while now_ms <= T + ms:
        if one.may_tell("p", T, now_ms):
            one.take(deliveries, 0)
            told += deliveries
        else:
            now_ms = one.free_at_ms()
    return told


def test_what_is_told_settles_at_the_rate_also_where_one_thing_is_more_than_the_burst() -> None:
    for deliveries in (1, 7, 50, 400):
        told = told_within(allowance(), 100_000, deliveries)
        assert 1000 <= told <= 1000 + 20 + deliveries


def test_bytes_are_limited_alike_and_the_scarcer_counts() -> None:
    one = allowance(per_s=1000, bytes_per_s=100, burst_s=1)
    one.take(1, 150)
    assert not one.passes(T)
    assert one.free_at_ms() >= T + 500
    assert one.passes(one.free_at_ms())


def test_a_debt_is_bounded_by_the_longest_wait() -> None:
    one = allowance()
    one.take(10**9, 0)
    assert one.free_at_ms() <= T + WAIT_MS_MAX
    assert one.passes(T + WAIT_MS_MAX + 1)


def test_nothing_new_overtakes_what_waits_and_the_longest_waiting_comes_first() -> None:
    one = allowance()
    one.take(30, 0)
    assert not one.may_tell("later", T + 5, T + 5)
    assert not one.may_tell("sooner", T, T + 5)
    free_ms = one.free_at_ms()
    assert not one.passes(free_ms), "something waits"
    assert not one.may_tell("later", T + 5, free_ms)
    assert one.may_tell("sooner", T, free_ms)
    assert one.may_tell("later", T + 5, free_ms)
    assert one.passes(free_ms)


def test_who_waits_and_is_gone_is_waited_for_once() -> None:
    one = allowance()
    one.take(30, 0)
    assert not one.may_tell("gone", T, T)
    free_ms = one.free_at_ms()
    assert not one.may_tell("p", T + 1, free_ms)
    assert one.may_tell("p", T + 1, free_ms)


def test_who_has_nothing_any_more_holds_nobody_up() -> None:
    one = allowance()
    one.take(30, 0)
    assert not one.may_tell("p", T, T)
    one.leave("p")
    assert one.passes(one.free_at_ms())


def test_another_agreement_counts_at_once_and_without_one_there_is_no_limit() -> None:
    one = allowance()
    one.take(600, 0)
    one.agree(OutAgreement("acme", 10_000, None, 2), T)
    assert one.passes(T + 100)
    one.take(10**6, 0)
    one.agree(None, T)
    assert one.passes(T)


def test_a_clock_that_is_set_back_fills_nothing_and_blocks_nobody_for_long() -> None:
    one = allowance()
    one.take(30, 0)
    assert not one.passes(T - 10**9)
    assert one.passes(T - 10**9 + 1100)


def test_a_domain_is_its_tenants() -> None:
    tenants = {"a.one": "acme", "a.two": "acme"}
    made = Allowances(lambda domain: tenants.get(domain, "default"))
    assert (made.of("a.one"), made.any) == (None, False)
    made.agree([OutAgreement("acme", 1, None, 2)], T)
    assert made.any
    assert made.of("a.one") is made.of("a.two") is not None
    assert made.of("b") is None
    acme = made.of("a.one")
    tenants["b"] = "acme"
    made.agree([OutAgreement("acme", 2, None, 2), OutAgreement("default", 1, None, 2)], T)
    assert made.of("b") is acme, "the same account goes on"
    assert made.of("c") not in (None, acme)
    made.agree([], T)
    assert made.of("a.one") is None
    assert acme is not None
    assert acme.passes(T), "what waits for it may be told"
