"""queues: tasks to ten workers, beside a work queue of JetStream.

The time from when a task is sent until its callback begins: at several rates; with a worker that is stuck in its first
callback and keeps what it holds; and, of ColdNotify, while the matcher is killed and started again at once. Both write
to files without waiting for the disk: what the machine's loss of power loses is not measured. The workers are one
process, the sender is another one.
"""

import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Timer

from coldnotify_load.latencies import Latencies
from coldnotify_schemas.channels import MessageHeaders, message_headers
from coldnotify_schemas.partitioner import partition_of
from coldnotify_schemas.topics import TopicNames
from coldnotify_testkit.waiting import wait_for
from confluent_kafka import Producer

from coldnotify_loadtest.bench import READY_S, BenchRun, Experiment, Parameters
from coldnotify_loadtest.queue_workers import CHANNEL, DOMAIN, GROUP
from coldnotify_loadtest.servers import HOST, ColdNotify, NatsQueue, Server, ServerProcess
from coldnotify_loadtest.tables import Shape

_TOPIC = TopicNames().channels_1d
_KILLED = "the matcher is killed"


class _Tasks:
    """The file of what has begun, and what was sent."""

    def __init__(self, file: Path) -> None:
        self._file, self.sent = file, list[int]()

    def begun(self) -> list[tuple[int, int]]:
        """Returns (when it was sent, when its callback began), in order."""
        if not self._file.exists():
            return []
        whole, _, _ = self._file.read_text().rpartition("\n")
        lines = (one.split() for one in whole.splitlines())
        return [(int(sent), int(began)) for sent, began in lines]

    def wait(self, most_not_begun: int = 0) -> None:
        """Waits until each task has begun, but for so many."""
        sent = set(self.sent)
        wait_for(lambda: len(sent & {one for one, _ in self.begun()}) >= len(sent) - most_not_begun, "begun", READY_S)


@contextmanager
def _at_work(bench: BenchRun, server: Server, port: int, stuck: int) -> Iterator[_Tasks]:
    directory = bench.new_directory()
    directory.mkdir(parents=True, exist_ok=True)
    tasks = _Tasks(directory / "begun")
    argv = [sys.executable, "-m", "coldnotify_loadtest.queue_workers", server.kind, str(port), str(bench["workers"])]
    argv += [str(bench["prefetch"]), str(stuck), str(directory / "begun")]
    workers = ServerProcess(argv, directory / "workers.log", lambda: True)
    workers.start()
    try:
        yield tasks
    finally:
        workers.stop()


@contextmanager
def _sending(server: Server, port: int) -> Iterator[Callable[[int], None]]:
    """Yields what sends a task."""
    if isinstance(server, ColdNotify):
        producer = Producer(
            {"bootstrap.servers": server.kafka, "enable.idempotence": True, "linger.ms": 0, "log_level": 0}
        )
        partitions = len(producer.list_topics(_TOPIC, timeout=READY_S).topics[_TOPIC].partitions)
        partition = partition_of(DOMAIN, GROUP, partitions)
        key = f"{DOMAIN}/{GROUP}/{CHANNEL}"

        def send(task: int) -> None:
            headers = [*message_headers(MessageHeaders(id=str(task)))]
            producer.produce(_TOPIC, str(task), key, partition, headers=headers)  # type: ignore[arg-type]
            producer.poll(0)

        yield send
        producer.flush(READY_S)
        return
    with socket.create_connection((HOST, port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(b'CONNECT {"verbose":false}\r\n')

        def publish(task: int) -> None:
            payload = b"%d" % task
            connection.sendall(b"PUB %s %d\r\n%s\r\n" % (CHANNEL.encode(), len(payload), payload))

        yield publish


def _send(tasks: _Tasks, send: Callable[[int], None], per_s: float, seconds: float) -> None:
    begun_s = time.monotonic()
    for number in range(round(per_s * seconds)):
        time.sleep(max(0.0, begun_s + number / per_s - time.monotonic()))
        task = time.monotonic_ns()
        tasks.sent.append(task)
        send(task)


def run(bench: BenchRun) -> None:
    """Rows of each queue: rates, a stuck worker, a killed matcher."""
    cases = [(float(rate), 0, "") for rate in bench["rates"]]
    cases += [(float(bench["per_s"]), 1, "one is stuck"), (float(bench["per_s"]), 0, _KILLED)]
    for per_s, stuck, case in cases:
        _row(bench, per_s, stuck, case, ColdNotify(bench.new_directory()))
        if case != _KILLED and not NatsQueue.missing():
            _row(bench, per_s, stuck, case, NatsQueue(bench.new_directory()))


def _row(bench: BenchRun, per_s: float, stuck: int, case: str, server: ColdNotify | NatsQueue) -> None:
    bench.progress.step(f"{server.name}, {per_s:g}/s {case}")
    kept = stuck * bench["prefetch"]
    with server, _at_work(bench, server, server.port, stuck) as tasks, _sending(server, server.port) as send:
        _send(tasks, send, 10, max(3.0, 4 * kept / 10))  # all are connected, and who is stuck has its tasks
        tasks.wait(kept)
        tasks.sent.clear()
        if case == _KILLED:
            Timer(bench["seconds"] / 2, partial(_kill, server.children["matcher-1"])).start()
        _send(tasks, send, per_s, bench["seconds"])
        tasks.wait(kept)
        times = dict[int, list[int]]()
        for sent, began in tasks.begun():
            times.setdefault(sent, []).append(began)
        latencies = Latencies()
        latencies.add_ns(times[one][0] - one for one in tasks.sent if one in times)
        twice = sum(len(times.get(one, ())) > 1 for one in tasks.sent)
        row = {"queue": server.name, "case": case or "all work", "per_s": per_s, "begun_twice": twice}
        bench.rows.append({**row, **latencies.summary()})


def _kill(matcher: ServerProcess) -> None:
    matcher.kill()
    matcher.start()


def seconds(parameters: Parameters) -> float:
    """About."""
    return float(2 * (len(parameters["rates"]) + 2) * (parameters["seconds"] + 25))


_TABLES = (
    Shape(
        "From a task's sending to the begin of its callback",
        {"queue": "queue", "of the workers": "case", "tasks/s": "per_s"},
        {"median ms": "p50_ms", "p99": "p99_ms", "max": "max_ms", "begun twice": "begun_twice"},
    ),
)
QUEUES = Experiment(
    "queues",
    "tasks to ten workers of a share",
    {"workers": 10, "prefetch": 16, "rates": [100, 300, 1000], "per_s": 300, "seconds": 20},
    {"workers": 2, "prefetch": 2, "rates": [20], "per_s": 20, "seconds": 2},
    seconds,
    lambda parameters: 2 * (len(parameters["rates"]) + 2) - 1,
    run,
    _TABLES,
)
