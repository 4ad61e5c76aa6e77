"""Fetches Kafka's jars, once, into a cache: no Maven, no Java needed; a filled cache needs no network.

What they are is pinned (`pins`): looked at after the fetch, and in each process before the first use.
"""

import fcntl
import json
import os
import shutil
import sys
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from coldnotify_kafka.broker import pins, private
from coldnotify_kafka.errors import JarsUnavailableError

KAFKA_VERSION = "4.3.1"
"""The version of Kafka that is embedded; `make pins` follows it. 4.4.0 does not resolve (its own POMs name artifacts
that were not published).
"""

Progress = Callable[[str], None]
"""Called with the progress of a long piece of work, in words."""

_COORDINATES = (f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}", f"org.apache.kafka:kafka-tools:{KAFKA_VERSION}")
_MANIFEST = "manifest.json"

_FETCH_SECONDS_MAX = 900.0
"""For the whole fetch: 50 MB at half a megabit a second, which is a slow office line, fit in."""
_LOCK_POLL_SECONDS = 0.2


def cache_directory(environ: Mapping[str, str] = os.environ) -> Path:
    """Returns the directory for fetched files: COLDNOTIFY_CACHE, else XDG_CACHE_HOME/coldnotify, else
    ~/.cache/coldnotify.

    Raises JarsUnavailableError if there is no home directory.
    """
    try:
        if chosen := environ.get("COLDNOTIFY_CACHE"):
            return Path(chosen).expanduser().absolute()
        # The XDG specification says that a relative path there is to be ignored.
        base = environ.get("XDG_CACHE_HOME", "")
        directory = (Path(base) if Path(base).is_absolute() else Path.home() / ".cache") / "coldnotify"
    except RuntimeError:
        directory = Path()
    if not directory.is_absolute():
        raise JarsUnavailableError(
            "no home directory (HOME) for the cache of Kafka's jars: set COLDNOTIFY_CACHE to the absolute path of a "
            "writable directory"
        )
    return directory


_checked: set[Path] = set()
"""Caches whose jars were compared with their pins in this process: that takes a tenth of a second."""


def jars(progress: Progress | None = None, environ: Mapping[str, str] = os.environ) -> list[Path]:
    """Returns Kafka's jars (broker, clients, console tools, logging); fetches them if they are not in the cache.

    Safe against other processes doing the same; the returned set is complete. `progress` is called with the fetch's
    progress (default: standard error). COLDNOTIFY_MAVEN_URL names a mirror to fetch from instead of Maven's central
    repository. Jars that differ from the pinned ones are not returned. Raises JarsUnavailableError.
    """
    cache = cache_directory(environ)
    target = cache / f"kafka-{KAFKA_VERSION}"
    if found := _complete(target):
        return _as_pinned(target, found)
    say = progress or _StderrProgress()
    deadline = time.monotonic() + _FETCH_SECONDS_MAX
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with _locked(cache / f"{target.name}.lock", deadline, say):
            # Somebody else may have filled the cache while this process waited for the lock.
            if not (found := _complete(target)):
                _fill(target, environ.get("COLDNOTIFY_MAVEN_URL"), deadline, say, pins.read(pins.FILE))
                found = _complete(target)
    except OSError as error:
        raise JarsUnavailableError(
            f"the cache directory {cache} cannot be used: {error}. "
            "Set COLDNOTIFY_CACHE to a directory that can be written."
        ) from error
    if not found:
        raise JarsUnavailableError(f"the jars fetched into {target} vanished again: does something clean {cache}?")
    return _as_pinned(target, found)


def fetch_anew(directory: Path, environ: Mapping[str, str] = os.environ) -> list[Path]:
    """All jars, whatever they are, into a directory that is there: to pin them. Raises JarsUnavailableError."""
    target = directory / f"kafka-{KAFKA_VERSION}"
    deadline = time.monotonic() + _FETCH_SECONDS_MAX
    _fill(target, environ.get("COLDNOTIFY_MAVEN_URL"), deadline, _StderrProgress(), None)
    return _complete(target) or []


def classpath(progress: Progress | None = None) -> str:
    """Kafka's jars as a Java class path. Raises JarsUnavailableError."""
    return os.pathsep.join(str(jar) for jar in jars(progress))


def _complete(target: Path) -> list[Path] | None:
    """The jars of a cache that is whole; None where one is missing or has another size than when it was fetched."""
    try:
        sizes: dict[str, int] = json.loads((target / _MANIFEST).read_text())["bytes"]
        found = [target / name for name in sizes]
        whole = all(jar.stat().st_size == sizes[jar.name] for jar in found)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return found if found and whole else None


def _as_pinned(target: Path, found: list[Path]) -> list[Path]:
    """A cache may have been copied from elsewhere, or be written by somebody else."""
    if target not in _checked:
        pins.check(found, pins.read(pins.FILE))
        _checked.add(target)
    return found


def _fill(target: Path, mirror: str | None, deadline: float, say: Progress, pinned: Mapping[str, str] | None) -> None:
    """Fetches into a directory beside `target` and renames it: under its own name a cache is always complete.

    `pinned`: the required jars; None: any.
    """
    partial = target.with_name(f"{target.name}.partial")
    repository = partial / "repository"
    staged = partial / "jars"
    # The lock is held: whatever lies there was left by a process that died, and may be half a file.
    shutil.rmtree(partial, ignore_errors=True)
    staged.mkdir(parents=True)
    try:
        say(f"Fetching Apache Kafka {KAFKA_VERSION} into {target} (once)")
        sizes = {}
        for jar in _fetch(repository, mirror, deadline, say):
            _check_jar(jar)
            # Moved before it is named complete, and on the disk: a power cut must not leave a named but empty jar.
            moved = staged / jar.name
            jar.rename(moved)
            with moved.open("rb") as file:
                os.fsync(file.fileno())
            sizes[jar.name] = moved.stat().st_size
        if pinned is not None:
            pins.check(map(staged.joinpath, sizes), pinned)
        with (staged / _MANIFEST).open("w") as manifest:
            json.dump({"kafka": KAFKA_VERSION, "bytes": sizes}, manifest, indent=1)
            manifest.flush()
            os.fsync(manifest.fileno())
        shutil.rmtree(target, ignore_errors=True)
        staged.rename(target)
        say(f"Apache Kafka {KAFKA_VERSION}: {len(sizes)} jars, {sum(sizes.values()) / 1e6:.0f} MB, complete")
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _fetch(repository: Path, mirror: str | None, deadline: float, say: Progress) -> list[Path]:
    """Resolves and downloads into a Maven repository of our own (never the user's). Raises JarsUnavailableError."""
    try:
        # Here and not above: it brings an HTTP client, a fifth of the time that `coldnotify up` takes to come to life.
        from coldnotify_kafka.broker import maven
    except ImportError as error:
        raise JarsUnavailableError(
            "Apache Kafka's jars are not in the cache, and cannot be fetched without the package jgo: pip install "
            "'coldnotify-server[embedded]'. For a Kafka of your own, set COLDNOTIFY_KAFKA"
        ) from error
    try:
        return maven.fetch(_COORDINATES, repository, mirror, deadline, say)
    except Exception as error:  # jgo raises whatever happened, from requests' errors to StopIteration
        raise JarsUnavailableError(
            f"Apache Kafka's jars could not be fetched ({type(error).__name__}: {error}). "
            "They are needed once and then kept. Check the network (HTTPS_PROXY is obeyed), or set "
            f"COLDNOTIFY_MAVEN_URL to a Maven mirror, or copy the folder kafka-{KAFKA_VERSION} from the cache of a "
            "machine that has it and point COLDNOTIFY_CACHE at its parent."
        ) from error


def _check_jar(jar: Path) -> None:
    """Checks a jar, so that a proxy's error page or a flipped bit is reported here, and not by Java later."""
    try:
        with zipfile.ZipFile(jar) as archive:
            damaged = archive.testzip()
    except zipfile.BadZipFile:
        damaged = "all of it"
    if damaged:
        raise JarsUnavailableError(
            f"{jar.name} arrived damaged ({damaged}): try again, or set COLDNOTIFY_MAVEN_URL to another mirror"
        )


@contextmanager
def _locked(path: Path, deadline: float, say: Progress) -> Iterator[None]:
    """Holds the lock file; the kernel frees it when its holder dies. Raises JarsUnavailableError at the deadline."""
    with os.fdopen(private.open_lock(path)) as file:
        told = False
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not told:
                    say(f"Another process is fetching Apache Kafka into {path.parent}: waiting for it")
                    told = True
                if time.monotonic() > deadline:
                    raise JarsUnavailableError(
                        f"another process has held {path} for {_FETCH_SECONDS_MAX:.0f} seconds: is it stuck?"
                    ) from None
                time.sleep(_LOCK_POLL_SECONDS)
        yield


class _StderrProgress:
    """Progress on standard error: one line that is written over on a terminal, elsewhere a line now and then."""

    _quiet_seconds = 5.0

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._terminal = self._stream.isatty()
        self._spoken_at = float("-inf")

    def __call__(self, words: str) -> None:
        detail = words.startswith(" ")
        now = time.monotonic()
        if self._terminal:
            self._stream.write(f"\r\x1b[K{words}" if detail else f"\r\x1b[K{words}\n")
        elif not detail or now - self._spoken_at > self._quiet_seconds:
            self._stream.write(f"{words}\n")
            self._spoken_at = now
        self._stream.flush()
