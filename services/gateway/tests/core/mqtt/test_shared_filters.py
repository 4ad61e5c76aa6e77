"""Filters `$share/NAME/TOPIC`: one channel, one share, QoS 1; all else is refused with its reason."""

import pytest
from coldnotify_gateway.core.mqtt.shared_filters import (
    QOS_0,
    WILDCARD,
    RefusedShare,
    is_shared,
    text_of,
    topic_of,
    why_not_shared,
)
from coldnotify_schemas.mqtt.reasons import ReasonCode


def test_a_share_of_a_topic_with_levels() -> None:
    assert is_shared("$share/w/a/b")
    assert not is_shared("a/$share")
    assert topic_of("$share/w/a/b") == ("w", "a/b")
    assert text_of("w", "a/b") == "$share/w/a/b"
    assert why_not_shared("$share/w/a/b", 1) is why_not_shared("$share/w/a/b", 2) is None


@pytest.mark.parametrize(
    ("text", "qos", "refused"),
    [
        ("$share/w/a", 0, RefusedShare(ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR, QOS_0)),
        ("$share/w/a/+", 1, RefusedShare(ReasonCode.WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED, WILDCARD)),
        ("$share/w/#", 0, RefusedShare(ReasonCode.WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED, WILDCARD)),
    ],
)
def test_refusals_of_filters_that_are_well_formed(text: str, qos: int, refused: RefusedShare) -> None:
    assert why_not_shared(text, qos) == refused


@pytest.mark.parametrize(
    "text",
    ["$share/", "$share/w", "$share/w/", "$share//a", "$share/w+/a", "$share/w/a#", "$share/" + 45 * "w" + "/a"],
)
def test_a_filter_that_is_none(text: str) -> None:
    refused = why_not_shared(text, 1)
    assert refused is not None
    assert refused.code is ReasonCode.TOPIC_FILTER_INVALID
    assert refused.words
