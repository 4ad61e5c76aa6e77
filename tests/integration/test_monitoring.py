"""A real Prometheus sees what goes on: the dashboards' queries have data, faults make their alerts fire and clear."""

import os
import resource
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple
from urllib.request import urlopen

import pytest
from coldnotify.publisher import Publisher
from coldnotify_cli.dashboards import DASHBOARDS, RANGE
from coldnotify_cli.testing_prometheus import WINDOW, Prometheus, available, prometheus
from coldnotify_cli.testing_slow_link import SlowLink
from coldnotify_cli.testing_up import Recorder, Up, notify, running, wait_for
from coldnotify_gateway.testing import hello
from coldnotify_gateway.testing_process import RawClient
from coldnotify_schemas.topics import OBJECTS
from confluent_kafka import Producer

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.skipif(not available(), reason="there is no prometheus (Debian's package of this name)"),
]
CONNECTIONS_MAX = 40
WAIT_S = 120
_SETTINGS = {
    "COLDNOTIFY_GATEWAY_CONNECTIONS_MAX": str(CONNECTIONS_MAX),
    "COLDNOTIFY_GATEWAY_REQUEST_TIMEOUT_S": "2",
    "COLDNOTIFY_HTTP_PUBLISH_TIMEOUT_S": "2",
}


class Scene(NamedTuple):
    """All of ColdNotify with a client and a little traffic, and Prometheus that watches it."""

    up: Up
    watcher: Prometheus
    directory: Path


class Traffic(threading.Thread):
    """Publishes by HTTP until stopped; failures are part of some faults."""

    def __init__(self, up: Up) -> None:
        super().__init__(daemon=True)
        self._url = f"{up.http_url}/v1/domains/animal.observer/groups/region-1/objects/camera-config"
        self.stopping = threading.Event()

    def run(self) -> None:
        while not self.stopping.wait(0.1):
            with suppress(OSError), urlopen(self._url, data=b"{}", timeout=30):
                pass


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    directory = tmp_path_factory.mktemp("monitoring")
    with pytest.MonkeyPatch.context() as patch, ExitStack() as stack:
        for name, value in _SETTINGS.items():
            patch.setenv(name, value)
        up = stack.enter_context(running(directory))
        targets = {"matcher": up.report["matchers"], "gateway": up.report["gateways_http"], "http": [up.report["http"]]}
        watcher = stack.enter_context(prometheus(directory / "prometheus", targets))
        told = Recorder()
        ou = stack.enter_context(notify(up, "watched", None))
        ou.register("camera-config").subscribe(told)
        traffic = Traffic(up)
        traffic.start()
        stack.callback(traffic.join, 60)
        stack.callback(traffic.stopping.set)
        wait_for(lambda: len(told.seen) > 5, "the client is told")
        # A counter that has risen before it was scraped once rises for Prometheus only the next time.
        wait_for(
            lambda: len(watcher.query("up == 1")) == 3 and not watcher.firing(), "Prometheus sees all is well", WAIT_S
        )
        yield Scene(up, watcher, directory)


@pytest.mark.parametrize("name", DASHBOARDS)
def test_every_query_of_a_dashboard_returns_data(scene: Scene, name: str) -> None:
    for panel in DASHBOARDS[name][1]:
        for query in panel.queries.values():
            asked = query.replace(RANGE, WINDOW)

            def data(asked: str = asked) -> bool:
                return any(sample["value"][1] != "NaN" for sample in scene.watcher.query(asked))

            wait_for(data, f"{name}, {panel.title}: {asked}", WAIT_S)


@contextmanager
def standing_still(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def _matcher_stands_still(scene: Scene, stack: ExitStack) -> None:
    stack.enter_context(standing_still(scene.up.report["pids"]["matcher"]))


def _gateway_stands_still(scene: Scene, stack: ExitStack) -> None:
    stack.enter_context(standing_still(scene.up.report["pids"]["gateway"]))


def _kafka_is_gone(scene: Scene, stack: ExitStack) -> None:
    """It is killed, and the one that comes in its place is stopped before it listens."""
    old = scene.up.kill("broker")["broker"]
    data = str(scene.directory / "data")

    def successor() -> int | None:
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):
                words = path.read_bytes().split(b"\0")
                if (
                    words[0].endswith(b"java")
                    and any(data.encode() in w for w in words)
                    and int(path.parent.name) != old
                ):
                    return int(path.parent.name)
        return None

    stack.enter_context(standing_still(wait_for(successor, "Kafka is started again")))


def _nonsense_is_published(scene: Scene, _stack: ExitStack) -> None:
    producer = Producer({"bootstrap.servers": scene.up.kafka})
    producer.produce(OBJECTS, b'{"verson": 1}', b"animal.observer/region-1/camera-config")
    assert producer.flush(60) == 0


def _old_news_is_published(scene: Scene, _stack: ExitStack) -> None:
    producer = Producer({"bootstrap.servers": scene.up.kafka})
    ago_ms = time.time_ns() // 1_000_000 - 60_000
    told = Recorder()
    with notify(scene.up, "late", None) as ou:
        ou.register("old").subscribe(told)
        wait_for(lambda: len(told.seen) > 0, "registered", WAIT_S)
        for version in range(200):
            producer.produce(OBJECTS, b'{"version": %d}' % version, b"animal.observer/region-1/old", timestamp=ago_ms)
            producer.flush(60)
        wait_for(told.reaches("old", 199), "told", WAIT_S)


def _a_device_reads_slowly(scene: Scene, stack: ExitStack) -> None:
    link = stack.enter_context(SlowLink(*scene.up.gateway, bits_per_s=40_000))
    ou = stack.enter_context(notify(scene.up, "slow", None, port=link.port))
    names = [f"picture-{n}" for n in range(60)]
    told = Recorder()
    for name in names:
        ou.register(name).subscribe(told)
    wait_for(lambda: ou.status.pending == 0, "registered over the slow link", WAIT_S)
    publisher = stack.enter_context(Publisher(kafka=scene.up.kafka))
    for version in range(2):
        for name in names:
            publisher.publish("animal.observer", "region-1", name, version=version, payload="x" * 4000)


def _too_many_connect(scene: Scene, stack: ExitStack) -> None:
    for _ in range(CONNECTIONS_MAX + 5):
        stack.enter_context(RawClient(scene.up.gateway[1]))


def _a_client_comes_and_goes(scene: Scene, _stack: ExitStack) -> None:
    for _ in range(150):
        with RawClient(scene.up.gateway[1]) as client:
            client.send(hello(client="restless"))
            client.until("welcome")


def _few_files_may_be_open(scene: Scene, stack: ExitStack) -> None:
    pid = scene.up.report["pids"]["http"]
    limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    stack.callback(resource.prlimit, pid, resource.RLIMIT_NOFILE, limits)
    in_use = len(os.listdir(f"/proc/{pid}/fd"))  # noqa: PTH208
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (in_use + 3, limits[1]))


FAULTS: dict[Callable[[Scene, ExitStack], None], set[str]] = {
    _few_files_may_be_open: {"OpenFilesNearLimit"},
    _gateway_stands_still: {"ProcessDown", "NoGateway"},
    _matcher_stands_still: {
        "ProcessDown",
        "PartitionNotServed",
        "PartitionNotServedForHours",
        "MatcherSilent",
    },
}
DRILLS: dict[Callable[[Scene, ExitStack], None], set[str]] = {
    _nonsense_is_published: {"RecordsRejected"},
    _old_news_is_published: {"DeliverySlow"},
    _too_many_connect: {"ConnectionsRefused"},
    _a_client_comes_and_goes: {"ReconnectStorm"},
    _a_device_reads_slowly: {"SlowClients"},
    _kafka_is_gone: {"NotReady", "KafkaUnreachable", "RequestsNotTaken", "PublishesNotAcknowledged"},
}


@pytest.mark.parametrize(
    "fault",
    [*FAULTS, *(pytest.param(drill, marks=pytest.mark.drill) for drill in DRILLS)],
    ids=lambda fault: fault.__name__.strip("_"),
)
def test_a_fault_makes_its_alerts_fire_and_they_clear_after_it(
    scene: Scene, fault: Callable[[Scene, ExitStack], None]
) -> None:
    expected = (FAULTS | DRILLS)[fault]
    wait_for(lambda: not expected & scene.watcher.firing(), f"{expected} are quiet before", WAIT_S)
    seen: set[str] = set()

    def fired() -> bool:
        seen.update(scene.watcher.firing())
        return expected <= seen

    with ExitStack() as stack:
        fault(scene, stack)
        try:
            wait_for(fired, f"{expected} fire", WAIT_S)
        except AssertionError as error:
            raise AssertionError(f"{error}; fired: {seen}") from None
    wait_for(lambda: not expected & scene.watcher.firing(), f"{expected} clear", WAIT_S)
    print(f"\n{fault.__name__.strip('_')}: fired and cleared: {', '.join(sorted(expected))}")
