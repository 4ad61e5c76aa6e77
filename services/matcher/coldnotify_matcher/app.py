"""The matcher as a process: its HTTP port, and one run of the worker after the other."""

import structlog
from coldnotify_common.admin import AdminThread, ListenError
from coldnotify_common.errors import ServiceError
from coldnotify_common.log import configure
from coldnotify_common.stop import stop_flag
from coldnotify_common.tracing import tracer_of
from confluent_kafka import KafkaException

from coldnotify_matcher import ledger, metrics, overview
from coldnotify_matcher.looking_in import routes
from coldnotify_matcher.partition import TakenOver
from coldnotify_matcher.settings import MatcherSettings
from coldnotify_matcher.state_records import NewerFormat
from coldnotify_matcher.worker import Failure, Worker

log = structlog.get_logger()

RETRY_FIRST_S = 0.2
RETRY_MAX_S = 5.0
"""Between runs that failed: Kafka may be restarting."""


class Current:
    """The worker that runs now, for those who look in."""

    def __init__(self) -> None:
        self.worker: Worker | None = None

    def readiness(self) -> str | None:
        """None when ready, else why not."""
        return "starting" if self.worker is None else self.worker.readiness()


def run(settings: MatcherSettings) -> int:
    """Serve until SIGTERM or SIGINT. Exit code 0: stopped in order; 1: the HTTP port cannot be opened.

    Raises SettingError.
    """
    configure(settings.log_format, settings.log_level, settings.matcher_id)
    tracer = tracer_of(settings, "matcher", settings.matcher_id)
    current = Current()
    admin = AdminThread(
        settings.matcher_host,
        settings.matcher_port,
        readiness=current.readiness,
        routes=[*ledger.routes(current), *overview.routes(current), *routes(current)],
        setting="COLDNOTIFY_MATCHER_PORT / --matcher-port",
    )
    with stop_flag() as stop:
        try:
            admin.start()
        except ListenError as error:
            log.error("cannot start", error=str(error))
            return 1
        log.info("matcher started", http_port=admin.port, kafka=settings.kafka)
        retry_s = RETRY_FIRST_S
        while not stop.is_set():
            worker = current.worker = Worker(settings, stop, tracer)
            try:
                worker.run()
            except (Failure, TakenOver, NewerFormat, KafkaException, ServiceError) as error:
                metrics.RELOADS.inc()
                log.warning("all state dropped, loading anew", reason=str(error), retry_in_s=retry_s)
                was_ready = worker.was_ready
                stop.wait(retry_s)
                retry_s = RETRY_FIRST_S if was_ready else min(2 * retry_s, RETRY_MAX_S)
            finally:
                current.worker = None
        admin.stop()
        if tracer is not None:
            tracer.close()
    log.info("matcher stopped")
    return 0
