"""kill -9 of the database, of `coldnotify auto` and of Kafka under writes: nothing is lost, none goes back.

Stands for: postgres_source

AUTO_KILLS=50 makes as many kills; AUTO_ROWS=100000 writes as many rows in one transaction.
"""

import json
import os
import random
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread
from typing import Any
from urllib.request import urlopen

import psycopg2
import pytest
from coldnotify_auto.newest_log import read_newest
from coldnotify_auto.settings import AutoSettings
from coldnotify_kafka.broker import EmbeddedBroker
from coldnotify_kafka.broker.free_ports import free_port
from coldnotify_kafka.broker.process import spawn
from coldnotify_testkit.command import coldnotify
from coldnotify_testkit.postgres import Postgres, postgres
from coldnotify_testkit.waiting import wait_for
from confluent_kafka import Consumer, TopicPartition

KILLS = int(os.environ.get("AUTO_KILLS", "6"))
ROWS = int(os.environ.get("AUTO_ROWS", "5000"))
OBJECTS = 40
FILE = """\
sources:
  plant:
    kind: postgres
    connection: "{connection}"
    rules:
      - table: units
        domain: d
        group: "{{region}}"
        object: "u{{id}}"
        payload: {{n}}
      - table: outbox
        domain: d
        group: g
        channel: c
        id: "{{id}}"
"""


@pytest.fixture
def pg() -> Iterator[Postgres]:
    with postgres() as running:
        running.do(
            "CREATE TABLE units (id int PRIMARY KEY, region text, n int)",
            "ALTER TABLE units REPLICA IDENTITY FULL",
            "CREATE TABLE outbox (id bigserial PRIMARY KEY)",
        )
        yield running


class Auto:
    """`coldnotify auto` as a process."""

    def __init__(self, pg: Postgres, kafka: str, folder: Path) -> None:
        (folder / "auto.yaml").write_text(FILE.format(connection=pg.connection))
        self.port, self._log = free_port("127.0.0.1"), folder / "auto.log"
        self._argv = [sys.executable, "-m", "coldnotify_cli.main", "auto", str(folder / "auto.yaml")]
        self._argv += [f"--kafka={kafka}", f"--auto-port={self.port}"]
        self.start()

    def start(self) -> None:
        self.process = spawn(self._argv, self._log)

    def kill(self) -> None:
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(60) == 0, self.log

    def is_ready(self) -> bool:
        """True once it follows its source."""
        try:
            with urlopen(f"http://127.0.0.1:{self.port}/readyz", timeout=10):
                return True
        except OSError:
            return False

    @property
    def log(self) -> str:
        return self._log.read_text()[-4000:]


class Writer(Thread):
    """Changes units in small transactions until it is stopped, while the database comes and goes."""

    def __init__(self, pg: Postgres, seed: int) -> None:
        super().__init__()
        self._pg, self._random, self.over = pg, random.Random(seed), Event()
        self.committed = 0

    def run(self) -> None:
        while not self.over.is_set():
            try:
                connection = self._pg.connect()
                try:
                    while not self.over.wait(0.005):
                        with connection.cursor() as cursor:
                            for _ in range(self._random.randrange(1, 4)):
                                cursor.execute(*self._statement())
                            cursor.execute("INSERT INTO outbox DEFAULT VALUES")
                        connection.commit()
                        self.committed += 1
                finally:
                    connection.close()
            except psycopg2.Error:
                time.sleep(0.05)

    def _statement(self) -> tuple[str, tuple[Any, ...]]:
        number, region = self._random.randrange(OBJECTS), self._random.choice(("north", "south"))
        if self._random.random() < 0.2:
            return "DELETE FROM units WHERE id = %s", (number,)
        return (
            "INSERT INTO units VALUES (%s, %s, %s) ON CONFLICT (id) DO UPDATE SET (region, n) = "
            "(excluded.region, excluded.n)",
            (number, region, self._random.randrange(1_000_000)),
        )


def rows(pg: Postgres) -> dict[str, int]:
    return {f"{region}/u{number}": n for number, region, n in pg.do("SELECT id, region, n FROM units")}


def log(kafka: str, topic: str) -> list[Any]:
    """The records of a topic, partition for partition, in order."""
    consumer = Consumer({"bootstrap.servers": kafka, "group.id": "test", "enable.partition.eof": True})
    partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
    consumer.assign([TopicPartition(topic, one, 0) for one in partitions])
    found, ends = [], 0
    while ends < len(partitions):
        message = consumer.poll(30)
        assert message is not None
        if message.error() is None:
            found.append(message)
        else:
            ends += 1
    consumer.close()
    return found


def newest(kafka: str) -> dict[str, int]:
    """The payload of each object's newest version, as a matcher would take it."""
    best: dict[str, tuple[tuple[int, int], int | None]] = {}
    for message in log(kafka, "coldnotify.objects"):
        record = json.loads(message.value())
        place = record["incarnation"], record["version"]
        key = message.key().decode().removeprefix("d/")
        if key not in best or place > best[key][0]:
            best[key] = place, None if record.get("deleted") else record["payload"]["n"]
        elif place == best[key][0]:
            # One version says one thing, however often it is written: else clients would not be told the other.
            assert best[key][1] == (None if record.get("deleted") else record["payload"]["n"]), key
    return {key: n for key, (_, n) in best.items() if n is not None}


@pytest.mark.own_broker("kills Kafka")
@pytest.mark.timeout(300 + 30 * KILLS)
def test_kills_lose_nothing_and_nothing_goes_back(own_kafka: EmbeddedBroker, pg: Postgres, tmp_path: Path) -> None:
    seed = random.randrange(1 << 30)
    draw = random.Random(seed)
    auto, writer = Auto(pg, own_kafka.bootstrap, tmp_path), Writer(pg, seed)
    writer.start()
    try:
        # Each of the three at least once, if there are as many.
        victims = (["auto", "postgres", "kafka"] * KILLS)[:KILLS]
        draw.shuffle(victims)
        for victim in victims:
            time.sleep(draw.uniform(0.2, 3))
            before = writer.committed
            if victim == "auto":
                auto.kill()
                auto.start()
            elif victim == "postgres":
                pg.kill()
                time.sleep(draw.uniform(0, 1))
                pg.start()
            else:
                os.kill(own_kafka.pid, signal.SIGKILL)
                wait_for(lambda: not own_kafka.running, "Kafka is dead")
                own_kafka.start()
                own_kafka.wait_ready()
            wait_for(lambda before=before: writer.committed > before, "the writer goes on")  # type: ignore[misc]
    finally:
        writer.over.set()
        writer.join()
    try:
        sent = [number for (number,) in pg.do("SELECT id FROM outbox ORDER BY id")]

        def told() -> list[int]:
            headers = [dict(one.headers()) for one in log(own_kafka.bootstrap, "coldnotify.channels.1d")]
            return list(dict.fromkeys(int(one["id"]) for one in headers))

        wait_for(lambda: newest(own_kafka.bootstrap) == rows(pg), "every object says what its row says", 120)
        wait_for(lambda: len(told()) >= len(sent), "every message is there")
        assert told() == sent, "in the order of the outbox, by their first records"
    except AssertionError as error:
        raise AssertionError(f"seed {seed}, kills {victims}: {error}\n{auto.log}") from None
    finally:
        if auto.process.poll() is None:
            auto.stop()
    found = read_newest(AutoSettings(kafka=own_kafka.bootstrap), lambda _: True)
    assert {"/".join(key[1:]) for key, one in found.items() if not one.deleted} == set(rows(pg))


@pytest.mark.kafka
def test_a_large_transaction_is_published_as_a_whole(fresh_kafka: EmbeddedBroker, pg: Postgres, tmp_path: Path) -> None:
    auto = Auto(pg, fresh_kafka.bootstrap, tmp_path)
    try:
        wait_for(auto.is_ready, "auto follows")
        pg.do(f"INSERT INTO units SELECT i, 'north', i FROM generate_series(1, {ROWS}) i")
        pg.do("UPDATE units SET n = -1 WHERE id = 1")
        wait_for(lambda: newest(fresh_kafka.bootstrap).get("north/u1") == -1, "the transaction behind it", 250)
        assert newest(fresh_kafka.bootstrap) == rows(pg)
        done = coldnotify("auto", str(tmp_path / "auto.yaml"), "--resync=plant")
        assert done.stdout.startswith("plant: every table is compared within 10 s"), done.stderr
        wait_for(lambda: "as was asked for" in auto.log, "it is noticed")
        wait_for(auto.is_ready, "auto follows again")
    finally:
        auto.stop()
