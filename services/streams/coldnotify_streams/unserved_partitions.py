"""Partitions that the consumer group has given to nobody: a matcher that has just begun looks, and joins again.

A cooperative rebalance moves partitions in two rounds: the first takes them from one member, which then joins again, so
that the second gives them to another. A static member that is started anew in between gets back what the first round
left it with, and there is no second one: to Kafka nothing has changed, and nobody would ever serve them. (Seen with
Kafka 4 and librdkafka 2.16; a test does it.) A member that leaves off and joins again begins a rebalance.
"""

import struct
import warnings
from typing import Any, NamedTuple

import structlog
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

log = structlog.get_logger()

_STABLE = "Stable"


class Members(NamedTuple):
    """What a consumer group says of itself."""

    stable: bool
    """No rebalance is under way."""
    assigned: dict[str, frozenset[int]]
    """By the member's id, its partitions of all topics."""


def members_of(admin: AdminClient, group: str, timeout_s: float) -> Members:
    """Ask all brokers. Raises KafkaException, also where one of them does not answer.

    By the call that is deprecated: describe_consumer_groups() aborts the process (an assertion of librdkafka 2.16) when
    the node that it asks dies meanwhile.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        found: Any = admin.list_groups(group, timeout_s)
    stable = bool(found) and found[0].state == _STABLE
    members = found[0].members if found else ()
    return Members(stable, {member.id: partitions_of(member.assignment) for member in members})


def partitions_of(assignment: bytes | None) -> frozenset[int]:
    """The partitions in a member's assignment, as Kafka's ConsumerProtocolAssignment has it, of all topics."""
    if not assignment:
        return frozenset()
    partitions: set[int] = set()
    (topics,) = struct.unpack_from(">i", assignment, 2)  # behind the version
    at = 6
    for _ in range(topics):
        (name_bytes,) = struct.unpack_from(">h", assignment, at)
        at += 2 + name_bytes
        (count,) = struct.unpack_from(">i", assignment, at)
        partitions.update(struct.unpack_from(f">{count}i", assignment, at + 4))
        at += 4 + 4 * count
    return frozenset(partitions)


class Unserved:
    """Looks until the group has settled and lacks nothing. Used by one thread.

    It needs all brokers: while one is down, it is not known who serves what, and it looks on.
    """

    def __init__(self, partitions: int) -> None:
        self._all = frozenset(range(partitions))
        self._before: Members | None = None
        self.settled = False
        """Nothing is left to be looked for: it takes another start to upset the group."""

    def must_join_again(self, members: Members) -> bool:
        """Whether to: partitions are missing, although the group has settled and was the same at the look before."""
        before, self._before = self._before, members
        if not members.stable or members != before:
            return False
        missing = self._all.difference(*members.assigned.values())
        self.settled = not missing
        if missing:
            self._before = None
            log.warning("partitions that the group has given to nobody: joining again", partitions=sorted(missing))
        return bool(missing)

    def look(self, admin: AdminClient, group: str, timeout_s: float) -> bool:
        """`must_join_again` by what the group says now; False where it says nothing."""
        try:
            members = members_of(admin, group, timeout_s)
        except (KafkaException, struct.error) as error:
            log.warning("who serves which partitions is not known", error=str(error))
            self._before = None
            return False
        return self.must_join_again(members)
