"""DeathsWatch: notices at once that the process of another member died, and removes that member from the group.

A process that is killed writes no end, and Kafka notices only when the member's session has timed out. But its kernel
closes its connections. So this thread holds a connection to the inspection port of each other member:

    it ends by a FIN            somebody closed it: the port is tried again
    refused three times         nobody listens there: the process is dead, and its member is removed
    accepted, silent, reset     not known: the session timeout decides, as without this thread

A process that stands still keeps its connection. A member is removed under the id that it had when the connection
ended: one that has joined since, perhaps at another port, has another id, and Kafka refuses. If a living member is
removed all the same, it joins again; what it writes meanwhile is fenced by generations.
"""

import asyncio
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from ipaddress import ip_address

import structlog
from coldnotify_common.http.listening import first_rush
from coldnotify_common.kafka.group_coordinator import CoordinatorUnavailable, GroupCoordinator
from coldnotify_common.kafka.group_protocol import StaticMember
from coldnotify_common.paced import Paced
from coldnotify_common.self_connection import meets_itself

log = structlog.get_logger()
_paced = Paced(log, every_s=60.0)

Address = tuple[str, int]
"""The host and the port of a member's inspection port."""

START_S = 10.0
WATCHED_MAX = 256
"""The most members that are watched: each takes one of the 256 connections of the others' ports."""
LOOK_S = 0.25
"""Interval of checks for other members and addresses, and between attempts to connect."""
MEMBERS_EVERY_S = 1.0
"""Interval of the questions for the members' ids: a process that joins and dies within it is left to its session."""
PROMPT_S = 0.5
"""An answer that took longer says nothing of who held the connection meanwhile."""
AT_ONCE_S = 0.15
"""A process needs longer to start and to join the group."""
CONNECT_S = 2.0
"""Longest wait for a connection, with TLS."""
PING_EVERY_S = 30.0
"""Interval of requests on a held connection: the port closes one without any after 75 s."""
REFUSALS = 3
TRIES_MAX = 5
TRIES_APART_S = 0.05
"""Pause before each try. The first ones may be accepted: a process that dies closes its connections one by one, and its
port perhaps last.
"""
TRY_S = 0.3
"""Longest wait for one of them: a refusal takes microseconds, but this process may have to wait for a core."""
JOIN_S = 5.0
"""Longest wait for the thread's end."""
REFUSED = "refused"
_READ_BYTES = 64 * 1024
_USER_TIMEOUT = getattr(socket, "TCP_USER_TIMEOUT", None)
"""Ends a connection whose other machine is gone, where the system can: else a quarter of an hour later."""


class DeathsWatch(threading.Thread):
    """Watches until stop()."""

    def __init__(
        self,
        own_id: str,
        coordinator: GroupCoordinator,
        addresses: Callable[[], Mapping[str, Address]],
        tls: Callable[[], ssl.SSLContext | None] = lambda: None,
        *,
        session_timeout_s: float,
        begin: Callable[[], object] = lambda: None,
        readiness: Callable[[], str | None] = lambda: None,
    ) -> None:
        """`own_id`: this member's group.instance.id. `coordinator`: of the group; used by this thread alone.

        `addresses`: returns the inspection ports of all members, by group.instance.id. `tls`: the context for these
        ports. `session_timeout_s`: after this time Kafka has noticed by itself. `begin` is called in the thread, once
        `readiness` returns None, or after START_S.
        """
        super().__init__(name="deaths-watch", daemon=True)
        self._own_id = own_id
        self._coordinator = coordinator
        self._addresses = addresses
        self._tls = tls
        self._session_timeout_s = session_timeout_s
        self._begin = begin
        self._readiness = readiness
        self._known: Mapping[str, Address] = {}
        self._looked_s = 0.0
        self._watched: dict[str, _Watched] = {}
        self._held = asyncio.Event()
        """Set when another connection is held."""
        self._stopping = threading.Event()

    def held(self) -> frozenset[str]:
        """Returns the members whose death would be noticed at once; may be called by any thread."""
        return frozenset(id_ for id_, one in list(self._watched.items()) if one.held and one.member is not None)

    def stop(self) -> None:
        """Ends the thread. May be called before start()."""
        self._stopping.set()
        if self.is_alive():
            self.join(JOIN_S)

    def run(self) -> None:
        """The thread."""
        for wait_s in first_rush(self._readiness, START_S):
            if self._stopping.wait(wait_s):
                return
        self._begin()
        asyncio.run(self._watch())

    async def _watch(self) -> None:
        asking = asyncio.create_task(self._ask_members())
        tasks: dict[str, asyncio.Task[None]] = {}
        try:
            while not self._stopping.is_set():
                self._known, self._looked_s = self._addresses(), time.monotonic()
                for id_ in self._known:
                    if id_ != self._own_id and id_ not in tasks and len(tasks) < WATCHED_MAX:
                        self._watched[id_] = _Watched(id_, self._held.set)
                        tasks[id_] = asyncio.create_task(self._follow(self._watched[id_]))
                for id_ in [id_ for id_, task in tasks.items() if task.done()]:
                    del self._watched[id_]
                    tasks.pop(id_).result()
                if asking.done():
                    asking.result()
                await asyncio.sleep(LOOK_S)
        finally:
            for task in (asking, *tasks.values()):
                task.cancel()
            self._coordinator.close()

    async def _ask_members(self) -> None:
        """Keeps the ids of the members whose connections are held."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(MEMBERS_EVERY_S):
                    await self._held.wait()
            self._held.clear()
            before = [one for one in self._watched.values() if one.held]
            if not before:
                continue
            holds = [one.holds for one in before]
            asked_s = time.monotonic()
            try:
                members = await self._coordinator.members()
            except CoordinatorUnavailable as error:
                _paced.log("cannot read who is in the group: deaths are noticed late", reason=str(error))
                continue
            if time.monotonic() - asked_s > PROMPT_S:
                continue
            own = members.get(self._own_id)
            for one, hold in zip(before, holds, strict=True):
                if one.held and one.holds == hold:
                    one.look(members.get(one.id), own)

    async def _follow(self, one: "_Watched") -> None:
        """Holds a connection to a member's port, again and again, until the member has no address."""
        while (address := self._known.get(one.id)) is not None:
            try:
                closed = await one.hold(address, self._tls())
            except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
                _paced.log("cannot watch a member: its death will be noticed late", member=one.id, reason=str(error))
                closed = False
            if closed:
                await self._look_at_once(one)
            member = one.take_member()
            if one.holds > one.ends:
                answers = await _answers(one.peer) if closed and member is not None else []
                if member is not None and answers[-REFUSALS:] == [REFUSED] * REFUSALS:
                    await self._remove(one.id, member)
                else:
                    words = "a member's connection ended: it is not known if it died"
                    log.info(words, member=one.id, reset=not closed, in_group=member is not None, answers=answers)
            one.note_end()
            await asyncio.sleep(LOOK_S)

    async def _look_at_once(self, one: "_Watched") -> None:
        """Learns a member's id although its connection has ended, if the answer comes before another process could have
        joined: a member that has just joined again, in the same process, has another id than a second ago.
        """
        if time.monotonic() - self._looked_s > PROMPT_S:
            return  # this process stood still, and the connection ended at some time
        with suppress(TimeoutError, CoordinatorUnavailable):
            async with asyncio.timeout(AT_ONCE_S):
                members = await self._coordinator.members()
            one.look(members.get(one.id), members.get(self._own_id))

    async def _remove(self, id_: str, member: StaticMember) -> None:
        until_s = time.monotonic() + self._session_timeout_s
        while True:
            try:
                removed = await self._coordinator.remove(id_, member.id)
            except CoordinatorUnavailable as error:
                if time.monotonic() >= until_s:
                    log.warning("a member died, and could not be removed from its group", member=id_, reason=str(error))
                    return
                await asyncio.sleep(TRIES_APART_S)
                continue
            words = "a member died: removed from its group" if removed else "a member died, and is in its group no more"
            log.info(words, member=id_)
            return


class _Watched:
    """One other member. `hold` holds a connection to its port."""

    def __init__(self, id_: str, on_held: Callable[[], None]) -> None:
        self.id = id_
        self._on_held = on_held
        self.member: StaticMember | None = None
        """As the group knew it while the connection was held; None: not known."""
        self.held = False
        """True while there is a connection that was answered: a process killed before that sends a reset."""
        self.holds = 0
        """The number of connections that were made."""
        self.ends = 0
        """The number of them that have ended, with their ends judged."""
        self.peer: Address = ("", 0)
        """The address of the last connection, which has no name that could mean another machine by now."""

    def look(self, member: StaticMember | None, own: StaticMember | None) -> None:
        """Keeps the member as the group knows it now; None: not known there. `own`: this process itself."""
        if member is None or own is None or not self._is_at(member, own):
            self.member = None
            return
        if self.member is None:
            log.info("a member is watched: its death will be noticed at once", member=self.id)
        self.member = member

    def take_member(self) -> StaticMember | None:
        """Returns the member, and knows it no longer."""
        member, self.member = self.member, None
        return member

    def note_end(self) -> None:
        """The last connection's end was judged."""
        self.ends = self.holds

    def _is_at(self, member: StaticMember, own: StaticMember) -> bool:
        """Returns false if the port is of this machine, and the member of another one: somebody else listens there."""
        if not _is_loopback(self.peer[0]) or member.host == own.host:
            return True
        return _is_loopback(member.host) and _is_loopback(own.host)

    async def hold(self, address: Address, tls: ssl.SSLContext | None) -> bool:
        """Returns when the connection has ended; true if the other side closed it. Raises OSError, ssl.SSLError."""
        host, port = address
        async with asyncio.timeout(CONNECT_S):
            reader, writer = await asyncio.open_connection(host, port, ssl=tls)
        try:
            connection, peer = (writer.get_extra_info(name) for name in ("socket", "peername"))
            if meets_itself(connection):
                return False  # nobody listens
            if _USER_TIMEOUT is not None:
                connection.setsockopt(socket.IPPROTO_TCP, _USER_TIMEOUT, int(PING_EVERY_S * 1000))
            self.peer = (peer[0], peer[1])
            return await self._read_to_end(reader, writer, host)
        finally:
            self.held = False
            writer.transport.abort()

    async def _read_to_end(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str) -> bool:
        # Without a request the port closes a connection within ten seconds.
        name = f"[{host}]" if ":" in host else host
        ping = f"GET /healthz HTTP/1.1\r\nHost: {name}\r\n\r\n".encode()
        answered = True
        while True:
            if answered:
                writer.write(ping)
            answered = False
            while True:
                try:
                    async with asyncio.timeout(PING_EVERY_S):
                        data = await reader.read(_READ_BYTES)
                except TimeoutError:
                    if reader.exception() is not None:
                        raise
                    break
                except ConnectionResetError:
                    return False
                if not data:
                    return True
                answered = True
                if not self.held:
                    self.held, self.holds = True, self.holds + 1
                    self._on_held()


async def _answers(address: Address) -> list[str]:
    """Tries the port until it has refused as many connections in a row as tell of a death, and returns its answers."""
    answers: list[str] = []
    while len(answers) < TRIES_MAX and answers[-REFUSALS:] != [REFUSED] * REFUSALS:
        await asyncio.sleep(TRIES_APART_S)
        answers.append(await _answer(address))
    return answers


async def _answer(address: Address) -> str:
    try:
        async with asyncio.timeout(TRY_S):
            _, writer = await asyncio.open_connection(*address)
    except ConnectionRefusedError:
        return REFUSED
    except TimeoutError:
        return "silent"
    except OSError as error:
        return str(error)
    refused = meets_itself(writer.get_extra_info("socket"))
    writer.transport.abort()
    return REFUSED if refused else "accepted"


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False
