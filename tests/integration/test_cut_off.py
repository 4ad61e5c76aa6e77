"""Gateways that Kafka does not answer: one alone sends its clients to the others, all together keep theirs."""

import asyncio
import os
import resource
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from coldnotify import Connection, Notify, State
from coldnotify.publisher import Publisher
from coldnotify_kafka.broker import EmbeddedBroker, free_port
from coldnotify_kafka.broker.config import BrokerConfig
from coldnotify_kafka.broker.freezing import freeze, thaw
from coldnotify_schemas.close_codes import CloseCode
from coldnotify_schemas.wire_pb2 import CAPABILITY_MOVES, Close
from coldnotify_testkit.command import COMMAND, RunningCommand, coldnotify, http_status
from coldnotify_testkit.device_frames import hello, parse
from coldnotify_testkit.fetching import fetch
from coldnotify_testkit.proxy import Network, Proxy
from coldnotify_testkit.stack import Recorder, get_json
from coldnotify_testkit.waiting import wait_for

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.timeout(600),
    pytest.mark.own_broker("suspends Kafka"),
]

DOMAIN, GROUP, OBJECT = "animal.observer", "region-1", "camera-config"
CLIENTS = 12
ISOLATED_AFTER_S = 10
TRIES, TRIES_PER_S = 1_000, 333
"""20,000 clients that have been stale for long try another gateway within a minute."""
ELSEWHERE_S_MAX = 45 - (15 - ISOLATED_AFTER_S)
"""All clients are current elsewhere within 45 s where a gateway is isolated after 15 s."""


@dataclass(frozen=True)
class TwoAddresses(BrokerConfig):
    """A Kafka with a second listener, which says that it is at another address: that of a proxy."""

    far_port: int = 0
    far_said: str = ""

    def server_properties(self) -> str:
        """Returns the properties of BrokerConfig, and the second listener."""
        lines = []
        for line in super().server_properties().splitlines():
            name, _, value = line.partition("=")
            far = {"listeners": f",FAR://127.0.0.1:{self.far_port}", "advertised.listeners": f",FAR://{self.far_said}"}
            lines.append(f"{name}={value}{far[name]}" if name in far else line)
        protocols = "BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT,FAR:PLAINTEXT"
        lines = [line for line in lines if not line.startswith("listener.security.protocol.map=")]
        return "\n".join([*lines, f"listener.security.protocol.map={protocols}"]) + "\n"


class Gateway:
    """One gateway's ports, and its process."""

    def __init__(self, name: str, directory: Path) -> None:
        self.name = name
        self.port, self.web_port, self.http_port = free_port(), free_port(), free_port()
        self._output = directory / f"{name}.log"
        self.process: RunningCommand | None = None

    def start(self, stack: ExitStack, kafka: str, peers: str, hosts: Path | None = None) -> None:
        """Starts it. `hosts`: it alone finds names in this file, and nowhere else."""
        settings = {
            "kafka": kafka,
            "gateway_port": str(self.port),
            "gateway_web_port": str(self.web_port),
            "gateway_http_port": str(self.http_port),
            "gateway_isolated_after_s": str(ISOLATED_AFTER_S),
            "gateway_peers": peers,
        }
        if hosts is None:
            self.process = stack.enter_context(RunningCommand(self._output, "gateway", **settings))
        else:
            self.process = stack.enter_context(InNames(self._output, hosts, **settings))

    @property
    def pid(self) -> int:
        """Its process's id."""
        assert self.process is not None
        return self.process.process.pid

    @property
    def log(self) -> str:
        """Its log."""
        return self._output.read_text(errors="replace")

    @property
    def sessions(self) -> int:
        """The number of its sessions."""
        return sum(one["sessions"] for one in get_json(f"http://127.0.0.1:{self.http_port}/v1/gateway")["partitions"])

    def metric(self, name: str, label: str = "") -> float:
        """The sum of a metric's samples with this label."""
        text = fetch(f"http://127.0.0.1:{self.http_port}/metrics", 10).text
        lines = [line for line in text.splitlines() if line.startswith(name) and label in line]
        return sum(float(line.rpartition(" ")[2]) for line in lines)

    @property
    def ready(self) -> bool:
        """True if /readyz answers 200."""
        return http_status(self.http_port, "/readyz") == 200


class InNames(RunningCommand):
    """A gateway that finds names in one file only: in a mount namespace of its own."""

    def __init__(self, output: Path, hosts: Path, **environ: str) -> None:
        self._hosts = hosts
        super().__init__(output, "gateway", **environ)
        self.process.kill()
        self.process.wait()
        mounts = f"mount --bind {hosts} /etc/hosts && mount --bind /dev/null /etc/resolv.conf"
        self._argv = ["unshare", "-m", "sh", "-c", f"{mounts} && exec {COMMAND} gateway"]
        self.process = self._started()


class Installation:
    """Kafka, a matcher and three gateways. Only the first reaches Kafka by a proxy."""

    def __init__(self, stack: ExitStack, directory: Path, hosts: Path | None = None) -> None:
        network = stack.enter_context(Network())
        far_port = free_port()
        self.proxy: Proxy = network.proxy(("127.0.0.1", 0), ("127.0.0.1", far_port))
        far_host = "kafka.test" if hosts else "127.0.0.1"
        far = f"{far_host}:{self.proxy.address[1]}"
        config = TwoAddresses(directory / "kafka", free_port(), free_port(), far_port=far_port, far_said=far)
        self.broker = stack.enter_context(EmbeddedBroker.of(config))
        kafka = self.broker.bootstrap
        done = coldnotify("topics", "apply", kafka=kafka)
        assert done.returncode == 0, done.stderr
        self.gateways = [Gateway(name, directory) for name in ("first", "second", "third")]
        matcher = {"matcher_port": str(free_port()), "kafka": kafka}
        stack.enter_context(RunningCommand(directory / "matcher.log", "matcher", **matcher))
        for one in self.gateways:
            host = "gateway.test" if hosts and one is self.first else "127.0.0.1"
            named = [f"{host}:{other.http_port}" for other in self.gateways if other is not one]
            peers = ",".join(named) if hosts else ""  # else they find each other in the nodes topic
            one.start(stack, far if one is self.first else kafka, peers, hosts if one is self.first else None)
        wait_for(lambda: all(one.ready for one in self.gateways), "all are ready")
        self.publisher = stack.enter_context(Publisher(kafka=kafka, timeout_s=60))
        self.version = 0
        self.told: list[Recorder] = []

    @property
    def first(self) -> Gateway:
        """The gateway that can be cut off."""
        return self.gateways[0]

    def connect(self, stack: ExitStack) -> None:
        """Connects the clients. Each draws the order in which it tries the gateways."""
        for n in range(CLIENTS):
            addresses = [f"127.0.0.1:{one.port}" for one in self.gateways]
            connection = Connection(address=addresses)
            ou = Notify(domain=DOMAIN, group_id=GROUP, client_id=f"ou-{n}", state=State(None), connection=connection)
            stack.callback(ou.disconnect)
            told = Recorder()
            ou.register(OBJECT).subscribe(told)
            ou.connect()
            self.told.append(told)

    @property
    def sessions(self) -> list[int]:
        """The number of sessions of each gateway."""
        return [one.sessions for one in self.gateways]

    def freeze_until_all_have_asked(self, *, twice: bool = False) -> None:
        """Stops Kafka, and waits until each gateway has asked the others in vain."""
        words = "Kafka answers no other gateway either"
        freeze(self.broker.pid)
        wait_for(lambda: all(one.log.count(words) > twice for one in self.gateways), "all have asked", 60)

    def publish(self) -> int:
        """Publishes a new version."""
        self.version += 1
        self.publisher.publish(DOMAIN, GROUP, OBJECT, version=self.version)
        return self.version

    def all_told(self, timeout_s: float = 60) -> float:
        """Publishes, and waits until all clients have it. Returns the time that took."""
        begun_s, version = time.monotonic(), self.publish()
        wait_for(lambda: all(one.newest(OBJECT) == version for one in self.told), "everybody is told", timeout_s)
        return time.monotonic() - begun_s


@contextmanager
def running(directory: Path, hosts: Path | None = None) -> Iterator[Installation]:
    """An installation with clients at all three gateways."""
    with ExitStack() as stack:
        one = Installation(stack, directory, hosts)
        one.connect(stack)
        one.all_told()
        wait_for(lambda: sum(gateway.sessions for gateway in one.gateways) == CLIENTS, "all are connected")
        yield one


def test_one_is_cut_off_and_its_clients_are_current_elsewhere(tmp_path: Path) -> None:
    with running(tmp_path) as up:
        had = up.sessions
        begun_s = time.monotonic()
        up.proxy.swallow()  # whatever TCP says: connections stay, and new ones are taken
        wait_for(lambda: up.first.sessions == 0, "its clients are sent away", ELSEWHERE_S_MAX)
        version = up.publish()
        wait_for(lambda: all(one.newest(OBJECT) == version for one in up.told), "current elsewhere", ELSEWHERE_S_MAX)
        took_s = time.monotonic() - begun_s
        print(f"sessions {had}, all current elsewhere {took_s:.1f} s after the cut")
        assert ISOLATED_AFTER_S * 0.9 < took_s < ELSEWHERE_S_MAX
        assert "cut off from Kafka" in up.first.log
        assert http_status(up.first.http_port, "/readyz") == 503
        assert all(one.ready for one in up.gateways[1:])
        up.proxy.heal()
        up.proxy.cut()
        wait_for(lambda: up.first.ready, "Kafka answers it again")


def test_kafka_stands_still_and_nobody_is_sent_away(tmp_path: Path) -> None:
    with running(tmp_path) as up:
        had = up.sessions
        up.freeze_until_all_have_asked(twice=True)
        try:
            assert up.sessions == had, "nobody is sent away"
            assert [http_status(one.http_port, "/readyz") for one in up.gateways] == [503] * 3
        finally:
            thaw(up.broker.pid)
        wait_for(lambda: all(one.ready for one in up.gateways), "Kafka answers again")
        print(f"kept {had}, told {up.all_told():.1f} s after Kafka went on")
        assert up.sessions == had
        assert not any("sending clients away" in one.log for one in up.gateways)


async def tries(port: int, count: int, seconds: float) -> list[Close]:
    """Says so many Hellos within this time, each on a connection of its own. Returns the answers."""

    async def one(number: int) -> Close:
        await asyncio.sleep(number * seconds / count)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(hello(f"try-{number}", domain=DOMAIN, group=GROUP, capabilities=CAPABILITY_MOVES))
            (frame,) = parse(await asyncio.wait_for(reader.read(), 30))
            return frame.close
        finally:
            writer.close()

    return await asyncio.gather(*(one(number) for number in range(count)))


def test_tries_in_kafkas_silence_are_refused_before_any_request(tmp_path: Path) -> None:
    with running(tmp_path) as up:
        up.freeze_until_all_have_asked()
        try:
            asked = up.first.metric("coldnotify_gateway_requests_total", 'kind="open"')
            cpu_s = up.first.metric("process_cpu_seconds_total")
            begun_s = time.monotonic()
            closes = asyncio.run(tries(up.first.port, TRIES, TRIES / TRIES_PER_S))
            took_s = time.monotonic() - begun_s
            cpu_s = up.first.metric("process_cpu_seconds_total") - cpu_s
            print(f"{TRIES} tries in {took_s:.1f} s: {1000 * cpu_s / TRIES:.2f} ms of CPU each, kept {up.sessions}")
            assert {close.code for close in closes} == {CloseCode.OVERLOADED}
            assert {close.retry_after_s for close in closes} == set(range(20, 40)), "spread"
            assert {close.not_here_s for close in closes} == {0}, "it is no better elsewhere"
            assert up.first.metric("coldnotify_gateway_requests_total", 'kind="open"') == asked
            assert sum(up.sessions) == CLIENTS
        finally:
            thaw(up.broker.pid)
        up.all_told()


def test_no_descriptors_are_left(tmp_path: Path) -> None:
    """Kafka's connections break, and devices that wait to be accepted take each descriptor."""
    with running(tmp_path) as up, ExitStack() as crowd:
        pid = up.first.pid
        files = len(list(Path(f"/proc/{pid}/fd").iterdir()))
        _, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (files + 10, hard))
        over = threading.Event()

        def crowd_in() -> None:
            while not over.is_set():
                with suppress(OSError):
                    one = socket.create_connection(("127.0.0.1", up.first.port), 1)
                    crowd.callback(one.close)
                over.wait(0.02)

        thread = threading.Thread(target=crowd_in, daemon=True)
        thread.start()
        try:
            wait_for(lambda: len(list(Path(f"/proc/{pid}/fd").iterdir())) >= files + 5, "it has no more to give")
            up.proxy.refuse()
            wait_for(lambda: "cut off from Kafka" in up.first.log, "it has asked all the same", 60)
        finally:
            over.set()
            thread.join()


@pytest.mark.skipif(
    os.getuid() != 0 or subprocess.run(["unshare", "-m", "true"], check=False).returncode != 0,
    reason="mounts files over others, in a namespace of its own",
)
def test_names_are_found_no_more(tmp_path: Path) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text("127.0.0.1 localhost kafka.test gateway.test\n")
    with running(tmp_path, hosts) as up:
        hosts.write_text("127.0.0.1 localhost\n")
        up.proxy.cut()
        wait_for(lambda: "cut off from Kafka" in up.first.log, "the others' addresses were looked up before", 60)
        wait_for(lambda: up.first.sessions == 0, "its clients are elsewhere")
        up.all_told()
        hosts.write_text("127.0.0.1 localhost kafka.test gateway.test\n")
        wait_for(lambda: up.first.ready, "Kafka answers it again")
