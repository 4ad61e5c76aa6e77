"""What clients that never read cost a gateway: its memory before, during and after a minute of publishes.

A real Kafka, matcher and gateway; stuck clients that are live, want one object and read nothing; one reader beside
them, to see that it is served. Prints a table and writes the figures as JSON.

    .venv/bin/python loadtest/stuck_clients.py --clients 200 --rate 10000 --seconds 60 --json stuck_clients.json
"""

import argparse
import json
import os
import socket
import sys
import tempfile
import threading
import time
from pathlib import Path
from urllib.request import urlopen

from coldnotify_schemas import topics
from coldnotify_schemas.digest import digest
from coldnotify_schemas.frames import encode
from coldnotify_schemas.partitioner import partition_of
from coldnotify_schemas.wire_pb2 import ClientFrame, Hello
from coldnotify_testkit.stack import Recorder, Up, notify, running
from coldnotify_testkit.waiting import wait_for
from confluent_kafka import Producer

DOMAIN, GROUP, OBJECT = "animal.observer", "region-1", "camera-config"
MIB = 1024 * 1024


def rss_bytes(pid: int) -> int:
    """What a process holds in memory."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def metric(up: Up, name: str) -> float:
    """One of the gateway's metrics."""
    with urlopen(f"http://{up.report['gateways_http'][0]}/metrics", timeout=60) as answer:
        lines = answer.read().decode().splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(f"{name} "))


def stuck_client(up: Up, number: int) -> socket.socket:
    """A client that says Hello and reads nothing, not even the answer."""
    one = socket.socket()
    one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    one.connect(up.gateway)
    hello = Hello(protocol=1, domain=DOMAIN, group=GROUP, client=f"stuck-{number}", keepalive_s=24 * 3600)
    hello.register.append(OBJECT)
    hello.digest = digest([OBJECT])
    one.sendall(encode(ClientFrame(hello=hello)))
    return one


class Publishes(threading.Thread):
    """`rate` publishes a second of one object, as records written at once; counts what Kafka took."""

    def __init__(self, kafka: str, rate: float, seconds: float, payload_bytes: int) -> None:
        super().__init__(daemon=True)
        self._rate, self._seconds = rate, seconds
        self._payload = "x" * payload_bytes
        self._producer = Producer({"bootstrap.servers": kafka, "acks": "all", "linger.ms": 5, "log_level": 0})
        self.taken = 0
        self.took_s = 0.0

    def run(self) -> None:
        """Publishes at the pace that is asked for, or as fast as it goes."""
        key = f"{DOMAIN}/{GROUP}/{OBJECT}".encode()
        partition = partition_of(DOMAIN, GROUP, 8)
        begun_s = time.monotonic()
        version = 0
        while (passed_s := time.monotonic() - begun_s) < self._seconds:
            for _ in range(int(passed_s * self._rate) - version):
                version += 1
                value = json.dumps({"version": version, "payload": self._payload}).encode()
                while True:
                    try:
                        self._producer.produce(topics.OBJECTS, value, key, partition, on_delivery=self._on_delivery)
                        break
                    except BufferError:
                        self._producer.poll(0.1)
                if time.monotonic() - begun_s >= self._seconds:
                    break
            self._producer.poll(0.005)
        self._producer.flush(60)
        self.took_s = time.monotonic() - begun_s

    def _on_delivery(self, error: object, _message: object) -> None:
        self.taken += error is None


def main() -> int:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--rate", type=float, default=10_000, help="publishes a second to aim at")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--payload-bytes", type=int, default=200)
    parser.add_argument("--json", type=Path, help="write the figures here")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory, running(Path(directory)) as up:
        figures = measure(up, arguments)
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=1) + "\n")
    return 0


def measure(up: Up, arguments: argparse.Namespace) -> dict[str, object]:
    """The figures of one run."""
    say = sys.stdout.write
    pids = {part: up.report["pids"][part] for part in ("gateway", "matcher")}
    rows: list[dict[str, float | str]] = []

    def row(when: str) -> None:
        one: dict[str, float | str] = {"when": when}
        one |= {f"{part}_rss_mib": round(rss_bytes(pid) / MIB, 1) for part, pid in pids.items()}
        one["buffered_mib"] = round(metric(up, "coldnotify_gateway_buffered_bytes") / MIB, 2)
        one["slow"] = metric(up, 'coldnotify_gateway_sessions{state="slow"}')
        rows.append(one)
        say(" ".join(f"{value!s:>16}" for value in one.values()) + "\n")
        sys.stdout.flush()

    say(f"{'':>16} {'gateway MiB':>16} {'matcher MiB':>16} {'buffered MiB':>16} {'slow sessions':>16}\n")
    row("before clients")
    told = Recorder()
    stuck = [stuck_client(up, i) for i in range(arguments.clients)]
    with notify(up, "reader", None) as reader:
        reader.register(OBJECT).subscribe(told)
        wait_for(lambda: told.seen, "the reader is registered")
        live = 'coldnotify_gateway_sessions{state="live"}'
        wait_for(lambda: metric(up, live) == arguments.clients + 1, "all are live")
        row("before publishes")
        publishes = Publishes(up.kafka, arguments.rate, arguments.seconds, arguments.payload_bytes)
        publishes.start()
        for i in range(1, 7):
            publishes.join(arguments.seconds / 6)
            row(f"{i * arguments.seconds / 6:.0f} s")
        publishes.join()
        newest = publishes.taken
        begun_s = time.monotonic()
        wait_for(lambda: told.newest(OBJECT) == newest, "the reader has the newest", timeout_s=600)
        behind_s = time.monotonic() - begun_s
        row("reader done")
        for one in stuck:
            one.close()
        wait_for(lambda: metric(up, "coldnotify_gateway_connections_open") == 1, "the stuck ones are gone")
        row("stuck ones gone")
    reached = publishes.taken / publishes.took_s
    say(f"{arguments.clients} stuck clients, {publishes.taken} publishes, {reached:.0f}/s acknowledged by Kafka; ")
    say(f"the reader had the newest {behind_s:.1f} s after the last, and was told {len(told.seen)} versions\n")
    return {
        "clients": arguments.clients,
        "payload_bytes": arguments.payload_bytes,
        "rate_wanted": arguments.rate,
        "rate_reached": round(reached),
        "publishes": publishes.taken,
        "reader_behind_s": round(behind_s, 2),
        "reader_told": len(told.seen),
        "rows": rows,
    }


if __name__ == "__main__":
    sys.exit(main())
