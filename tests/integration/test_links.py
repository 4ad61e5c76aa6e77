"""One connection for several clients: a link in a program, and `coldnotify link` for several programs."""

import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Self
from uuid import uuid4

import pytest
from coldnotify import Connection, Link, Notification, Notify, State
from coldnotify.aio import Notify as AsyncNotify
from coldnotify.http_publisher import HttpPublisher
from coldnotify_schemas.frames import FrameBuffer, encode, parse_gateway_frame
from coldnotify_schemas.protocol import LINK_SESSIONS_MAX
from coldnotify_schemas.wire_pb2 import ClientFrame, GatewayFrame, Hello, Ping
from coldnotify_testkit.child import Child
from coldnotify_testkit.proxy import Proxy, Watch, in_front_of
from coldnotify_testkit.stack import Stacks, Up, get_json
from coldnotify_testkit.waiting import wait_for

pytestmark = pytest.mark.kafka

DOMAIN, OBJECT, LIMIT_S = "animal.observer", "camera", 60
BACKLOG, SLOW_BITS_PER_S = 500, 64_000
"""Objects of 1,000 bytes, and a link that carries them in a minute."""


class Counted:
    """Counts the connections that pass a proxy."""

    def __init__(self) -> None:
        self.connections = 0

    def __call__(self) -> Watch | None:
        self.connections += 1
        return None


class Unit:
    """A client in a group of its own."""

    def __init__(self, up: Up, connection: Connection | Link, group: str = "") -> None:
        self._up = up
        self.group = group or f"link-{uuid4().hex[:5]}"
        self.told: list[int] = []
        self.errors: list[Exception] = []
        self.notify = Notify(
            domain=DOMAIN,
            group_id=self.group,
            client_id="unit",
            state=State(None),
            connection=connection,
            on_error=self.errors.append,
        )
        self.notify.register(OBJECT).subscribe(self._tell)

    def _tell(self, said: Notification) -> None:
        if said.version is not None:
            self.told.append(said.version)

    def publish(self, version: int) -> None:
        with HttpPublisher(self._up.http_url) as publisher:
            publisher.publish(DOMAIN, self.group, OBJECT, version=version)

    def learns(self, version: int) -> None:
        """Publishes a version, and waits until it is told."""
        self.publish(version)
        wait_for(lambda: self.told[-1:] == [version], f"version {version} of {self.group}")


@contextmanager
def counted(up: Up) -> Iterator[tuple[Proxy, Counted]]:
    """A proxy in front of the gateway, and what it counts."""
    passed = Counted()
    with in_front_of(*up.gateway, watch=passed) as proxy:
        yield proxy, passed


def test_four_clients_share_one_connection_and_one_leaves(up: Up) -> None:
    with (
        counted(up) as (proxy, passed),
        Link(Connection(address=f"127.0.0.1:{proxy.port}")) as link,
        ExitStack() as end,
    ):
        units = [Unit(up, link) for _ in range(4)]
        for unit in units:
            end.callback(unit.notify.disconnect)
            unit.notify.connect()
        for unit in units:
            assert unit.notify.wait_caught_up(LIMIT_S)
            unit.learns(1)
        assert passed.connections == 1
        first, *others = units
        first.notify.disconnect()
        for unit in others:
            unit.learns(2)
        first.publish(2)
        assert first.notify.connect(LIMIT_S)
        wait_for(lambda: first.told[-1] == 2, "what was published meanwhile")
        assert passed.connections == 1
        assert not [error for unit in units for error in unit.errors]
    wait_for(lambda: proxy.idle, "the connection's end")


def test_all_come_back_where_the_connection_is_cut(up: Up) -> None:
    with counted(up) as (proxy, _), Link(Connection(address=f"127.0.0.1:{proxy.port}")) as link, ExitStack() as end:
        units = [Unit(up, link) for _ in range(3)]
        for unit in units:
            end.callback(unit.notify.disconnect)
            assert unit.notify.connect(LIMIT_S)
            unit.learns(1)
        proxy.cut()
        for unit in units:
            unit.learns(2)
            assert unit.told == [1, 2]


def test_a_long_backlog_of_one_group_lets_the_others_version_by(up: Up) -> None:
    slow, said = f"link-{uuid4().hex[:5]}", "x" * 1000
    with HttpPublisher(up.http_url) as publisher:
        for number in range(BACKLOG):
            publisher.publish(DOMAIN, slow, f"object-{number}", said)
    told: list[Notification] = []
    with (
        in_front_of(*up.gateway, bits_per_s=SLOW_BITS_PER_S) as proxy,
        Link(Connection(address=f"127.0.0.1:{proxy.port}")) as link,
        ExitStack() as end,
    ):
        unit = Unit(up, link)
        end.callback(unit.notify.disconnect)
        assert unit.notify.connect(LIMIT_S)
        behind = Notify(DOMAIN, slow, "unit", State(None), link)
        end.callback(behind.disconnect, 0.1)
        for number in range(BACKLOG):
            behind.register(f"object-{number}").subscribe(told.append)
        behind.connect()
        wait_for(lambda: [one for one in told if one.version is not None], "the backlog's begin")
        unit.learns(1)
        unit.learns(2)
        assert len(told) < BACKLOG


def test_one_that_is_displaced_does_not_take_the_others_along(up: Up) -> None:
    host, port = up.gateway
    with Link(Connection(address=host, port=port)) as link, ExitStack() as end:
        units = [Unit(up, link) for _ in range(2)]
        for unit in units:
            end.callback(unit.notify.disconnect)
            assert unit.notify.connect(LIMIT_S)
        other = Unit(up, Connection(address=host, port=port), units[0].group)
        end.callback(other.notify.disconnect)
        assert other.notify.connect(LIMIT_S)
        wait_for(lambda: "DISPLACED" in (units[0].notify.status.last_problem or "").upper(), "the end of the first one")
        units[1].learns(1)
        other.learns(1)
        assert not units[1].errors


async def test_clients_of_asyncio(up: Up) -> None:
    host, port = up.gateway
    with Link(Connection(address=host, port=port)) as link:
        one, two = (
            AsyncNotify(
                domain=DOMAIN, group_id=f"a-{uuid4().hex[:5]}", client_id="unit", state=State(None), connection=link
            )
            for _ in range(2)
        )
        async with one, two:
            assert await one.wait_caught_up(LIMIT_S)
            assert await two.wait_caught_up(LIMIT_S)


def test_a_link_over_websocket(up: Up) -> None:
    address = f"ws://{up.report['web']}"
    with Link(Connection(address=address)) as link, ExitStack() as end:
        units = [Unit(up, link) for _ in range(2)]
        for unit in units:
            end.callback(unit.notify.disconnect)
            assert unit.notify.connect(LIMIT_S)
            unit.learns(1)


PROGRAM = """
import sys, time
from coldnotify import Connection, Notify, State
group, path = sys.argv[1:]
notify = Notify(domain="animal.observer", group_id=group, client_id="unit", state=State(None),
                connection=Connection(address=f"unix:{path}"))
notify.register("camera").subscribe(lambda said: print("told", said.version, flush=True))
notify.connect()
time.sleep(1000)
"""


def prints(child: Child, line: str) -> bool:
    return line in child.output


def test_four_programs_share_a_link_and_one_is_killed(up: Up, tmp_path: Path) -> None:
    _host, _port = up.gateway
    path = tmp_path / "link"
    with counted(up) as (proxy, passed), ExitStack() as programs:
        link = [Path(sys.executable).with_name("coldnotify"), "link", str(path), "--gateway", f"127.0.0.1:{proxy.port}"]
        hub = programs.enter_context(Child([str(one) for one in link], tmp_path / "hub.log"))
        groups = [f"program-{uuid4().hex[:5]}" for _ in range(4)]
        children = [
            programs.enter_context(Child([sys.executable, "-c", PROGRAM, group, str(path)], tmp_path / f"{group}.log"))
            for group in groups
        ]
        with HttpPublisher(up.http_url) as publisher:
            for group, child in zip(groups, children, strict=True):
                publisher.publish(DOMAIN, group, OBJECT, version=1)
                child.wait_for(partial(prints, child, "told 1"), "the first version")
            children[0].kill()

            def has_gone() -> bool:
                client = up.client(DOMAIN, groups[0], "unit")
                return client["online"] is False

            wait_for(has_gone, "the end of the killed program's session")
            for group, child in zip(groups[1:], children[1:], strict=True):
                publisher.publish(DOMAIN, group, OBJECT, version=2)
                child.wait_for(partial(prints, child, "told 2"), "the second version")
        assert passed.connections == 1
        assert path.stat().st_mode & 0o777 == 0o660
        assert hub.stop() == 0
        assert not path.exists()


# --- the wire


class RawLink:
    """A link that says what it is told to."""

    def __init__(self, up: Up) -> None:
        self._socket = socket.create_connection(up.gateway, LIMIT_S)
        self._frames = FrameBuffer(1 << 20)
        self.heard: list[GatewayFrame] = []
        self.ended = threading.Event()
        threading.Thread(target=self._listen, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):  # the gateway may have ended it
            self._socket.shutdown(socket.SHUT_RDWR)
        assert self.ended.wait(LIMIT_S)
        self._socket.close()

    def _listen(self) -> None:
        while data := self._socket.recv(65536):
            self.heard += map(parse_gateway_frame, self._frames.feed(data))
        self.ended.set()

    def say(self, *frames: ClientFrame) -> None:
        self._socket.sendall(b"".join(map(encode, frames)))

    def of(self, session: int, kind: str) -> list[GatewayFrame]:
        return [one for one in self.heard if one.session == session and one.WhichOneof("frame") == kind]


def hello(session: int, **fields: object) -> ClientFrame:
    said = Hello(protocol=1, client=f"raw-{session}", **fields)  # type: ignore[arg-type]
    return ClientFrame(session=session, hello=said)


THIS_IS_A_LINK = ClientFrame(session=1)


def test_the_hellos_of_all_leave_in_one_packet_and_say_only_what_differs(up: Up) -> None:
    with RawLink(up) as link:
        link.say(
            THIS_IS_A_LINK,
            hello(0, domain=DOMAIN, group="raw-a"),
            *(hello(number, group=f"raw-{number}") for number in range(1, 4)),
        )
        for number in range(4):
            wait_for(partial(link.of, number, "caught_up"), f"session {number}")
        # The end of the first session is not the others'.
        link.say(ClientFrame(session=0, bye={}))
        link.say(ClientFrame(session=2, ping=Ping()))
        wait_for(lambda: link.of(2, "pong"), "an answer after the first session's end")
        # What is said in an ended session is for nobody.
        link.say(ClientFrame(session=0, ping=Ping()), ClientFrame(session=1, ping=Ping()))
        wait_for(lambda: link.of(1, "pong"), "an answer")
        assert not link.of(0, "pong")
        link.say(*(ClientFrame(session=number, bye={}) for number in (1, 2, 3)))
        assert link.ended.wait(LIMIT_S)


def test_a_number_is_not_used_again(up: Up) -> None:
    with RawLink(up) as link:
        link.say(THIS_IS_A_LINK, hello(0, domain=DOMAIN, group="raw-b"), hello(5), hello(3))
        wait_for(lambda: link.of(5, "caught_up"), "session 5")
        assert not link.of(3, "welcome")


def test_frames_before_a_hello_end_the_link(up: Up) -> None:
    with RawLink(up) as link:
        link.say(THIS_IS_A_LINK, hello(0, domain=DOMAIN, group="raw-c"), ClientFrame(session=1, ping=Ping()))
        assert link.ended.wait(LIMIT_S)
        (close,) = link.of(0, "close")
        assert "session: ping came before the hello of 1" in close.close.reason


def test_a_link_has_a_bound(up: Up) -> None:
    with RawLink(up) as link:
        link.say(THIS_IS_A_LINK, *(hello(n, domain=DOMAIN, group="raw-d") for n in range(LINK_SESSIONS_MAX + 1)))
        wait_for(lambda: link.of(LINK_SESSIONS_MAX, "close"), "the last one's refusal")
        wait_for(lambda: link.of(LINK_SESSIONS_MAX - 1, "caught_up"), "the one before")


def test_a_session_number_without_a_link_is_refused(up: Up) -> None:
    with RawLink(up) as link:
        link.say(hello(1, domain=DOMAIN, group="raw-e"))
        assert link.ended.wait(LIMIT_S)
        assert "a connection has session 0 only" in link.heard[0].close.reason


def test_sessions_of_a_link_count_as_connections(stacks: Stacks, tmp_path: Path) -> None:
    with stacks.running(tmp_path, gateway_connections_max="3") as up, RawLink(up) as link:
        link.say(THIS_IS_A_LINK, *(hello(n, domain=DOMAIN, group="raw-f") for n in range(4)))
        wait_for(lambda: link.of(3, "close"), "the fourth one's refusal")
        wait_for(lambda: link.of(2, "caught_up"), "the third")
        (address,) = up.report["gateways_http"]
        assert sum(one["sessions"] for one in get_json(f"http://{address}/v1/gateway")["partitions"]) == 3
