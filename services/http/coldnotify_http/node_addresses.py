"""Addresses of matchers and gateways: those that a setting names; without it those of the nodes that run."""

from collections.abc import Sequence
from typing import Protocol

from coldnotify_common.nodes import SeenNode

ASKED_MAX = 256
"""Limit on the addresses of one role: all of them are asked at a time. The first ones by their keys."""


class SeenNodes(Protocol):
    """Nodes as coldnotify_common.nodes_reader reads them."""

    unknown: str | None

    def seen(self, role: str = "") -> list[SeenNode]:
        """Returns the nodes of a role, silent ones included."""


class NodeAddresses:
    """The addresses of one role, as they are at the moment."""

    def __init__(
        self, role: str, name: str, *, said: Sequence[str], default: str, nodes: SeenNodes | None = None
    ) -> None:
        """`name`: the kind of address. `said`: what the setting names. `default`: asked while nodes cannot be known,
        because Kafka has no such topic or does not answer."""
        self._role, self._name = role, name
        self._said = list(said)
        self._default = default
        self._nodes = nodes

    def now(self, *, ready: bool = False) -> list[str]:
        """Returns the addresses. `ready`: those of nodes that are ready come alone, if there are any."""
        if self._said:
            return list(self._said)
        if self._nodes is None:
            return [self._default]
        counting = [one.node for one in self._nodes.seen(self._role) if one.counts and self._name in one.node.addresses]
        if ready:
            counting = [node for node in counting if node.ready] or counting
        found = list(dict.fromkeys(node.addresses[self._name] for node in counting))
        if not found and self._nodes.unknown is not None:
            return [self._default]
        return found[:ASKED_MAX]

    def silent(self) -> list[tuple[str, float]]:
        """Returns the addresses of nodes that have not ended and whose record is too old, each with its age in s."""
        if self._said or self._nodes is None:
            return []
        seen = [one for one in self._nodes.seen(self._role) if self._name in one.node.addresses]
        alive = {one.node.addresses[self._name] for one in seen if one.counts}
        ages: dict[str, float] = {}
        for one in seen:
            address = one.node.addresses[self._name]
            if address not in alive:
                ages[address] = min(one.age_s, ages.get(address, one.age_s))
        return list(ages.items())[:ASKED_MAX]
