"""For tests: nodes as a reader of the nodes topic would know them, without Kafka."""

from coldnotify_common.nodes import ANONYMOUS, Node, NodeKey, SeenNode


class NodesDouble:
    """Stands for a NodesReader. `add` has a node known."""

    def __init__(self, unknown: str | None = None) -> None:
        self.unknown = unknown
        self._seen: list[SeenNode] = []

    def add(self, role: str, name: str, *, age_s: float = 0.0, ready: bool = True, **addresses: str) -> None:
        """Adds a node that has these addresses, by their names."""
        node = Node(role=role, id=name, ready=ready, addresses=addresses, labels={"zone": "a"})
        self._seen.append(SeenNode(NodeKey(role, ANONYMOUS, name), node, age_s))

    def seen(self, role: str = "") -> list[SeenNode]:
        """Returns the nodes of a role, or all of them."""
        return sorted(one for one in self._seen if role in ("", one.key.role))

    def passed_over(self) -> tuple[int, str]:
        """Returns what a reader would have passed over: nothing."""
        return 0, ""
