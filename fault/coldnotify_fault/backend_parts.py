"""Parts of the back-ends of objects and of channels: `Workers`, and a `PlainProducer` without any library."""

import queue
import threading
from collections.abc import Callable, Collection
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any

from confluent_kafka import KafkaException, Message, Producer

TIMEOUT_S = 5.0
"""Timeout of a back-end's calls to Kafka."""
_WAITING_MAX = 2000
_STOP = None

One = dict[str, Any]
"""A back-end's task, with its number as `id`."""


class Workers:
    """Threads that do back-ends' tasks, several for each back-end, so that tasks overtake each other."""

    def __init__(self, names: Collection[str], each: int, work: Callable[[str, One], None], prefix: str = "") -> None:
        """`work` is called with the back-end's name and the task. `prefix`: of the threads' names."""
        self._work = work
        self._each = each
        self._queues: dict[str, queue.Queue[One | None]] = {name: queue.Queue(_WAITING_MAX) for name in names}
        self._number = 0
        self._threads = [
            threading.Thread(target=self._run, args=(name,), name=f"{prefix}{name}", daemon=True)
            for name in names
            for _ in range(each)
        ]
        for thread in self._threads:
            thread.start()

    def hand(self, name: str, one: One) -> bool:
        """Hands a task to a back-end. Returns false if so much waits that the task is dropped."""
        self._number += 1
        try:
            self._queues[name].put_nowait({"id": self._number, **one})
        except queue.Full:
            return False
        return True

    def idle(self) -> bool:
        """Returns true if nothing waits and nothing is in progress."""
        return all(waiting.unfinished_tasks == 0 for waiting in self._queues.values())

    def close(self, join_s: float) -> None:
        """Give up what waits, and end; each thread is waited for so long."""
        for waiting in self._queues.values():
            while not waiting.empty():
                try:
                    waiting.get_nowait()
                except queue.Empty:
                    break
            for _ in range(self._each):
                waiting.put(_STOP)
        for thread in self._threads:
            thread.join(join_s)

    def _run(self, name: str) -> None:
        waiting = self._queues[name]
        while (one := waiting.get()) is not _STOP:
            self._work(name, one)
            waiting.task_done()


class PlainProducer:
    """A Kafka producer that knows nothing of ColdNotify, and a thread that takes its reports."""

    def __init__(self, kafka: str, name: str) -> None:
        """`name`: the thread's."""
        self.producer = Producer(
            {
                "bootstrap.servers": kafka,
                "acks": "all",
                "message.timeout.ms": int(TIMEOUT_S * 1000),
                "reconnect.backoff.max.ms": 500,
                "log_level": 0,
                "error_cb": lambda error: None,
            }
        )
        self.closed = False
        self._poller = threading.Thread(target=self._poll, name=name, daemon=True)
        self._poller.start()

    def produce(self, topic: str, **record: Any) -> int | None:
        """Waits for the acknowledgement. Returns the offset; None if it is not known whether the record exists."""
        reported = Future[int | None]()

        def report(error: object, message: Message) -> None:
            reported.set_result(message.offset() if error is None else None)

        try:
            self.producer.produce(topic, on_delivery=report, **record)
            return reported.result(2 * TIMEOUT_S)
        except (BufferError, KafkaException, FutureTimeoutError):
            return None

    def close(self) -> None:
        """No more reports are taken."""
        self.closed = True
        self._poller.join(TIMEOUT_S)

    def _poll(self) -> None:
        while not self.closed:
            self.producer.poll(0.1)
