"""What WebSocket and HTTP make of a session's bytes, with the other side played by their libraries."""

import pytest
from coldnotify._carriers import CarrierError, carrier_of
from coldnotify._core.reconnect import Address
from coldnotify_schemas import wire_pb2 as wire
from coldnotify_schemas.frames import encode

h11 = pytest.importorskip("h11")
websockets = pytest.importorskip("websockets")

HELLO = encode(wire.ClientFrame(hello=wire.Hello(protocol=1, client="c")))
CHUNK = encode(wire.ClientFrame(sync=wire.SyncChunk(last=True, objects=["a"])))
REGISTER = encode(wire.ClientFrame(register=wire.Register(request=1, objects=["a"])))
ACK = encode(wire.ClientFrame(ack=wire.Ack(complete=1)))
WELCOME = encode(wire.GatewayFrame(welcome=wire.Welcome(in_sync=True)))
NOT_IN_SYNC = encode(wire.GatewayFrame(welcome=wire.Welcome(in_sync=False)))
CAUGHT_UP = encode(wire.GatewayFrame(caught_up=wire.CaughtUp(complete=1)))


class HttpServer:
    """Requests out of bytes, answers into bytes."""

    def __init__(self):
        self.http = h11.Connection(h11.SERVER)

    def request(self, data):
        """(target, body) of the request that `data` is."""
        self.http.receive_data(data)
        head, body = None, b""
        while not isinstance(event := self.http.next_event(), h11.EndOfMessage):
            if isinstance(event, h11.Request):
                head = event
            else:
                body += bytes(event.data)
        return head, body

    def answer(self, body, status=200):
        out = self.http.send(h11.Response(status_code=status, headers=[("Transfer-Encoding", "chunked")]))
        out += self.http.send(h11.Data(data=body)) + self.http.send(h11.EndOfMessage())
        if self.http.our_state is h11.DONE:
            self.http.start_next_cycle()
        return out


def requests(keepalive_s=3600):
    return carrier_of(Address("gateway", 80, "http", "/v1/sync"), keepalive_s), HttpServer()


def test_a_session_is_one_request_and_what_its_answer_said_is_the_session_s():
    carrier, server = requests()
    assert (carrier.ready, carrier.begin()) == (True, b"")
    head, body = server.request(carrier.send(HELLO[:3]) + carrier.send(HELLO[3:]))
    assert (head.target, body) == (b"/v1/sync?wait_s=60", HELLO)
    assert dict(head.headers)[b"host"] == b"gateway:80"
    assert carrier.send(ACK) == b""
    answer = server.answer(WELCOME + CAUGHT_UP)
    assert b"".join(carrier.receive(bytes([byte])) for byte in answer) == WELCOME + CAUGHT_UP
    assert carrier.over
    assert carrier.renewable


def test_the_whole_set_goes_behind_the_same_hello():
    carrier, server = requests(keepalive_s=5)
    head, _ = server.request(carrier.send(HELLO))
    assert head.target == b"/v1/sync?wait_s=5"
    assert carrier.receive(server.answer(NOT_IN_SYNC)) == NOT_IN_SYNC
    assert not carrier.over
    _, body = server.request(carrier.send(CHUNK))
    assert body == HELLO + CHUNK
    carrier.receive(server.answer(WELCOME + CAUGHT_UP))
    assert carrier.renewable


def test_the_whole_set_waits_for_the_end_of_the_answer_that_asks_for_it():
    carrier, server = requests()
    server.request(carrier.send(HELLO))
    answer = server.answer(NOT_IN_SYNC)
    end = answer.rindex(b"0\r\n")
    assert carrier.receive(answer[:end]) == NOT_IN_SYNC
    assert carrier.send(CHUNK) == b""  # a session says its set as soon as it is asked for it
    for at in range(end, len(answer)):
        assert carrier.answer() == b""
        assert carrier.receive(answer[at : at + 1]) == b""
        assert not carrier.over
    _, body = server.request(carrier.answer())
    assert carrier.answer() == b""
    assert body == HELLO + CHUNK
    assert carrier.receive(server.answer(WELCOME + CAUGHT_UP)) == WELCOME + CAUGHT_UP
    assert carrier.renewable


def test_something_to_register_ends_the_request_once_it_has_caught_up():
    carrier, server = requests()
    server.request(carrier.send(HELLO))
    assert carrier.send(REGISTER) == b""
    assert not carrier.over
    answer = server.answer(WELCOME + CAUGHT_UP)
    carrier.receive(answer[: answer.rindex(b"0\r\n")])  # it is still held
    assert carrier.over
    assert carrier.renewable


@pytest.mark.parametrize(("status", "words"), [(503, "status 503: away"), (404, "status 404")])
def test_a_refusal_is_told(status, words):
    carrier, server = requests()
    server.request(carrier.send(HELLO))
    with pytest.raises(CarrierError, match=words):
        carrier.receive(server.answer(b"away", status))
    assert not carrier.renewable


def test_an_answer_that_breaks_off_is_no_end():
    carrier, server = requests()
    server.request(carrier.send(HELLO))
    carrier.receive(server.answer(WELCOME)[:-5])
    with pytest.raises(CarrierError):
        carrier.receive(b"")
    assert not carrier.renewable
    with pytest.raises(CarrierError):
        requests()[0].receive(b"\x00\x01\x02 what is this\r\n\r\n")


def websocket():
    from websockets.server import ServerProtocol

    carrier, server = carrier_of(Address("gateway", 80, "ws", "/v1/connect"), 60), ServerProtocol()
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
    assert not carrier.renewable
    assert carrier.send(ACK) == b""


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
