"""Filters `$share/NAME/TOPIC` of MQTT clients: each names a share of a channel."""

from typing import NamedTuple

from coldnotify_schemas.filters import InvalidFilter, check_filter, is_exact
from coldnotify_schemas.mqtt.reasons import ReasonCode
from coldnotify_schemas.names import InvalidName
from coldnotify_schemas.share_names import check_share

PREFIX = "$share/"
QOS_0 = "$share: needs QoS 1, as a task is settled by its PUBACK"
WILDCARD = "$share: the topic is one channel's, without + and #"


class SharedTopic(NamedTuple):
    """The parts of such a filter."""

    share: str
    channel: str


class RefusedShare(NamedTuple):
    """The answer to a filter that names no share that a client can be a member of."""

    code: ReasonCode
    words: str


def is_shared(text: str) -> bool:
    """Returns true if a filter is meant to be one of these."""
    return text.startswith(PREFIX)


def topic_of(text: str) -> SharedTopic:
    """Returns the parts of a filter that was checked."""
    _, share, channel = text.split("/", 2)
    return SharedTopic(share, channel)


def text_of(share: str, channel: str) -> str:
    """Returns the filter of these parts."""
    return f"{PREFIX}{share}/{channel}"


def why_not_shared(text: str, qos: int) -> RefusedShare | None:
    """Returns the reason why nobody can subscribe to such a filter with this QoS; None: the service decides."""
    parts = text.split("/", 2)
    if len(parts) < 3 or not parts[2]:
        return RefusedShare(ReasonCode.TOPIC_FILTER_INVALID, "$share: has to be $share/NAME/TOPIC")
    _, share, channel = parts
    try:
        check_filter(channel)
        if not is_exact(channel):
            return RefusedShare(ReasonCode.WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED, WILDCARD)
        check_share(share, channel)
    except (InvalidFilter, InvalidName) as error:
        return RefusedShare(ReasonCode.TOPIC_FILTER_INVALID, str(error))
    if not qos:
        return RefusedShare(ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR, QOS_0)
    return None
