"""Fan-outs that a gateway which is behind need not write: a later one says a newer version to the same sessions.

A client is owed the newest version, not each. What the later fan-out says lies above everything that is said to be
complete before it, so a connection that is lost in between leaves a cursor below it, and the next wake tells it.
"""

from collections.abc import Sequence

from coldnotify_schemas.internal_pb2 import Inbox

_SESSION_BYTES = 4


class _Later:
    """What one matcher says of a partition further on, without another one's word in between."""

    def __init__(self, generation: int) -> None:
        self.generation = generation
        self.offsets: dict[tuple[str, bytes], int] = {}
        """Of each object's first fan-out to exactly these sessions, from here on."""


def drop_outdone(records: Sequence[Inbox]) -> int:
    """Takes their sessions from fan-outs that a later one in these records outdoes; how many deliveries that spares.

    `records`: one inbox's, in order. All else is as it was: numbers, what is complete, the order.
    """
    spared = 0
    by_partition: dict[int, _Later] = {}
    for record in reversed(records):
        later = by_partition.get(record.partition)
        # Of two matchers one is stale, and nothing of it may stand for the other's.
        if later is None or later.generation != record.generation:
            later = by_partition[record.partition] = _Later(record.generation)
        if not record.gateway:
            continue  # a takeover, which says nothing else
        for item in reversed(record.items):
            if not item.HasField("fan_out"):
                continue
            fan_out = item.fan_out
            key = (fan_out.newest.name, fan_out.sessions)
            offset = later.offsets.get(key)
            if offset is not None and fan_out.newest.offset < offset:
                spared += len(fan_out.sessions) // _SESSION_BYTES
                fan_out.ClearField("sessions")
            else:
                later.offsets[key] = fan_out.newest.offset
    return spared
