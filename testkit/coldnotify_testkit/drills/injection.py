"""Injects faults: stops a process, starts another matcher, sets a quota, repeats an action."""

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.request import urlopen

from coldnotify_kafka.broker import console_tool, free_port
from coldnotify_kafka.broker.freezing import frozen
from coldnotify_kafka.broker.process import end, spawn

from coldnotify_testkit.drills.scene import WAIT_S, Scene
from coldnotify_testkit.waiting import wait_for

_STOP_S = 30
_QUOTA_BYTES_PER_S = 20_000


@contextmanager
def repeated(action: Callable[[threading.Event], None]) -> Iterator[None]:
    """Calls `action` in a thread again and again until the end. It gets an event that is set at the end, to wait on."""
    stopping = threading.Event()

    def run() -> None:
        while not stopping.is_set():
            action(stopping)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join(WAIT_S)


@contextmanager
def standing_still(pid: int) -> Iterator[None]:
    """A process that gets no CPU."""
    with frozen(pid):
        yield


@contextmanager
def another_matcher(
    scene: Scene, matcher_id: str, *flags: str, log: Path | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """One more, started beside those of `coldnotify up`; scraped, too, once it is there."""
    port = free_port()
    argv = [sys.executable, "-m", "coldnotify_cli.main", "matcher", f"--kafka={scene.up.kafka}"]
    argv += [f"--matcher-id={matcher_id}", f"--matcher-port={port}", *flags]
    process = spawn(argv, log or scene.directory / "another-matcher.log")

    def there() -> bool:
        with suppress(OSError), urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5):
            return True
        return False

    try:
        wait_for(there, f"{matcher_id} is there", WAIT_S)
        with scene.watcher.watching("matcher", f"127.0.0.1:{port}"):
            wait_for(lambda: scene.watcher.query(f'up{{instance="127.0.0.1:{port}"}} == 1'), "it is scraped", WAIT_S)
            yield process
    finally:
        end(process, _STOP_S)


@contextmanager
def quota(scene: Scene, *client_ids: str) -> Iterator[None]:
    """Kafka gives these clients only so much a second."""

    def alter(*change: str) -> None:
        for client_id in client_ids:
            entity = ["--entity-type", "clients", "--entity-name", client_id]
            command = console_tool("configs", ["--bootstrap-server", scene.up.kafka, "--alter", *entity, *change])
            subprocess.run(command, check=True, capture_output=True, timeout=WAIT_S)

    alter("--add-config", f"consumer_byte_rate={_QUOTA_BYTES_PER_S}")
    try:
        yield
    finally:
        alter("--delete-config", "consumer_byte_rate")
