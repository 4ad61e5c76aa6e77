"""The addresses that are asked: the setting's, else those of the nodes that run."""

from coldnotify_common.nodes import SILENT_S
from coldnotify_http.node_addresses import ASKED_MAX, NodeAddresses
from coldnotify_testkit.nodes_double import NodesDouble

DEFAULT = "127.0.0.1:51001"


def of(nodes: NodesDouble | None, *said: str) -> NodeAddresses:
    return NodeAddresses("matcher", "inside", said=said, default=DEFAULT, nodes=nodes)


def test_a_setting_overrides_the_nodes() -> None:
    nodes = NodesDouble()
    nodes.add("matcher", "m-1", inside="a:1")
    nodes.add("matcher", "m-2", inside="b:1", age_s=SILENT_S)
    assert of(nodes, "c:1").now() == ["c:1"]
    assert of(nodes, "c:1").silent() == []


def test_nodes_of_the_role_that_count_are_asked() -> None:
    nodes = NodesDouble()
    nodes.add("matcher", "m-1", inside="a:1", ready=False)
    nodes.add("matcher", "m-2", inside="b:1")
    nodes.add("matcher", "m-3", inside="c:1", age_s=SILENT_S)
    nodes.add("matcher", "m-4", http="d:1")
    nodes.add("gateway", "g-1", inside="e:1")
    assert of(nodes).now() == ["a:1", "b:1"]
    assert of(nodes).now(ready=True) == ["b:1"]
    assert of(nodes).silent() == [("c:1", SILENT_S)]


def test_none_that_is_ready_is_better_than_none() -> None:
    nodes = NodesDouble()
    nodes.add("matcher", "m-1", inside="a:1", ready=False)
    assert of(nodes).now(ready=True) == ["a:1"]


def test_a_node_that_was_killed_and_runs_again_at_its_address_is_one() -> None:
    nodes = NodesDouble()
    nodes.add("matcher", "m-1", inside="a:1", age_s=SILENT_S)
    nodes.add("matcher", "m-2", inside="a:1")
    nodes.add("matcher", "m-3", inside="a:1")
    assert (of(nodes).now(), of(nodes).silent()) == (["a:1"], [])


def test_without_a_topic_the_default_is_asked_and_with_one_nobody_else() -> None:
    assert of(None).now() == [DEFAULT]
    assert of(NodesDouble(unknown="no topic")).now() == [DEFAULT]
    assert of(NodesDouble()).now() == []
    known = NodesDouble(unknown="Kafka does not answer")
    known.add("matcher", "m-1", inside="a:1")
    assert of(known).now() == ["a:1"]


def test_their_number_is_bounded() -> None:
    nodes = NodesDouble()
    for number in range(2 * ASKED_MAX):
        nodes.add("matcher", f"m-{number}", inside=f"a:{number + 1}")
    assert len(of(nodes).now()) == ASKED_MAX
