"""The back-ends of channels: they send messages by the Publisher library, by HTTP, and by a plain Kafka producer."""

import json
import time
import urllib.error
import urllib.request
from typing import Any, NamedTuple
from urllib.parse import quote

from coldnotify.publisher import Publisher, PublishError
from coldnotify_schemas.channels import MessageHeaders, message_headers, parse_retentions
from coldnotify_schemas.partitioner import partition_of
from coldnotify_schemas.priority import check_priority
from coldnotify_schemas.topics import TopicNames
from confluent_kafka import KafkaException

from coldnotify_fault.backend_parts import TIMEOUT_S, PlainProducer, Workers
from coldnotify_fault.channel_steps import FILM, FILM_BYTES, FILM_MESSAGES, SENDERS
from coldnotify_fault.history import HistoryFile
from coldnotify_fault.schedule import CHANNEL_RETENTIONS
from coldnotify_fault.services import PARTITIONS

_HTTP_TIMEOUT_S = 15.0
"""Longer than the service's own limit, because the service's answer tells more than a timeout here."""
_WORKERS = 2
"""At once in one back-end: so that its messages overtake one another, too."""
_RETENTIONS = parse_retentions(CHANNEL_RETENTIONS)


class _Answer(NamedTuple):
    outcome: str
    offset: int | None = None


def topic_of(names: TopicNames, channel: str) -> str:
    """Returns the topic of a channel (domain/group/channel), or of all channels of a group."""
    return _RETENTIONS.of(channel.partition("/")[0]).topic(names)


def right_partition(channel: str) -> int:
    """The partition of the group that a channel is in."""
    domain, group = channel.split("/")[:2]
    return partition_of(domain, group, PARTITIONS)


class Senders:
    """All senders. `send` returns at once; the history records the result."""

    def __init__(self, kafka: str, names: TopicNames, http_url: str, history: HistoryFile) -> None:
        self._names = names
        self._history = history
        self._http_url = http_url
        self._library = Publisher(
            kafka, timeout_s=TIMEOUT_S, channel_retentions=CHANNEL_RETENTIONS, topics_prefix=names.prefix
        )
        self._raw = PlainProducer(kafka, "raw-sent")
        self._workers = Workers(SENDERS, _WORKERS, self._work, "sender-")

    def send(self, sender: str, message: dict[str, Any]) -> bool:
        """Hand a message to a back-end; False if so many wait that it is left out."""
        return self._workers.hand(sender, message)

    def send_film(self, group: str) -> None:
        """Sends many messages to a channel that nobody subscribes to; it does not matter whether they arrive."""
        partition, topic = right_partition(group), topic_of(self._names, group)
        for _ in range(FILM_MESSAGES):
            try:
                key = f"{group}/{FILM}".encode()
                self._raw.producer.produce(topic, key=key, value=bytes(FILM_BYTES), partition=partition)
            except (BufferError, KafkaException):
                return

    def idle(self) -> bool:
        """Returns true if nothing waits and nothing is in progress."""
        return self._workers.idle()

    def close(self) -> None:
        """Give up what waits, and end."""
        self._workers.close(_HTTP_TIMEOUT_S)
        self._raw.close()
        self._library.close(1.0)

    def _work(self, name: str, one: dict[str, Any]) -> None:
        by = {"library": self._by_library, "http": self._by_http, "raw": self._by_raw}[name.partition("-")[0]]
        expires_in_ms = one.pop("expires_in_ms", None)
        one["expires_at"] = None if expires_in_ms is None else time.time_ns() // 1_000_000 + expires_in_ms
        stray = name.startswith("raw") and one["stray"]
        # Two kinds of back-end have a publisher of this name: their numbers are not to meet.
        publisher = f"sender-{name}"
        said = {field: one[field] for field in ("channel", "message", "payload", "to")}
        said |= {} if one["expires_at"] is None else {"expires_at": one["expires_at"]}
        said |= {"key": one["key"]} if "key" in one else {}
        path = "stray" if stray else "kafka"
        self._history.write("send", publisher=publisher, id=one["id"], path=path, **said)
        answer = by(one)
        place = {} if answer.offset is None or stray else {"offset": answer.offset}
        self._history.write("published", publisher=publisher, id=one["id"], outcome=answer.outcome, **place)

    def _by_library(self, one: dict[str, Any]) -> _Answer:
        domain, group, channel = one["channel"].split("/", 2)
        try:
            sent = self._library.send(
                domain,
                group,
                channel,
                one["payload"],
                id=one["message"],
                to=one["to"],
                expires_at=one["expires_at"],
                priority=one["priority"],
                key=one.get("key"),
            )
        except PublishError as error:
            return _Answer("unknown" if error.indeterminate else "failed")
        return _Answer("acknowledged", sent.offset if sent.offset >= 0 else None)

    def _by_http(self, one: dict[str, Any]) -> _Answer:
        domain, group, channel = one["channel"].split("/", 2)
        said = {"payload": one["payload"], "id": one["message"]}
        said |= {name: one[name] for name in ("to", "expires_at", "priority", "key") if one.get(name)}
        request = urllib.request.Request(
            f"{self._http_url}/v1/domains/{domain}/groups/{group}/channels/{quote(channel, safe='')}",
            data=json.dumps(said).encode(),
            headers={"Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=_HTTP_TIMEOUT_S) as answer:
                offset = json.load(answer)["offset"]
                return _Answer("acknowledged", offset if offset is not None and offset >= 0 else None)
        except urllib.error.HTTPError as error:
            with error:
                return _Answer("failed" if 400 <= error.code < 500 else "unknown")
        except (OSError, ValueError):
            return _Answer("unknown")

    def _by_raw(self, one: dict[str, Any]) -> _Answer:
        channel = one["channel"]
        headers = MessageHeaders(
            id=one["message"],
            to=tuple(one["to"]),
            expires_at=one["expires_at"],
            high_priority=check_priority(one["priority"]),
            key=one.get("key", ""),
        )
        offset = self._raw.produce(
            topic_of(self._names, channel),
            key=channel.encode(),
            value=json.dumps(one["payload"]).encode(),
            headers=message_headers(headers),
            partition=(right_partition(channel) + one["stray"]) % PARTITIONS,
        )
        return _Answer("unknown") if offset is None else _Answer("acknowledged", offset)
