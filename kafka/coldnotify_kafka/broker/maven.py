"""Fetches jars and what they need from a Maven repository, by jgo: the one module that wants the extra `embedded`."""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from jgo.maven import Artifact, MavenContext, PythonResolver

_READ_SECONDS_MAX = 30
"""Without a byte for so long a connection counts as dead."""
_TRIES = 3
"""Per file: one lost connection among a hundred files should not throw the rest away."""
_RETRY_PAUSE_SECONDS = 1.0
_DOWNLOADS_AT_ONCE = 4
"""Hides the round trips of many small files; more gains nothing and is impolite to a public repository."""


def fetch(
    coordinates: Sequence[str], repository: Path, mirror: str | None, deadline: float, say: Callable[[str], None]
) -> list[Path]:
    """Fetches the jars, and those that they need, into the Maven repository in this directory. Raises any exception.

    `mirror`: instead of Maven's central repository. `deadline` is in time.monotonic() seconds. `say` is called with the
    progress.
    """
    context = MavenContext(
        resolver=_PatientResolver(deadline, say),
        repo_cache=repository,
        local_repos=[],
        remote_repos={"mirror": mirror} if mirror else None,
        timeout=_READ_SECONDS_MAX,
    )
    # Kafka Connect comes in through one tool and brings a web server and forty jars; nothing here runs it.
    connect = context.project("org.apache.kafka", "connect-runtime")
    wanted = [context.create_dependency(coordinate, [connect]) for coordinate in coordinates]
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


class _PatientResolver(PythonResolver):
    """jgo's resolver with retries, without half files, with a time limit, and with progress reports."""

    def __init__(self, deadline: float, say: Callable[[str], None]) -> None:
        super().__init__()
        self._deadline = deadline
        self._say = say
        self._lock = threading.Lock()
        self._poms = self._jars = self._bytes = 0

    def download(self, artifact: Artifact) -> Path | None:
        for tries_left in reversed(range(_TRIES)):
            if time.monotonic() > self._deadline:
                raise TimeoutError("not done in time")
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
