"""One half's clients and its publisher, in one process in the half's own network: the real library on one event loop.

Each client is registered for one object of either half's publisher. A look tells what each client says and was told.
"""

import asyncio
import contextlib
import logging
import time
from dataclasses import dataclass, field
from multiprocessing.connection import Connection as Pipe

from coldnotify import Connection, Notification, State
from coldnotify.aio import Notify
from coldnotify.publisher import Publisher, PublishError
from coldnotify_testkit.networks import enter

DOMAIN = "split.merge"
_LIVE = "live"
_TIMEOUT_S = 10.0
_SAID_S = 0.2
_KEPT_MAX = 100_000
"""Limit on acknowledged publishes between two looks: beyond it nobody looks any more."""


@dataclass(frozen=True)
class HalfPlan:
    """The work of one process."""

    network: str
    kafka: str
    addresses: tuple[str, ...]
    """All gateways."""
    clients: tuple[tuple[str, str], ...]
    """Name and group of each."""
    objects: tuple[str, ...]
    """One for each half; clients register for all."""
    own: str
    """The object that this half publishes, in each group."""
    groups: tuple[str, ...]
    keepalive_s: int
    backoff_max_s: float
    every_s: float
    """Seconds between two publishes of an object."""


@dataclass(frozen=True)
class ClientLook:
    """A client's words, and the versions that it was told."""

    group: str
    live: bool
    caught_up: bool
    """True if it said so at any time since the last look: it does not while a callback runs."""
    as_of: float | None
    """Unix time."""
    told: dict[str, int]
    """The newest version by object; none was told of those that are missing."""


@dataclass(frozen=True)
class Acknowledged:
    """A publish that has returned."""

    group: str
    object: str
    version: int
    began: float
    """Unix time."""
    at: float
    """The time of its return."""


@dataclass(frozen=True)
class HalfLook:
    """A half's clients, and its publishes since the last look."""

    at: float = 0.0
    """Unix time."""
    clients: list[ClientLook] = field(default_factory=list)
    acknowledged: list[Acknowledged] = field(default_factory=list)
    failed: int = 0


def run(plan: HalfPlan, pipe: Pipe) -> None:
    """The process: begins with True, answers each further command with a HalfLook, ends with None."""
    logging.getLogger("coldnotify").setLevel(logging.CRITICAL)
    enter(plan.network)
    asyncio.run(_Half(plan, pipe).run())


class _Client:
    def __init__(self, plan: HalfPlan, name: str, group: str) -> None:
        connection = Connection(
            plan.addresses, keepalive_s=plan.keepalive_s, backoff_max_s=plan.backoff_max_s, connect_timeout_s=5
        )
        self.notify = Notify(DOMAIN, group, name, State(None), connection, say_errors=False)
        self.group, self._told = group, dict[str, int]()
        self._said = False
        for object_ in plan.objects:
            self.notify.register(object_).subscribe(self._tell)

    def _tell(self, notification: Notification) -> None:
        self._told[notification.object_id] = notification.version or 0

    def listen(self) -> None:
        self._said = self._said or self.notify.caught_up

    def look(self) -> ClientLook:
        status = self.notify.status
        said, self._said = self._said or status.caught_up, False
        return ClientLook(self.group, status.phase == _LIVE, said, status.fresh_as_of, dict(self._told))


class _Half:
    def __init__(self, plan: HalfPlan, pipe: Pipe) -> None:
        self._plan, self._pipe = plan, pipe
        self._clients: list[_Client] = []
        self._acknowledged: list[Acknowledged] = []
        self._failed = 0
        self._ending = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        asyncio.get_running_loop().add_reader(self._pipe.fileno(), self._on_command)
        await self._ending.wait()
        for task in self._tasks:
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(*self._tasks)

    def _on_command(self) -> None:
        try:
            command = self._pipe.recv()
        except EOFError:
            command = None
        if command is None:
            asyncio.get_running_loop().remove_reader(self._pipe.fileno())
            self._ending.set()
        elif not self._clients:
            self._clients = [_Client(self._plan, *one) for one in self._plan.clients]
            self._tasks |= {asyncio.create_task(self._begin()), asyncio.create_task(self._listen())}
            self._pipe.send(True)
        else:
            acknowledged, self._acknowledged = self._acknowledged, []
            failed, self._failed = self._failed, 0
            self._pipe.send(HalfLook(time.time(), [client.look() for client in self._clients], acknowledged, failed))

    async def _listen(self) -> None:
        while True:
            await asyncio.sleep(_SAID_S)
            for client in self._clients:
                client.listen()

    async def _begin(self) -> None:
        for client in self._clients:
            await client.notify.connect()
        async with Publisher(self._plan.kafka, timeout_s=_TIMEOUT_S) as publisher:
            await asyncio.gather(*(self._publish(publisher, group) for group in self._plan.groups))

    async def _publish(self, publisher: Publisher, group: str) -> None:
        loop, version, own = asyncio.get_running_loop(), 0, self._plan.own
        while len(self._acknowledged) < _KEPT_MAX:
            began_s, began = loop.time(), time.time()
            version += 1
            try:
                await publisher.publish_async(DOMAIN, group, own, version=version)
            except PublishError:
                self._failed += 1
            else:
                self._acknowledged.append(Acknowledged(group, own, version, began, time.time()))
            await asyncio.sleep(max(0.0, began_s + self._plan.every_s - loop.time()))
