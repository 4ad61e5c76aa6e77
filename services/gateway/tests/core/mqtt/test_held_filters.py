"""Held filters: what fits a name, and in which manner it is told."""

import pytest
from coldnotify_gateway.core.mqtt.held_filters import (
    NO_FILTERS,
    HeldFilter,
    held,
    manner,
    of_interests,
    of_subscription,
)
from coldnotify_schemas.interests import filter_hash
from coldnotify_schemas.mqtt.packets import TopicSubscription

A, B = HeldFilter("a/+", 1, 5), HeldFilter("#", 0, 6)


def test_equal_lists_are_one_object_in_whatever_order() -> None:
    assert held([A, B]) is held([B, A])
    assert held([A]) is not held([B])
    assert held([A, A._replace(options=0)]) is held([A._replace(options=0)]), "the last one counts"


@pytest.mark.parametrize("more", [0, 20])
def test_the_filters_that_fit_with_and_without_a_trie(more: int) -> None:
    filters = held([A, B, *(HeldFilter(f"x/{number}") for number in range(more))])
    assert set(filters.fitting("a/b")) == {A, B}
    assert filters.fitting("a/b") is filters.fitting("a/b"), "asked for once"
    assert filters.fitting("b") == (B,)
    assert filters.fitting("$SYS") == filters.fitting("a+b") == ()


def test_the_digest_is_that_of_the_registered_set() -> None:
    assert held([A, B]).digest == (filter_hash("a/+") + filter_hash("#")) % 2**64
    assert NO_FILTERS.digest == 0


def test_filters_come_and_go() -> None:
    both = held([A]).with_filters([B, A._replace(options=0)])
    assert both.by_text["a/+"].options == 0
    assert len(both) == 2
    assert both.without(["a/+", "never"]) is held([B])
    assert both.named([filter_hash("#"), 17]) == (B,)


def test_options_are_those_of_a_subscribe() -> None:
    one = of_subscription(TopicSubscription("a", 2, True, True, 2), 7)
    assert (one.qos, one.no_local, one.retain_as_published, one.options, one.identifier) == (1, True, True, 0x2E, 7)
    assert of_interests([one.interest()]) is held([one])


def test_a_manner_is_of_all_filters_together() -> None:
    assert manner([A, B], retain=True) == (1, True, (5, 6))
    assert manner([B], retain=False) == (0, False, (6,))
    assert manner([HeldFilter("a", 1)], retain=False).identifiers == ()
