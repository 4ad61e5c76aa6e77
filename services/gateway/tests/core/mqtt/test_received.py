"""What a device has published with QoS 2 and not released: places, requests to the service, answers."""

from coldnotify_gateway.core.mqtt.received import UNRELEASED_MAX, WAITING_BYTES_MAX, Received, ReceivedPublishes
from coldnotify_gateway.core.timers import NEVER_S
from coldnotify_schemas.internal_pb2 import Unreleased
from coldnotify_schemas.mqtt.reasons import ReasonCode
from coldnotify_schemas.wire_pb2 import Publish


def test_a_gateway_takes_over_what_the_service_holds() -> None:
    received = ReceivedPublishes()
    received.begin([Unreleased(identifier=1, id="a", written=True), Unreleased(identifier=2, object="t", version=0)])
    message, version = received.entries.values()
    assert (message.held, message.written, message.version) == (True, True, None)
    assert (version.held, version.written, version.version) == (True, False, 0)
    assert received.room == UNRELEASED_MAX - 2
    assert message.publish_of(Publish(request=5)) == Publish(request=5, id="a")
    assert version.publish_of(Publish(request=5)) == Publish(request=5, version=0)


def test_requests_are_repeated_until_each_is_answered() -> None:
    received = ReceivedPublishes()
    first, second = received.ask(10.0, [Unreleased(identifier=1)]), received.ask(12.0, released=[2])
    assert (first.ask, second.ask, received.repeat_s) == (1, 2, 10.0)
    assert received.again(20.0) == [first, second]
    assert received.answered(1) is first
    assert received.repeat_s == 20.0
    assert received.answered(1) is None
    assert received.answered(2) is second
    assert received.repeat_s == NEVER_S


def test_waiting_publishes_have_a_bound_of_bytes() -> None:
    received = ReceivedPublishes()
    large = Publish(request=1, payload=bytes(WAITING_BYTES_MAX))
    received.wait(large)
    full = [received.overfull]
    received.wait(Publish(request=2, payload=b"x"))
    full.append(received.overfull)
    received.take(large)
    full.append(received.overfull)
    assert full == [False, True, False]
    assert list(received.waiting) == [2]


def test_a_pubrec_leaves_it_written_or_ends_it() -> None:
    received = ReceivedPublishes()
    for identifier in (1, 2):
        received.entries[identifier] = Received(identifier, request=identifier)
    received.answer(1, ReasonCode.SUCCESS)
    received.answer(2, ReasonCode.QUOTA_EXCEEDED)
    received.answer(3, ReasonCode.SUCCESS)
    received.hold(Unreleased(identifier=3))
    assert [(one.identifier, one.written, one.request) for one in received.entries.values()] == [(1, True, 0)]
