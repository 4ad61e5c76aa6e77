"""An archive of Kafka's classes in Java's memory format (class-data sharing): a node starts a second sooner.

It is made once for each Java and set of jars, beside the jars in the cache, by a separate process that runs while the
first node does: it starts a node on data of its own to see which classes that loads (`train`), and has Java write them
down. If an archive is faulty, or cannot be made, the node starts without it.

An archive contains code, so it is used only if nobody else could have written it, and its SHA-256 is compared with the
one in its name each time, because Java itself crashes on a truncated one.
"""

import fcntl
import hashlib
import logging
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from coldnotify_kafka.broker import jars, pins, private
from coldnotify_kafka.broker.config import BrokerConfig
from coldnotify_kafka.broker.formatting import format_if_new
from coldnotify_kafka.broker.free_ports import free_port
from coldnotify_kafka.broker.java import Java, environment, find_java
from coldnotify_kafka.broker.process import KILL_SECONDS_MAX, end, spawn
from coldnotify_kafka.broker.readiness import wait_until_ready
from coldnotify_kafka.errors import BrokerNotReadyError

log = logging.getLogger(__name__)

_FOLDER = "classes"
_NICENESS = 10
"""While it is made, the node and what uses it come first."""
_TRAIN_SECONDS_MAX = 300.0
_DUMP_SECONDS_MAX = 300.0
"""4 and 7 s are usual; at this niceness on a busy machine it takes many times as long."""
_UNUSED_SECONDS_MAX = 30 * 24 * 3600.0
"""An archive takes 65 MB. One that no node was started with for so long is of a Java or Kafka that is gone."""

_checked: dict[Path, tuple[int, int]] = {}
"""Archives that were compared with their names in this process, as they were then: size and time of change."""
_maker: subprocess.Popen[bytes] | None = None
"""The process that makes an archive; this process never starts a second one."""
_maker_guard = threading.Lock()


def options(java: Java, classpath: Sequence[Path]) -> list[str]:
    """Returns Java's options for a start with the archive; none if it is missing, and is being made.

    `classpath`: as passed to Java. Raises nothing.
    """
    try:
        if (key := _key(java, classpath)) is None:
            return []
        folder = jars.cache_directory() / _FOLDER
        if (archive := _find(folder, key)) is None:
            _make_beside(folder)
            return []
    except OSError as error:
        log.debug("no archive of Kafka's classes: %s", error)
        return []
    return [f"-XX:SharedArchiveFile={archive}", "-Xshare:auto"]


def make() -> Path | None:
    """Makes the archive for the Java and the jars that are in use; None if another process is just doing so.

    Raises OSError, RuntimeError if Java cannot write it, BrokerError's subclasses if the node does not start.
    """
    java, classpath = find_java(), jars.jars()
    key = _key(java, classpath)
    if key is None:
        raise RuntimeError(f"{java.path}: is not laid out as Java is, so nothing tells it from another Java")
    folder = jars.cache_directory() / _FOLDER
    private.make_directory(folder)
    with os.fdopen(private.open_lock(folder / f"{key}.lock")) as lock:
        try:
            # The kernel frees it when this process dies.
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return None
        if found := _find(folder, key):
            return found
        partial = folder / f"{key}.partial"
        # The lock is held: whatever lies there was left by a process that died.
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(mode=0o700)
        try:
            java_line = [str(java.path), "-cp", os.pathsep.join(map(str, classpath))]
            archive = _dump(java_line, _train(java_line, partial), partial)
            finished = folder / f"{key}.{pins.sha256(archive)}.jsa"
            archive.chmod(0o600)
            archive.rename(finished)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
        _remove_unused(folder)
        return finished


def _key(java: Java, classpath: Sequence[Path]) -> str | None:
    """Names what an archive is good for: one Java, and these very files. Java refuses it for others. Raises OSError."""
    library = java.path.resolve().parent.parent / "lib"
    of_java = [library / "modules", library / "server" / "libjvm.so"]
    if not all(path.exists() for path in of_java):
        return None
    text = [f"{path.name} {_state(path)}" for path in of_java] + [f"{path} {_state(path)}" for path in classpath]
    return hashlib.sha256("\n".join(text).encode()).hexdigest()[:16]


def _state(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_size, found.st_mtime_ns


def _find(folder: Path, key: str) -> Path | None:
    """The archive with that key, if it may be believed and is whole; one that is not whole is removed.

    Raises OSError.
    """
    for archive in folder.glob(f"{key}.*.jsa"):
        if not (_nobody_elses(folder) and _nobody_elses(archive)):
            log.warning("%s: others than its user may write there, so it is not used", archive)
            continue
        state = _state(archive)
        if _checked.get(archive) != state:
            if pins.sha256(archive) != archive.name.split(".")[1]:
                log.warning("%s: is damaged, and is made anew", archive)
                archive.unlink(missing_ok=True)
                continue
            _checked[archive] = state
        with suppress(OSError):
            # Tells that it is in use: when it was read last, many file systems do not.
            os.utime(folder / f"{key}.lock")
        return archive
    return None


def _nobody_elses(path: Path) -> bool:
    """Returns true if only root or this user could have written it."""
    found = path.lstat()
    return found.st_uid in (0, os.geteuid()) and not found.st_mode & 0o022


def _make_beside(folder: Path) -> None:
    """Starts a process that makes the archive. It ends with this one at the latest. Raises OSError."""
    global _maker
    # The nodes of a cluster are started by several threads at once.
    with _maker_guard:
        if _maker is not None and _maker.poll() != 0:
            # Still at work, or it failed: what failed once is not tried again by each start.
            return
        private.make_directory(folder)
        argv = [sys.executable, "-c", f"from {__name__} import main; main()"]
        _maker = spawn(argv, folder / "output", umask=private.UMASK)


def _train(java_line: Sequence[str], directory: Path) -> Path:
    """Runs a node until it is ready; the file with the names of all classes that this took."""
    names = directory / "names"
    config = BrokerConfig(data_dir=directory, port=free_port(), controller_port=free_port())
    private.write(config.properties_file, config.server_properties().encode())
    format_if_new(config)
    recording = [*java_line, *config.java_options(), f"-XX:DumpLoadedClassList={names}"]
    node = spawn([*recording, "kafka.Kafka", str(config.properties_file)], config.output_file, environ=environment())
    try:

        def check_alive() -> None:
            if node.poll() is not None:
                raise BrokerNotReadyError(f"the node ended by itself (status {node.returncode})")

        deadline = time.monotonic() + _TRAIN_SECONDS_MAX
        wait_until_ready(config.contact_host, config.port, deadline, check_alive)
    finally:
        # In order, so that what stopping takes is in the list, too.
        end(node, KILL_SECONDS_MAX)
    return names


def _dump(java_line: Sequence[str], names: Path, directory: Path) -> Path:
    archive = directory / "archive.jsa"
    config = BrokerConfig(data_dir=directory, port=1, controller_port=1)
    argv = [*java_line, *config.java_options(), "-Xshare:dump", f"-XX:SharedClassListFile={names}"]
    dump = spawn([*argv, f"-XX:SharedArchiveFile={archive}"], config.output_file, environ=environment())
    try:
        status = dump.wait(_DUMP_SECONDS_MAX)
    finally:
        if dump.poll() is None:
            end(dump, KILL_SECONDS_MAX)
    if status != 0 or not archive.exists():
        raise RuntimeError(f"Java ended with status {status}: {config.output_file.read_text(errors='replace')[-2000:]}")
    with archive.open("rb") as file:
        os.fsync(file.fileno())
    return archive


def _remove_unused(folder: Path) -> None:
    for lock in folder.glob("*.lock"):
        if time.time() - lock.stat().st_mtime > _UNUSED_SECONDS_MAX:
            for path in [*folder.glob(f"{lock.stem}.*.jsa"), lock]:
                path.unlink(missing_ok=True)


def main() -> None:
    """Makes the archive, giving way to all others."""
    os.nice(_NICENESS)
    sys.stdout.write(f"{make() or 'another process makes it'}\n")
