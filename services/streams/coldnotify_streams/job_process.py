"""Runs a job as a process: serves its HTTP port, and starts its worker again after each failed run.

Clients wait while a job restarts. So its HTTP port listens from the beginning, but the code that serves it is imported
only when the partitions are served: importing aiohttp takes as long as everything a worker needs.
"""

import gc
import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

import structlog
from coldnotify_common.errors import ServiceError
from coldnotify_common.http.listening import ListenError, first_rush, listening
from coldnotify_common.security.inside import Inside
from coldnotify_common.stop import StopFlag, stop_flag
from confluent_kafka import KafkaException

from coldnotify_streams.errors import RunFailure
from coldnotify_streams.worker import JobWorker

if TYPE_CHECKING:
    from aiohttp.web import AbstractRouteDef
    from coldnotify_common.http.admin import AdminThread

log = structlog.get_logger()

HTTP_AFTER_S = 1.0
"""The HTTP port is served after this time at the latest, whether or not the partitions are."""
RETRY_FIRST_S = 0.2
RETRY_MAX_S = 5.0
"""The longest pause between failed runs: Kafka may be restarting."""

W = TypeVar("W", bound=JobWorker)


class CurrentWorker(Generic[W]):
    """Holds the worker that runs now, for the HTTP handlers."""

    def __init__(self) -> None:
        self.worker: W | None = None

    def readiness(self) -> str | None:
        """Returns None if ready, else why not."""
        return "starting" if self.worker is None else self.worker.readiness()


Routes = Callable[[CurrentWorker[W]], "Sequence[AbstractRouteDef]"]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPort:
    """The HTTP port that shows a job's state."""

    host: str
    port: int
    setting: str
    """The name of the port's setting, for errors."""


def serve(
    name: str,
    kafka: str,
    port: JobPort,
    inside: Inside,
    *,
    what: str,
    api: str = "service",
    make_worker: Callable[[StopFlag], W],
    routes: Routes[W],
    on_reload: Callable[[], None],
    beside: "Callable[[CurrentWorker[W], int], AbstractContextManager[object]]" = lambda current, port: nullcontext(),
) -> int:
    """Serves until SIGTERM or SIGINT. Exit code 0: stopped in order; 1: the HTTP port cannot be opened.

    `routes`: called when the HTTP port is served, for routes beside /healthz, /readyz and /metrics. `on_reload`: called
    when a run has failed. `beside`: called with the HTTP port's number; entered while the job runs.
    `what`: the job's description at /. `api`: the kind of port, one of openapi.PORTS.
    """
    inside.announce(port.setting, port.host)
    current: CurrentWorker[W] = CurrentWorker()
    try:
        listener = listening(port.host, port.port, setting=port.setting)
    except ListenError as error:
        log.error("cannot start", error=str(error))
        return 1
    port_number: int = listener.getsockname()[1]
    with closing(listener), beside(current, port_number), stop_flag() as stop:
        http = _HttpPort(current, listener, port.host, inside, stop, routes, what, api)
        http.start()
        log.info(f"{name} started", http_port=port_number, kafka=kafka)
        retry_s = RETRY_FIRST_S
        while not stop.is_set():
            worker = current.worker = make_worker(stop)
            try:
                worker.run()
            except (RunFailure, KafkaException, ServiceError) as error:
                on_reload()
                log.warning("all state dropped, loading anew", reason=str(error), retry_in_s=retry_s)
                was_ready = worker.was_ready
                stop.wait(retry_s)
                retry_s = RETRY_FIRST_S if was_ready else min(2 * retry_s, RETRY_MAX_S)
            finally:
                current.worker = None
            del worker
            gc.collect()  # what it held refers to itself, and by itself Python does not look at all (garbage.py)
        http.stop()
        if http.error is not None:
            log.error("the HTTP port is not served", error=str(http.error))
    return 0 if http.error is None else 1


class _HttpPort(threading.Thread, Generic[W]):
    """Opens the HTTP port in the background. If that fails, the process stops."""

    def __init__(
        self,
        current: CurrentWorker[W],
        listener: socket.socket,
        host: str,
        inside: Inside,
        stop: StopFlag,
        routes: Routes[W],
        what: str,
        api: str,
    ) -> None:
        """`listener` listens on `host`."""
        super().__init__(name="http-begins", daemon=True)
        self._host = host
        self._inside = inside
        self._current = current
        self._listener = listener
        self._stopping = stop
        self._routes = routes
        self._what = what
        self._api = api
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
        from coldnotify_common.http.admin import AdminServer, AdminThread

        server = AdminServer(
            self._host,
            self._listener.getsockname()[1],
            readiness=self._current.readiness,
            routes=self._routes(self._current),
            listener=self._listener,
            inside=self._inside,
            what=self._what,
            api=self._api,
        )
        self._admin = AdminThread(server)
        self._admin.start()

    def stop(self) -> None:
        """Closes the port."""
        self.join()
        if self._admin is not None:
            self._admin.stop()
