"""The processes of workers: killed, stopped, cut off from their gateways, and whole again; and what they have not done.

Each worker has links of its own to the gateways, which lead to the proxies that all clients use.
"""

import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from coldnotify_checker.histories import Event, Record
from coldnotify_checker.share_records import SeenShare, seen_shares
from coldnotify_kafka.broker.freezing import freeze, thaw
from coldnotify_kafka.broker.process import spawn
from coldnotify_schemas.topics import TopicNames
from coldnotify_testkit.proxy import HOST, Network, Proxy

from coldnotify_fault.senders import right_partition, topic_of
from coldnotify_fault.work_steps import SHARE, SHARED

_END_S = 15.0


class WorkerProcess:
    """One worker, and its links."""

    def __init__(self, name: str, directory: Path, links: Sequence[Proxy], lease_s: int) -> None:
        self._links = links
        self._log = directory / f"{name}.log"
        self.history = directory / f"{name}.jsonl"
        """The file that it writes."""
        self._argv = [sys.executable, "-m", "coldnotify_fault.worker_host", f"--name={name}"]
        self._argv += [f"--states={directory / 'states'}", f"--history={self.history}", f"--lease-s={lease_s}"]
        self._argv += [f"--gateway={HOST}:{link.port}" for link in links]
        self._process: subprocess.Popen[bytes] | None = None
        self._leaves: subprocess.Popen[bytes] | None = None
        """The one that was told to end."""

    def start(self) -> None:
        """Starts it, unless it runs. One that was told to end does not go on."""
        if self._process is None:
            self._end_now()
            self._process = spawn(self._argv, self._log)

    def kill(self) -> None:
        """kill -9."""
        self._end_now()
        self._leaves, self._process = self._process, None
        self._end_now()

    def leave(self) -> None:
        """Tells it to end in order, and returns at once."""
        self._end_now()
        self._leaves, self._process = self._process, None
        if self._leaves is not None:
            self._leaves.terminate()

    def _end_now(self) -> None:
        process, self._leaves = self._leaves, None
        if process is not None:
            process.kill()
            process.wait(_END_S)

    def freeze(self) -> None:
        """SIGSTOP, if it runs."""
        with suppress(ProcessLookupError):
            if self._process is not None and self._process.poll() is None:
                freeze(self._process.pid)

    def thaw(self) -> None:
        """SIGCONT, if it runs."""
        with suppress(ProcessLookupError):
            if self._process is not None and self._process.poll() is None:
                thaw(self._process.pid)

    def cut(self, *, silent: bool) -> None:
        """Has its links end and refuse new ones; `silent`: nothing ends, and nothing passes."""
        for link in self._links:
            if silent:
                link.swallow()
            else:
                link.refuse()

    def heal(self) -> None:
        """Its links are whole again."""
        for link in self._links:
            link.heal()

    def has_ended(self) -> bool:
        """Returns true if it has ended by itself: that is a fault of ours."""
        return self._process is not None and self._process.poll() is not None


class WorkerHosts:
    """All workers. Not for two threads at once."""

    def __init__(
        self, directory: Path, names: Sequence[str], network: Network, gateways: Sequence[str], lease_s: int = 0
    ) -> None:
        """`directory` has one named `states`. Nothing is started yet. `gateways`: addresses of all clients' proxies.
        `lease_s`: 0: as each share has it."""
        self.workers: dict[str, WorkerProcess] = {}
        targets = [(host, int(port)) for host, _, port in (address.rpartition(":") for address in gateways)]
        for place, name in enumerate(names):
            links = [network.proxy((HOST, 0), target) for target in targets]
            first = place % len(links)
            self.workers[name] = WorkerProcess(name, directory, [*links[first:], *links[:first]], lease_s)

    def histories(self) -> list[Path]:
        """The files that they write, as far as they exist."""
        return [one.history for one in self.workers.values() if one.history.exists()]

    def start_all(self) -> None:
        """All of them, whole."""
        for one in self.workers.values():
            one.heal()
            one.thaw()
            one.start()

    def ended(self) -> list[str]:
        """The workers that ended by themselves: that is a fault of ours."""
        return [name for name, one in self.workers.items() if one.has_ended()]

    def stop(self) -> None:
        """Kill them all."""
        for one in self.workers.values():
            with suppress(subprocess.TimeoutExpired):
                one.kill()


def undone(names: TopicNames, events: Iterable[Event]) -> Iterator[str]:
    """Yields how many tasks a dump has that no record of their share says to be settled."""
    records = [event for event in events if isinstance(event, Record)]
    states = seen_shares(one for one in records if one.topic == names.shares)
    for channel in SHARED:
        domain, group, name = channel.split("/", 2)
        topic, partition = topic_of(names, channel), right_partition(channel)
        tasks = [one for one in records if (one.topic, one.partition, one.key) == (topic, partition, channel)]
        seen = [one for one in states.get(f"{domain}/{group}/{SHARE}/{name}", ()) if isinstance(one, SeenShare)]
        last = seen[-1] if seen else None
        open_ = [one.offset for one in tasks if last is None or not _is_settled(one, last)]
        held = sorted(last.handed) if last is not None else []
        if open_ or held:
            yield f"of {channel} {len(open_)} tasks are not settled, first {open_[:1]}; handed out are {held[:5]}"


def _is_settled(task: Record, last: SeenShare) -> bool:
    """Returns true if a record of the share that came behind the task says so: an older one is of another log."""
    return task.timestamp <= last.record.timestamp and last.is_settled(task.offset)
