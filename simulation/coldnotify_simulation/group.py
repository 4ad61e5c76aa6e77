"""The matchers' consumer group: assigns partitions, and decides which commits count."""

from random import Random
from typing import Protocol

from coldnotify_simulation.clock import Clock
from coldnotify_simulation.kafka import PARTITIONS

SESSION_TIMEOUT_S = 6.0
"""A member that is not heard of for so long is out."""
_ASK_AGAIN_S = 0.05


class SimulatedMember(Protocol):
    """One run of a matcher."""

    @property
    def responsive(self) -> bool:
        """True if the member answers the group."""

    def assign(self, partition: int) -> None:
        """Serve this partition from now on."""

    def revoke(self, partition: int) -> None:
        """Commit it, then `release` it."""


class Group:
    """The coordinator. Partitions move one at a time, cooperatively; those of a lost member at once."""

    def __init__(self, clock: Clock, random: Random) -> None:
        self._clock = clock
        self._random = random
        self.members: list[SimulatedMember] = []
        self.owners: dict[int, SimulatedMember | None] = dict.fromkeys(range(PARTITIONS))
        self._balancing = False
        self._revoked: dict[int, SimulatedMember] = {}
        """Partitions that were revoked, and not released yet."""

    def owns(self, member: SimulatedMember, partition: int) -> bool:
        """Returns true if a commit of this member counts."""
        return self.owners[partition] is member

    def join(self, member: SimulatedMember) -> None:
        """A member comes."""
        if member not in self.members:
            self.members.append(member)
        self._balance_soon()

    def leave(self, member: SimulatedMember) -> None:
        """A member goes, or has not been heard of for too long."""
        if member in self.members:
            self.members.remove(member)
        for partition, owner in self.owners.items():
            if owner is member:
                self.owners[partition] = None
                self._revoked.pop(partition, None)
        self._balance_soon()

    def release(self, member: SimulatedMember, partition: int) -> None:
        """A member lets a partition go, as it was asked to."""
        self._revoked.pop(partition, None)
        if self.owners[partition] is member:
            self.owners[partition] = None
            self._balance_soon()

    def _balance_soon(self) -> None:
        if not self._balancing:
            self._balancing = True
            self._clock.later(_ASK_AGAIN_S, self._balance)

    def _balance(self) -> None:
        self._balancing = False
        if not self.members:
            return
        most = -(-PARTITIONS // len(self.members))
        for partition, owner in self.owners.items():
            if owner is None:
                self._give(partition)
            elif self._load_of(owner) > most and partition not in self._revoked:
                if owner.responsive:
                    self._revoked[partition] = owner
                    owner.revoke(partition)
                else:
                    self._balance_soon()

    def _load_of(self, member: SimulatedMember) -> int:
        """Returns how many partitions it has, and keeps."""
        return sum(owner is member and n not in self._revoked for n, owner in self.owners.items())

    def _give(self, partition: int) -> None:
        loads = {id(m): list(self.owners.values()).count(m) for m in self.members}
        least = min(loads.values())
        member = self._random.choice([m for m in self.members if loads[id(m)] == least])
        self.owners[partition] = member
        member.assign(partition)
