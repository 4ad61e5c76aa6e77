"""One process of the swarm: an epoll loop over up to 19,000 connections, steered through a pipe."""

import errno
import os
import select
import socket
import time
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection as Pipe
from typing import Any, cast

from coldnotify_load.bench_topics import BenchTopics
from coldnotify_load.latencies import Latencies
from coldnotify_load.load_device import DeviceMaker, LoadDevice, QueryingDevice
from coldnotify_load.mark_tally import MarkTally, ToldMarks
from coldnotify_load.marks import Mark, Stamp, boot_id
from coldnotify_load.population import Population, merged, silence_s

_TICKS = 20
"""Ticks a second: Acks of all devices at once would be an additional load."""
_CONNECTING_MAX = 200
"""Limit on connections in progress: the servers' backlogs are not part of the measurement."""
_RECEIVE_BYTES = 16_384
_CLOSED_MAX = 10
_PENDING_VALUES_MAX = 100_000
_IP_BIND_ADDRESS_NO_PORT = 24
_GOLDEN = 0.618
"""Multiples of it are evenly spread between whole numbers."""
_CONNECT_S = 10.0
"""The clients' own: a connection that is not complete by then is given up, if devices have a keepalive."""


@dataclass(frozen=True)
class Share:
    """The share of one process."""

    device: DeviceMaker
    population: Population
    first: int
    """The number of its first device; the others have the next ones."""
    sources: tuple[str, ...]
    """The addresses that its connections come from, in turn: one has 28,000 ports. None: the kernel chooses."""
    addresses: tuple[tuple[str, int], ...]
    receive_buffer_bytes: int = 0
    """The kernel's for each socket; 0: it chooses."""
    network: Callable[[], None] | None = None
    """Enters the network namespace that its devices are in; None: it is the one that it was started in."""


@dataclass
class Counts:
    """Counts of what one process has seen. Times are of the machine's monotonic clock."""

    connected: int = 0
    ready: int = 0
    lost: int = 0
    """Connections of complete devices that have ended."""
    returned: int = 0
    """Devices that were lost since `record`, and are complete again."""
    failed: int = 0
    """Other connections that have ended, or were not made."""
    attempts: int = 0
    """Connections that were begun."""
    deliveries: int = 0
    reached: int = 0
    """Devices that something arrived at since `record`."""
    without_clock: int = 0
    """Deliveries of marks of another machine, or of before its start: they have no latency."""
    bytes_in: int = 0
    bytes_out: int = 0
    first_lost_ns: int = 0
    last_ready_ns: int = 0
    last_reached_ns: int = 0
    last_delivery_ns: int = 0
    cpu_s: float = 0.0
    closed: list[str] = field(default_factory=list)
    """Why servers sent devices away, or could not be reached: the first few."""


class _Slot:
    __slots__ = (
        "device",
        "newest",
        "number",
        "out",
        "pinged_s",
        "reached",
        "ready",
        "socket",
        "started_ns",
        "state",
        "strayed",
        "tries",
        "unanswered_s",
    )

    def __init__(self, number: int, device: LoadDevice) -> None:
        self.number = number
        self.device = device
        self.socket: socket.socket | None = None
        self.state = "idle"
        self.started_ns = 0
        self.ready = False
        self.reached = False
        self.strayed = False
        """It was lost since `record`."""
        self.out = b""
        self.tries = 0
        """It connects to the next address after each connection that has failed or was lost."""
        self.newest = 0
        """The newest stamp."""
        self.pinged_s = 0.0
        self.unanswered_s = 0.0
        """The time of the first Ping since something was heard; 0: all is answered."""

    def connecting(self, connection: socket.socket, keepalive_s: int) -> None:
        """Begin with a new connection."""
        self.socket, self.state, self.started_ns, self.out = connection, "connecting", time.monotonic_ns(), b""
        # Devices that connect together are as many clients that did not: their Pings are spread over a keepalive.
        self.pinged_s = time.monotonic() - (keepalive_s * (self.number * _GOLDEN % 1) if not self.tries else 0.0)
        self.unanswered_s = 0.0

    def heard(self) -> None:
        """Something came: it is not silent."""
        self.unanswered_s = 0.0

    def told(self, stamps: tuple[int, ...]) -> None:
        """Versions came."""
        self.newest = max(self.newest, *stamps)

    def stray(self) -> None:
        """It is complete no more."""
        self.strayed = True

    def is_given_up(self, now_s: float, limit_s: float) -> bool:
        """Returns true if a Ping has been unanswered for so long, or connecting takes too long."""
        if self.ready:
            return 0.0 < self.unanswered_s < now_s - limit_s
        return self.state != "idle" and self.started_ns / 1e9 < now_s - _CONNECT_S

    def ping(self, now_s: float) -> bytes:
        """Returns a Ping."""
        self.pinged_s = now_s
        self.unanswered_s = self.unanswered_s or now_s
        return self.device.ping()


def run(share: Share, pipe: Pipe) -> None:
    """Executes commands until told to stop, or the pipe is closed."""
    with suppress(EOFError, KeyboardInterrupt):
        _Loop(share, pipe).run()


class _Loop:
    def __init__(self, share: Share, pipe: Pipe) -> None:
        self._share, self._pipe = share, pipe
        self._addresses = share.addresses
        self._epoll = select.epoll()
        self._slots: list[_Slot] = []
        self._by_fd: dict[int, _Slot] = {}
        self._waiting: deque[_Slot] = deque()
        self._later: deque[tuple[float, _Slot]] = deque()
        self._connecting = 0
        self._pace_s = 0.0
        self._next_start_s = 0.0
        self._dirty: list[set[_Slot]] = [set() for _ in range(_TICKS)]
        self._tick = 0
        self._counts = Counts()
        self._since_ns = 0
        self._values_ns: list[int] = []
        self._ready_ns: list[int] = []
        self._latencies, self._to_ready = Latencies(), Latencies()
        self._differences: list[tuple[int, int]] = []
        self._next_changing = 0
        self._tally = MarkTally(share.population) if isinstance(share.population, BenchTopics) else None
        self._boot = boot_id()
        self._come_back_s: float | None = 0.05
        self._stopping = False

    def run(self) -> None:
        pipe_fd = self._pipe.fileno()
        self._epoll.register(pipe_fd, select.EPOLLIN)
        next_tick_s = time.monotonic()
        while not self._stopping:
            now_s = time.monotonic()
            if now_s >= next_tick_s:
                next_tick_s = max(next_tick_s + 1 / _TICKS, now_s)
                self._on_tick()
            self._start_connections(now_s)
            until_s = next_tick_s
            if self._waiting and self._connecting < _CONNECTING_MAX:
                until_s = min(until_s, self._next_start_s)
            found = self._epoll.poll(max(0.0, until_s - time.monotonic()), 4096)
            for fd, mask in found:
                if fd == pipe_fd:
                    self._obey(self._pipe.recv())
                    continue
                slot = self._by_fd.get(fd)
                if slot is None:
                    continue
                if slot.state == "connecting":
                    self._on_connected(slot)
                    continue
                if mask & select.EPOLLOUT:
                    self._send(slot, b"")
                if mask & ~select.EPOLLOUT:
                    self._on_readable(slot)

    # -- connections ---------------------------------------------------------------------------------------------------

    def _start_connections(self, now_s: float) -> None:
        while self._later and self._later[0][0] <= now_s:
            self._waiting.append(self._later.popleft()[1])
        while self._waiting and self._connecting < _CONNECTING_MAX and self._next_start_s <= now_s:
            self._next_start_s = max(self._next_start_s + self._pace_s, now_s - 0.1)
            self._start(self._waiting.popleft())

    def _start(self, slot: _Slot) -> None:
        connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        connection.setsockopt(socket.SOL_IP, _IP_BIND_ADDRESS_NO_PORT, 1)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._share.receive_buffer_bytes:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._share.receive_buffer_bytes)
        slot.connecting(connection, self._share.population.keepalive_s)
        self._counts.attempts += 1
        self._by_fd[connection.fileno()] = slot
        self._connecting += 1
        try:
            if sources := self._share.sources:
                connection.bind((sources[slot.number % len(sources)], 0))
            code = connection.connect_ex(self._address(slot))
        except OSError as error:
            code = error.errno or errno.EIO
        if code not in (0, errno.EINPROGRESS):
            self._connecting -= 1
            self._failed(slot)
            return
        self._epoll.register(connection.fileno(), select.EPOLLOUT)

    def _address(self, slot: _Slot) -> tuple[str, int]:
        """The next address: of two devices that lose the same one, each goes to another."""
        count = len(self._addresses)
        step = 1 + slot.number // count % max(1, count - 1)
        return self._addresses[(slot.number + slot.tries * step) % count]

    def _on_connected(self, slot: _Slot) -> None:
        assert slot.socket is not None
        self._connecting -= 1
        if code := slot.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self._why(os.strerror(code))
            self._failed(slot)
            return
        slot.state = "open"
        self._counts.connected += 1
        self._epoll.modify(slot.socket.fileno(), select.EPOLLIN)
        self._send(slot, slot.device.hello())

    def _failed(self, slot: _Slot) -> None:
        self._counts.failed += 1
        self._close(slot)
        self._again(slot)

    def _lost(self, slot: _Slot) -> None:
        if slot.ready:
            self._counts.lost += 1
        else:
            self._counts.failed += 1
        self._counts.first_lost_ns = self._counts.first_lost_ns or time.monotonic_ns()
        if slot.device.closed:
            self._why(slot.device.closed)
        self._close(slot)
        self._again(slot)

    def _why(self, words: str) -> None:
        if len(self._counts.closed) < _CLOSED_MAX:
            self._counts.closed.append(words[:200])

    def _again(self, slot: _Slot) -> None:
        slot.tries += 1
        if self._come_back_s is not None:
            self._later.append((time.monotonic() + self._come_back_s, slot))

    def _close(self, slot: _Slot) -> None:
        if slot.socket is None:
            return
        self._by_fd.pop(slot.socket.fileno(), None)
        slot.socket.close()
        if slot.state == "open":
            self._counts.connected -= 1
        if slot.ready:
            self._counts.ready -= 1
            self._counts.returned -= slot.strayed
            slot.stray()
        slot.socket, slot.state, slot.ready = None, "idle", False

    # -- data ----------------------------------------------------------------------------------------------------------

    def _send(self, slot: _Slot, data: bytes) -> None:
        if slot.socket is None:
            return
        waited = bool(slot.out)
        data = slot.out + data
        try:
            sent = slot.socket.send(data) if data else 0
        except BlockingIOError:
            sent = 0
        except OSError:
            self._lost(slot)
            return
        self._counts.bytes_out += sent
        slot.out = data[sent:]
        if bool(slot.out) != waited:
            wanted = select.EPOLLIN | (select.EPOLLOUT if slot.out else 0)
            self._epoll.modify(slot.socket.fileno(), wanted)

    def _on_readable(self, slot: _Slot) -> None:
        if slot.socket is None:
            return
        try:
            data = slot.socket.recv(_RECEIVE_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._lost(slot)
            return
        device = slot.device
        slot.heard()
        reply, stamps = device.receive(data)
        counts = self._counts
        counts.bytes_in += len(data)
        if stamps:
            self._dirty[slot.number % _TICKS].add(slot)
            self._on_stamps(slot, stamps, time.monotonic_ns())
            if len(self._values_ns) > _PENDING_VALUES_MAX:
                self._latencies.add_ns(self._values_ns)
                self._values_ns.clear()
        if device.ready != slot.ready:
            slot.ready = device.ready
            counts.ready += 1 if slot.ready else -1
            counts.returned += slot.strayed if slot.ready else -slot.strayed
            if slot.ready:
                counts.last_ready_ns = time.monotonic_ns()
                self._ready_ns.append(counts.last_ready_ns - slot.started_ns)
        if reply:
            self._send(slot, reply)

    def _on_stamps(self, slot: _Slot, stamps: tuple[Stamp, ...], now_ns: int) -> None:
        if self._tally is not None:
            self._on_marks(slot, self._tally, stamps, now_ns)
            return
        numbers, counts, since_ns = cast("tuple[int, ...]", stamps), self._counts, self._since_ns
        slot.told(numbers)
        for stamp in numbers:
            if stamp >= since_ns:
                counts.deliveries += 1
                counts.last_delivery_ns = now_ns
                self._values_ns.append(now_ns - stamp)
                if not slot.reached:
                    slot.reached = True
                    counts.reached += 1
                    counts.last_reached_ns = now_ns
            elif stamp < 0:
                self._differences.append((-1 - stamp, now_ns))

    def _on_marks(self, slot: _Slot, tally: MarkTally, stamps: tuple[Stamp, ...], now_ns: int) -> None:
        counts, place = self._counts, slot.number - self._share.first
        for mark in stamps:
            if isinstance(mark, Mark) and tally.told(place, mark):
                counts.deliveries += 1
                counts.last_delivery_ns = now_ns
                if mark.boot == self._boot:
                    self._values_ns.append(now_ns - mark.at_ns)
                else:
                    counts.without_clock += 1

    def _on_tick(self) -> None:
        self._tick = (self._tick + 1) % _TICKS
        dirty = self._dirty[self._tick]
        if dirty:
            for slot in dirty:
                if slot.state == "open" and (said := slot.device.tick()):
                    self._send(slot, said)
            dirty.clear()
        if self._share.population.keepalive_s:
            self._keep_alive()

    def _keep_alive(self) -> None:
        """A share of the devices, as clients do it: a Ping each keepalive, and lost if nothing comes for longer."""
        now_s, keepalive_s = time.monotonic(), self._share.population.keepalive_s
        limit_s = silence_s(keepalive_s)
        for slot in self._slots[self._tick :: _TICKS]:
            if slot.is_given_up(now_s, limit_s):
                if slot.state == "connecting":
                    self._connecting -= 1
                    self._failed(slot)
                else:
                    self._lost(slot)
            elif slot.ready and slot.pinged_s + keepalive_s <= now_s:
                self._send(slot, slot.ping(now_s))

    # -- orders --------------------------------------------------------------------------------------------------------

    def _obey(self, order: tuple[Any, ...]) -> None:
        word, *arguments = order
        answer: Any = None
        if word == "add":
            self._add(*arguments)
        elif word == "counts":
            self._counts.cpu_s = time.process_time()
            answer = self._counts
        elif word == "record":
            self._record(*arguments)
        elif word == "take":
            answer = self._take()
        elif word == "differences":
            answer, self._differences = self._differences, []
        elif word in ("measure", "end", "tally"):
            answer = self._of_tally(word, *arguments)
        elif word == "where":
            answer = Counter(self._address(slot) for slot in self._slots if slot.state == "open")
        elif word == "newest":
            answer = self._newest()
        elif word == "held":
            devices = ((slot.number, slot.device) for slot in self._slots)
            answer = {number: device.held() for number, device in devices if isinstance(device, QueryingDevice)}
        elif word == "change":
            answer = self._change(*arguments)
        elif word == "come back":
            self._come_back(*arguments)
        elif word == "ping":
            for slot in self._slots:
                self._send(slot, slot.device.ping())
        elif word == "drop":
            self._drop()
        elif word == "stop":
            self._drop()
            self._stopping = True
        else:
            raise ValueError(f"an order that nobody knows: {word!r}")
        self._pipe.send(answer)

    def _add(self, count: int, per_s: float) -> None:
        first = self._share.first + len(self._slots)
        new = [_Slot(n, self._share.device(self._share.population, n)) for n in range(first, first + count)]
        self._slots += new
        if self._tally is not None:
            for slot in new:
                self._tally.add(slot.number)
        self._pace(per_s)
        self._waiting.extend(new)

    def _pace(self, per_s: float) -> None:
        self._pace_s = 1 / per_s if per_s else 0.0
        self._next_start_s = time.monotonic()

    def _newest(self) -> dict[int, Counter[int]]:
        """By block."""
        block_of = self._share.population.block_of
        return merged({block_of(slot.number): Counter([slot.newest])} for slot in self._slots)

    def _change(self, devices: int, queries: int) -> int:
        """The next so many devices have other queries; how many queries that were."""
        changed = 0
        for _ in range(devices):
            slot = self._slots[self._next_changing % len(self._slots)]
            self._next_changing += 1
            if isinstance(slot.device, QueryingDevice) and slot.ready and (said := slot.device.change(queries)):
                self._send(slot, said)
                changed += queries
        return changed

    def _of_tally(self, word: str, *arguments: int) -> ToldMarks | None:
        if self._tally is None:
            raise ValueError(f"{word}: only clients of BenchTopics have marks")
        if word == "tally":
            return self._tally.all()
        if word == "end":
            self._tally.end(*arguments)
        else:
            self._record(0)
            self._tally.measure(*arguments)
        return None

    def _record(self, since_ns: int) -> None:
        self._since_ns = since_ns
        self._differences.clear()
        self._latencies, self._to_ready = Latencies(), Latencies()
        self._values_ns.clear()
        self._ready_ns.clear()
        for slot in self._slots:
            slot.reached = slot.strayed = False
        self._counts = Counts(connected=self._counts.connected, ready=self._counts.ready)

    def _take(self) -> tuple[bytes, bytes]:
        self._latencies.add_ns(self._values_ns)
        self._to_ready.add_ns(self._ready_ns)
        self._values_ns.clear()
        self._ready_ns.clear()
        return self._latencies.encoded(), self._to_ready.encoded()

    def _come_back(self, per_s: float, delay_s: float | None) -> None:
        """Connects all that are away; from now on, lost ones return after `delay_s` (None: never)."""
        self._come_back_s = delay_s
        self._pace(per_s)
        self._later.clear()
        self._waiting = deque(slot for slot in self._slots if slot.state == "idle")

    def _drop(self) -> None:
        """Breaks all connections, and nobody returns without a command."""
        self._come_back_s = None
        self._later.clear()
        self._waiting.clear()
        for slot in self._slots:
            if slot.state == "connecting":
                self._connecting -= 1
            self._close(slot)
