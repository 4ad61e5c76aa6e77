"""Nodes that share an agreement: those of the last minute of verdicts, and this one."""

from coldnotify_common.tenancy.known_nodes import NODE_SEEN_S, NODES_MAX, KnownNodes


def test_this_node_is_one_whether_it_is_named_or_not() -> None:
    nodes = KnownNodes("me")
    assert len(nodes) == 1
    nodes.on_verdict(["me"], 1.0)
    assert len(nodes) == 1
    nodes.on_verdict(["other"], 2.0)
    assert len(nodes) == 2


def test_who_is_not_named_for_a_minute_of_verdicts_is_gone() -> None:
    nodes = KnownNodes("me")
    nodes.on_verdict(["other", "third"], 0.0)
    nodes.on_verdict(["third"], NODE_SEEN_S)
    assert len(nodes) == 3
    nodes.on_verdict([], NODE_SEEN_S + 1)
    assert len(nodes) == 2
    nodes.on_verdict(["other"], 1.0)
    assert len(nodes) == 3, "an old verdict may come late"


def test_their_number_is_bounded() -> None:
    nodes = KnownNodes("me")
    nodes.on_verdict(map(str, range(2 * NODES_MAX)), 0.0)
    assert len(nodes) == NODES_MAX + 1
