"""`coldnotify auto` as a process: an HTTP port, and a thread for each source of its file."""

import threading
from collections.abc import Callable
from pathlib import Path

import structlog
from coldnotify_common.http.admin import AdminServer, AdminThread
from coldnotify_common.http.listening import ListenError
from coldnotify_common.log import configure
from coldnotify_common.security.inside import Inside
from coldnotify_common.stop import StopFlag, stop_flag

from coldnotify_auto.auto_file import read_auto_file
from coldnotify_auto.follower import Follower
from coldnotify_auto.plan_outlet import PlannedChanges, PlanOutlet
from coldnotify_auto.settings import AutoSettings
from coldnotify_auto.source import RunStopped, Source, SourceFailed, SourceRefused

log = structlog.get_logger()

_JOIN_S = 8.0
"""A source gives up what is not acknowledged within 5 s."""


def run(settings: AutoSettings, file: Path) -> int:
    """Publishes until SIGTERM or SIGINT. Exit code 0: stopped in order; 1: a source is refused, or the port cannot be
    opened. Raises AutoFileError, SettingError."""
    sources = read_auto_file(file)
    configure(settings.log_format, settings.log_level, "auto")
    inside = Inside(settings)
    inside.announce("COLDNOTIFY_AUTO_PORT / --auto-port", settings.auto_host)
    refused: list[SourceRefused] = []
    with stop_flag() as stop:

        def on_refused(error: SourceRefused) -> None:
            refused.append(error)
            stop.set()

        followers = [Follower(source, settings, stop, on_refused) for source in sources]
        admin = AdminThread(
            AdminServer(
                settings.auto_host,
                settings.auto_port,
                readiness=lambda: next((one.reason for one in followers if one.reason is not None), None),
                setting="COLDNOTIFY_AUTO_PORT / --auto-port",
                inside=inside,
                what="sources that publish by rules; this port is for looking in",
            )
        )
        try:
            admin.start()
        except ListenError as error:
            log.error("cannot start", error=str(error))
            return 1
        log.info("auto started", http_port=admin.port, kafka=settings.kafka, sources=[one.name for one in sources])
        for follower in followers:
            follower.start()
        stop.wait()
        for follower in followers:
            follower.join(_JOIN_S)
        admin.stop()
    for one in refused:
        log.error("refused", reason=str(one))
    return 1 if refused else 0


def plan(settings: AutoSettings, file: Path, changes: int, say: Callable[[str], None]) -> int:
    """Prints what the next changes would publish, and publishes nothing; until they are there, or SIGTERM or SIGINT.

    Exit code 1: a source cannot be followed. Raises AutoFileError."""
    sources = read_auto_file(file)
    configure(settings.log_format, settings.log_level, "auto")
    planned = PlannedChanges(changes, say)
    failed: list[str] = []
    with stop_flag() as stop:
        threads = [
            threading.Thread(target=_plan_one, args=(one, settings, stop, planned, failed), daemon=True)
            for one in sources
        ]
        for thread in threads:
            thread.start()
        stop.wait()
        for thread in threads:
            thread.join(_JOIN_S)
    for words in failed:
        log.error("cannot be followed", reason=words)
    return 1 if failed else 0


def resync(settings: AutoSettings, file: Path, name: str, say: Callable[[str], None]) -> int:
    """Has a source compare everything. Exit code 1: it cannot. Raises AutoFileError."""
    sources = {one.name: one for one in read_auto_file(file)}
    configure(settings.log_format, settings.log_level, "auto")
    if name not in sources:
        log.error("no such source", source=name, sources=sorted(sources))
        return 1
    try:
        say(f"{name}: {sources[name].resync()}")
    except SourceFailed as error:
        log.error("cannot be compared", source=name, reason=str(error))
        return 1
    return 0


def _plan_one(
    source: Source, settings: AutoSettings, stop: StopFlag, planned: PlannedChanges, failed: list[str]
) -> None:
    try:
        source.run(PlanOutlet(source.name, settings, stop, planned))
    except RunStopped:
        pass
    except SourceFailed as error:
        failed.append(f"{source.name}: {error}")
    except Exception as error:
        failed.append(f"{source.name}: {type(error).__name__}: {error}")
    finally:
        stop.set()
