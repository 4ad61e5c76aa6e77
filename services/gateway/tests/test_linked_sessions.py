"""The sessions of a link: what each is told and says, without sockets."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from coldnotify_gateway.core import Frame, Urgent, Violation, joined
from coldnotify_gateway.linked_sessions import LinkedSession, LinkedSessions
from coldnotify_schemas.close_codes import CloseCode
from coldnotify_schemas.frames import FrameBuffer, encode, parse_client_frame, parse_gateway_frame
from coldnotify_schemas.protocol import LINK_SESSIONS_MAX
from coldnotify_schemas.wire_pb2 import Bye, ClientFrame, GatewayFrame, Hello, Notification, Ping, Pong


class Carrier:
    """A connection that notes what it is told."""

    address, waits, blocked, certificate, token, dialect, passed_on = "10.0.0.1", False, False, None, "t", None, True

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.reads = True

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def wait(self, frame: Frame) -> None:
        self.written.append(frame.data)

    def send(self, frames: Sequence[Frame]) -> None:
        self.written.append(joined(frames))

    def pause_reading(self) -> None:
        self.reads = False

    def resume_reading(self) -> None:
        self.reads = True

    def told(self) -> list[GatewayFrame]:
        said = [parse_gateway_frame(body) for body in FrameBuffer(1 << 20).feed(b"".join(self.written))]
        self.written.clear()
        return said


class Service:
    """The events of a link, as they come."""

    def __init__(self) -> None:
        self.begun: list[LinkedSession] = []
        self.said: list[tuple[int, ClientFrame]] = []
        self.heard: list[int] = []
        self.violations: list[tuple[int, Violation]] = []
        self.gone: list[int] = []
        self.emptied = 0

    def on_session(self, connection: Any) -> None:
        self.begun.append(connection)

    def on_bytes(self, connection: Any, data: bytes) -> None:
        self.said += [(connection.number, parse_client_frame(body)) for body in FrameBuffer(1 << 20).feed(data)]

    def on_heard(self, connections: Sequence[Any]) -> None:
        self.heard = [one.number for one in connections]

    def on_violation(self, connection: Any, violation: Violation) -> None:
        self.violations.append((connection.number, violation))
        connection.finish()

    def on_disconnected(self, connection: Any) -> None:
        self.gone.append(connection.number)

    def on_emptied(self, carrier: Any) -> None:
        self.emptied += 1


class Linked:
    def __init__(self) -> None:
        self.carrier, self.service = Carrier(), Service()
        self.link = LinkedSessions(self.carrier, self.service, 32 * 1024)  # type: ignore[arg-type]

    def say(self, *frames: ClientFrame) -> None:
        self.link.feed(b"".join(map(encode, frames)))


@pytest.fixture
async def linked() -> Linked:
    linked = Linked()
    first = Hello(client="a", domain="d", group="g", token="secret", keepalive_s=60)
    linked.say(hello(0, first), hello(1, Hello(client="b", group="h")))
    return linked


def hello(number: int, said: Hello) -> ClientFrame:
    return ClientFrame(session=number, hello=said)


async def test_a_hello_gets_what_the_first_one_said(linked: Linked) -> None:
    (_, one), (number, other) = linked.service.said
    assert one.hello == Hello(client="a", domain="d", group="g", token="secret", keepalive_s=60)
    assert other.hello == Hello(client="b", domain="d", group="h", token="secret", keepalive_s=60)
    assert (number, other.session) == (1, 0)


async def test_one_client_in_several_groups_says_its_group_alone(linked: Linked) -> None:
    linked.say(hello(2, Hello(group="i")))
    _, other = linked.service.said[-1]
    assert (other.hello.client, other.hello.domain, other.hello.group) == ("a", "d", "i")


async def test_frames_have_the_number_on_the_way_out_only(linked: Linked) -> None:
    first, second = linked.service.begun
    second.write(encode(GatewayFrame(pong=Pong())))
    second.send([Frame(encode(GatewayFrame(pong=Pong()))) for _ in range(2)])
    second.wait(Frame(encode(GatewayFrame(pong=Pong()))))
    assert [one.session for one in linked.carrier.told()] == [1, 1, 1, 1]
    first.write(encode(GatewayFrame(pong=Pong())))
    assert linked.carrier.told() == [GatewayFrame(pong=Pong())]


async def test_nothing_overtakes(linked: Linked) -> None:
    session = linked.service.begun[1]
    alone, ahead = (Frame(encode(GatewayFrame(notification=Notification(crc=crc)))) for crc in (1, 2))
    session.send_urgent(Urgent(ahead, alone))
    session.overtake([5], [ahead])
    session.overtake([5], [])
    assert [one.notification.crc for one in linked.carrier.told()] == [1, 2]


async def test_whatever_comes_is_a_sign_of_life_of_all(linked: Linked) -> None:
    linked.say(ClientFrame(session=1, ping=Ping()))
    assert sorted(linked.service.heard) == [0, 1]


async def test_a_session_ends_alone_and_the_last_one_ends_the_link(linked: Linked) -> None:
    first, second = linked.service.begun
    first.finish()
    first.finish()
    await asyncio.sleep(0)
    assert (linked.service.gone, linked.service.emptied) == ([0], 0)
    linked.service.said.clear()
    linked.say(ClientFrame(ping=Ping()), ClientFrame(session=1, bye=Bye()))
    assert [number for number, _ in linked.service.said] == [1]
    first.write(encode(GatewayFrame(pong=Pong())))
    assert linked.carrier.told() == []
    second.finish()
    assert linked.service.emptied == 1
    linked.say(hello(2, Hello(client="c")))
    assert len(linked.service.begun) == 2, "nothing begins behind the last one's end"


async def test_numbers_rise(linked: Linked) -> None:
    linked.service.said.clear()
    linked.say(hello(7, Hello(client="c")), hello(3, Hello(client="d")))
    assert [(number, said.hello.client) for number, said in linked.service.said] == [(7, "c")]


async def test_a_frame_before_its_hello_breaks_the_link(linked: Linked) -> None:
    linked.say(ClientFrame(session=2, ping=Ping()))
    reasons = {violation.reason for _, violation in linked.service.violations}
    assert reasons == {"session: ping came before the hello of 2"}
    assert sorted(number for number, _ in linked.service.violations) == [0, 1]


async def test_bytes_that_are_no_frame_break_the_link(linked: Linked) -> None:
    linked.link.feed(b"\xff\xff\xff\xff\xff\xff")
    assert [violation.code for _, violation in linked.service.violations] == [CloseCode.PROTOCOL_ERROR] * 2


async def test_a_frame_of_an_unknown_kind_begins_nothing(linked: Linked) -> None:
    linked.say(ClientFrame(session=9))
    assert len(linked.service.begun) == 2
    assert not linked.service.violations


async def test_a_link_has_a_bound(linked: Linked) -> None:
    linked.say(*(hello(number, Hello(client="c")) for number in range(2, LINK_SESSIONS_MAX + 1)))
    assert len(linked.service.begun) == LINK_SESSIONS_MAX
    ((number, violation),) = linked.service.violations
    assert (number, violation.code) == (LINK_SESSIONS_MAX, CloseCode.OVERLOADED)
    linked.service.begun[0].finish()
    linked.say(hello(100, Hello(client="c")))
    assert linked.service.begun[-1].number == 100


async def test_the_link_is_read_while_none_of_its_sessions_pauses(linked: Linked) -> None:
    first, second = linked.service.begun
    first.pause_reading()
    second.pause_reading()
    first.resume_reading()
    assert not linked.carrier.reads
    second.finish()
    assert linked.carrier.reads


async def test_sessions_take_turns(linked: Linked) -> None:
    assert [[one.number for one in linked.link.sessions()] for _ in range(3)] == [[1, 0], [0, 1], [1, 0]]


async def test_the_proof_is_the_links(linked: Linked) -> None:
    session = linked.service.begun[1]
    assert (session.address, session.token, session.passed_on, session.certificate) == ("10.0.0.1", "t", True, None)
    assert (session.buffered_bytes, session.waits, session.blocked, session.dialect) == (0, False, False, None)
