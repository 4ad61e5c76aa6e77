"""What WebSocket makes of a session's bytes, with the other side played by its library."""

import pytest
from coldnotify._carriers import CarrierError, carrier_of
from coldnotify._core.session.reconnect import Address
from coldnotify_schemas import wire_pb2 as wire
from coldnotify_schemas.frames import encode

websockets = pytest.importorskip("websockets")

HELLO = encode(wire.ClientFrame(hello=wire.Hello(protocol=1, client="c")))
ACK = encode(wire.ClientFrame(ack=wire.Ack(complete=1)))
WELCOME = encode(wire.GatewayFrame(welcome=wire.Welcome(in_sync=True)))


def websocket():
    from websockets.server import ServerProtocol

    carrier, server = carrier_of(Address("gateway", 80, "ws", "/v1/connect")), ServerProtocol()
    server.receive_data(carrier.begin())
    (request,) = server.events_received()
    return carrier, server, request


def said_by(server):
    return [bytes(event.data) for event in server.events_received() if event.opcode == 2]


def test_pieces_are_binary_messages_and_the_end_is_closed_in_order():
    carrier, server, request = websocket()
    assert (request.path, carrier.ready) == ("/v1/connect", False)
    server.send_response(server.accept(request))
    server.send_binary(WELCOME)
    assert carrier.receive(b"".join(server.data_to_send())) == WELCOME
    assert carrier.ready
    server.receive_data(carrier.send(HELLO))
    assert said_by(server) == [HELLO]
    server.send_ping(b"there?")
    carrier.receive(b"".join(server.data_to_send()))
    server.receive_data(carrier.answer())
    assert [event.opcode for event in server.events_received()] == [10]
    server.receive_data(carrier.end())
    carrier.receive(b"".join(server.data_to_send()))
    assert carrier.over
    assert carrier.send(ACK) == b""


def test_an_answer_that_is_not_http_raises():
    carrier, _, _ = websocket()
    with pytest.raises(CarrierError, match="did not receive a valid HTTP response"):
        carrier.receive(b"\x00\x01\x02 what is this\r\n\r\n")
    assert not carrier.ready


def test_a_refused_upgrade_and_a_message_that_is_too_long_are_told():
    carrier, server, _ = websocket()
    server.send_response(server.reject(403, "not from there"))
    with pytest.raises(CarrierError, match="403"):
        carrier.receive(b"".join(server.data_to_send()))
    carrier, server, request = websocket()
    server.send_response(server.accept(request))
    server.send_binary(b"x" * (1024 * 1024 + 1))
    with pytest.raises(CarrierError, match="1048577"):
        carrier.receive(b"".join(server.data_to_send()))
