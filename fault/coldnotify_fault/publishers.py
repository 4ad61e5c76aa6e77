"""The back-ends: race for the same objects, through the Publisher library, HTTP, and a plain Kafka producer."""

import json
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from urllib.parse import quote

from coldnotify.publisher import Publisher, PublishError
from coldnotify_checker.histories import now_us
from coldnotify_schemas.descriptions import KEY_PREFIX
from coldnotify_schemas.partitioner import partition_of
from coldnotify_schemas.topics import TopicNames
from confluent_kafka import KafkaException

from coldnotify_fault.backend_parts import TIMEOUT_S, PlainProducer, Workers
from coldnotify_fault.flooding import FloodRefusal, answered, post
from coldnotify_fault.history import HistoryFile
from coldnotify_fault.schedule import BACKENDS, DESCRIBER

_JOIN_S = 15.0
"""Longer than a call takes at most."""
_WORKERS = 3
"""At once in one back-end: so that its publishes overtake one another, too."""
_SKIPPED = "skipped"


_FOR_INCARNATIONS = "library-2"
"""Takes the place of the HTTP service when the schedule starts versions over, which that service refuses."""


class Backends:
    """All back-ends. `publish` returns at once; the history records the result."""

    def __init__(self, kafka: str, names: TopicNames, http_url: str, history: HistoryFile) -> None:
        self._objects = names.objects
        self._history = history
        self._http_url = http_url
        self._library = {
            name: Publisher(kafka, timeout_s=TIMEOUT_S, topics_prefix=names.prefix)
            for name in BACKENDS
            if name.startswith("library")
        }
        self._raw = PlainProducer(kafka, "raw-reports")
        self._places: dict[tuple[str, str], tuple[int, int]] = {}
        """The partition and offset of the last acknowledgement, by back-end and object."""
        self._timestamp_ms = 0
        self._lock = threading.Lock()
        self._workers = Workers((*BACKENDS, DESCRIBER), _WORKERS, self._work)

    def publish(self, backend: str, arguments: dict[str, Any]) -> bool:
        """Hand a publish to a back-end; False if so many wait that it is left out."""
        if backend.startswith("http") and arguments.get("incarnation") is not None:
            backend = _FOR_INCARNATIONS
        return self._workers.hand(backend, arguments)

    def describe(self, describer: str, arguments: dict[str, Any]) -> bool:
        """Hand a description to its publisher; False if so many wait that it is left out."""
        return self.publish(describer, arguments)

    def idle(self) -> bool:
        """Returns true if nothing waits and nothing is in progress."""
        return self._workers.idle()

    def close(self) -> None:
        """Give up what waits, and end."""
        self._workers.close(_JOIN_S)
        self._raw.close()
        for publisher in self._library.values():
            publisher.close(1.0)

    def _describe(self, one: dict[str, Any]) -> None:
        domain, group, _ = one["object"].split("/", 2)
        with self._lock:
            # No two have the same: the highest counts.
            self._timestamp_ms = max(self._timestamp_ms + 1, now_us() // 1000)
            timestamp_ms = self._timestamp_ms
        told = {"object": one["object"], "description": one["description"], "timestamp": timestamp_ms}
        self._history.write("describe", publisher=DESCRIBER, id=one["id"], **told)
        outcome = self._produce(
            key=f"{KEY_PREFIX}{one['object']}".encode(),
            value=json.dumps({"description": one["description"]}).encode(),
            timestamp=timestamp_ms,
            partition=partition_of(domain, group, self._partitions()),
        )
        self._history.write("published", publisher=DESCRIBER, id=one["id"], outcome=outcome)

    def _partitions(self) -> int:
        while not self._raw.closed:
            with suppress(KafkaException, KeyError):
                found = self._raw.producer.list_topics(self._objects, TIMEOUT_S).topics[self._objects].partitions
                if found:
                    return len(found)
        return 1

    def _work(self, name: str, one: dict[str, Any]) -> None:
        if name == DESCRIBER:
            self._describe(one)
            return
        path = name.partition("-")[0]
        publish: Callable[[str, dict[str, Any]], str | FloodRefusal] = {
            "library": self._by_library,
            "http": self._by_http,
            "raw": self._by_raw,
        }[path]
        told = {field: one[field] for field in ("object", "version", "payload", "deleted")}
        told["incarnation"] = one["incarnation"] or 0
        said = "kafka" if path == "library" else path
        self._history.write("publish", publisher=name, id=one["id"], path=said, **told)
        outcome = publish(name, one)
        skipped = {"skipped": True} if outcome == _SKIPPED else {}
        said_outcome = answered("acknowledged" if outcome == _SKIPPED else outcome)
        self._history.write("published", publisher=name, id=one["id"], **said_outcome, **skipped)

    def _by_library(self, name: str, one: dict[str, Any]) -> str:
        domain, group, object_ = one["object"].split("/", 2)
        content = {field: one[field] for field in ("version", "payload", "deleted", "incarnation")}
        try:
            published = self._library[name].publish(domain, group, object_, **content)
        except PublishError as error:
            return "unknown" if error.indeterminate else "failed"
        # A known repeat is not written again: the library gives the answer that it had before.
        place = (published.partition, published.offset)
        if published.offset >= 0 and self._places.get((name, one["object"])) == place:
            return _SKIPPED
        self._places[name, one["object"]] = place
        return "acknowledged"

    def _by_http(self, name: str, one: dict[str, Any]) -> str | FloodRefusal:
        domain, group, object_ = one["object"].split("/", 2)
        # What it changes is not asked for: while a matcher is away the answer would take 2 s, and publishes stay out.
        path = f"/v1/domains/{domain}/groups/{group}/objects/{quote(object_, safe='')}?outcome=no"
        return post(self._http_url + path, _record(one))

    def _by_raw(self, name: str, one: dict[str, Any]) -> str:
        # No partition is given: the default partitioner knows nothing of groups, and misses the right one mostly.
        return self._produce(key=one["object"].encode(), value=_record(one))

    def _produce(self, **record: Any) -> str:
        return "unknown" if self._raw.produce(self._objects, **record) is None else "acknowledged"


def _record(one: dict[str, Any]) -> bytes:
    fields = {field: one[field] for field in ("version", "payload", "incarnation") if one[field] is not None}
    if one["deleted"]:
        fields["deleted"] = True
    return json.dumps(fields, ensure_ascii=False).encode()
