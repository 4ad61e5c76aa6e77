"""Partitions that the consumer group has given to nobody, and the member that is to join again because of them.

A cooperative rebalance moves partitions in two rounds: the first takes them from one member, which then joins again, so
that the second gives them to another. A static member that is started anew in between gets back what the first round
left it with, and there is no second one: to Kafka nothing has changed, and nobody would ever serve them. (Seen with
Kafka 4 and librdkafka 2.16; a test restarts both members in between.) Joining again with nothing begins a rebalance.
"""

from typing import Any, NamedTuple

import structlog
from confluent_kafka import ConsumerGroupState, KafkaException
from confluent_kafka.admin import AdminClient

log = structlog.get_logger()


class Members(NamedTuple):
    """What a consumer group says of itself."""

    stable: bool
    """No rebalance is under way."""
    assigned: dict[str, frozenset[int]]
    """By the member's group.instance.id, its partitions."""


def members_of(admin: AdminClient, group: str, timeout_s: float) -> Members:
    """Ask the group's coordinator. Raises KafkaException, TimeoutError."""
    asked = admin.describe_consumer_groups([group], request_timeout=timeout_s)
    found: Any = asked[group].result(timeout_s + 5)
    assigned = {
        member.group_instance_id or member.member_id: frozenset(
            tp.partition for tp in (member.assignment.topic_partitions if member.assignment else ())
        )
        for member in found.members
    }
    return Members(found.state == ConsumerGroupState.STABLE, assigned)


class Unserved:
    """Looks for partitions without a member, as one of the members. Used by one thread."""

    def __init__(self, partitions: int, member: str) -> None:
        self._all = frozenset(range(partitions))
        self._member = member
        self._before: Members | None = None

    def must_join_again(self, members: Members) -> bool:
        """Whether this member is to: the group has settled, the look before was the same, and it has the least to lose.

        It gives up what it has for the time of a rebalance; who has the fewest partitions does, the first of several.
        """
        before, self._before = self._before, members
        missing = self._all.difference(*members.assigned.values())
        if not missing or not members.stable or members != before:
            return False
        if self._member != min(members.assigned, key=lambda name: (len(members.assigned[name]), name)):
            return False
        self._before = None
        log.warning("partitions that the group has given to nobody: joining again", partitions=sorted(missing))
        return True

    def look(self, admin: AdminClient, group: str, timeout_s: float) -> bool:
        """`must_join_again` by what the group says now; False where it says nothing."""
        try:
            members = members_of(admin, group, timeout_s)
        except (KafkaException, TimeoutError) as error:
            log.warning("who serves which partitions is not known", error=str(error))
            self._before = None
            return False
        return self.must_join_again(members)
