"""A device's publishes: what they become, what is wrong with them for ever, answers in order, and trying again."""

import pytest
from coldnotify_gateway.core.mqtt.device_publishes import AGAIN_S, DevicePublishes, fault_of, publish_of
from coldnotify_gateway.core.timers import NEVER_S
from coldnotify_schemas.mqtt.packets import Publish
from coldnotify_schemas.mqtt.reasons import ReasonCode
from coldnotify_schemas.wire_pb2 import Publish as Said

DONE, QUOTA = ReasonCode.SUCCESS, ReasonCode.QUOTA_EXCEEDED


def a_packet(packet_id: int | None = 5, *, retain: bool = False, payload: bytes = b"x") -> Publish:
    return Publish("a/b", payload, 1 if packet_id else 0, retain, packet_id=packet_id)


def test_retain_makes_a_version_by_arrival_and_zero_bytes_a_deletion() -> None:
    assert publish_of(a_packet(retain=True), 3) == Said(request=3, object="a/b", payload=b"x")
    assert publish_of(a_packet(retain=True, payload=b""), 3) == Said(request=3, object="a/b", deleted=True)
    assert publish_of(a_packet(payload=b""), 3) == Said(request=3, channel="a/b"), "an empty message"


@pytest.mark.parametrize(
    ("packet", "reason"),
    [
        (Publish("$SYS/a"), ReasonCode.TOPIC_NAME_INVALID),
        (Publish("a" * 256), ReasonCode.TOPIC_NAME_INVALID),
        (Publish("a", bytes(4097), retain=True), ReasonCode.PACKET_TOO_LARGE),
        (Publish("a", bytes(65_537)), ReasonCode.PACKET_TOO_LARGE),
    ],
)
def test_wrong_for_ever(packet: Publish, reason: ReasonCode) -> None:
    wrong = fault_of(packet)
    assert wrong is not None
    assert wrong.reason is reason
    assert wrong.words.split(":")[0] in ("topic", "payload")


@pytest.mark.parametrize(
    "packet", [Publish("a" * 255), Publish("a", bytes(4096), retain=True), Publish("a", bytes(65_536))]
)
def test_the_largest_are_taken(packet: Publish) -> None:
    assert fault_of(packet) is None


def test_answers_come_in_the_order_of_the_packets() -> None:
    publishes = DevicePublishes()
    one, two, three = (publishes.take(a_packet(packet_id)).request for packet_id in (8, None, 6))
    assert publishes.answer(three, ReasonCode.NOT_AUTHORIZED) == []
    assert publishes.published(two) == []
    assert publishes.published(one) == [(8, 1, DONE), (0, 0, DONE), (6, 1, ReasonCode.NOT_AUTHORIZED)]
    assert not publishes.under_way
    assert publishes.published(one) == [], "once"


def test_refused_publishes_are_tried_again_in_order() -> None:
    publishes = DevicePublishes()
    said = [publishes.take(a_packet(packet_id)) for packet_id in (1, 2)]
    for one in said:
        publishes.refuse(one.request)
    assert publishes.retry(100.0, 1.0)
    assert publishes.again_s == 101.0
    assert publishes.take_again() == said
    assert publishes.again_s == NEVER_S
    assert publishes.published(said[0].request) == [(1, 1, DONE)]
    publishes.refuse(said[1].request)
    assert publishes.retry(100.0 + AGAIN_S + 1, 1.0), "one was taken since"


def test_it_is_given_up_after_a_while() -> None:
    publishes = DevicePublishes()
    request = publishes.take(a_packet(4)).request
    publishes.refuse(request)
    assert publishes.retry(100.0, 1.0)
    publishes.take_again()
    publishes.refuse(request)
    assert not publishes.retry(100.0 + AGAIN_S + 1, 1.0)
    assert publishes.give_up() == [request]
    assert publishes.answer(request, QUOTA) == [(4, 1, QUOTA)]
    assert not publishes.under_way
