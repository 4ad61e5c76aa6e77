"""The gate: who is let in, at which share of an agreement, and what a refusal says."""

import pytest
from coldnotify_common.tenancy.counting import UsageCounts
from coldnotify_common.tenancy.gate import RETRY_AFTER_S_MAX, Admitted, Gate, GateRefused
from coldnotify_common.tenancy.table import TenantTable
from coldnotify_schemas.tenant_usage import Rates, TenantCounters, Verdict
from coldnotify_schemas.tenants import Agreement, Tenant


class Node:
    """One node's gate, and a table to change."""

    def __init__(self, name: str = "http-1", **agreed: float) -> None:
        self.table = TenantTable()
        self.counts = UsageCounts(name, "boot")
        self.gate = Gate(self.table, self.counts)
        if agreed:
            self.agree(**agreed)

    def agree(self, **agreed: float) -> None:
        self.table.put(Tenant("acme", ("a",), Agreement(**agreed)))  # type: ignore[arg-type]

    def let_in(self, from_s: float, to_s: float, per_s: float, size_bytes: int = 1) -> int:
        """How many of so many publishes a second pass."""
        number = round((to_s - from_s) * per_s)
        answers = [self.gate.admit("a", 1, size_bytes, from_s + i / per_s) for i in range(number)]
        return sum(isinstance(answer, Admitted) for answer in answers)

    def hear(self, shares: dict[str, float], now_s: float, age_s: float = 0.0, **rates: float) -> None:
        self.gate.on_verdict("acme", Verdict(at_ms=0, until_ms=0, shares=shares, per_s=Rates(**rates)), age_s, now_s)


def test_without_an_agreement_everything_passes_and_is_counted() -> None:
    node = Node()
    assert node.gate.admit("x", 1000, 10**9, 0.0) == Admitted("default")
    assert node.counts.of("default") == TenantCounters(admitted=1000, admitted_bytes=10**9)


def test_above_the_rate_it_is_refused_and_told_which_limit_and_when() -> None:
    node = Node(in_per_s=10, burst_s=2)
    assert all(node.gate.admit("a", 1, 1, 0.0) == Admitted("acme") for _ in range(20))
    answer = node.gate.admit("a", 1, 1, 0.0)
    assert isinstance(answer, GateRefused)
    assert (answer.tenant, answer.limit, answer.allowed) == ("acme", "in_per_s", 10)
    assert answer.retry_after_s == pytest.approx(0.1)
    assert answer.measured > 10
    assert isinstance(node.gate.admit("a", 1, 1, 0.1), Admitted)
    assert node.counts.of("acme") == TenantCounters(admitted=21, admitted_bytes=21, refused=1)


def test_a_verdict_of_no_tenant_makes_nobodys_share_smaller() -> None:
    node = Node(in_per_s=10)
    node.gate.on_verdict("made up", Verdict(at_ms=0, until_ms=0, shares={"no": 0.5, "such": 0.5}), 0.0, 0.0)
    assert node.gate.nodes == 1


@pytest.mark.parametrize("in_per_s", [5e-324, 1e-300, 1e-9])
def test_of_next_to_nothing_one_is_told_to_come_back_in_an_hour(in_per_s: float) -> None:
    node = Node(in_per_s=in_per_s)
    assert isinstance(node.gate.admit("a", 1, 1, 0.0), Admitted)
    # A share of it may be no number above 0 at all.
    node.hear({"http-1": 0.5, "http-2": 0.5}, 0.0)
    answer = node.gate.admit("a", 1, 1, 0.0)
    assert isinstance(answer, GateRefused)
    assert answer.retry_after_s == RETRY_AFTER_S_MAX == 3600


def test_of_two_limits_the_one_that_takes_longer_is_named() -> None:
    node = Node(in_per_s=10, in_bytes_per_s=100, burst_s=1)
    assert isinstance(node.gate.admit("a", 1, 100, 0.0), Admitted)
    answer = node.gate.admit("a", 1, 50, 0.0)
    assert isinstance(answer, GateRefused)
    assert (answer.limit, answer.allowed) == ("in_bytes_per_s", 100)
    assert answer.retry_after_s == pytest.approx(0.5)
    assert isinstance(node.gate.admit("a", 9, 1, 0.5), Admitted), "what was refused cost nothing"


def test_the_rate_holds_over_time_and_for_others_nothing_changes() -> None:
    node = Node(in_per_s=10, burst_s=2)
    assert node.let_in(0, 60, 100) == pytest.approx(620, abs=2)
    assert node.gate.admit("other", 10**6, 0, 60.0) == Admitted("default")


def test_a_batch_larger_than_the_burst_passes_at_some_time() -> None:
    node = Node(in_per_s=10, burst_s=2)
    assert isinstance(node.gate.admit("a", 1000, 0, 0.0), Admitted)
    answer = node.gate.admit("a", 1000, 0, 0.0)
    assert isinstance(answer, GateRefused)
    assert isinstance(node.gate.admit("a", 1000, 0, answer.retry_after_s), Admitted)


def test_a_rate_of_less_than_one_a_burst_lets_one_in() -> None:
    node = Node(in_per_s=0.1, burst_s=2)
    assert isinstance(node.gate.admit("a", 1, 0, 0.0), Admitted)
    assert isinstance(node.gate.admit("a", 1, 0, 9.9), GateRefused)
    assert isinstance(node.gate.admit("a", 1, 0, 10.0), Admitted)


def test_an_agreement_that_is_raised_counts_at_once() -> None:
    node = Node(in_per_s=10, burst_s=2)
    node.let_in(0, 10, 100)
    assert node.let_in(10, 20, 100) == pytest.approx(100, abs=1)
    node.agree(in_per_s=1000)
    node.gate.on_agreement(node.table.of("a"), 20.0)
    assert node.let_in(20.1, 30.1, 1000) == pytest.approx(10_000, abs=10)


def test_a_node_that_verdicts_do_not_name_begins_with_an_equal_share() -> None:
    node = Node(in_per_s=30, burst_s=1)
    assert node.gate.nodes == 1
    node.hear({"http-2": 0.5, "gateway-3": 0.5}, now_s=0.0)
    assert node.gate.nodes == 3
    assert node.let_in(0, 10, 100) == pytest.approx(110, abs=2)


def test_a_share_is_taken_over_from_the_verdict_for_as_long_as_it_counts() -> None:
    node = Node(in_per_s=30, burst_s=1)
    node.let_in(-10, 0, 100)
    for second in range(10):
        node.hear({"http-1": 0.9, "http-2": 0.1}, now_s=second)
        assert node.let_in(second, second + 1, 100) == pytest.approx(27, abs=4)
    # The job is silent. The last verdict, of 9.0, counts until 29.0.
    assert node.let_in(10, 29, 100) == pytest.approx(19 * 27, abs=4)
    node.let_in(29, 30, 100)
    assert node.let_in(30, 40, 100) == pytest.approx(150, abs=2), "1/n; in the silence no node is forgotten"


def test_a_verdict_that_comes_late_counts_for_less_long() -> None:
    node = Node(in_per_s=30, burst_s=1)
    node.hear({"http-1": 1.0, "http-2": 0.0}, now_s=0.0, age_s=15.0)
    node.let_in(0, 5, 100)
    assert node.let_in(5, 15, 100) == pytest.approx(150, abs=2)
    node.hear({"http-1": 1.0}, now_s=15.0, age_s=21.0)
    assert node.gate.verdict_of("acme", 15.0) is None


def test_a_node_that_is_not_named_for_a_minute_is_gone() -> None:
    node = Node(in_per_s=30)
    node.hear({"http-1": 0.5, "http-2": 0.5}, now_s=0.0)
    for second in range(59):
        node.hear({"http-1": 1.0}, now_s=second)
    assert node.gate.nodes == 2
    node.hear({"http-1": 1.0}, now_s=61.0)
    assert node.gate.nodes == 1


def test_a_share_of_nothing_still_lets_a_little_in() -> None:
    node = Node(in_per_s=1000, burst_s=1)
    node.hear({"http-1": 0.0, "http-2": 1.0}, now_s=0.0)
    assert 5 <= node.let_in(0, 1, 1000) <= 25


def test_a_refusal_names_what_was_measured_over_all_nodes() -> None:
    node = Node(in_per_s=10, burst_s=1)
    node.hear({"http-1": 1.0}, now_s=0.0, publishes=500.0, refused=100.0)
    node.let_in(0, 1, 10)
    answer = node.gate.admit("a", 10, 0, 0.9)
    assert isinstance(answer, GateRefused)
    assert answer.measured == 600


def test_three_nodes_with_verdicts_let_in_the_whole_rate_and_no_more() -> None:
    nodes = [Node(f"http-{i}", in_per_s=300, burst_s=1) for i in range(3)]
    total = 0
    for second in range(2, 32):
        shares = {"http-0": 0.98, "http-1": 0.01, "http-2": 0.01}
        for node, wanted_per_s in zip(nodes, (1000, 10, 0), strict=True):
            node.hear(shares, now_s=second)
            if wanted_per_s:
                total += node.let_in(second, second + 1, wanted_per_s)
    assert total == pytest.approx(30 * 300, rel=0.1)


def test_those_nearest_to_their_agreement_are_found() -> None:
    node = Node(in_per_s=10, clients_max=100)
    assert node.gate.fullest(0.0, 0.5, 20) == []
    verdict = Verdict(at_ms=0, until_ms=0, per_min=Rates(publishes=540), gauges=TenantCounters(clients=95))
    node.gate.on_verdict("acme", verdict, 0.0, 0.0)
    assert node.gate.fullest(0.0, 0.5, 20) == [("acme", "clients_max", 0.95), ("acme", "in_per_s", 0.9)]
    assert node.gate.fullest(0.0, 0.91, 20) == [("acme", "clients_max", 0.95)]
    assert node.gate.fullest(0.0, 0.5, 1) == [("acme", "clients_max", 0.95)]
    assert node.gate.fullest(20.0, 0.5, 20) == []
    assert node.gate.verdict_age_s(5.0) == 5.0


def test_a_tenant_that_is_gone_leaves_nothing_behind() -> None:
    node = Node(in_per_s=1, burst_s=1)
    node.hear({"http-1": 1.0}, now_s=0.0)
    node.let_in(0, 1, 10)
    node.table.remove("acme")
    node.gate.forget("acme")
    node.hear({"http-1": 1.0}, now_s=1.0)
    assert node.gate.verdict_of("acme", 1.0) is None
    assert node.gate.admit("a", 1000, 0, 1.0) == Admitted("default")


def told(per_publish: float, **more: float) -> Verdict:
    """A minute's verdict of a tenant whose publishes led to so many deliveries each, half of which were spared."""
    half = 100 * per_publish / 2
    counted = Rates(publishes=100, deliveries=half, thinned=half, out_bytes=10 * half)
    return Verdict(at_ms=0, until_ms=0, per_min=counted, shares={"http-1": 1.0}, **more)  # type: ignore[arg-type]


def test_who_asks_for_it_is_refused_for_what_a_publish_would_lead_to() -> None:
    node = Node(out_per_s=100, burst_s=1, over="refuse")  # type: ignore[arg-type]
    assert node.let_in(0, 10, 100) == 1000, "nobody has measured what they lead to"
    node.gate.on_verdict("acme", told(50), 0.0, 10.0)
    assert node.let_in(10, 20, 10) == pytest.approx(2 * 10 + 2, abs=1)
    assert isinstance(node.gate.admit("a", 1, 1, 20.0), Admitted)
    answer = node.gate.admit("a", 1, 1, 20.0)
    assert isinstance(answer, GateRefused)
    assert (answer.limit, answer.allowed) == ("out_per_s", 100)
    assert answer.measured > 100
    assert answer.retry_after_s > 0


def test_bytes_that_would_go_out_count_alike() -> None:
    node = Node(out_bytes_per_s=1000, burst_s=1, over="refuse")  # type: ignore[arg-type]
    node.gate.on_verdict("acme", told(50), 0.0, 0.0)
    assert node.let_in(0, 10, 10) == pytest.approx(2 * 10 + 2, abs=1)
    assert isinstance(node.gate.admit("a", 1, 1, 10.0), Admitted)
    answer = node.gate.admit("a", 1, 1, 10.0)
    assert isinstance(answer, GateRefused)
    assert answer.limit == "out_bytes_per_s"


def test_where_deliveries_are_thinned_nothing_is_refused_for_them() -> None:
    node = Node(out_per_s=1, burst_s=1)
    node.gate.on_verdict("acme", told(50), 0.0, 0.0)
    assert node.let_in(0, 10, 100) == 1000


def test_a_matcher_has_the_share_that_a_verdict_gives_it() -> None:
    node = Node("matcher-1", out_per_s=100)
    assert node.gate.out_share("acme", 0.0) == 1.0
    node.gate.on_verdict("acme", told(1, out_shares={"matcher-1": 0.75, "matcher-2": 0.25}), 0.0, 0.0)  # type: ignore[arg-type]
    assert node.gate.out_share("acme", 1.0) == 0.75
    assert node.gate.out_share("another", 1.0) == 0.5, "two matchers are known"
    assert node.gate.out_share("acme", 21.0) == 0.5, "the verdict has expired"
