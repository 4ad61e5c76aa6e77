"""The end of a member's connection: what tells of a death, and what does not; over real sockets and processes."""

import asyncio
import contextlib
import os
import signal
import socket
import ssl
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from coldnotify_common.kafka.group_coordinator import CoordinatorUnavailable, GroupCoordinator
from coldnotify_common.kafka.group_protocol import StaticMember
from coldnotify_common.security.certificates import Authority
from coldnotify_streams import deaths_watch
from coldnotify_streams.deaths_watch import Address, DeathsWatch
from coldnotify_testkit.kafka import free_port
from coldnotify_testkit.waiting import wait_for

HERE = "127.0.0.1"


class Group(GroupCoordinator):
    """A group whose members this process knows."""

    def __init__(self) -> None:
        self.hosts = {"own": HERE, "a": HERE, "b": HERE}
        self.removed: list[tuple[str, str]] = []
        self.asked = 0
        self.unavailable = 0
        """The number of questions that will fail."""

    async def members(self) -> dict[str, StaticMember]:
        self.asked += 1
        self._fail()
        return {name: StaticMember(f"{name}-id", host) for name, host in self.hosts.items()}

    async def remove(self, instance: str, member: str) -> bool:
        self._fail()
        self.removed.append((instance, member))
        return True

    def close(self) -> None:
        pass

    def _fail(self) -> None:
        if self.unavailable:
            self.unavailable -= 1
            raise CoordinatorUnavailable("not now")


@contextlib.contextmanager
def watching(
    group: Group, addresses: dict[str, Address], tls: Callable[[], ssl.SSLContext | None] = lambda: None
) -> Iterator[DeathsWatch]:
    watch = DeathsWatch("own", group, lambda: addresses, tls, session_timeout_s=6)
    watch.start()
    try:
        yield watch
    finally:
        watch.stop()
        assert not watch.is_alive()


class Process:
    """A process that listens, and answers what it is sent."""

    def __init__(self, *certificate: Path) -> None:
        """`certificate`: its file and that of its key, for TLS."""
        self._certificate = certificate
        self._popen: subprocess.Popen[str] | None = None
        self.address: Address = HERE, 0
        self.start()

    def start(self) -> None:
        """Starts it, again at the same port."""
        code = (
            "import asyncio, ssl, sys\n"
            "tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER) if sys.argv[2:] else None\n"
            "if tls: tls.load_cert_chain(*sys.argv[2:])\n"
            "async def serve(reader, writer):\n"
            "    while await reader.read(1000): writer.write(b'HTTP/1.1 200 OK\\r\\nContent-Length: 0\\r\\n\\r\\n')\n"
            "async def main():\n"
            "    server = await asyncio.start_server(serve, '127.0.0.1', int(sys.argv[1]), ssl=tls)\n"
            "    print(server.sockets[0].getsockname()[1], flush=True)\n"
            "    await server.serve_forever()\n"
            "asyncio.run(main())"
        )
        argv = [sys.executable, "-c", code, str(self.address[1]), *map(str, self._certificate)]
        self._popen = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
        assert self._popen.stdout is not None
        self.address = HERE, int(self._popen.stdout.readline())

    def signal(self, number: int) -> None:
        assert self._popen is not None
        os.kill(self._popen.pid, number)

    def kill(self) -> None:
        if self._popen is not None:
            self._popen.kill()
            self._popen.wait(60)
            assert self._popen.stdout is not None
            self._popen.stdout.close()
            self._popen = None


@pytest.fixture
def process() -> Iterator[Process]:
    one = Process()
    yield one
    one.kill()


@pytest.fixture
def two(process: Process) -> Iterator[tuple[Process, Process]]:
    other = Process()
    yield process, other
    other.kill()


def removed_times(group: Group, times: int) -> bool:
    return len(group.removed) == times


def wait_held(watch: DeathsWatch, *members: str) -> None:
    wait_for(lambda: watch.held() == set(members), f"connections to {members}, and their ids")


def wait_looked_again(group: Group) -> None:
    """Until it has asked for the members again twice: an end that it had heard of before is judged by then."""
    before = group.asked
    wait_for(lambda: group.asked >= before + 2, "further looks at the group")


def test_a_killed_member_is_removed_and_watched_again_once_it_is_back(process: Process) -> None:
    group = Group()
    with watching(group, {"own": (HERE, free_port()), "a": process.address}) as watch:
        for round_ in range(1, 4):
            wait_held(watch, "a")
            process.kill()
            wait_for(partial(removed_times, group, round_), "its removal")
            process.start()
    assert group.removed == [("a", "a-id")] * 3


def test_two_that_die_at_once_are_both_removed(two: tuple[Process, Process]) -> None:
    group = Group()
    with watching(group, {"a": two[0].address, "b": two[1].address}) as watch:
        wait_held(watch, "a", "b")
        for one in two:
            one.kill()
        wait_for(lambda: set(group.removed) == {("a", "a-id"), ("b", "b-id")}, "both removals")


def test_a_member_that_stands_still_is_never_removed(two: tuple[Process, Process]) -> None:
    still, killed = two
    group = Group()
    with watching(group, {"a": still.address, "b": killed.address}) as watch:
        wait_held(watch, "a", "b")
        still.signal(signal.SIGSTOP)
        killed.kill()
        wait_for(lambda: group.removed, "the other's removal")
        wait_looked_again(group)
        assert watch.held() == {"a"}
        still.signal(signal.SIGCONT)
        assert group.removed == [("b", "b-id")]


def test_removal_is_tried_again_while_the_coordinator_is_away(process: Process) -> None:
    group = Group()
    with watching(group, {"a": process.address}) as watch:
        wait_held(watch, "a")
        group.unavailable = 3
        process.kill()
        wait_for(lambda: group.removed, "its removal")


def test_a_port_of_this_machine_says_nothing_of_a_member_on_another_one(two: tuple[Process, Process]) -> None:
    """It named 127.0.0.1, and here somebody else listens there."""
    group = Group()
    group.hosts["a"] = "192.0.2.7"
    with watching(group, {"a": two[0].address, "b": two[1].address}) as watch:
        wait_held(watch, "b")
        for one in two:
            one.kill()
        wait_for(lambda: group.removed, "the other's removal")
    assert group.removed == [("b", "b-id")]


class Port:
    """A port in this process, which answers each connection's first request."""

    def __init__(self) -> None:
        self._server = socket.create_server((HERE, 0), backlog=8)
        self.address: Address = self._server.getsockname()[:2]
        self.held: list[socket.socket] = []
        self._accepted: list[socket.socket] = []
        self._waiting: list[socket.socket] = []
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection = self._server.accept()[0]
                self._accepted.append(connection)
                if connection.recv(1000) == b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n":
                    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
                    self.held.append(connection)

    def shut(self) -> None:
        """Listens no more: connections are refused from now on."""
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()

    def close(self) -> None:
        """Closes everything."""
        self.shut()
        self._thread.join(60)
        for one in (*self._accepted, *self._waiting):
            one.close()

    def drop_silently(self) -> None:
        """Accepts no more, and has no room for those that wait: new connections get no answer."""
        self.shut()
        self._server = socket.socket()
        self._server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._server.bind(self.address)
        self._server.listen(0)
        self._waiting = [socket.socket() for _ in range(3)]
        for one in self._waiting:
            one.setblocking(False)
            one.connect_ex(self.address)


@pytest.fixture
def port() -> Iterator[Port]:
    one = Port()
    yield one
    one.close()


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The answers of a port at each look."""
    found: list[list[str]] = []
    answers = deaths_watch._answers

    async def look(address: Address) -> list[str]:
        found.append(await answers(address))
        return found[-1]

    monkeypatch.setattr(deaths_watch, "_answers", look)
    return found


def test_a_port_that_accepts_again_belongs_to_somebody_alive(port: Port, tried: list[list[str]]) -> None:
    group = Group()
    with watching(group, {"a": port.address}) as watch:
        wait_held(watch, "a")
        port.held[0].close()
        wait_for(lambda: tried == [["accepted"] * 5], "a look")
        wait_held(watch, "a")
    assert group.removed == []


def test_a_port_behind_a_firewall_is_not_known(port: Port, tried: list[list[str]]) -> None:
    group = Group()
    with watching(group, {"a": port.address}) as watch:
        wait_held(watch, "a")
        port.drop_silently()
        port.held[0].close()
        wait_for(lambda: tried == [["silent"] * 5], "a look")
    assert group.removed == []


def test_a_reset_says_nothing_even_where_connections_are_refused(port: Port, tried: list[list[str]]) -> None:
    """A firewall that rejects does both."""
    group = Group()
    with watching(group, {"a": port.address}) as watch:
        wait_held(watch, "a")
        port.shut()
        port.held[0].setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        port.held[0].close()
        wait_for(lambda: watch.held() == set() and watch._watched["a"].ends == 1, "the end")
    assert tried == []
    assert group.removed == []


def test_a_port_that_was_never_reached_says_nothing() -> None:
    group = Group()
    addresses = {"a": (HERE, free_port()), "b": ("no such host..", 1)}
    with watching(group, addresses) as watch:
        wait_for(lambda: len(watch._watched) == 2, "tries")
        assert watch.held() == frozenset()
    assert group.removed == []


def test_an_answer_that_took_long_says_nothing(port: Port, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deaths_watch, "PROMPT_S", -1.0)
    group = Group()
    with watching(group, {"a": port.address}) as watch:
        wait_for(lambda: group.asked >= 2, "answers")
        assert watch.held() == frozenset()


def test_a_connection_that_meets_itself_is_no_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel may choose the very port as its own that nobody listens at."""
    with socket.socket() as itself:
        itself.bind((HERE, 0))
        address = itself.getsockname()
        itself.connect(address)
        assert itself.getpeername() == address

        async def connect(*_: object, **__: object) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
            return await asyncio.streams.open_connection(sock=itself.dup())

        monkeypatch.setattr(asyncio, "open_connection", connect)
        assert asyncio.run(deaths_watch._answer(address)) == "refused"


def test_a_killed_member_is_noticed_over_tls(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "certs")
    context = ssl.create_default_context(cafile=str(authority.directory / "ca.pem"))
    one, group = Process(*authority.server("matcher", [HERE])), Group()
    try:
        with watching(group, {"a": one.address}, lambda: context) as watch:
            wait_held(watch, "a")
            one.kill()
            wait_for(lambda: group.removed == [("a", "a-id")], "its removal")
    finally:
        one.kill()
