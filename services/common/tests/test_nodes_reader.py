"""The reader and the writer of nodes, with a real Kafka."""

import pytest
from coldnotify_common.nodes import Node, NodeKey, encode_key, encode_node
from coldnotify_common.nodes_reader import NodesReader
from coldnotify_common.nodes_writer import NodePort, NodeState, NodeWriter
from coldnotify_common.settings import ServiceSettings
from coldnotify_kafka import topic_plan, topics
from coldnotify_kafka.broker import EmbeddedBroker
from coldnotify_schemas.topics import TopicNames
from coldnotify_testkit import unreadable_batches
from coldnotify_testkit.record_batches import Codec, bomb
from coldnotify_testkit.waiting import wait_for
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient

TOPIC = TopicNames().nodes

pytestmark = pytest.mark.kafka


def reading(kafka: EmbeddedBroker) -> NodesReader:
    return NodesReader(ServiceSettings(kafka=kafka.bootstrap))


def writing(kafka: EmbeddedBroker, node_id: str, states: list[NodeState]) -> NodeWriter:
    settings = ServiceSettings(kafka=kafka.bootstrap, node_labels="zone=a")
    return NodeWriter(settings, "gateway", node_id, lambda: states[-1])


def write(kafka: EmbeddedBroker, key: bytes, value: bytes | None) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    errors: list[KafkaError | None] = []
    producer.produce(TOPIC, value, key, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(60) == 0
    assert errors == [None]


def ids(reader: NodesReader) -> list[str]:
    return [node.id for node in reader.nodes()]


STATE = NodeState(ready=True, ports={"device": NodePort(host="127.0.0.1", port=55_000)}, connections=2, limit=9)


def test_a_node_is_known_while_it_runs_and_gone_when_it_has_ended(fresh_kafka: EmbeddedBroker) -> None:
    states = [NodeState(ready=False)]
    with reading(fresh_kafka) as reader:
        with writing(fresh_kafka, "g-1", states) as writer:
            wait_for(lambda: ids(reader) == ["g-1"], "the node is known")
            assert not reader.nodes()[0].ready
            states.append(STATE)
            wait_for(lambda: reader.nodes()[0].ready, "that it is ready is written at once")
            (node,) = reader.nodes("gateway")
            assert (node.addresses, node.labels) == ({"device": "127.0.0.1:55000"}, {"zone": "a"})
            assert (node.connections, node.limit, node.weight) == (2, 9, 1)
            wait_for(lambda: writer.written >= 3, "it is renewed")
        wait_for(lambda: reader.seen() == [], "it has ended in order")


def test_records_before_the_start_count_and_bad_ones_end_nothing(fresh_kafka: EmbeddedBroker) -> None:
    good = encode_node(Node(role="gateway", id="g-1"))
    write(fresh_kafka, encode_key(NodeKey("gateway", "anonymous", "g-1")), good)
    write(fresh_kafka, b"\xff", good)
    write(fresh_kafka, encode_key(NodeKey("gateway", "anonymous", "g-2")), b"{")
    with reading(fresh_kafka) as reader:
        wait_for(lambda: reader.loaded, "the topic is read")
        assert (ids(reader), reader.passed_over()[0]) == (["g-1"], 2)
        unreadable_batches.write(fresh_kafka.bootstrap, TOPIC, 0, [bomb(Codec.ZSTD, 80), unreadable_batches.silent()])
        write(
            fresh_kafka, encode_key(NodeKey("gateway", "anonymous", "g-2")), encode_node(Node(role="gateway", id="g-2"))
        )
        wait_for(lambda: ids(reader) == ["g-1", "g-2"], "what comes behind them")


def test_a_missing_topic_is_waited_for_and_one_made_anew_is_read(fresh_kafka: EmbeddedBroker) -> None:
    admin = AdminClient({"bootstrap.servers": fresh_kafka.bootstrap})
    with reading(fresh_kafka) as reader, writing(fresh_kafka, "g-1", [STATE]):
        wait_for(lambda: ids(reader) == ["g-1"], "the node is known")
        admin.delete_topics([TOPIC])[TOPIC].result(30)
        wait_for(lambda: "does not exist" in (reader.unknown or ""), "it is missing")
        assert ids(reader) == ["g-1"], "what is known stays"
        with writing(fresh_kafka, "g-2", [STATE]):
            topic_plan.create_missing(admin, topics.load(topics.EMBEDDED_PARTITIONS))
            wait_for(lambda: ids(reader) == ["g-1", "g-2"], "both are known again", 60)
            assert reader.unknown is None
