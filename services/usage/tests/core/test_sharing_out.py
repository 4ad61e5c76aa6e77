"""Shares of an agreement among nodes."""

import itertools

import pytest
from coldnotify_usage.core.sharing_out import KEPT_FOR_ALL, share_out
from hypothesis import given
from hypothesis import strategies as st

demands = st.dictionaries(st.text("abcdefgh", min_size=1, max_size=3), st.floats(0, 1000), min_size=1, max_size=12)


@given(demands)
def test_the_shares_add_up_to_one(demand: dict[str, float]) -> None:
    shares = share_out(demand)
    assert shares.keys() == demand.keys()
    assert sum(shares.values()) == pytest.approx(1)
    assert min(shares.values()) >= KEPT_FOR_ALL / len(demand) * 0.999


@given(demands)
def test_a_node_with_more_demand_never_gets_less(demand: dict[str, float]) -> None:
    shares = share_out(demand)
    ordered = [shares[node] for node in sorted(demand, key=lambda node: demand[node])]
    assert all(a <= b + 1e-9 for a, b in itertools.pairwise(ordered))


@pytest.mark.parametrize("idle", [0, 1, 2, 10, 100])
def test_one_busy_node_among_idle_ones_gets_nearly_everything(idle: int) -> None:
    assert share_out({"busy": 1.0} | {f"idle {number}": 0.0 for number in range(idle)})["busy"] >= 0.95


def test_demands_that_fit_are_all_met() -> None:
    shares = share_out({"a": 0.5, "b": 0.2, "c": 0.0})
    assert shares["a"] >= 0.5
    assert shares["b"] >= 0.2


def test_in_a_shortage_no_node_is_starved() -> None:
    shares = share_out({"a": 5.0, "b": 3.0, "c": 0.1})
    assert shares["a"] == pytest.approx(shares["b"])
    assert shares["c"] >= 0.1


def test_without_nodes_there_are_no_shares() -> None:
    assert share_out({}) == {}
