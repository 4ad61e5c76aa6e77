"""For tests across services: all of ColdNotify as real processes, and a recorder."""

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from coldnotify import Connection, Notification, Notify, State
from coldnotify.publisher import Publisher
from coldnotify_cli.supervisor import DEATHS_MAX, DEATHS_WINDOW_S
from coldnotify_kafka.broker.cluster import NODES
from coldnotify_kafka.broker.free_ports import free_port, free_row
from coldnotify_kafka.broker.process import spawn
from coldnotify_schemas.topics import DEFAULT_PREFIX, TopicNames

from coldnotify_testkit import zygote
from coldnotify_testkit.kafka import delete_topics
from coldnotify_testkit.waiting import WAIT_S, wait_for

_HOST = "127.0.0.1"
_START_S = 180.0
PARTITIONS = 2
"""The co-partitions of a stack that shares its Kafka. Each costs at the start and at the end."""
_ALIVE_MAX = 3
"""The most stacks at once in a shared Kafka, whose heap and threads are those of one for everyday use."""
_KILLS_MAX = DEATHS_MAX - 2
"""The most kills of a part of a shared stack within the supervisor's window. It leaves room for one more death, in case
that the part dies of something else, too.
"""


def get_json(url: str) -> Any:
    """Returns the JSON answer of an introspection endpoint."""
    with urlopen(url, timeout=WAIT_S) as answer:
        return json.loads(answer.read())


class Up:
    """Runs `coldnotify up` in a process of its own, on free ports. `report` is its ready file."""

    def __init__(self, directory: Path, *flags: str, **settings: str) -> None:
        self._directory = directory
        self.data = directory / "data"
        """Its data directory."""
        self._flags = flags
        self.topics = TopicNames(settings.get("topics_prefix", DEFAULT_PREFIX))
        """Its names in Kafka."""
        # The usual port may be an outgoing connection's own when it is to be listened on, and any gateway that was told
        # none may share that of MQTT. 0.1.0 has no such flags.
        own = {name: str(free_port(_HOST)) for name in ("usage_port", "gateway_mqtt_port")}
        settings = {"kafka": "", **own, **settings}
        self._environ = {**os.environ, **{f"COLDNOTIFY_{name.upper()}": value for name, value in settings.items()}}
        self._ready_file = directory / "ready.json"
        # Chosen by this process, they are reserved between two starts, too. There may be three nodes of Kafka.
        self._ports = {"kafka": free_row(NODES, _HOST)}
        self._ports |= {name: free_port(_HOST) for name in ("gateway", "http", "matcher")}
        self._process: subprocess.Popen[bytes] | zygote.ForkedProcess | None = None
        self._killed_s: defaultdict[str, deque[float]] = defaultdict(lambda: deque(maxlen=_KILLS_MAX))
        """The times of the last kills, by part."""
        self.shared = False
        """True if tests use it that do not know of each other's kills. Everything stops if a part dies too often, so a
        kill that would be one too many waits.
        """
        self.report: dict[str, Any] = {}

    def beside(self, directory: Path, prefix: str) -> "Up":
        """Returns another installation in the same Kafka, with the same ports: only one of them runs at a time."""
        ports = [f"--{name}-port={port}" for name, port in self._ports.items()]
        return Up(directory, *ports, kafka=self._environ["COLDNOTIFY_KAFKA"], topics_prefix=prefix)

    @property
    def kafka(self) -> str:
        """Kafka's bootstrap servers."""
        return str(self.report["kafka"])

    @property
    def in_kafka(self) -> dict[str, str]:
        """The settings, by name, with which services, commands and publishers find it in Kafka."""
        return {"kafka": self.kafka, "topics_prefix": self.topics.prefix}

    def publisher(self, **options: Any) -> Publisher:
        """Returns a publisher to it, over Kafka; `options` are those of Publisher."""
        return Publisher(self.kafka, topics_prefix=self.topics.prefix, **options)

    @property
    def matcher_url(self) -> str:
        """The URL of the first matcher's HTTP port."""
        return f"http://{self.report['matcher']}"

    @property
    def http_url(self) -> str:
        """The URL of the publishing service."""
        return f"http://{self.report['http']}"

    @property
    def gateway(self) -> tuple[str, int]:
        """Host and port that devices connect to."""
        host, _, port = str(self.report["gateway"]).rpartition(":")
        return host, int(port)

    def start(self) -> None:
        """Starts the stack, with existing data if it has any, on the same ports each time. Returns when everything is
        ready.
        """
        ports = [f"--{name}-port={port}" for name, port in self._ports.items()]
        argv = [sys.executable, "-m", "coldnotify_cli.main", "up", f"--data={self.data}"]
        argv += [f"--ready-file={self._ready_file}", *ports, *self._flags]
        # With a Kafka of its own all is started as users do.
        if self._environ["COLDNOTIFY_KAFKA"]:
            environ = {**self._environ, zygote.ADDRESS_VARIABLE: zygote.address()}
            self._process = zygote.spawn(argv, self._directory / "up.log", environ)
        else:
            self._process = spawn(argv, self._directory / "up.log", environ=self._environ)
        self.wait_ready(timeout_s=_START_S)

    def wait_ready(self, *, other_than: dict[str, int] | None = None, timeout_s: float = WAIT_S) -> None:
        """Until the ready file is there, with other process ids than these."""

        def ready() -> bool:
            assert self._process is not None
            assert self._process.poll() is None, f"coldnotify up ended: {self.log_tail()}"
            try:
                self.report = json.loads(self._ready_file.read_text())
            except FileNotFoundError:
                return False
            return bool(self.report["pids"] != other_than)

        try:
            wait_for(ready, "coldnotify up is ready", timeout_s)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.log_tail()}") from None

    def kill(self, part: str) -> dict[str, int]:
        """kill -9; returns the process ids of before, for wait_ready."""
        if self.shared:
            self._spare(part)
        pids: dict[str, int] = dict(self.report["pids"])
        os.kill(pids[part], signal.SIGKILL)
        return pids

    def _spare(self, part: str) -> None:
        killed_s = self._killed_s[part]
        if len(killed_s) == _KILLS_MAX:
            wait_for(lambda: time.monotonic() > killed_s[0] + DEATHS_WINDOW_S, f"{part} may be killed again")
        killed_s.append(time.monotonic())

    def kill_everything(self) -> None:
        """kill -9 to the supervisor: all parts die with it."""
        assert self._process is not None
        pids = self.report["pids"].values()
        self._process.kill()
        self._process.wait(WAIT_S)
        self._ready_file.unlink(missing_ok=True)
        wait_for(lambda: not any(_alive(pid) for pid in pids), "all parts are dead")

    def hang_up(self) -> None:
        """SIGHUP to the supervisor."""
        assert self._process is not None
        self._process.send_signal(signal.SIGHUP)

    def stop(self) -> int:
        """SIGTERM; returns the exit code."""
        assert self._process is not None
        if self._process.poll() is None:
            self._process.terminate()
        try:
            return self._process.wait(WAIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            raise AssertionError(f"coldnotify up does not stop: {self.log_tail()}") from None

    def wait(self) -> int:
        """Until it ends by itself; returns the exit code."""
        assert self._process is not None
        return self._process.wait(WAIT_S)

    @property
    def running(self) -> bool:
        """True if it has been started and has not ended."""
        return self._process is not None and self._process.poll() is None

    def dead(self, pids: dict[str, int]) -> list[str]:
        """Returns the parts whose processes with these pids have ended."""
        return [part for part, pid in pids.items() if not _alive(pid)]

    def log_lines(self) -> list[str]:
        """Returns what all parts have logged so far."""
        return (self._directory / "up.log").read_text(errors="replace").splitlines()

    def log_tail(self) -> str:
        """The end of what all parts logged."""
        return (self._directory / "up.log").read_text(errors="replace")[-6000:]

    def client(self, domain: str, group: str, client: str) -> dict[str, Any]:
        """Returns what the matcher that serves a client knows of it."""
        for matcher in self.report["matchers"]:
            try:
                state: dict[str, Any] = get_json(
                    f"http://{matcher}/v1/domains/{domain}/groups/{group}/clients/{client}"
                )
            except OSError:
                continue
            return state
        return {}


@contextmanager
def running(directory: Path, *flags: str, **settings: str) -> Iterator[Up]:
    """All of ColdNotify with a Kafka of its own, ready; stopped in order at the end. Its test says `own_broker`.

    `settings` by name: auth="any" for COLDNOTIFY_AUTH.
    """
    with _started(Up(directory, *flags, **settings)) as up:
        yield up


@contextmanager
def installation(kafka: str, prefix: str, directory: Path, *flags: str, **settings: str) -> Iterator[Up]:
    """All of ColdNotify but Kafka, under its own prefix in a Kafka that others use, too; its topics go at the end."""
    try:
        with _started(Up(directory, *flags, kafka=kafka, topics_prefix=prefix, **settings)) as up:
            yield up
    finally:
        delete_topics(kafka, TopicNames(prefix))


class Stacks:
    """Starts stacks that share one Kafka. Each has a prefix that no other one had, and its topics go with it."""

    def __init__(self, kafka: str) -> None:
        """`kafka`: its bootstrap servers."""
        self.kafka = kafka
        self._numbers = itertools.count(1)
        self._alive: set[str] = set()
        """Prefixes of those that run."""

    @contextmanager
    def running(self, directory: Path, *flags: str, **settings: str) -> Iterator[Up]:
        """All of ColdNotify but Kafka, ready; stopped in order at the end. `settings` by name, as those of `running`.

        Its topics have two co-partitions, unless a flag says how many. A `topics_prefix` among the settings is for
        texts that name topics; what other tests left under it goes first.
        """
        assert len(self._alive) < _ALIVE_MAX, f"{_ALIVE_MAX} stacks share this Kafka already"
        if not any(flag.startswith("--partitions") for flag in flags):
            flags = (*flags, f"--partitions={PARTITIONS}")
        if prefix := settings.pop("topics_prefix", ""):
            assert prefix not in self._alive, f"{prefix} is another stack's"
            delete_topics(self.kafka, TopicNames(prefix))
        else:
            prefix = f"stack-{next(self._numbers)}."
        self._alive.add(prefix)
        try:
            with installation(self.kafka, prefix, directory, *flags, **settings) as up:
                yield up
        finally:
            self._alive.remove(prefix)


@contextmanager
def _started(up: Up) -> Iterator[Up]:
    try:
        up.start()
        yield up
    finally:
        up.stop()


class Recorder:
    """Records the notifications of one application, in order."""

    def __init__(self) -> None:
        self.seen: list[Notification] = []

    def __call__(self, notification: Notification) -> None:
        self.seen.append(notification)

    def versions(self, object_id: str) -> list[int | None]:
        """Returns the versions of one object, in the order of their arrival."""
        return [n.version for n in self.seen if n.object_id == object_id]

    def newest(self, object_id: str) -> int | None:
        """Returns the version that arrived last; None if none did or it is unknown."""
        return next(reversed(self.versions(object_id)), None)

    def reaches(self, object_id: str, version: int) -> Callable[[], bool]:
        """Returns a condition: the version that arrived last is this one, or a newer one."""
        return lambda: (self.newest(object_id) or 0) >= version


def notify(up: Up, client: str, state: Path | None, *, group: str = "region-1", port: int | None = None) -> Notify:
    """A client of the domain animal.observer, not connected yet. `state` None: kept in memory."""
    host, gateway_port = up.gateway
    return Notify(
        domain="animal.observer",
        group_id=group,
        client_id=client,
        state=State(filename=None if state is None else str(state)),
        connection=Connection(address=host, port=port or gateway_port),
    )


def _alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"
