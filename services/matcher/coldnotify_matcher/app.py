"""The matcher as a process: its HTTP port, and one run of the worker after the other.

Clients wait for a matcher that is started again. So its HTTP port listens from the beginning, but what serves it is
imported only when the partitions are served: aiohttp takes as long as all that the worker needs.
"""

import gc
import socket
import threading
from contextlib import closing
from typing import TYPE_CHECKING

import structlog
from coldnotify_common.errors import ServiceError
from coldnotify_common.inside import Inside
from coldnotify_common.listening import ListenError, first_rush, listening
from coldnotify_common.log import configure
from coldnotify_common.stop import StopFlag, stop_flag
from coldnotify_common.tracing import tracer_of
from coldnotify_streams.errors import Failure
from confluent_kafka import KafkaException

from coldnotify_matcher import metrics
from coldnotify_matcher.settings import MatcherSettings
from coldnotify_matcher.worker import Worker

if TYPE_CHECKING:
    from coldnotify_common.admin import AdminThread

log = structlog.get_logger()

HTTP_AFTER_S = 1.0
"""The HTTP port is served by then, whether or not the partitions are."""
RETRY_FIRST_S = 0.2
RETRY_MAX_S = 5.0
"""Between runs that failed: Kafka may be restarting."""


_PORT_SETTING = "COLDNOTIFY_MATCHER_PORT / --matcher-port"


class Current:
    """The worker that runs now, for those who look in."""

    def __init__(self) -> None:
        self.worker: Worker | None = None

    def readiness(self) -> str | None:
        """None when ready, else why not."""
        return "starting" if self.worker is None else self.worker.readiness()


class HttpPort(threading.Thread):
    """Begins to serve the HTTP port, once there is time for it. Where that fails, the process stops."""

    def __init__(self, current: Current, listener: socket.socket, host: str, inside: Inside, stop: StopFlag) -> None:
        """`listener` listens on `host`."""
        super().__init__(name="http-begins", daemon=True)
        self._host = host
        self._inside = inside
        self._current = current
        self._listener = listener
        self._stopping = stop
        self._admin: AdminThread | None = None
        self.error: Exception | None = None

    def run(self) -> None:
        """The thread."""
        for wait_s in first_rush(self._current.readiness, HTTP_AFTER_S):
            if self._stopping.wait(wait_s):
                return
        try:
            self._serve()
        except Exception as error:
            self.error = error
            self._stopping.set()

    def _serve(self) -> None:
        from coldnotify_common.admin import AdminServer, AdminThread

        from coldnotify_matcher import ledger, outcome_pages, overview
        from coldnotify_matcher.state_pages import routes

        current = self._current
        server = AdminServer(
            self._host,
            self._listener.getsockname()[1],
            readiness=current.readiness,
            routes=[
                *ledger.routes(current),
                *outcome_pages.routes(current),
                *overview.routes(current),
                *routes(current),
            ],
            listener=self._listener,
            inside=self._inside,
            what="a matcher, which matches publishes with registrations; this port is for looking in",
        )
        self._admin = AdminThread(server)
        self._admin.start()

    def stop(self) -> None:
        """Closes the port."""
        self.join()
        if self._admin is not None:
            self._admin.stop()


def run(settings: MatcherSettings) -> int:
    """Serve until SIGTERM or SIGINT. Exit code 0: stopped in order; 1: the HTTP port cannot be opened.

    Raises SettingError.
    """
    configure(settings.log_format, settings.log_level, settings.matcher_id)
    tracer = tracer_of(settings, "matcher", settings.matcher_id)
    inside = Inside(settings)
    inside.announce(_PORT_SETTING, settings.matcher_host)
    current = Current()
    try:
        listener = listening(settings.matcher_host, settings.matcher_port, setting=_PORT_SETTING)
    except ListenError as error:
        log.error("cannot start", error=str(error))
        return 1
    with closing(listener), stop_flag() as stop:
        http = HttpPort(current, listener, settings.matcher_host, inside, stop)
        http.start()
        log.info("matcher started", http_port=listener.getsockname()[1], kafka=settings.kafka)
        retry_s = RETRY_FIRST_S
        while not stop.is_set():
            worker = current.worker = Worker(settings, stop, tracer)
            try:
                worker.run()
            except (Failure, KafkaException, ServiceError) as error:
                metrics.RELOADS.inc()
                log.warning("all state dropped, loading anew", reason=str(error), retry_in_s=retry_s)
                was_ready = worker.was_ready
                stop.wait(retry_s)
                retry_s = RETRY_FIRST_S if was_ready else min(2 * retry_s, RETRY_MAX_S)
            finally:
                current.worker = None
            del worker
            gc.collect()  # what it held refers to itself, and no collection of all comes soon (GC_THRESHOLDS)
        http.stop()
        if http.error is not None:
            log.error("the HTTP port is not served", error=str(http.error))
        if tracer is not None:
            tracer.close()
    log.info("matcher stopped")
    return 0 if http.error is None else 1
