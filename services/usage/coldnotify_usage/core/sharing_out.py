"""Which part of an agreement each node may let in: `share_out`, from what each of them had to do."""

from collections.abc import Mapping

HEADROOM = 1.25
"""A node is given so much more than it had to do: else it could not grow before the next verdict."""
KEPT_FOR_ALL = 0.04
"""Of the whole, what all nodes have in equal parts whatever they had to do: the first publishes at an idle node.

A tenant whose publishers are all at one node has 95 % of its agreement there, of however many nodes."""


def share_out(demand: Mapping[str, float]) -> dict[str, float]:
    """Each node's share; together 1, or nothing where there is no node.

    `demand`: by node, what it had to do, refused or not, as a part of the agreement. Where all fit, what is left over
    is split evenly. Where they do not, the smallest are served first and nobody gets more than an even part of the
    rest (max-min fairness).
    """
    if not demand:
        return {}
    nodes = len(demand)
    floor = KEPT_FOR_ALL / nodes
    left = 1.0 - KEPT_FOR_ALL
    shares = {}
    by_demand = sorted(demand.items(), key=lambda item: (item[1], item[0]))
    for served, (node, wanted) in enumerate(by_demand):
        part = min(max(wanted * HEADROOM - floor, 0.0), left / (nodes - served))
        shares[node] = floor + part
        left -= part
    for node in shares:
        shares[node] += max(left, 0.0) / nodes
    return shares
