"""The other gateways, as the nodes topic describes them."""

from collections.abc import Sequence
from typing import Protocol

from coldnotify_common.nodes import HTTPS, INSIDE, Node
from coldnotify_common.placement.fair_shares import GatewayShare
from coldnotify_schemas.host_port import parse_host_port

from coldnotify_gateway.peers import Place

_ROLE = "gateway"


class RunningNodes(Protocol):
    """Nodes as coldnotify_common.nodes_reader reads them."""

    unknown: str | None

    def nodes(self, role: str = "") -> list[Node]:
        """Returns the nodes of a role that count."""


class Neighbours:
    """All gateways but this one. While Kafka is silent, those of before stay known."""

    def __init__(self, nodes: RunningNodes, own_id: str, named: Sequence[Place] = ()) -> None:
        """`named`: the HTTP ports to ask, whatever the topic says."""
        self._nodes = nodes
        self._own_id = own_id
        self._named = list(named)

    def places(self) -> list[Place]:
        """Returns their HTTP ports."""
        if self._named:
            return self._named
        inside = (node.addresses.get(INSIDE) for node in self._others())
        return [parse_host_port(one.removeprefix(HTTPS)) for one in inside if one]

    def shares(self) -> list[GatewayShare] | None:
        """Returns the numbers of those that are ready; None: gateways are not known."""
        if self._nodes.unknown is not None:
            return None
        return [
            GatewayShare(node.connections, node.limit, node.weight, node.home) for node in self._others() if node.ready
        ]

    def _others(self) -> list[Node]:
        return [node for node in self._nodes.nodes(_ROLE) if node.id != self._own_id]
