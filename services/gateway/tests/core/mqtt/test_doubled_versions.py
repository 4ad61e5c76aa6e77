"""Retained PUBLISHes that become a message and a version: which is written when, and what names what."""

from coldnotify_gateway.core import Limits, PublishRecord
from coldnotify_schemas.message_places import MESSAGE_HEADER
from coldnotify_schemas.mqtt.packets import Connect, PubAck, Publish, PubRec, Will
from coldnotify_schemas.topics import TopicNames
from coldnotify_testkit.mqtt_bench import MQTT_5, MqttBench, MqttWire

TOPICS = TopicNames()


def a_bench() -> MqttBench:
    return MqttBench(Limits(mqtt_retained_both=True))


def retained(packet_id: int, payload: bytes = b"x") -> Publish:
    return Publish("t", payload, 1, retain=True, packet_id=packet_id)


def written(bench: MqttBench) -> list[PublishRecord]:
    """The records since the last call."""
    found, bench.publications[:] = list(bench.publications), []
    return found


def answer(bench: MqttBench, *offsets: int | None) -> None:
    """Kafka's, to as many records."""
    for offset in offsets:
        record = bench.unanswered.pop(0)
        bench.do(bench.gateway.on_published(record, offset, "" if offset is not None else "down", bench.now_s))


def acknowledged(wire: MqttWire) -> list[int]:
    return [one.packet_id for one in wire.packets() if isinstance(one, PubAck | PubRec)]


def test_messages_are_written_before_the_versions_that_name_them() -> None:
    bench = a_bench()
    wire, _ = bench.connected()
    bench.send(wire, retained(1))
    (first,) = written(bench)
    bench.send(wire, retained(2), Publish("t", b"m", 1, packet_id=3), retained(4, b""))
    answer(bench, 40)
    (version,) = written(bench)
    assert (first.topic, version.topic) == (TOPICS.channels[1], TOPICS.objects)
    assert ("mqtt-retain", b"1") in first.headers
    assert (MESSAGE_HEADER, b"1d/40") in version.headers
    assert not [name for name, _ in version.headers if name in ("id", "mqtt-retain")]
    assert acknowledged(wire) == []
    answer(bench, 7)
    assert acknowledged(wire) == [1]
    order = []
    while bench.unanswered:
        order += [(one.topic == TOPICS.objects, one.value) for one in written(bench)]
        answer(bench, *range(50, 50 + len(bench.unanswered)))
    assert [kind for kind, _ in order] == [False, True, False, False, True]
    assert order[3][1] == b"", "a deletion is an empty message"
    assert acknowledged(wire) == [2, 3, 4]


def test_messages_of_publishes_in_a_row_are_one_batch() -> None:
    bench = a_bench()
    wire, _ = bench.connected()
    bench.send(wire, retained(1))
    answer(bench, 1)
    written(bench)
    bench.send(wire, retained(2), retained(3))
    answer(bench, 1)
    messages = written(bench)[-2:]
    assert len({dict(one.headers)["id"] for one in messages}) == 2
    answer(bench, 8, 9)
    assert [dict(one.headers)[MESSAGE_HEADER] for one in written(bench)] == [b"1d/8", b"1d/9"]


def test_a_version_that_is_tried_again_has_the_message_that_is_written() -> None:
    bench = a_bench()
    wire, _ = bench.connected()
    bench.send(wire, retained(1))
    answer(bench, None)
    (first,) = written(bench)
    bench.later(3)
    (again,) = written(bench)
    assert again.headers == first.headers, "the same id: it is told once"
    answer(bench, 3)
    written(bench)
    answer(bench, None)
    bench.later(3)
    (version,) = written(bench)
    assert version.topic == TOPICS.objects
    assert (MESSAGE_HEADER, b"1d/3") in version.headers
    answer(bench, 4)
    assert acknowledged(wire) == [1]


def test_the_service_is_told_of_wills_with_retain() -> None:
    for both, retain in ((True, True), (True, False), (False, True)):
        bench = MqttBench(Limits(mqtt_retained_both=both))
        _, request = bench.connecting(Connect(MQTT_5, "farm/barn/lamp-1", will=Will("t", b"gone", retain=retain)))
        assert request.open.kept.will.doubled is (both and retain)
