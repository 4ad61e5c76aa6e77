"""Finds partitions that an open Kafka transaction holds up: no reader is given the records behind its first one."""

import time
from collections.abc import Callable, Collection

from coldnotify_streams.log_ends import log_ends
from confluent_kafka.admin import AdminClient

_BETWEEN_S = 1.0
"""Between two looks: a transaction that commits meanwhile holds nothing up."""


def held_up(
    admin: AdminClient,
    partitions: Collection[tuple[str, int]],
    pause: Callable[[], None] = lambda: time.sleep(_BETWEEN_S),
) -> dict[tuple[str, int], int]:
    """Returns, by (topic, partition), the first offset of the oldest transaction that was open at both looks.

    Raises KafkaUnavailable.
    """
    first = _open(admin, partitions)
    if not first:
        return {}
    pause()
    second = _open(admin, list(first))
    return {place: offset for place, offset in second.items() if offset == first[place]}


def _open(admin: AdminClient, partitions: Collection[tuple[str, int]]) -> dict[tuple[str, int], int]:
    # In this order: a record that comes in between must not look like one that is held up.
    ends = log_ends(admin, partitions, uncommitted=True)
    readable = log_ends(admin, partitions)
    return {place: readable[place] for place in ends if readable[place] < ends[place]}
