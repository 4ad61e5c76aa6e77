"""The experiments' view of the swarm: devices in several processes, which get commands and report what they saw."""

import resource
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from multiprocessing.connection import Connection as Pipe
from types import TracebackType
from typing import Any, Self

from coldnotify_load.bench_topics import BenchTopics
from coldnotify_load.latencies import Latencies
from coldnotify_load.load_device import DeviceMaker
from coldnotify_load.loaders import begun, unstopped
from coldnotify_load.mark_tally import ToldMarks
from coldnotify_load.population import Population, merged, silence_s
from coldnotify_load.swarm_process import Counts, Share, run

ANSWER_S = 120.0
"""A process that parses a backlog answers late; one that does not answer for so long is gone."""
_LOOK_S = 0.02
_END_S = 5.0
"""A process whose pipe has ended is gone so soon."""
_FILES_KEPT = 500
"""Open files reserved for Python itself."""
_SOURCES_MAX = 250


class SwarmError(Exception):
    """Devices did not get where they should in time."""


class Swarm:
    """Devices 0 to `devices` - 1 of a population; none is connected before `add`."""

    def __init__(
        self,
        device: DeviceMaker,
        population: Population,
        devices: int,
        addresses: list[tuple[str, int]],
        *,
        processes: int = 2,
        receive_buffer_bytes: int = 0,
        sources: Sequence[str] = (),
        survives: bool = False,
        network: Callable[[], None] | None = None,
    ) -> None:
        """`receive_buffer_bytes`: the kernel's for each device; 0: it chooses, up to megabytes.
        `network`: called in each process first, enters the network namespace that devices are in; None: this process'.

        `sources`: addresses that devices connect from, in turn; none: one of 127.0.0.0/8 for each process.
        `survives`: a process that has ended is left out from then on, and is in `gone`; else it raises SwarmError.

        More processes are taken where one may not open so many files. Raises SwarmError if those are too many.
        """
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[1] - _FILES_KEPT
        processes = max(1, min(processes, devices), -(-devices // files))
        if processes > _SOURCES_MAX:
            raise SwarmError(
                f"{devices} devices need {processes} processes of {files} files; {_SOURCES_MAX} can be had"
            )
        self.devices = devices
        bounds = [devices * i // processes for i in range(processes + 1)]
        self._shares = [
            Share(
                device,
                population,
                bounds[i],
                _sources(sources, i, addresses, in_network=network is not None),
                tuple(addresses),
                receive_buffer_bytes,
                network,
            )
            for i in range(processes)
        ]
        self._sizes = [bounds[i + 1] - bounds[i] for i in range(processes)]
        self._added = [0] * processes
        self._survives = survives
        self.gone: set[int] = set()
        """The processes that have ended, by number."""
        self._pipes, self._processes = begun(_with_all_files, self._shares)

    @property
    def pids(self) -> list[int]:
        """The ids of its processes."""
        return [process.pid for process in self._processes if process.pid is not None]

    def add(self, count: int, per_s: float = 0.0) -> None:
        """Begin to connect the next `count` devices, together `per_s` a second (0: as fast as it goes)."""
        while count > 0:
            for i, size in enumerate(self._sizes):
                share = min(size - self._added[i], -(-count // len(self._pipes)) if count > 0 else 0, count)
                if share > 0:
                    self._ask_one(i, "add", share, per_s / len(self._pipes))
                    self._added[i] += share
                    count -= share
            if self._added == self._sizes and count > 0:
                raise SwarmError(f"{count} devices more than the swarm has")

    def counts(self) -> Counts:
        """Returns the counts of all processes: sums; of the times, the first loss and the last of the others."""
        total = Counts()
        for one in self._ask("counts"):
            for name in (field.name for field in fields(Counts)):
                here, there = getattr(total, name), getattr(one, name)
                if name == "first_lost_ns":
                    value = min(filter(None, (here, there)), default=0)
                elif name.endswith("_ns"):
                    value = max(here, there)
                else:
                    value = here + there
                setattr(total, name, value)
        return total

    def wait(self, condition: Callable[[Counts], bool], timeout_s: float, what: str) -> Counts:
        """Returns the counts once they fulfil it. Raises SwarmError, naming `what`, after `timeout_s`."""
        until_s = time.monotonic() + timeout_s
        while not condition(counts := self.counts()):
            if time.monotonic() > until_s:
                raise SwarmError(f"{what}: not within {timeout_s:g} s; {counts}")
            time.sleep(_LOOK_S)
        return counts

    def wait_ready(self, timeout_s: float = 120.0, count: int | None = None) -> Counts:
        """Until so many devices (all that were added) are complete."""
        wanted = sum(self._added) if count is None else count
        return self.wait(lambda counts: counts.ready >= wanted, timeout_s, f"{wanted} devices complete")

    def record(self, since_ns: int | None = None) -> None:
        """Restarts counting; only what was published at or after `since_ns` (now) counts as a delivery."""
        self._ask("record", time.monotonic_ns() if since_ns is None else since_ns)

    def take(self) -> tuple[Latencies, Latencies]:
        """Since `record`: from publish to callback, and from connecting to complete."""
        delivered, to_ready = Latencies(), Latencies()
        for one, other in self._ask("take"):
            delivered.merge(one)
            to_ready.merge(other)
        return delivered, to_ready

    def measure(self, since_ms: int, until_ms: int) -> None:
        """Restarts counting, by marks that were published from then to before then (Unix ms)."""
        self._ask("measure", since_ms, until_ms)

    def end(self, until_ms: int) -> None:
        """Ends sooner what `measure` has begun."""
        self._ask("end", until_ms)

    def tallies(self) -> dict[int, ToldMarks]:
        """Returns since `measure` the tally of each process that is there, by its first device."""
        return {self._shares[i].first: told for i, told in self._ask_each("tally").items()}

    @property
    def sizes(self) -> dict[int, int]:
        """Numbers of devices that were added, by process: by its first device."""
        return {share.first: added for share, added in zip(self._shares, self._added, strict=True)}

    def where(self) -> Counter[tuple[str, int]]:
        """Returns how many devices are connected to each address."""
        return sum(self._ask("where"), Counter[tuple[str, int]]())

    def differences(self) -> list[tuple[int, int]]:
        """Since the last call or `record`: of each difference the offset of its change, and when it arrived."""
        return [one for some in self._ask("differences") for one in some]

    @staticmethod
    def given_up_s(keepalive_s: float) -> float:
        """Returns the longest time after which devices with this keepalive give up a silent server (0: at once)."""
        return keepalive_s + silence_s(keepalive_s)

    def newest(self) -> dict[int, Counter[int]]:
        """Returns by block how many devices have which stamp as their newest."""
        return merged(self._ask("newest"))

    def held(self) -> dict[int, Any]:
        """Returns the state of each QueryingDevice, as its `held` says it."""
        return {number: one for some in self._ask("held") for number, one in some.items()}

    def change(self, devices: int, queries: int) -> int:
        """In each process, the next so many devices replace their oldest queries by new ones.

        Returns how many queries that were. Devices that have requests unanswered, or are not complete, are left out.
        """
        return sum(self._ask("change", devices, queries))

    def ping(self) -> None:
        """Every device sends its keepalive."""
        self._ask("ping")

    def drop(self) -> None:
        """End all connections without a word; nobody comes back by himself."""
        self._ask("drop")

    def come_back(self, per_s: float = 0.0, delay_s: float | None = 0.05) -> None:
        """All that are away connect; whoever is lost from now on does so after `delay_s` (None: never)."""
        self._ask("come back", per_s / len(self._pipes), delay_s)

    def stop(self) -> None:
        """End all processes. May be called twice."""
        for pipe in self._pipes:
            try:
                pipe.send(("stop",))
            except OSError:
                continue
        for process in self._processes:
            process.join(10)
            if process.is_alive():
                process.kill()
                process.join(10)
        for pipe in self._pipes:
            pipe.close()
        self._pipes = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self.stop()

    def _ask(self, *order: Any) -> list[Any]:
        return list(self._ask_each(*order).values())

    def _ask_each(self, *order: Any) -> dict[int, Any]:
        """Returns the answers by process."""
        for i in range(len(self._pipes)):
            if i not in self.gone:
                with self._left_out(i):
                    self._pipes[i].send(order)
        answers = {}
        for i in range(len(self._pipes)):
            if i not in self.gone:
                with self._left_out(i):
                    answers[i] = _answer(self._pipes[i])
        return answers

    @contextmanager
    def _left_out(self, process: int) -> Iterator[None]:
        try:
            yield
        except (SwarmError, OSError):
            if not self._survives:
                raise
            self._processes[process].join(_END_S)
            if self._processes[process].is_alive():
                raise
            self.gone.add(process)

    def _ask_one(self, process: int, *order: Any) -> Any:
        self._pipes[process].send(order)
        return _answer(self._pipes[process])


def _answer(pipe: Pipe) -> Any:
    if not pipe.poll(ANSWER_S):
        raise SwarmError(f"a process of the swarm has not answered for {ANSWER_S:g} s")
    try:
        return pipe.recv()
    except EOFError:
        raise SwarmError("a process of the swarm has ended; its error is above") from None


def _sources(
    given: Sequence[str], process: int, addresses: list[tuple[str, int]], *, in_network: bool
) -> tuple[str, ...]:
    """The kernel chooses where devices are in another network, or the gateways on another machine."""
    if given or in_network or not all(host.startswith("127.") for host, _ in addresses):
        return tuple(given)
    return (f"127.0.0.{2 + process}",)


def _with_all_files(share: Share, pipe: Pipe) -> None:
    unstopped(bench=isinstance(share.population, BenchTopics))
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if share.network is not None:
        share.network()
    run(share, pipe)
