"""Reads librdkafka's own options from a file, under their own names: TLS, SASL, and other options that a Kafka
requires."""

import functools
import logging
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from coldnotify_common.errors import SettingError

RESERVED = frozenset(
    {
        *("bootstrap.servers", "metadata.broker.list"),
        *("acks", "request.required.acks", "enable.idempotence", "message.timeout.ms", "delivery.timeout.ms"),
        *("partitioner", "transactional.id", "queuing.strategy", "enable.gapless.guarantee"),
        *("group.id", "group.instance.id", "group.protocol", "session.timeout.ms", "heartbeat.interval.ms"),
        *("partition.assignment.strategy", "max.poll.interval.ms", "isolation.level"),
        *("enable.auto.commit", "enable.auto.offset.store", "auto.commit.enable", "auto.offset.reset"),
        *("enable.partition.eof", "allow.auto.create.topics"),
    }
)
"""Options that the file must not contain, because our promises, or our own settings, depend on them."""


def read_options(path: str, setting: str = "COLDNOTIFY_KAFKA_CONFIG / --kafka-config") -> dict[str, str]:
    """Returns the options in a file of `name=value` lines; none for "". Raises SettingError, which contains no
    value."""
    return dict(_read(path, setting)) if path else {}


@functools.lru_cache
def _read(path: str, setting: str) -> tuple[tuple[str, str], ...]:
    """Reads the file once per process: the clients of a service must not differ because the file was changed
    meanwhile."""
    options: dict[str, str] = {}
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingError(f"{setting}: {path} cannot be read: {error}") from None
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, equals, value = line.partition("=")
        name = name.strip()
        if not equals or not name:
            raise SettingError(f"{setting}: {path}, line {number}: is not name=value")
        if name in RESERVED:
            raise SettingError(f"{setting}: {path}, line {number}: {name} is ColdNotify's own to set")
        if name in options:
            raise SettingError(f"{setting}: {path}, line {number}: {name} is there twice")
        options[name] = value.strip()
    silent = logging.getLogger("coldnotify.kafka-options")
    silent.addHandler(logging.NullHandler())
    silent.propagate = False
    try:
        config: dict[str, Any] = {**options, "logger": silent}
        AdminClient(config)
    except (KafkaException, TypeError, ValueError) as error:
        words = error.args[0].str() if isinstance(error, KafkaException) else str(error)
        for value in sorted(options.values(), key=len, reverse=True):
            if len(value) > 3:  # it may be a password
                words = words.replace(value, "***")
        raise SettingError(f"{setting}: {path}: {words}") from None
    return tuple(options.items())
