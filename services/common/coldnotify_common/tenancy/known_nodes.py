"""Counts the nodes that share an agreement, as named by verdicts. Pure."""

from collections.abc import Iterable

NODES_MAX = 1_000
NODE_SEEN_S = 60.0
"""A node is removed after this time without a verdict that names it, counted only while verdicts arrive."""


class KnownNodes:
    """This node, and the nodes named in the last minute of verdicts. Times are of one clock, in s."""

    def __init__(self, this: str) -> None:
        self._this = this
        self._named_s: dict[str, float] = {}
        """Times at which the newest verdict that names each node was made."""
        self._newest_s = float("-inf")

    def on_verdict(self, nodes: Iterable[str], made_s: float) -> None:
        """Records that a verdict made at `made_s` names these nodes."""
        named_s = self._named_s
        for node in nodes:
            if made_s > named_s.get(node, float("-inf")) and (node in named_s or len(named_s) < NODES_MAX):
                named_s[node] = made_s
        if made_s > self._newest_s:
            self._newest_s = made_s
            for node in [node for node, at_s in named_s.items() if at_s < made_s - NODE_SEEN_S]:
                del named_s[node]

    def __len__(self) -> int:
        return len(self._named_s) + (self._this not in self._named_s)
