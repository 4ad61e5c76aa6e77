"""The usage job as a process: waits for Kafka and its topics, runs the Faust app, stops in order."""

import asyncio
import logging
import os
import secrets
import sys
import threading
import time
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

import structlog
from coldnotify_common.errors import ServiceError
from coldnotify_common.http.admin import AdminServer
from coldnotify_common.kafka.kafka_clients import KafkaUnavailable, TopicLooks
from coldnotify_common.kafka.kafka_login import Login, login_of
from coldnotify_common.log import configure
from coldnotify_common.nodes import INSIDE
from coldnotify_common.nodes_writer import NodePort, NodeState, NodeWriter
from coldnotify_common.paced import PacedRecords
from coldnotify_common.security.inside import Inside
from coldnotify_common.stop import stop_event

from coldnotify_usage.agreements import Agreements
from coldnotify_usage.extra import EXTRA, is_installed
from coldnotify_usage.settings import UsageSettings
from coldnotify_usage.usage_job import UsageJob

log = structlog.get_logger()

_LIBRARIES = ("faust", "mode", "aiokafka", "kafka", "asyncio")
"""Libraries whose lines below a warning are useless: two workers wrote 3,223 of them in 100 s."""
_PORT_SETTING = "COLDNOTIFY_USAGE_PORT / --usage-port"
_LOOK_S = 1.0
TAKEOVER_S_MAX = 30.0
"""Limit on a takeover, from the start of a rebalance, or from the last record of the state that was
read, to its end.
"""
_LAST_FLUSH_S = 5.0
STOP_S = 12.0
"""Limit from SIGTERM to the end. Faust would wait longer for a missing Kafka, and `up` kills a part after 20 s."""
_LOOK_TIMEOUT_S = 10.0


def run(settings: UsageSettings) -> int:
    """Serves until SIGTERM or SIGINT. Exit code 0: stopped in order; 1: it could not serve, or not any longer.

    Raises SettingError.
    """
    configure(settings.log_format, settings.log_level, "usage")
    if not is_installed():
        log.error(f"the usage job needs {EXTRA}: pip install '{EXTRA}'")
        return 1
    _quiet_libraries()
    login = login_of(settings.kafka_config)
    if login.left_out:
        log.warning("options of --kafka-config that the usage job has no use for", options=list(login.left_out))
    service = UsageService(settings, login)
    try:
        asyncio.run(service.serve())
    except ServiceError as error:
        log.error(str(error))
        return 1
    log.info("usage job stopped")
    return 0


class UsageService:
    """The process between its start and its stop."""

    def __init__(self, settings: UsageSettings, login: Login) -> None:
        """Raises SettingError."""
        self._settings, self._login = settings, login
        self._inside = Inside(settings)
        self._agreements = Agreements(settings)
        self._job: UsageJob | None = None
        self._not_ready = "starting"

    def readiness(self) -> str | None:
        """None when ready, else why not."""
        if self._job is None:
            return self._not_ready
        if not self._job.has_partitions:
            return "partitions are being divided among the workers"
        return None if self._agreements.loaded else "agreements are being read"

    async def serve(self) -> None:
        """Until SIGTERM or SIGINT. Raises ServiceError."""
        settings = self._settings
        self._inside.announce(_PORT_SETTING, settings.usage_host)
        admin = AdminServer(
            settings.usage_host,
            settings.usage_port,
            readiness=self.readiness,
            setting=_PORT_SETTING,
            inside=self._inside,
            what="a worker of the usage job, which measures what tenants use; this port is for looking in",
        )
        ports: dict[str, NodePort] = {}
        node = NodeWriter(
            settings,
            "usage",
            secrets.token_hex(8),
            lambda: NodeState(ready=self.readiness() is None, ports=ports),
        )
        with stop_event() as stop:
            bound = asyncio.ensure_future(_bound_stop(stop))
            await admin.start()
            ports[INSIDE] = NodePort(host=settings.usage_host, port=admin.port)
            node.start()
            log.info("usage job started", http_port=admin.port, kafka=settings.kafka)
            try:
                partitions = await self._wait_for_topics(stop)
                if partitions is not None:
                    await self._run(partitions, stop)
            except BaseException:
                _end_within(STOP_S, 0 if stop.is_set() else 1)
                raise
            finally:
                await asyncio.to_thread(node.stop)
                await admin.stop()
                bound.cancel()

    async def _wait_for_topics(self, stop: asyncio.Event) -> int | None:
        """The number of partitions of the usage topic, once all topics are there; None: stopped before."""
        looks, topics = TopicLooks(self._settings), self._settings.topics
        while not stop.is_set():
            try:
                found = [await asyncio.to_thread(looks.describe, topic, _LOOK_TIMEOUT_S) for topic in topics.of_tenants]
            except KafkaUnavailable as error:
                if str(error) != self._not_ready:
                    log.warning("not ready", reason=str(error))
                self._not_ready = str(error)
                await _first(asyncio.sleep(_LOOK_S), stop.wait())
                continue
            counts = {topic: len(one.partitions) for topic, one in zip(topics.of_tenants, found, strict=True)}
            usage, state = counts[topics.usage], counts[topics.usage_state]
            if usage != state:
                raise ServiceError(
                    f"{topics.usage} has {usage} partitions, and {topics.usage_state} has {state}: they must have the "
                    "same number"
                )
            return usage
        return None

    async def _run(self, partitions: int, stop: asyncio.Event) -> None:
        from coldnotify_usage.faust_app import UsageApp

        settings = self._settings
        self._agreements.start()
        app = UsageApp(
            settings,
            self._login,
            partitions,
            lambda app: UsageJob(
                app.writers,
                app,
                self._agreements.of,
                partitions=partitions,
                history_s=settings.usage_history_s,
            ),
        )
        self._job = app.job
        try:
            await _first(self._work(app), stop.wait())
        finally:
            self._not_ready, self._job = "stopping", None
            with suppress(Exception):  # what is not stored is read again
                async with asyncio.timeout(_LAST_FLUSH_S):
                    await app.job.flush()
            await app.stop()
            self._agreements.stop()

    async def _work(self, app: Any) -> None:
        """Until something fails. Raises ServiceError."""
        try:
            await app.start()
            await _first(app.job.run(), self._watch(app), app.app.wait_until_stopped())
        except ServiceError:
            raise
        except Exception as error:
            raise ServiceError(f"the usage job failed: {type(error).__name__}: {error}") from error
        raise ServiceError(f"the usage job failed: {app.failure!r}")

    async def _watch(self, app: Any) -> None:
        """Until partitions are being divided for too long. Raises ServiceError.

        Faust was seen to wait for ever when one division followed closely upon another on a busy machine.
        """
        seen, since_s = app.progress, time.monotonic()
        while True:
            await asyncio.sleep(_LOOK_S)
            progress = app.progress
            if app.job.has_partitions or progress != seen:
                seen, since_s = progress, time.monotonic()
            elif time.monotonic() - since_s > TAKEOVER_S_MAX:
                raise ServiceError(f"no partitions were taken over for {TAKEOVER_S_MAX:.0f} s: starting anew")


async def _bound_stop(stop: asyncio.Event) -> None:
    await stop.wait()
    _end_within(STOP_S, 0)


def _end_within(seconds: float, code: int) -> None:
    """Ends the process if it does not end by itself: nothing is lost that is not read again."""

    def end() -> None:
        log.warning("does not stop in order, and is ended", seconds=seconds)
        sys.stderr.flush()
        os._exit(code)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()


async def _first(*coroutines: Coroutine[Any, Any, Any]) -> None:
    """Until one has ended; the others are cancelled. Raises what the one has raised."""
    tasks = [asyncio.ensure_future(one) for one in coroutines]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()


def _quiet_libraries() -> None:
    for name in _LIBRARIES:
        logging.getLogger(name).setLevel(logging.WARNING)
    for handler in logging.getLogger().handlers:
        handler.addFilter(_OfLibraries())


class _OfLibraries(PacedRecords):
    """Passes each kind of the libraries' warnings once a second, because Faust repeats itself while Kafka is away."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Returns true if the record is to be logged."""
        return record.name.partition(".")[0] not in _LIBRARIES or super().filter(record)
