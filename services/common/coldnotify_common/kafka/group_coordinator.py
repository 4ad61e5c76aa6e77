"""Asks the coordinator of a consumer group for its static members, and removes one: no Kafka client library can.

librdkafka and aiokafka send LeaveGroup for themselves only, and have no removeMembersFromConsumerGroup().
"""

import asyncio
from typing import TypeVar

from coldnotify_schemas.host_port import host_port

from coldnotify_common.errors import ServiceError
from coldnotify_common.kafka.group_protocol import (
    GroupError,
    GroupRequest,
    MalformedAnswer,
    StaticMember,
    describe_group,
    find_coordinator,
    leave_group,
)
from coldnotify_common.kafka.kafka_login import Login
from coldnotify_common.kafka.kafka_node import KafkaNode, bootstrap_places
from coldnotify_common.kafka.scram import ScramError

T = TypeVar("T")

_GONE = (GroupError.UNKNOWN_MEMBER_ID, GroupError.FENCED_INSTANCE_ID)


class CoordinatorUnavailable(ServiceError):
    """No node answers for the group now, or it refuses to; the message says why."""


class GroupCoordinator:
    """Speaks with the coordinator of one group over one connection, made when it is needed. One event loop uses it.

    Its questions need the right to read the group, which every member has.
    """

    def __init__(self, bootstrap: str, login: Login, group: str) -> None:
        self._bootstrap = bootstrap
        self._login = login
        self._group = group
        self._node: KafkaNode | None = None
        self._asking = asyncio.Lock()

    async def members(self) -> dict[str, StaticMember]:
        """Returns the group's static members by group.instance.id. Raises CoordinatorUnavailable."""
        found = await self._ask(describe_group(self._group))
        if found.error:
            self._forget()
            raise CoordinatorUnavailable(f"Kafka does not describe group {self._group}: error {found.error}")
        return found.members

    async def remove(self, instance: str, member: str) -> bool:
        """Removes a static member, unless its id is another one by now. Returns true if it is gone by this.

        Raises CoordinatorUnavailable: then it may be gone or not.
        """
        error = await self._ask(leave_group(self._group, instance, member))
        if error in _GONE:
            return False
        if error:
            self._forget()
            raise CoordinatorUnavailable(f"Kafka does not remove {instance} from group {self._group}: error {error}")
        return True

    def close(self) -> None:
        """Closes the connection; the next question opens another one."""
        self._forget()

    async def _ask(self, request: GroupRequest[T]) -> T:
        async with self._asking:
            try:
                if self._node is None:
                    self._node = await self._find()
                return await self._node.ask(request)
            except (OSError, EOFError, MalformedAnswer, ScramError, ValueError) as error:
                self._forget()
                why = str(error) or type(error).__name__
                raise CoordinatorUnavailable(f"the coordinator of group {self._group}: {why}") from None
            except BaseException:
                self._forget()  # an answer may be under way
                raise

    async def _find(self) -> KafkaNode:
        last: Exception = ValueError("there are no bootstrap servers")
        for one in bootstrap_places(self._bootstrap):
            try:
                node = await KafkaNode.connect(*one, self._login)
                try:
                    found = await node.ask(find_coordinator(self._group))
                finally:
                    node.close()
                if found.error:
                    raise MalformedAnswer(f"not known by {host_port(*one)}: error {found.error}")
                return await KafkaNode.connect(found.host, found.port, self._login)
            except (OSError, EOFError, MalformedAnswer) as error:
                last = error
        raise last

    def _forget(self) -> None:
        node, self._node = self._node, None
        if node is not None:
            node.close()
