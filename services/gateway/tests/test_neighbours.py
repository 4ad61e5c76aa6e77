"""The other gateways by their records: where they are asked, and their numbers."""

from dataclasses import dataclass, field

from coldnotify_common.nodes import Node
from coldnotify_common.placement.fair_shares import GatewayShare
from coldnotify_gateway.neighbours import Neighbours


@dataclass
class RunningNodesDouble:
    """Nodes without Kafka."""

    unknown: str | None = None
    known: list[Node] = field(default_factory=list)

    def nodes(self, role: str = "") -> list[Node]:
        """Returns the nodes of a role."""
        return [one for one in self.known if role in ("", one.role)]


KNOWN = [
    Node(role="gateway", id="own", addresses={"inside": "own:1"}, ready=True),
    Node(role="gateway", id="b", addresses={"inside": "https://b:2"}, ready=True, connections=5, limit=9, home=1),
    Node(role="gateway", id="c", addresses={"inside": "c:3", "device": "c:4"}, weight=2.0),
    Node(role="gateway", id="d", addresses={"device": "d:4"}, ready=True, weight=0.5),
    Node(role="matcher", id="m", addresses={"inside": "m:1"}, ready=True),
]


def test_all_gateways_but_this_one_are_asked_if_their_ports_are_known() -> None:
    neighbours = Neighbours(RunningNodesDouble(known=KNOWN), "own")
    assert neighbours.places() == [("b", 2), ("c", 3)]


def test_a_setting_comes_before_the_topic() -> None:
    neighbours = Neighbours(RunningNodesDouble(known=KNOWN), "own", [("other", 7)])
    assert neighbours.places() == [("other", 7)]


def test_numbers_are_those_of_gateways_that_are_ready() -> None:
    neighbours = Neighbours(RunningNodesDouble(known=KNOWN), "own")
    assert neighbours.shares() == [GatewayShare(5, 9, 1.0, 1), GatewayShare(0, 0, 0.5)]
    assert Neighbours(RunningNodesDouble("no topic"), "own").shares() is None
