"""sources: rows of PostgreSQL that change, and `coldnotify auto` that publishes them; and polling beside it.

Measured with one device: the time from a commit until it is told, beside a client that asks the database each second; a
burst in one transaction; kill -9 of auto while rows change, which is started again at once. After each the device must
know the newest of every row.
"""

import sys
import time
from pathlib import Path
from threading import Event, Thread
from typing import Any

from coldnotify import Connection, Notification, Notify, State
from coldnotify_kafka.broker.free_ports import free_port
from coldnotify_load.latencies import Latencies
from coldnotify_testkit.postgres import Postgres, postgres
from coldnotify_testkit.waiting import wait_for

from coldnotify_loadtest.bench import READY_S, BenchRun, Experiment, Parameters
from coldnotify_loadtest.servers import HOST, ColdNotify, ServerProcess, says_ready
from coldnotify_loadtest.tables import Shape

_POLL_S = 1.0
_FILE = """\
sources:
  plant:
    kind: postgres
    connection: {connection}
    rules: [{{table: units, domain: d, group: g, object: "u{{id}}", payload: {{n}}}}]
"""


class _Device:
    """One client; it knows when it was told each number."""

    def __init__(self, port: int, units: int) -> None:
        self.told_ns: dict[int, int] = {}
        """Times by the number in the row, which is a number of its own for each change."""
        self.newest: dict[str, int] = {}
        connection = Connection(address=HOST, port=port)
        self._notify = Notify(
            domain="d", group_id="g", client_id="c", connection=connection, state=State(filename=None)
        )
        for unit in range(units):
            self._notify.register(f"u{unit}").subscribe(self._tell)

    def __enter__(self) -> "_Device":
        self._notify.connect()
        return self

    def __exit__(self, *_: object) -> None:
        self._notify.disconnect()

    def _tell(self, told: Notification) -> None:
        if told.payload is not None:
            self.told_ns[told.payload["n"]] = time.monotonic_ns()
            self.newest[told.object_id] = told.payload["n"]


class _Poller(Thread):
    """Asks the database each second for what has changed."""

    def __init__(self, database: Postgres, after: int) -> None:
        super().__init__(daemon=True)
        self._database, self._after, self.over = database, after, Event()
        self.told_ns: dict[int, int] = {}

    def run(self) -> None:
        connection = self._database.connect()
        connection.set_session(autocommit=True)
        with connection.cursor() as cursor:
            while not self.over.wait(_POLL_S):
                cursor.execute("SELECT n FROM units WHERE n > %s", (self._after,))
                for (number,) in cursor.fetchall():
                    self.told_ns[number] = time.monotonic_ns()
                    self._after = max(self._after, number)
        connection.close()


class _Writer:
    """Changes units, one in each transaction. `at_ns`: times right before each of them, by its number."""

    def __init__(self, database: Postgres, units: int) -> None:
        self._connection = database.connect()
        self._connection.set_session(autocommit=True)
        self._units, self.number, self.at_ns = units, 0, dict[int, int]()

    def write(self, per_s: float, seconds: float) -> None:
        """Changes them at this rate."""
        begun_s = time.monotonic()
        with self._connection.cursor() as cursor:
            for i in range(round(per_s * seconds)):
                time.sleep(max(0.0, begun_s + i / per_s - time.monotonic()))
                self.number += 1
                self.at_ns[self.number] = time.monotonic_ns()
                cursor.execute("UPDATE units SET n = %s WHERE id = %s", (self.number, self.number % self._units))

    def burst(self, rows: int) -> None:
        """Inserts or changes the first units in one transaction."""
        self.at_ns[self.number + 1] = time.monotonic_ns()
        with self._connection.cursor() as cursor:
            cursor.execute(
                "INSERT INTO units SELECT i - 1, %s + i FROM generate_series(1, %s) i "
                "ON CONFLICT (id) DO UPDATE SET n = excluded.n",
                (self.number, rows),
            )
        self.number += rows

    def newest(self) -> dict[str, int]:
        """Returns the number of each unit."""
        with self._connection.cursor() as cursor:
            cursor.execute("SELECT id, n FROM units")
            return {f"u{unit}": number for unit, number in cursor.fetchall()}


def run(bench: BenchRun) -> None:
    """Rows of the two ways to be told, of the burst, and of each kill."""
    units = bench["units"]
    directory = bench.new_directory()
    with ColdNotify(directory) as server, postgres() as database:
        database.do(
            "CREATE TABLE units (id int PRIMARY KEY, n bigint)",
            f"INSERT INTO units SELECT i, -1 - i FROM generate_series(0, {units - 1}) i",
        )
        writer = _Writer(database, units)
        auto = _auto(server, database, directory)
        auto.start()
        try:
            with _Device(server.port, max(units, bench["burst"])) as device:
                auto.wait_ready()
                _wait_all(device, writer)
                bench.progress.step("latency")
                _latencies(bench, database, device, writer)
                bench.progress.step("burst")
                _burst(bench, device, writer)
                for kill in range(bench["kills"]):
                    bench.progress.step(f"kill {kill + 1}")
                    _kill(bench, auto, device, writer)
        finally:
            auto.stop()


def _auto(server: ColdNotify, database: Postgres, directory: Path) -> ServerProcess:
    file, port = directory / "auto.yaml", free_port(HOST)
    file.write_text(_FILE.format(connection=database.connection))
    argv = [sys.executable, "-m", "coldnotify_cli.main", "auto", str(file), f"--kafka={server.kafka}"]
    return ServerProcess([*argv, f"--auto-port={port}"], directory / "auto.log", says_ready(port))


def _wait_all(device: _Device, writer: _Writer) -> None:
    rows = writer.newest()
    wait_for(lambda: device.newest == rows, "the device is told the newest of every row", READY_S)


def _latencies(bench: BenchRun, database: Postgres, device: _Device, writer: _Writer) -> None:
    poller = _Poller(database, writer.number)
    poller.start()
    first = writer.number + 1
    writer.write(bench["per_s"], bench["seconds"])
    _wait_all(device, writer)
    wait_for(lambda: writer.number in poller.told_ns, "the poller has seen the last")
    poller.over.set()
    poller.join()
    for way, told_ns in (("coldnotify auto", device.told_ns), ("asked each second", poller.told_ns)):
        latencies = Latencies()
        latencies.add_ns(told_ns[one] - writer.at_ns[one] for one in range(first, writer.number + 1) if one in told_ns)
        bench.rows.append({"way": way, "per_s": bench["per_s"], **latencies.summary()})


def _burst(bench: BenchRun, device: _Device, writer: _Writer) -> None:
    rows, first = bench["burst"], writer.number + 1
    writer.burst(rows)
    _wait_all(device, writer)
    times_ns = [device.told_ns[one] for one in range(first, writer.number + 1)]
    all_s = (max(times_ns) - writer.at_ns[first]) / 1e9
    bench.rows.append({"rows": rows, "all_s": round(all_s, 3), "rows_per_s": round(rows / all_s)})


def _kill(bench: BenchRun, auto: ServerProcess, device: _Device, writer: _Writer) -> None:
    writing = Thread(target=writer.write, args=(bench["per_s"], bench["seconds"]))
    writing.start()
    time.sleep(bench["seconds"] / 2)
    killed_ns = time.monotonic_ns()
    auto.kill()
    auto.start()
    writing.join()
    _wait_all(device, writer)
    told_ns = [at for one, at in device.told_ns.items() if writer.at_ns.get(one, 0) > killed_ns]
    bench.rows.append({"case": "auto", "again_s": round((min(told_ns) - killed_ns) / 1e9, 3)})


def seconds(parameters: Parameters) -> float:
    """About."""
    return float(40 + (1 + parameters["kills"]) * (parameters["seconds"] + 5))


def _has(field: str) -> Any:
    return lambda row: field in row


_TABLES = (
    Shape(
        "From a row's commit to its device, rows changed one by one",
        {"the device": "way", "rows/s": "per_s"},
        {"median ms": "p50_ms", "p99": "p99_ms"},
        _has("way"),
    ),
    Shape(
        "Rows of one transaction, until the device is told all of them",
        {"rows": "rows"},
        {"seconds": "all_s", "rows/s": "rows_per_s"},
        _has("rows"),
    ),
    Shape(
        "kill -9 while rows change, started again at once",
        {"of": "case"},
        {"seconds until a row changed since is told": "again_s"},
        _has("case"),
    ),
)
SOURCES = Experiment(
    "sources",
    "rows of PostgreSQL to a device",
    {"units": 100, "per_s": 25, "seconds": 40, "burst": 10_000, "kills": 3},
    {"units": 10, "seconds": 2, "burst": 50, "kills": 1},
    seconds,
    lambda parameters: 2 + int(parameters["kills"]),
    run,
    _TABLES,
)
