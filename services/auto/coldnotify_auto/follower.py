"""Followers: each runs one source in a thread, and runs it again after a failure, with a pause that grows."""

import threading
import time
from collections.abc import Callable

import structlog
from coldnotify_common.stop import StopFlag

from coldnotify_auto.kafka_outlet import KafkaOutlet
from coldnotify_auto.metrics import LAG, PUBLISHED, SET_ASIDE
from coldnotify_auto.settings import AutoSettings
from coldnotify_auto.source import RunStopped, Source, SourceFailed, SourceRefused

_log = structlog.get_logger()

PAUSE_S = 0.5
PAUSE_S_MAX = 30.0
_LASTED_S = 60.0
"""A run that lasted so long is not one more failure of the same kind."""


class Follower:
    """Runs one source until the stop."""

    def __init__(
        self,
        source: Source,
        settings: AutoSettings,
        stop: StopFlag,
        on_refused: Callable[[SourceRefused], None],
    ) -> None:
        """`on_refused` is called in the thread if the first run is refused, which then ends."""
        self._source, self._settings, self._stop, self._on_refused = source, settings, stop, on_refused
        self._outlet: KafkaOutlet | None = None
        self._reason: str | None = f"source {source.name}: starting"
        self._since_s: float | None = time.monotonic()
        self._begun = False
        """True once the source was followed."""
        self._thread = threading.Thread(target=self._run, name=f"source-{source.name}", daemon=True)
        LAG.labels(source.name).set_function(self._lag_s)
        SET_ASIDE.labels(source.name)
        PUBLISHED.labels(source.name)

    @property
    def reason(self) -> str | None:
        """Why the source is not followed; None: it is."""
        return self._reason

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def join(self, timeout_s: float) -> None:
        """Waits for the thread's end, after the stop."""
        self._thread.join(timeout_s)

    def _run(self) -> None:
        pause_s = PAUSE_S
        while not self._stop.is_set():
            begin_s = time.monotonic()
            outlet = self._outlet = KafkaOutlet(self._source.name, self._settings, self._stop, self._on_ready)
            try:
                self._source.run(outlet)
            except RunStopped:
                return
            except SourceRefused as error:
                if not self._begun:
                    self._on_refused(error)
                    return
                self._failed(str(error))
            except SourceFailed as error:
                self._failed(str(error))
            except Exception as error:
                # One source's fault ends neither the others nor itself.
                self._failed(f"{type(error).__name__}: {error}", raised=True)
            finally:
                outlet.close()
            if time.monotonic() - begin_s > _LASTED_S:
                pause_s = PAUSE_S
            self._stop.wait(pause_s)
            pause_s = min(2 * pause_s, PAUSE_S_MAX)

    def _failed(self, reason: str, *, raised: bool = False) -> None:
        if not self._stop.is_set():
            _log.warning("not followed", source=self._source.name, reason=reason, exc_info=raised)
        self._on_ready(reason)

    def _on_ready(self, reason: str | None) -> None:
        if reason is None:
            self._begun = True
            if self._reason is not None:
                _log.info("followed", source=self._source.name)
            self._since_s = None
        elif self._since_s is None:
            self._since_s = time.monotonic()
        self._reason = None if reason is None else f"source {self._source.name}: {reason}"

    def _lag_s(self) -> float:
        since_s = self._since_s
        away_s = 0.0 if since_s is None else time.monotonic() - since_s
        return max(away_s, self._outlet.lag_s() if self._outlet else 0.0)
