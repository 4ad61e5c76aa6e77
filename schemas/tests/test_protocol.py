"""The protocols' numbers fit each other.

Stands for: internal_protocol
"""

from coldnotify_schemas import internal_protocol
from coldnotify_schemas.frames import encode
from coldnotify_schemas.protocol import (
    ANSWER_S,
    CLIENT_FRAME_BYTES_MAX,
    FRAME_LENGTH_BYTES_MAX,
    GATEWAY_FRAME_BYTES_MAX,
    KEEPALIVE_S,
    KEEPALIVE_S_MAX,
    LOOKING_DIGITS,
    NAME_LENGTH_MAX,
    OBJECT_BYTES_MAX,
    OBJECTS_PER_FRAME_MAX,
    REGISTRATIONS_MAX,
    REQUESTS_UNANSWERED_MAX,
    SYNC_CHUNKS_MAX,
    WEBSOCKET_KEEPALIVE_S,
    WEBSOCKET_SENT_BYTES_MAX,
    WEBSOCKET_TAKEN_FRAMES_MAX,
)
from coldnotify_schemas.records import PAYLOAD_BYTES_MAX
from coldnotify_schemas.wire_pb2 import ClientFrame, GatewayFrame, Hello, Notification, Register

NAME = "n" * NAME_LENGTH_MAX
OBJECTS = ["ä" * (OBJECT_BYTES_MAX // 2) + "x"] * OBJECTS_PER_FRAME_MAX
U64 = (1 << 64) - 1


def test_the_largest_frame_of_a_client_fits_the_limit() -> None:
    hello = Hello(
        protocol=1,
        domain=NAME,
        group=NAME,
        client=NAME,
        register=OBJECTS,
        digest=U64,
        epoch=1,
        cursor=U64,
        token="t" * 8192,
    )
    assert len(encode(ClientFrame(hello=hello))) <= CLIENT_FRAME_BYTES_MAX
    request = len(encode(ClientFrame(register=Register(request=1 << 31, objects=OBJECTS))))
    assert request * REQUESTS_UNANSWERED_MAX <= WEBSOCKET_TAKEN_FRAMES_MAX * CLIENT_FRAME_BYTES_MAX


def test_the_largest_frame_of_a_gateway_fits_the_limit() -> None:
    newest = Notification(
        name=OBJECTS[0], version=U64 >> 1, incarnation=U64 >> 1, offset=U64, payload=b"1" * PAYLOAD_BYTES_MAX
    )
    assert len(encode(GatewayFrame(notification=newest))) <= WEBSOCKET_SENT_BYTES_MAX <= GATEWAY_FRAME_BYTES_MAX
    assert GATEWAY_FRAME_BYTES_MAX < 1 << 7 * FRAME_LENGTH_BYTES_MAX


def test_the_chunks_of_a_set_hold_the_most_registrations_of_a_client() -> None:
    assert SYNC_CHUNKS_MAX * OBJECTS_PER_FRAME_MAX >= REGISTRATIONS_MAX


def test_periodic_messages_come_before_their_timeouts() -> None:
    assert WEBSOCKET_KEEPALIVE_S < KEEPALIVE_S < KEEPALIVE_S_MAX
    assert WEBSOCKET_KEEPALIVE_S + 10 < 60, "nginx, HAProxy and others end an idle connection then; a Ping may be late"
    assert 2 * internal_protocol.BEAT_S < internal_protocol.GATEWAY_SILENCE_S <= ANSWER_S
    assert internal_protocol.BEAT_S < internal_protocol.UNHEARD_S
    assert internal_protocol.UNHEARD_S < internal_protocol.GATEWAY_SILENCE_S - internal_protocol.BEAT_S
    assert internal_protocol.PAGE_BYTES_MAX <= GATEWAY_FRAME_BYTES_MAX


def test_the_name_of_a_page_that_looks_is_a_client_s_name() -> None:
    assert LOOKING_DIGITS % 2 == 0
    assert len("look.") + LOOKING_DIGITS <= NAME_LENGTH_MAX
