"""Finds partitions that the consumer group has assigned to nobody: then a new member joins the group again.

A cooperative rebalance moves partitions in two rounds: the first takes them from one member, which then joins again, so
that the second gives them to another. A static member that is restarted in between gets back what the first round left
it with, and the second never comes: to Kafka nothing has changed, and nobody would ever serve the missing partitions.
(Seen with Kafka 4 and librdkafka 2.16; a test reproduces it.) A member that leaves and joins again starts a rebalance.
"""

import struct
import warnings
from typing import Any, NamedTuple

import structlog
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

log = structlog.get_logger()

_STABLE = "Stable"


class GroupMembers(NamedTuple):
    """The members of a consumer group, as Kafka reports them."""

    stable: bool
    """True if no rebalance is under way."""
    assigned: dict[str, frozenset[int]]
    """Each member's partitions of all topics, by the member's id."""


def members_of(admin: AdminClient, group: str, timeout_s: float) -> GroupMembers:
    """Asks all brokers for the group. Raises KafkaException, also if one of them does not answer.

    It uses the deprecated call: describe_consumer_groups() aborts the process (an assertion of librdkafka 2.16) if the
    node that it asks dies meanwhile.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        found: Any = admin.list_groups(group, timeout_s)
    stable = bool(found) and found[0].state == _STABLE
    members = found[0].members if found else ()
    return GroupMembers(stable, {member.id: partitions_of(member.assignment) for member in members})


def partitions_of(assignment: bytes | None) -> frozenset[int]:
    """Returns the partitions of all topics in a member's assignment, which has Kafka's ConsumerProtocolAssignment
    format.
    """
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
    """Checks the group until it is stable and lacks nothing. One thread uses it.

    It needs all brokers: while one is down, it is not known who serves what, and it continues to check.
    """

    def __init__(self, partitions: int) -> None:
        self._all = frozenset(range(partitions))
        self._before: GroupMembers | None = None
        self.settled = False
        """True once nothing is left to check: only another start upsets the group."""

    def must_join_again(self, members: GroupMembers) -> bool:
        """Returns true if partitions are missing although the group is stable and unchanged since the last look."""
        before, self._before = self._before, members
        if not members.stable or members != before:
            return False
        missing = self._all.difference(*members.assigned.values())
        self.settled = not missing
        if missing:
            self._before = None
            log.warning("partitions given to nobody: joining the group again", partitions=sorted(missing))
        return bool(missing)

    def look(self, admin: AdminClient, group: str, timeout_s: float) -> bool:
        """Asks Kafka for the group and returns `must_join_again` of it; false if Kafka does not answer."""
        try:
            members = members_of(admin, group, timeout_s)
        except (KafkaException, struct.error) as error:
            log.warning("cannot read the members of the consumer group", error=str(error))
            self._before = None
            return False
        return self.must_join_again(members)
