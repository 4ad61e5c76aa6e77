import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from coldnotify_kafka.broker import EmbeddedBroker, free_port, run
from coldnotify_kafka.broker.freezing import freeze
from coldnotify_kafka.errors import (
    BrokerError,
    BrokerNotReadyError,
    DataDirectoryError,
    DataDirectoryInUseError,
    PortTakenError,
)
from coldnotify_testkit.raw_produce import produce
from coldnotify_testkit.record_batches import Batch, BatchRecord, Codec, bomb, compressed, encoded
from coldnotify_testkit.waiting import wait_for
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

pytestmark = pytest.mark.own_broker("is about the embedded Kafka itself")

TOPIC = "node.test"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[EmbeddedBroker]:
    """A broker that has not been started; whatever became of it, it is stopped afterwards."""
    broker = EmbeddedBroker(tmp_path / "kafka data")
    yield broker
    broker.stop(timeout=0)


def write(bootstrap: str, value: bytes) -> None:
    """Creates the topic if need be and writes an acknowledged record."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    if TOPIC not in admin.list_topics(timeout=30).topics:
        admin.create_topics([NewTopic(TOPIC, 1)])[TOPIC].result(30)
    failures: list[object] = []
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    producer.produce(TOPIC, value, on_delivery=lambda error, _: failures.append(error))
    assert producer.flush(30) == 0
    assert failures == [None]


def read(bootstrap: str, count: int) -> list[bytes | None]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "node-test"})
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    values: list[bytes | None] = []
    while len(values) < count:
        message = consumer.poll(30)
        assert message is not None, "no record within 30 s"
        assert message.error() is None
        value = message.value()
        assert value is None or isinstance(value, bytes)
        values.append(value)
    consumer.close()
    return values


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except FileNotFoundError:
        return False


STARTED = """
import sys
from pathlib import Path
from coldnotify_kafka.broker import EmbeddedBroker
with EmbeddedBroker(Path(sys.argv[1])) as broker:
    assert "started" in broker.config.log_file.read_text()
print(broker.config.log_file.stat().st_size)
"""


@pytest.mark.kafka
def test_a_directory_of_any_name_is_used_again_under_another_locale(tmp_path: Path) -> None:
    locales = tmp_path / "locales"
    locales.mkdir()
    if (localedef := shutil.which("localedef")) is not None:
        # Where it is not there, Python and Java take the locale C.
        made = [localedef, "--no-archive", "-c", "-i", "de_DE", "-f", "ISO-8859-1", str(locales / "de_DE.ISO-8859-1")]
        subprocess.run(made, capture_output=True, check=False, timeout=60)
    directory = tmp_path / 'jürgen データ 🐧 50%d%i it\'s "q" \\ $HOME'
    for locale in ("C", "de_DE.ISO-8859-1", "C.UTF-8"):
        environ = {**os.environ, "LC_ALL": locale, "LOCPATH": str(locales)}
        argv = [sys.executable, "-c", STARTED, str(directory)]
        done = subprocess.run(argv, env=environ, capture_output=True, text=True, timeout=180, check=False)
        assert done.returncode == 0, f"{locale}: {done.stderr}"
        assert sorted(path.name for path in tmp_path.iterdir()) == sorted([directory.name, "locales"])


@pytest.mark.kafka
def test_a_broker_listens_on_an_ipv6_address(tmp_path: Path) -> None:
    with EmbeddedBroker(tmp_path, host="::1") as broker:
        assert broker.bootstrap == f"[::1]:{broker.port}"
        write(broker.bootstrap, b"one")
        assert read(broker.bootstrap, 1) == [b"one"]


@pytest.mark.kafka
def test_data_port_and_cluster_survive_a_stop_and_a_kill(broker: EmbeddedBroker) -> None:
    bootstrap = broker.bootstrap
    broker.start()
    broker.wait_ready()
    write(bootstrap, b"one")
    cluster = AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=30).cluster_id
    # 143 is Java's way to say SIGTERM: it ended in order.
    assert broker.stop() == 128 + signal.SIGTERM

    broker.start()
    broker.wait_ready()
    write(bootstrap, b"two")
    os.kill(broker.pid, signal.SIGKILL)
    wait_for(lambda: broker.poll() is not None, what="the end of the killed broker")
    assert broker.poll() == -signal.SIGKILL

    broker.start()
    broker.wait_ready()
    assert broker.bootstrap == bootstrap
    assert read(bootstrap, 2) == [b"one", b"two"]
    assert AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=30).cluster_id == cluster


@pytest.mark.kafka
def test_the_pid_is_javas(kafka: EmbeddedBroker) -> None:
    assert Path(f"/proc/{kafka.pid}/exe").readlink().name == "java"
    assert kafka.poll() is None
    with pytest.raises(BrokerError, match=f"already running .pid {kafka.pid}"):
        kafka.start()


@pytest.mark.kafka
def test_a_frozen_broker_is_killed_at_the_stops_limit(broker: EmbeddedBroker) -> None:
    broker.start()
    # Before Java has its own handler for SIGTERM, that signal ends it even when frozen.
    broker.wait_ready()
    freeze(broker.pid)
    assert broker.stop(timeout=0.1) == -signal.SIGKILL


@pytest.mark.kafka
def test_the_time_limit_for_readiness_raises_with_the_log(broker: EmbeddedBroker) -> None:
    broker.start()
    freeze(broker.pid)
    with pytest.raises(BrokerNotReadyError, match=r"not ready within 0.1 s \(nothing listens"):
        broker.wait_ready(timeout=0.1)


@pytest.mark.kafka
def test_a_broker_that_ends_by_itself_is_reported_with_its_log(broker: EmbeddedBroker) -> None:
    broker.start()
    broker.stop()
    properties = broker.config.log_dir / "meta.properties"
    properties.write_text(properties.read_text().replace("node.id=1", "node.id=7"))
    broker.start()
    with pytest.raises(BrokerNotReadyError, match=r"(?s)ended by itself \(status 1\).*Stored node id 7 doesn't match"):
        broker.wait_ready()


@pytest.mark.kafka
def test_a_data_directory_in_use_is_reported(kafka: EmbeddedBroker) -> None:
    with pytest.raises(DataDirectoryInUseError, match=rf"{kafka.config.data_dir} is in use.*--data"):
        EmbeddedBroker(kafka.config.data_dir).start()


def test_a_taken_port_is_reported_before_anything_is_created(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", free_port())) as server:
        port = server.getsockname()[1]
        with pytest.raises(PortTakenError, match=f"port {port} .*--kafka-port"):
            EmbeddedBroker(tmp_path / "data", port).start()
    assert not (tmp_path / "data").exists()


@pytest.mark.kafka
def test_a_data_directory_that_is_a_file_is_reported(tmp_path: Path) -> None:
    (tmp_path / "data").touch()
    with pytest.raises(DataDirectoryError, match=r"data directory .*/data cannot be used"):
        EmbeddedBroker(tmp_path / "data").start()


def test_a_broker_that_was_not_started_has_no_pid_and_stops_at_once(tmp_path: Path) -> None:
    broker = EmbeddedBroker(tmp_path)
    for ask in (lambda: broker.pid, broker.poll, broker.wait_ready):
        with pytest.raises(BrokerError, match="has not been started"):
            ask()
    assert broker.stop() is None


@pytest.mark.kafka
def test_temporary_data_is_removed_whatever_happened() -> None:
    brokers: list[EmbeddedBroker] = []

    def interrupted() -> None:
        with run() as broker:
            brokers.append(broker)
            assert broker.config.data_dir.is_dir()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    [broker] = brokers
    assert broker.poll() is not None
    assert not broker.config.data_dir.exists()


@pytest.mark.kafka
@pytest.mark.skipif(sys.platform != "linux", reason="the death signal is Linux's")
def test_the_broker_ends_when_its_parent_is_killed(broker: EmbeddedBroker) -> None:
    script = (
        "import pathlib, sys, time\n"
        "from coldnotify_kafka.broker import EmbeddedBroker\n"
        "broker = EmbeddedBroker(pathlib.Path(sys.argv[1]))\n"
        "broker.start()\n"
        "print(broker.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    argv = [sys.executable, "-c", script, str(broker.config.data_dir)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout
        java = int(parent.stdout.readline())
        # The directory stays locked as long as Java lives, and is free the moment it is gone.
        with pytest.raises(DataDirectoryInUseError):
            broker.start()
        parent.kill()
    wait_for(lambda: not is_running(java), what="the end of the broker")
    broker.start()


def test_the_end_of_the_log_contains_the_last_error_even_if_much_follows(tmp_path: Path) -> None:
    broker = EmbeddedBroker(tmp_path)
    time = "2026-01-31T12:00:00,001"
    lines = [f"{time} INFO fine (a)", f"{time} ERROR first (a)", f"{time} ERROR Exiting (b)", "java.io.IOException: x"]
    lines += ["\tat a.b(C.java:1)", "Caused by: java.io.EOFException: y", "\tat a.b(C.java:2)"]
    lines += [f"{time} INFO closing {number} (a)" for number in range(30)]
    broker.config.log_file.write_text("\n".join(lines))
    assert broker.log_tail(lines=2).splitlines() == [
        f"--- {broker.config.log_file} ---",
        f"{time} ERROR Exiting (b)",
        "java.io.IOException: x",
        "Caused by: java.io.EOFException: y",
        "...",
        f"{time} INFO closing 28 (a)",
        f"{time} INFO closing 29 (a)",
    ]


@pytest.mark.kafka
def test_a_batch_that_claims_or_holds_more_than_the_heap_does_not_end_kafka(broker: EmbeddedBroker) -> None:
    """Neither the thread that takes it nor the log cleaner, which unpacks what it compacts."""
    broker.start()
    bootstrap, now_ms = broker.bootstrap, time.time_ns() // 1_000_000
    compacted = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0", "segment.ms": "1000"}
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(TOPIC, 1, config=compacted)])[TOPIC].result(30)
    for mib in (200, 2047):
        claims = compressed(Codec.SNAPPY, bytes(1))[-2:]
        batch = Batch([BatchRecord()], Codec.SNAPPY, base_timestamp_ms=now_ms, packed=varint_of(mib << 20) + claims)
        assert not produce(bootstrap, TOPIC, 0, encoded(batch)).written
    holds = bomb(Codec.ZSTD, 300)._replace(base_timestamp_ms=now_ms)
    assert produce(bootstrap, TOPIC, 0, encoded(holds)).written
    log = broker.config.data_dir / "broker.log"

    def cleaner_has_met_it() -> bool:
        producer.produce(TOPIC, b"later", b"key")  # a segment is only ended by what is written later
        assert producer.flush(30) == 0
        assert broker.poll() is None, "Kafka has ended"
        return "cleaner-thread-0]: Error due to" in log.read_text()

    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    wait_for(cleaner_has_met_it, "the log cleaner has come to it")
    assert cleaner_has_met_it()


def varint_of(number: int) -> bytes:
    """As snappy says how much it holds: not signed."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])
