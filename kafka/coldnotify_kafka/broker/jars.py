"""Fetches Kafka's jars, once, into a cache: no Maven, no Java needed; a filled cache needs no network.

What they are is pinned (`pins`): looked at after the fetch, and in each process before the first use.
"""

import fcntl
import json
import os
import shutil
import sys
import threading
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from jgo.maven import Artifact, MavenContext, PythonResolver

from coldnotify_kafka.broker import pins
from coldnotify_kafka.errors import JarsUnavailableError

KAFKA_VERSION = "4.3.1"
"""The one line that says which Kafka is embedded; `make pins` follows it. 4.4.0 does not resolve (its own POMs name
what was not published)."""

Progress = Callable[[str], None]
"""Is told in words how far a long piece of work is."""

_COORDINATES = (f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}", f"org.apache.kafka:kafka-tools:{KAFKA_VERSION}")
_MANIFEST = "manifest.json"

_FETCH_SECONDS_MAX = 900.0
"""For the whole fetch: 50 MB at half a megabit a second, which is a slow office line, fit in."""
_READ_SECONDS_MAX = 30
"""Without a byte for so long a connection counts as dead."""
_TRIES = 3
"""Per file: one lost connection among a hundred files should not throw the rest away."""
_RETRY_PAUSE_SECONDS = 1.0
_DOWNLOADS_AT_ONCE = 4
"""Hides the round trips of many small files; more gains nothing and is impolite to a public repository."""
_LOCK_POLL_SECONDS = 0.2


def cache_directory(environ: Mapping[str, str] = os.environ) -> Path:
    """Where fetched things are kept: COLDNOTIFY_CACHE, else XDG_CACHE_HOME/coldnotify, else ~/.cache/coldnotify."""
    if chosen := environ.get("COLDNOTIFY_CACHE"):
        return Path(chosen).expanduser().absolute()
    # The XDG specification says that a relative path there is to be ignored.
    base = environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if Path(base).is_absolute() else Path.home() / ".cache") / "coldnotify"


_checked: set[Path] = set()
"""Caches whose jars were compared with their pins in this process: that takes a tenth of a second."""


def jars(progress: Progress | None = None, environ: Mapping[str, str] = os.environ) -> list[Path]:
    """Kafka's jars (broker, clients, console tools, logging), fetched first if they are not in the cache.

    Safe against other processes doing the same; what is returned is complete. `progress` is told how far the fetch is
    (default: standard error). COLDNOTIFY_MAVEN_URL names a mirror to fetch from instead of Maven's central repository.
    Jars that are not the pinned ones are not returned. Raises JarsUnavailableError.
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
    """Fetches into a directory beside `target` and renames it: under its own name there is only a complete cache.

    `pinned`: what the jars have to be; None: anything.
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
        context = MavenContext(
            resolver=_PatientResolver(deadline, say),
            repo_cache=repository,
            local_repos=[],
            remote_repos={"mirror": mirror} if mirror else None,
            timeout=_READ_SECONDS_MAX,
        )
        # Kafka Connect comes in through one tool and brings a web server and forty jars; nothing here runs it.
        connect = context.project("org.apache.kafka", "connect-runtime")
        wanted = [context.create_dependency(coordinate, [connect]) for coordinate in _COORDINATES]
        for dependency in wanted:
            dependency.scope = "compile"
        inputs, transitive = context.resolver.resolve(wanted)
        needed = [*inputs, *(d for d in transitive if d.scope in ("compile", "runtime"))]
        artifacts = [dependency.artifact for dependency in needed]
        # Kafka logs through slf4j and ships log4j, but leaves the bridge between them to its own distribution.
        log4j = next(artifact.version for artifact in artifacts if artifact.artifactId == "log4j-core")
        bridge = context.project("org.apache.logging.log4j", "log4j-slf4j-impl").at_version(log4j).artifact()
        with ThreadPoolExecutor(_DOWNLOADS_AT_ONCE) as pool:
            try:
                return list(pool.map(Artifact.resolve, [*artifacts, bridge]))
            except BaseException:
                # Without this, Ctrl-C or a failure would wait for every download still in the queue.
                pool.shutdown(wait=False, cancel_futures=True)
                raise
    except Exception as error:  # jgo raises whatever happened, from requests' errors to StopIteration
        raise JarsUnavailableError(
            f"Apache Kafka's jars could not be fetched ({type(error).__name__}: {error}). "
            "They are needed once and then kept. Check the network (HTTPS_PROXY is obeyed), or set "
            f"COLDNOTIFY_MAVEN_URL to a Maven mirror, or copy the folder kafka-{KAFKA_VERSION} from the cache of a "
            "machine that has it and point COLDNOTIFY_CACHE at its parent."
        ) from error


class _PatientResolver(PythonResolver):
    """jgo's resolver, but it tries again, leaves no half file behind, keeps a time limit and tells how far it is."""

    def __init__(self, deadline: float, say: Progress) -> None:
        super().__init__()
        self._deadline = deadline
        self._say = say
        self._lock = threading.Lock()
        self._poms = self._jars = self._bytes = 0

    def download(self, artifact: Artifact) -> Path | None:
        for tries_left in reversed(range(_TRIES)):
            if time.monotonic() > self._deadline:
                raise TimeoutError(f"not done after {_FETCH_SECONDS_MAX:.0f} seconds")
            try:
                path = super().download(artifact)
            except Exception:
                # jgo writes under the final name, and would take the half for the whole at the next try.
                if artifact.cached_path:
                    artifact.cached_path.unlink(missing_ok=True)
                if not tries_left:
                    raise
                time.sleep(_RETRY_PAUSE_SECONDS)
            else:
                self._count(path)
                return path
        raise AssertionError("unreachable: the last try returns or raises")

    def _count(self, path: Path | None) -> None:
        with self._lock:
            if path and path.suffix == ".jar":
                self._jars += 1
                self._bytes += path.stat().st_size
                self._say(f"  {self._jars} jars, {self._bytes / 1e6:.1f} MB")
            else:
                self._poms += 1
                self._say(f"  working out what is needed: {self._poms} descriptions read")


def _check_jar(jar: Path) -> None:
    """A proxy's error page and a flipped bit are told from a jar here, not by Java later."""
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
    with path.open("w") as file:
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
