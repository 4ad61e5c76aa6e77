"""Divides an agreement among nodes, by each node's demand."""

from collections.abc import Mapping

HEADROOM = 1.25
"""A node is given so much more than it had to do: else it could not grow before the next verdict."""
KEPT_FOR_ALL = 0.04
"""The part of the whole that all nodes share evenly, whatever their demand, for a first publish at an idle node.

A tenant whose publishers are all at one node has 95 % of its agreement there, however many nodes exist.
"""


def share_out(demand: Mapping[str, float]) -> dict[str, float]:
    """Returns each node's share; together 1, or nothing if there are no nodes.

    `demand`: by node, its requests, refused or not, as a part of the agreement. If all fit, the rest is divided evenly.
    If not, the smallest are served first and no node gets more than an even part of the rest (max-min fairness).
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
