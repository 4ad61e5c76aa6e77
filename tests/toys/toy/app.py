"""The toy part as a process: an HTTP port, and a publish now and then."""

from contextlib import closing

import structlog
from coldnotify.publisher import Publisher, PublishError
from coldnotify_common.http.admin import AdminServer, AdminThread
from coldnotify_common.http.listening import ListenError
from coldnotify_common.kafka.kafka_options import read_options
from coldnotify_common.log import configure
from coldnotify_common.security.inside import Inside
from coldnotify_common.stop import stop_flag

from .metrics import PUBLISHED
from .settings import ToySettings

log = structlog.get_logger()


def run(settings: ToySettings) -> int:
    """Publish until SIGTERM or SIGINT. Exit code 0: stopped in order; 1: the port cannot be opened."""
    configure(settings.log_format, settings.log_level, "toy")
    published = 0
    options = read_options(settings.kafka_config)
    publisher = Publisher(settings.kafka, kafka_config=options, topics_prefix=settings.topics_prefix)
    admin = AdminThread(
        AdminServer(
            settings.toy_host,
            settings.toy_port,
            readiness=lambda: None if published else "nothing is published yet",
            setting="COLDNOTIFY_TOY_PORT / --toy-port",
            inside=Inside(settings),
            what="a toy, which publishes an object now and then",
        )
    )
    with (
        stop_flag() as stop,
        closing(publisher) as to,
    ):
        try:
            admin.start()
        except ListenError as error:
            log.error("cannot start", error=str(error))
            return 1
        while not stop.wait(settings.toy_every_s):
            try:
                to.publish("toy", "toy", "toy", payload={"published": published})
            except PublishError as error:
                log.warning("not published", error=str(error))
                continue
            published += 1
            PUBLISHED.inc()
        admin.stop()
    return 0
