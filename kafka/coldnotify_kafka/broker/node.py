"""The embedded broker: one real Apache Kafka node, started, watched and stopped."""

import os
import re
import shutil
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import takewhile
from pathlib import Path
from types import TracebackType
from typing import Self

from coldnotify_kafka.broker import class_archive, jars, private
from coldnotify_kafka.broker import data_dir as directories
from coldnotify_kafka.broker.config import HEAP_MIB_DEFAULT, BrokerConfig
from coldnotify_kafka.broker.formatting import format_if_new
from coldnotify_kafka.broker.free_ports import check_port_is_free, free_port
from coldnotify_kafka.broker.java import environment, find_java
from coldnotify_kafka.broker.process import end, spawn
from coldnotify_kafka.broker.readiness import NotReadyInTimeError, wait_until_ready
from coldnotify_kafka.broker.repair import check_whole
from coldnotify_kafka.errors import BrokerError, BrokerNotReadyError, DataDirectoryError
from coldnotify_kafka.room import check_room

READY_SECONDS_MAX = 60.0
"""Default limit: 2 to 3 s are usual; after a crash Kafka first checks the logs it had open."""
STOP_SECONDS_MAX = 30.0
"""Default limit for a stop in order (0.5 s are usual), before the process is killed."""

_TAIL_BYTES_MAX = 64 * 1024
_BEGINS = re.compile(r"\d{4}-\d\d-\d\dT\S+ ")
_ERROR = re.compile(_BEGINS.pattern + r"(?:ERROR|FATAL) ")
"""The beginning of an error's line in log4j2.xml's format: time, level, message."""
_CAUSES_MAX = 5


class Startable(ABC):
    """Something that is started and ready inside of `with`, and stopped afterwards."""

    @abstractmethod
    def start(self) -> None:
        """Starts it, without waiting until it is ready."""

    @abstractmethod
    def wait_ready(self, timeout: float = READY_SECONDS_MAX) -> None:
        """Returns once clients can be served. `timeout` in seconds."""

    @abstractmethod
    def stop(self, timeout: float = STOP_SECONDS_MAX) -> object:
        """Asks it to end, waits `timeout` seconds, then kills it."""

    def __enter__(self) -> Self:
        self.start()
        try:
            self.wait_ready()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()


class EmbeddedBroker(Startable):
    """One Kafka node on a data directory that survives restarts.

        with EmbeddedBroker(Path("data"), port=9092) as broker:    # started and ready
            connect_to(broker.bootstrap)

    A supervisor uses `start`, `wait_ready`, `poll`, `stop` itself. After `stop`, or after the process died in whatever
    way, `start` again carries on with the same data and the same ports. The methods block, and are not for two threads
    at once. The Java process ends with this process, however that ends (on Linux).
    """

    def __init__(
        self,
        data_dir: Path,
        port: int = 0,
        *,
        controller_port: int = 0,
        host: str = "127.0.0.1",
        advertised_host: str | None = None,
        heap_mib: int = HEAP_MIB_DEFAULT,
        progress: jars.Progress | None = None,
    ) -> None:
        """Nothing is started yet. A port of 0 takes any free one, and keeps it. Raises BrokerError's subclasses."""
        self.config = BrokerConfig(
            data_dir=Path(data_dir).absolute(),
            port=port or free_port(),
            controller_port=controller_port or free_port(),
            host=host,
            advertised_host=advertised_host,
            heap_mib=heap_mib,
        )
        self._progress = progress
        self._process: subprocess.Popen[bytes] | None = None

    @classmethod
    def of(cls, config: BrokerConfig, progress: jars.Progress | None = None) -> Self:
        """A node with exactly this configuration: one of a cluster. Nothing is started yet."""
        node = cls.__new__(cls)
        node.config, node._progress, node._process = config, progress, None
        return node

    @property
    def port(self) -> int:
        """The TCP port that clients connect to."""
        return self.config.port

    @property
    def bootstrap(self) -> str:
        """The bootstrap.servers of clients."""
        return self.config.bootstrap

    @property
    def pid(self) -> int:
        """The Java process's own id. Raises BrokerError before the first start."""
        return self._started().pid

    def start(self) -> None:
        """Starts the process, without waiting until it is ready; formats the data directory if it is new.

        Fetches Kafka's jars first where they are missing (that may take minutes). A taken port, a full disk and a
        data directory in use are found before Java is started. Raises BrokerError's subclasses.
        """
        if self._process is not None and self.running:
            raise BrokerError(f"the broker is already running (pid {self._process.pid})")
        config = self.config
        check_port_is_free(config.host, config.port, "--kafka-port (COLDNOTIFY_KAFKA_PORT)")
        check_port_is_free(config.controller_host, config.controller_port, "controller_port")
        check_room(config.data_dir)
        java, classes = find_java(), jars.jars(self._progress)
        archive = class_archive.options(java, classes)
        java_line = [str(java.path), *archive, *config.java_options(), "-cp", os.pathsep.join(map(str, classes))]
        lock = directories.lock(config.data_dir)
        try:
            if not config.voters:
                directories.check_nodes(config.data_dir, 1)
            check_whole(config)
            private.write(config.properties_file, config.server_properties().encode())
            # Kafka would write through a link there.
            private.open_file(config.log_file, "ab").close()
            format_if_new(config)
            # Java inherits the lock and so holds it exactly as long as it lives, whatever becomes of this process.
            self._process = spawn(
                [*java_line, "kafka.Kafka", str(config.properties_file)],
                config.output_file,
                keep_open=[lock],
                umask=private.UMASK,
                environ=environment(),
            )
        except OSError as error:
            raise DataDirectoryError(f"the broker cannot be started in {config.data_dir}: {error}") from error
        finally:
            os.close(lock)

    def wait_ready(self, timeout: float = READY_SECONDS_MAX) -> None:
        """Returns once clients can be served: metadata and all group and transaction coordinators are loaded.

        `timeout` in seconds. Raises BrokerNotReadyError, with the log's tail, at the timeout or if the process ends;
        DiskFullError, without it, if that is why.
        """
        self._started()
        deadline = time.monotonic() + timeout
        try:
            wait_until_ready(self.config.contact_host, self.config.port, deadline, self._check_alive)
        except NotReadyInTimeError as error:
            check_room(self.config.data_dir)
            raise BrokerNotReadyError(
                f"the broker was not ready within {timeout:g} s ({error}). Its log ends:\n{self.log_tail()}"
            ) from None

    def poll(self) -> int | None:
        """None while the process runs, else its exit status (negative: the signal). BrokerError before a start."""
        return self._started().poll()

    @property
    def running(self) -> bool:
        """True if the process exists and has not ended."""
        return self._process is not None and self._process.poll() is None

    def ask_to_stop(self) -> None:
        """SIGTERM to a process that runs, without waiting."""
        if self._process is not None:
            self._process.terminate()

    def stop(self, timeout: float = STOP_SECONDS_MAX) -> int | None:
        """Asks the process to end, waits `timeout` seconds, then kills it.

        Returns its exit status, None if never started. Raises BrokerError if it cannot even be killed.
        """
        process = self._process
        if process is None:
            return None
        try:
            return end(process, timeout)
        except subprocess.TimeoutExpired:
            words = f"the broker's process {process.pid} does not end, not even by SIGKILL"
            raise BrokerError(words) from None

    def log_tail(self, lines: int = 25) -> str:
        """The last lines of what Java printed and of the broker's log, each behind the last error before them."""
        parts = []
        for path in (self.config.output_file, self.config.log_file):
            with suppress(OSError), path.open("rb") as file:
                file.seek(max(0, path.stat().st_size - _TAIL_BYTES_MAX))
                text = file.read().decode(errors="replace").splitlines()
                parts.append("\n".join([f"--- {path} ---", *_last_error(text[:-lines]), *text[-lines:]]))
        return "\n".join(parts)

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise BrokerError("the broker has not been started")
        return self._process

    def _check_alive(self) -> None:
        status = self._started().poll()
        if status is not None:
            check_room(self.config.data_dir)
            raise BrokerNotReadyError(f"the broker ended by itself (status {status}). Its log ends:\n{self.log_tail()}")


def _last_error(lines: list[str]) -> list[str]:
    """Returns the last error in these lines, and its causes: after it Kafka logs at length what it closes."""
    at = next((n for n in range(len(lines) - 1, -1, -1) if _ERROR.match(lines[n])), None)
    if at is None:
        return []
    following = takewhile(lambda line: not _BEGINS.match(line), lines[at + 1 :])
    causes = [line for line in following if not line.startswith("\t")]
    return [lines[at], *causes[:_CAUSES_MAX], "..."]


@contextmanager
def run(
    port: int = 0,
    data_dir: Path | None = None,
    *,
    controller_port: int = 0,
    host: str = "127.0.0.1",
    advertised_host: str | None = None,
    heap_mib: int = HEAP_MIB_DEFAULT,
) -> Iterator[EmbeddedBroker]:
    """A broker that is ready, stopped at the end; without `data_dir` its data is temporary and removed then.

    Raises BrokerError's subclasses.
    """
    temporary = None if data_dir else Path(tempfile.mkdtemp(prefix="coldnotify-kafka-"))
    try:
        with EmbeddedBroker(
            data_dir or temporary or Path(),
            port,
            controller_port=controller_port,
            host=host,
            advertised_host=advertised_host,
            heap_mib=heap_mib,
        ) as broker:
            yield broker
    finally:
        if temporary:
            shutil.rmtree(temporary, ignore_errors=True)
