"""The back-ends: race for the same objects, through the Publisher library, HTTP, and a plain Kafka producer."""

import json
import queue
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import suppress
from typing import Any
from urllib.parse import quote

from coldnotify.publisher import Publisher, PublishError
from coldnotify_checker.histories import now_us
from coldnotify_schemas.descriptions import KEY_PREFIX
from coldnotify_schemas.partitioner import partition_of
from coldnotify_schemas.topics import OBJECTS
from confluent_kafka import KafkaException, Producer

from coldnotify_fault.history import History
from coldnotify_fault.schedule import BACKENDS, DESCRIBER

_TIMEOUT_S = 5.0
_HTTP_TIMEOUT_S = 15.0
"""Longer than the service's own limit: its answer says more than our running out of patience."""
_WORKERS = 3
"""At once in one back-end: so that its publishes overtake one another, too."""
_WAITING_MAX = 2000
_STOP = None
_SKIPPED = "skipped"


_FOR_INCARNATIONS = "library-2"
"""Stands in where the schedule has the HTTP service begin versions over, which that refuses."""


class Backends:
    """All back-ends. `publish` returns at once; the history says what becomes of it."""

    def __init__(self, kafka: str, http_url: str, history: History) -> None:
        self._history = history
        self._http_url = http_url
        self._library = {
            name: Publisher(kafka, timeout_s=_TIMEOUT_S) for name in BACKENDS if name.startswith("library")
        }
        self._raw = Producer(
            {
                "bootstrap.servers": kafka,
                "acks": "all",
                "message.timeout.ms": int(_TIMEOUT_S * 1000),
                "reconnect.backoff.max.ms": 500,
                "log_level": 0,
                "error_cb": lambda error: None,
            }
        )
        self._queues: dict[str, queue.Queue[dict[str, Any] | None]] = {
            name: queue.Queue(_WAITING_MAX) for name in (*BACKENDS, DESCRIBER)
        }
        self._places: dict[tuple[str, str], tuple[int, int]] = {}
        """By back-end and object, the partition and offset of the last acknowledgement."""
        self._number = 0
        self._timestamp_ms = 0
        self._lock = threading.Lock()
        self._stopping = False
        self._threads = [
            threading.Thread(target=self._work, args=(name,), name=name, daemon=True)
            for name in (*BACKENDS, DESCRIBER)
            for _ in range(_WORKERS)
        ]
        self._poller = threading.Thread(target=self._poll, name="raw-reports", daemon=True)
        for thread in (*self._threads, self._poller):
            thread.start()

    def publish(self, backend: str, arguments: dict[str, Any]) -> bool:
        """Hand a publish to a back-end; False if so many wait that it is left out."""
        self._number += 1
        if backend.startswith("http") and arguments.get("incarnation") is not None:
            backend = _FOR_INCARNATIONS
        try:
            self._queues[backend].put_nowait({"id": self._number, **arguments})
        except queue.Full:
            return False
        return True

    def describe(self, describer: str, arguments: dict[str, Any]) -> bool:
        """Hand a description to its publisher; False if so many wait that it is left out."""
        return self.publish(describer, arguments)

    def idle(self) -> bool:
        """Whether nothing waits and nothing is under way."""
        return all(waiting.unfinished_tasks == 0 for waiting in self._queues.values())

    def close(self) -> None:
        """Give up what waits, and end."""
        for waiting in self._queues.values():
            while not waiting.empty():
                try:
                    waiting.get_nowait()
                except queue.Empty:
                    break
            for _ in range(_WORKERS):
                waiting.put(_STOP)
        for thread in self._threads:
            thread.join(_HTTP_TIMEOUT_S)
        self._stopping = True
        self._poller.join(_TIMEOUT_S)
        for publisher in self._library.values():
            publisher.close(1.0)

    def _poll(self) -> None:
        while not self._stopping:
            self._raw.poll(0.1)

    def _describe(self) -> None:
        while (one := self._queues[DESCRIBER].get()) is not _STOP:
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
            self._queues[DESCRIBER].task_done()

    def _partitions(self) -> int:
        while not self._stopping:
            with suppress(KafkaException, KeyError):
                found = self._raw.list_topics(OBJECTS, _TIMEOUT_S).topics[OBJECTS].partitions
                if found:
                    return len(found)
        return 1

    def _work(self, name: str) -> None:
        if name == DESCRIBER:
            self._describe()
            return
        path = name.partition("-")[0]
        publish: Callable[[str, dict[str, Any]], str] = {
            "library": self._by_library,
            "http": self._by_http,
            "raw": self._by_raw,
        }[path]
        while (one := self._queues[name].get()) is not _STOP:
            told = {field: one[field] for field in ("object", "version", "payload", "deleted")}
            told["incarnation"] = one["incarnation"] or 0
            said = "kafka" if path == "library" else path
            self._history.write("publish", publisher=name, id=one["id"], path=said, **told)
            outcome = publish(name, one)
            skipped = {"skipped": True} if outcome == _SKIPPED else {}
            said_outcome = "acknowledged" if outcome == _SKIPPED else outcome
            self._history.write("published", publisher=name, id=one["id"], outcome=said_outcome, **skipped)
            self._queues[name].task_done()

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

    def _by_http(self, name: str, one: dict[str, Any]) -> str:
        domain, group, object_ = one["object"].split("/", 2)
        # What it changes is not asked for: while a matcher is away the answer would take 2 s, and publishes stay out.
        request = urllib.request.Request(
            f"{self._http_url}/v1/domains/{domain}/groups/{group}/objects/{quote(object_, safe='')}?outcome=no",
            data=_record(one),
            headers={"Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=_HTTP_TIMEOUT_S):
                return "acknowledged"
        except urllib.error.HTTPError as error:
            with error:
                return "failed" if 400 <= error.code < 500 else "unknown"
        except (OSError, ValueError):
            return "unknown"

    def _by_raw(self, name: str, one: dict[str, Any]) -> str:
        # No partition is given: the default partitioner knows nothing of groups, and misses the right one mostly.
        return self._produce(key=one["object"].encode(), value=_record(one))

    def _produce(self, **record: Any) -> str:
        reported: Future[bool] = Future()
        try:
            self._raw.produce(OBJECTS, on_delivery=lambda error, _: reported.set_result(error is None), **record)
            return "acknowledged" if reported.result(2 * _TIMEOUT_S) else "unknown"
        except (BufferError, KafkaException, FutureTimeoutError):
            return "unknown"


def _record(one: dict[str, Any]) -> bytes:
    fields = {field: one[field] for field in ("version", "payload", "incarnation") if one[field] is not None}
    if one["deleted"]:
        fields["deleted"] = True
    return json.dumps(fields, ensure_ascii=False).encode()
