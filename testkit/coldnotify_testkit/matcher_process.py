"""For tests: the matcher as a process of its own, and a gateway and a publisher simulated over a real Kafka."""

import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from coldnotify_common.stop import StopFlag
from coldnotify_matcher.settings import MatcherSettings
from coldnotify_matcher.worker import MatcherWorker
from coldnotify_schemas import internal_pb2
from coldnotify_schemas.digest import digest
from coldnotify_schemas.matcher_state import is_wills_key
from coldnotify_schemas.partitioner import partition_of
from coldnotify_schemas.topics import TopicNames
from confluent_kafka import Consumer, Producer, TopicPartition

from coldnotify_testkit.child import ServiceProcess
from coldnotify_testkit.kafka import free_port
from coldnotify_testkit.waiting import WAIT_S, wait_for

TOPICS = TopicNames()

SESSION_TIMEOUT_MS = 3000
PARTITIONS = 8
DOMAIN, GROUP = "animal.observer", "region-1"
PARTITION = partition_of(DOMAIN, GROUP, PARTITIONS)
OTHER_GROUP = next(g for g in map(str, range(100)) if partition_of(DOMAIN, g, PARTITIONS) != PARTITION)
_INBOX = 3


def group_of(log: Path) -> str:
    """The consumer group of matchers whose logs are in one directory: each test has its own."""
    return f"matchers-of-{log.parent.name}"


class MatcherProcess(ServiceProcess):
    """A matcher; its log is in a file."""

    def __init__(self, kafka: str, log: Path, **settings: object) -> None:
        defaults = {
            "matcher_group": group_of(log),
            "matcher_session_timeout_ms": SESSION_TIMEOUT_MS,
            "matcher_port": free_port(),
            "log_format": "console",
        }
        settings = {**defaults, **settings}
        self.log, self.port = log, settings["matcher_port"]
        super().__init__("matcher", log, {"kafka": kafka, **settings})

    @property
    def http_port(self) -> int:
        """The port of its HTTP endpoints."""
        return int(str(self.port))

    def wait_serving(self) -> None:
        """Waits until it serves all partitions."""
        self.wait_for(lambda: self.ready and len(self.owned()) == PARTITIONS, "all partitions served")

    def owned(self) -> set[int]:
        """The partitions that it serves."""
        status, body = self.get("/v1/partitions")
        if status != 200:
            return set()
        return {one["partition"] for one in json.loads(body)["items"] if one["phase"] == "owned"}

    def generation(self, partition: int = PARTITION) -> int:
        """Returns the generation with which it serves a partition; 0 if it does not own it."""
        owned = [one for one in self.json("/v1/partitions")["items"] if one["phase"] == "owned"]
        return next((one["generation"] for one in owned if one["partition"] == partition), 0)


@contextmanager
def worker_of(kafka: str) -> Iterator[MatcherWorker]:
    """A worker in a thread of this process, once it serves. Its run must not have ended by itself."""
    stop = StopFlag()
    worker = MatcherWorker(MatcherSettings(kafka=kafka), stop)
    ended: list[BaseException] = []

    def run() -> None:
        try:
            worker.run()
        except BaseException as error:
            ended.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        wait_for(lambda: worker.readiness() is None, "its serving")
        yield worker
        assert ended == [], "the run went on"
    finally:
        stop.set()
        thread.join(60)


def wait_halves(one: MatcherProcess, other: MatcherProcess) -> None:
    """Until each serves half of the partitions: before that the group may still move what a test looks at."""
    wait_for(
        lambda: len(one.owned()) == len(other.owned()) == PARTITIONS // 2 and not one.owned() & other.owned(),
        "half of the partitions at each",
    )
    wait_for(lambda: one.ready and other.ready, "both ready")


class Player:
    """Simulates gateways and publishers. The items of its inbox are in `items`, by gateway in the order of the log."""

    def __init__(self, kafka: str, gateway: int = 77) -> None:
        self.gateway = gateway
        self.records: list[internal_pb2.Inbox] = []
        self.notices: list[internal_pb2.Inbox] = []
        self._producer = Producer(
            {"bootstrap.servers": kafka, "linger.ms": 0, "acks": "all", "message.max.bytes": 2 * 1024 * 1024}
        )
        self._consumer = Consumer({"bootstrap.servers": kafka, "group.id": f"player-{os.getpid()}"})
        self._consumer.assign([TopicPartition(TOPICS.notifications, _INBOX, 0)])
        self._asks = 0

    def close(self) -> None:
        """Its consumer."""
        self._consumer.close()

    def publish(self, object_: str, value: bytes | None, *, group: str = GROUP, partition: int | None = None) -> None:
        """A record of the objects topic, acknowledged; by default where it belongs."""
        where = partition_of(DOMAIN, group, PARTITIONS) if partition is None else partition
        self._produce(TOPICS.objects, where, f"{DOMAIN}/{group}/{object_}".encode(), value)

    def version(self, object_: str, version: int, *, group: str = GROUP) -> None:
        """A plain version of an object."""
        self.publish(object_, b'{"version":%d}' % version, group=group)

    def request(self, session: int = 1, client: str = "client-1", group: str = GROUP, **body: Any) -> None:
        """A request, acknowledged by Kafka."""
        of_gateway = "acks" in body or "beat" in body
        request = internal_pb2.Request(
            format=1,
            gateway=self.gateway,
            inbox=_INBOX,
            session=0 if of_gateway else session,
            domain="" if of_gateway else DOMAIN,
            group="" if of_gateway else group,
            client="" if of_gateway else client,
            **body,
        )
        where = partition_of(DOMAIN, group, PARTITIONS)
        self._produce(TOPICS.requests, where, b"key", request.SerializeToString())

    def open(
        self,
        *names: str,
        session: int = 1,
        client: str = "client-1",
        group: str = GROUP,
        register: bool = True,
        again: bool = False,
    ) -> None:
        """An Open of a client that wants these, and registers for them with it."""
        self._asks += 1
        body = internal_pb2.Open(digest=digest(names), ask=self._asks, register=names if register else (), again=again)
        self.request(session, client, group, open=body)

    def read(self) -> None:
        """Reads what has come into the inbox."""
        for message in self._consumer.consume(500, 0.1):
            assert message.error() is None, message.error()
            record = internal_pb2.Inbox.FromString(message.value() or b"")
            if not record.gateway:
                self.notices.append(record)
            elif record.gateway == self.gateway:
                self.records.append(record)

    @property
    def items(self) -> list[internal_pb2.Item]:
        """Returns all items that this gateway received."""
        return [item for record in self.records for item in record.items]

    def wait(self, condition: Callable[[list[internal_pb2.Item]], object], what: str) -> None:
        """Reads until `condition` holds for all items."""

        def holds() -> object:
            self.read()
            return condition(self.items)

        wait_for(holds, what)

    def told(self, object_: str) -> list[int]:
        """Returns the versions of an object that it received, in order, from fan-outs and pages alike."""
        versions = []
        for item in self.items:
            match item.WhichOneof("item"):
                case "fan_out":
                    newest = [item.fan_out.newest]
                case "page":
                    newest = list(item.page.newest)
                case "answered":
                    newest = list(item.answered.newest)
                case _:
                    newest = []
            versions += [one.version for one in newest if one.name == object_ and one.HasField("version")]
        return versions

    def wait_told(self, object_: str, version: int) -> None:
        """Reads until it has received this version of an object."""
        self.wait(lambda _: version in self.told(object_), f"{object_} version {version}")

    def wait_opened(self, session: int = 1) -> None:
        """Reads until a session has its last page."""
        self.wait(
            lambda items: any(i.page.session == session and i.page.last for i in items), f"session {session}, live"
        )

    def describe(self, key: bytes, value: bytes | None, timestamp_ms: int, *, partition: int) -> None:
        """A record of a description in the objects topic, acknowledged."""
        self._produce(TOPICS.objects, partition, key, value, timestamp_ms)

    def _produce(self, topic: str, partition: int, key: bytes, value: bytes | None, timestamp_ms: int = 0) -> None:
        errors: list[object] = []
        # 0: the producer's time.
        self._producer.produce(
            topic, value, key, partition, lambda error, _message: errors.append(error), timestamp=timestamp_ms
        )
        assert self._producer.flush(WAIT_S) == 0, "Kafka does not take records"
        assert errors == [None], errors


def records_of(kafka: str, topic: str, partition: int) -> list[tuple[bytes | None, bytes | None, dict[str, bytes]]]:
    """(key, value, headers) of all records that a partition has now."""
    return [(key, value, headers) for key, value, headers, _ in timed_records_of(kafka, topic, partition)]


def timed_records_of(
    kafka: str, topic: str, partition: int
) -> list[tuple[bytes | None, bytes | None, dict[str, bytes], int]]:
    """(key, value, headers, timestamp in ms) of all records that a partition has now."""
    consumer = Consumer({"bootstrap.servers": kafka, "group.id": "records", "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, partition, 0)])
    found: list[tuple[bytes | None, bytes | None, dict[str, bytes], int]] = []
    try:
        while True:
            message = consumer.poll(WAIT_S)
            assert message is not None, f"no answer within {WAIT_S:g} s"
            if message.error():
                return found
            headers: Any = message.headers() or ()
            key: Any = message.key()
            value: Any = message.value()
            found.append((key, value, dict(headers), message.timestamp()[1]))
    finally:
        consumer.close()


def registrations_of(kafka: str, partition: int, topics: TopicNames = TOPICS) -> dict[str, dict[str, Any]]:
    """Returns the winning records of registrations, not of wills, by key, merged as a matcher does when it loads."""
    winners: dict[str, dict[str, Any]] = {}
    for key, value, _ in records_of(kafka, topics.registrations, partition):
        name = (key or b"").decode()
        if is_wills_key(name):
            continue
        if value is None:
            winners.pop(name, None)
            continue
        record = json.loads(value)
        before = winners.get(name)
        if before is None or (record["generation"], record["applied"]) >= (before["generation"], before["applied"]):
            winners[name] = record
    return winners
