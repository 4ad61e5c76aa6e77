"""`coldnotify up --kafka`: a Kafka that somebody else runs, with our topics in it.

Missing topics are created, and nothing else is changed there: existing ones that are not as topics.yaml wants them are
named, as `coldnotify doctor` names them.
"""

import threading
from collections.abc import Sequence
from typing import Any

import structlog
from coldnotify_common.errors import ServiceError, SettingError
from coldnotify_common.kafka.kafka_options import read_options
from coldnotify_common.stop import StopFlag
from coldnotify_kafka import topic_plan
from coldnotify_kafka.errors import TopicsNotAppliedError, TopicsRefusedError
from coldnotify_kafka.topic_plan import CreateTopic
from coldnotify_kafka.topics import TopicSpec
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from coldnotify_cli.settings import UpSettings

log = structlog.get_logger()

_KAFKA = "COLDNOTIFY_KAFKA / --kafka"
_KAFKA_CONFIG = "COLDNOTIFY_KAFKA_CONFIG / --kafka-config"
_ANSWER_S_MAX = 15.0
"""Until the first answer: a login takes a second, a node that has just been started some more."""
_FORBIDDEN = (
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
)


class KafkaNotUsable(ServiceError):
    """The Kafka that a setting names cannot be used; the message begins with the setting."""


class ExistingKafka:
    """The Kafka at `--kafka`. Nothing is asked of it before `prepare`."""

    def __init__(self, settings: UpSettings, specs: Sequence[TopicSpec]) -> None:
        """Raises SettingError for options of the embedded Kafka, and for invalid ones."""
        if settings.kafka_nodes != 1:
            raise SettingError(
                f"COLDNOTIFY_KAFKA_NODES / --kafka-nodes: {settings.kafka_nodes} is for the embedded Kafka, and "
                f"{_KAFKA} names another one"
            )
        self.bootstrap = settings.kafka
        self._options: dict[str, Any] = {
            "bootstrap.servers": settings.kafka,
            "log_level": 0,  # what librdkafka would say on stderr is said below, once
            **read_options(settings.kafka_config),
        }
        self._names = settings.topics
        self._specs = specs
        self._keep = not settings.partitions
        self._timeout_s = settings.up_ready_timeout_s

    def prepare(self, stop: StopFlag) -> None:
        """Creates the topics that are missing. Returns at once when asked to stop. Raises KafkaNotUsable.

        Waits for the first answer for 15 s, and for the topics for --up-ready-timeout-s.
        """
        failed: list[Exception] = []

        def work() -> None:
            try:
                self._prepare()
            except Exception as error:
                failed.append(error)

        thread = threading.Thread(target=work, name="existing-kafka", daemon=True)
        thread.start()
        while thread.is_alive() and not stop.wait(0.05):
            pass
        if failed:
            raise failed[0]

    def _prepare(self) -> None:
        try:
            admin = AdminClient(self._options)
        except KafkaException as error:
            raise KafkaNotUsable(f"{_KAFKA}: {self.bootstrap}: {error.args[0].str()}") from None
        answer_s = min(_ANSWER_S_MAX, self._timeout_s)
        try:
            brokers = admin.list_topics(timeout=answer_s).brokers
        except KafkaException as error:
            raise KafkaNotUsable(
                f"{_KAFKA}: nobody answers at {self.bootstrap} within {answer_s:g} s ({error.args[0].str()}); "
                f"{_KAFKA_CONFIG} is for TLS and SASL"
            ) from None
        log.info("uses an existing Kafka", kafka=self.bootstrap, nodes=len(brokers), topics=f"{self._names.prefix}*")
        try:
            plan = topic_plan.create_missing(admin, self._specs, self._timeout_s, keep=self._keep)
        except TopicsRefusedError as error:
            raise KafkaNotUsable(f"COLDNOTIFY_PARTITIONS / --partitions: {error}") from None
        except TopicsNotAppliedError as error:
            raise KafkaNotUsable(self._words(error)) from None
        for change in plan.changes:
            if isinstance(change, CreateTopic):
                log.info("topic created", topic=change.spec.name, partitions=change.spec.partitions)
            else:
                log.warning(f"{change}", todo="coldnotify topics apply")
        for refusal in plan.refusals:
            log.warning(f"{refusal}", todo="are --partitions and --replication right?")

    def _words(self, error: TopicsNotAppliedError) -> str:
        words, cause = str(error), error.__cause__
        if words.startswith("--replication"):
            return words
        if isinstance(cause, KafkaException) and cause.args[0].code() in _FORBIDDEN:
            return (
                f"{_KAFKA_CONFIG}: Kafka at {self.bootstrap} does not allow it: {words}. Allow its user to create and "
                f"describe {self._names.prefix}*, or have an operator run `coldnotify topics apply`"
            )
        return f"{_KAFKA}: {self.bootstrap}: {words}"
