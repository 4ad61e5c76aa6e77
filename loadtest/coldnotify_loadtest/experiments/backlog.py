"""Clients that take less than is published: slow-link, behind a shaped link; stuck, which never read."""

import itertools
import socket
import threading
import time
from contextlib import ExitStack

from coldnotify import Connection, Notification, Notify, State
from coldnotify.publisher import Publisher as Library
from coldnotify_load.open_loop import PublishPlan
from coldnotify_load.population import Population
from coldnotify_load.processes import Meter
from coldnotify_schemas.digest import digest
from coldnotify_schemas.frames import encode
from coldnotify_schemas.wire_pb2 import ClientFrame, Hello
from coldnotify_testkit.slow_link import needed_bytes, slow_link
from coldnotify_testkit.waiting import wait_for

from coldnotify_loadtest.bench import READY_S, BenchRun, Experiment, Parameters, identity
from coldnotify_loadtest.servers import HOST, ColdNotify
from coldnotify_loadtest.tables import Shape

_LOOKS = 6
"""At the services' memory, while is published."""
_RECEIVE_BUFFER_BYTES = 4096
_KEEPALIVE_S = 24 * 3600
_MIB = 2**20
_SESSIONS = "coldnotify_gateway_sessions"


class _Told:
    """A subscriber that keeps the newest version of each object."""

    def __init__(self) -> None:
        self.newest: dict[str, int | None] = {}
        self.count = 0

    def __call__(self, notification: Notification) -> None:
        self.newest[notification.object_id] = notification.version
        self.count += 1


class _Backend:
    """Publishes versions 1, 2 ... of each of the objects in turn."""

    def __init__(self, library: Library, population: Population, payload_bytes: int) -> None:
        self._library, self._population = library, population
        self.payload = "x" * payload_bytes
        self.versions = dict.fromkeys(population.objects(0), 0)
        self._turn = itertools.cycle(self.versions)

    def publish(self) -> None:
        """The next one."""
        name = next(self._turn)
        self.versions[name] += 1
        where = self._population.domain, self._population.group(0), name
        self._library.publish(*where, version=self.versions[name], payload=self.payload)

    def publish_half(self, told: _Told, per_s: float, over: threading.Event) -> None:
        """Publishes until half of the objects are told."""
        while not over.wait(1 / per_s) and len(told.newest) < len(self.versions) / 2:
            self.publish()


def run_slow_link(bench: BenchRun) -> None:
    """A client sleeps while many versions are published, then wakes behind the link; publishing goes on meanwhile."""
    population = Population(fan_out=1, registrations=bench["objects"])
    with (
        ColdNotify(bench.new_directory()) as server,
        Library(kafka=server.kafka) as library,
        slow_link(HOST, server.port, bits_per_s=bench["bits_per_s"]) as link,
    ):
        backend = _Backend(library, population, bench["payload_bytes"])
        state = State(filename=str(server.directory / "client.json"))

        def client(port: int, told: _Told) -> Notify:
            made = Notify(population.domain, population.group(0), "slow", state, Connection(HOST, port))
            for name in backend.versions:
                made.register(name).subscribe(told)
            return made

        bench.progress.step("the client registers, and sleeps")
        with client(server.port, _Told()) as awake:
            wait_for(lambda: awake.caught_up, "registered", READY_S)
        missed = bench["objects"] * bench["versions"]
        bench.progress.step(f"it misses {missed} versions")
        for _ in range(missed):
            backend.publish()
        library.flush(READY_S)
        bench.progress.step("it wakes behind the link")
        told, over = _Told(), threading.Event()
        going_on = threading.Thread(target=backend.publish_half, args=(told, bench["live_per_s"], over), daemon=True)
        begun_s = time.monotonic()
        with client(link.port, told):
            going_on.start()
            wait_for(lambda: told.newest == backend.versions, "caught up", READY_S)
            took_s = time.monotonic() - begun_s
        over.set()
        going_on.join()
        published = sum(backend.versions.values())
        newest_bytes = needed_bytes(backend.versions, backend.payload, max(backend.versions.values()))
        bench.rows.append(
            {
                **identity(server),
                "objects": bench["objects"],
                "missed": missed,
                "published_meanwhile": published - missed,
                "caught_up_s": round(took_s, 1),
                "told": told.count,
                "sent_bytes": link.down_bytes,
                "newest_versions_bytes": newest_bytes,
                "all_versions_bytes": round(newest_bytes / bench["objects"] * published),
            }
        )


def run_stuck(bench: BenchRun) -> None:
    """Devices that are live and read nothing, one that reads beside them, and one object published very often."""
    population = Population(fan_out=1)
    with (
        ColdNotify(bench.new_directory()) as server,
        bench.load(server, population, 1) as (swarm, publisher),
        ExitStack() as stuck,
    ):
        meter = Meter(server.roles())

        def note(when: str) -> None:
            bench.progress.step(when)
            used = meter.read()
            row = {part: used[part]["memory_mib"] for part in ("gateway", "matcher")}
            buffered = server.metric("gateway-1", "coldnotify_gateway_buffered_bytes") / _MIB
            slow = server.metric("gateway-1", _SESSIONS, state="slow")
            bench.rows.append({**identity(server), "when": when, **row, "buffered_mib": buffered, "slow": slow})

        note("before the stuck ones")
        for number in range(bench["clients"]):
            stuck.enter_context(_stuck(server, population, number))
        live = bench["clients"] + 1
        wait_for(lambda: server.metric("gateway-1", _SESSIONS, state="live") == live, "all are live", READY_S)
        note("before publishes")
        swarm.record()
        publisher.begin(PublishPlan(bench["per_s"], bench["seconds"]))
        begun_s, look_s = time.monotonic(), bench["seconds"] / _LOOKS
        for look in range(1, _LOOKS + 1):
            time.sleep(max(0.0, begun_s + look * look_s - time.monotonic()))
            note(f"after {look * look_s:.0f} s")
        published = publisher.end()
        swarm.record()
        last = publisher.once()
        counts = swarm.wait(lambda counts: counts.reached == 1, READY_S, "the reader has the newest")
        note("the reader has the newest")
        behind_s = (counts.last_reached_ns - last.first_ns) / 1e9
        per_s = published.sent / ((published.last_ns - published.first_ns) / 1e9)
        bench.rows[-1] |= {"newest_at_reader_s": round(behind_s, 3), "published_per_s": round(per_s, 1)}


def _stuck(server: ColdNotify, population: Population, number: int) -> socket.socket:
    """Connects a client that sends Hello and reads nothing, not even the answer."""
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER_BYTES)
    made.connect((HOST, server.port))
    names = population.objects(0)
    hello = Hello(
        protocol=1,
        domain=population.domain,
        group=population.group(0),
        client=f"stuck-{number}",
        keepalive_s=_KEEPALIVE_S,
        register=names,
        digest=digest(names),
    )
    made.sendall(encode(ClientFrame(hello=hello)))
    return made


def slow_link_seconds(parameters: Parameters) -> float:
    """About: the newest versions alone, 30 bytes more each, and half as much again."""
    newest_bytes = parameters["objects"] * (parameters["payload_bytes"] + 30)
    return float(20 + 1.5 * 8 * newest_bytes / parameters["bits_per_s"])


_SLOW_LINK_TABLES = (
    Shape(
        "A client behind a slow link",
        {"objects": "objects", "versions missed": "missed"},
        {
            "published meanwhile": "published_meanwhile",
            "caught up, s": "caught_up_s",
            "told": "told",
            "bytes sent": "sent_bytes",
            "the newest versions alone": "newest_versions_bytes",
            "all versions": "all_versions_bytes",
        },
    ),
)
SLOW_LINK = Experiment(
    "slow-link",
    "a large backlog behind a slow link",
    {"objects": 500, "versions": 5, "payload_bytes": 400, "bits_per_s": 50_000.0, "live_per_s": 20.0, "processes": 1},
    {"objects": 20, "versions": 2},
    slow_link_seconds,
    lambda _: 3,
    run_slow_link,
    _SLOW_LINK_TABLES,
)
_STUCK_TABLES = (
    Shape(
        "Clients that never read",
        {"when": "when"},
        {
            "gateway MiB": "gateway",
            "matcher MiB": "matcher",
            "buffered MiB": "buffered_mib",
            "slow sessions": "slow",
            "published/s": "published_per_s",
            "newest at a reader, s": "newest_at_reader_s",
        },
    ),
)
STUCK = Experiment(
    "stuck",
    "clients that never read",
    {"clients": 200, "per_s": 10_000, "seconds": 60, "processes": 1},
    {"clients": 10, "per_s": 200, "seconds": 3},
    lambda parameters: 30.0 + parameters["seconds"],
    lambda _: _LOOKS + 3,
    run_stuck,
    _STUCK_TABLES,
)
