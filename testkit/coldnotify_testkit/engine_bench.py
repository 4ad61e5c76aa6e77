"""For tests: one partition's log in memory, an engine that reads it, and gateways that keep what they receive."""

import struct
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from operator import attrgetter

from coldnotify_matcher.engine import Engine, ProducedRecord, Rules, Step
from coldnotify_matcher.matcher_partition import MatcherPartition
from coldnotify_matcher.record_headers import read_headers
from coldnotify_matcher.run_topics import Cluster
from coldnotify_schemas import internal_pb2, wire_pb2
from coldnotify_schemas.digest import digest
from coldnotify_schemas.partitioner import partition_of
from coldnotify_schemas.protocol import REGISTRATIONS_MAX
from coldnotify_schemas.topics import TopicNames
from coldnotify_streams.core.events import JobRecord, Takeover
from coldnotify_streams.core.job import Ends

TOPICS = TopicNames()

PARTITIONS = 8
INBOXES = 4
EPOCH = 77
DOMAIN, GROUP = "animal.observer", "region-1"
PREFIX = f"{DOMAIN}/{GROUP}/"
PARTITION = partition_of(DOMAIN, GROUP, PARTITIONS)
GATEWAY = 0xA1
OTHER_GATEWAY = 0xB2
INBOX = {GATEWAY: 0, OTHER_GATEWAY: 1}

CLUSTER = Cluster(PARTITIONS, INBOXES, "objects-id", "requests-id", EPOCH)


@dataclass
class ToldGateway:
    """Everything that one gateway received: the items, and the inbox records that contained them."""

    records: list[internal_pb2.Inbox] = field(default_factory=list)
    items: list[internal_pb2.Item] = field(default_factory=list)

    def take(self) -> list[internal_pb2.Item]:
        """The items since the last time."""
        items, self.items = self.items, []
        return items


class BenchLog:
    """The topics of one partition: written records stay, in the order in which they became durable."""

    def __init__(self) -> None:
        self.records: dict[str, list[JobRecord]] = {
            topic: [] for topic in (TOPICS.objects, TOPICS.registrations, TOPICS.sessions)
        }
        self.requests: list[internal_pb2.Request] = []
        self.elsewhere: list[ProducedRecord] = []
        """Moved records."""
        self.rejected: list[ProducedRecord] = []

    def append(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        *,
        timestamp_ms: int = 1,
        headers: Iterable[tuple[str, bytes]] = (),
    ) -> JobRecord:
        """One record at the end of a topic's partition."""
        said = read_headers(list(headers))
        record = JobRecord(
            topic,
            PARTITION,
            self.end(topic),
            end=False,
            key=key,
            value=value,
            timestamp_ms=timestamp_ms,
            said=said,
        )
        self.records[topic].append(record)
        return record

    def end(self, topic: str) -> int:
        """The offset of the next record."""
        records = self.records[topic]
        return records[-1].offset + 1 if records else 0

    def compact(self, topic: str) -> None:
        """Keep the last record of each key, as Kafka does; offsets stay as they are."""
        last = {record.key: record.offset for record in self.records[topic]}
        self.records[topic] = [record for record in self.records[topic] if last[record.key] == record.offset]

    def write(self, write: ProducedRecord) -> None:
        """Carries out a write of the engine."""
        if write.topic == TOPICS.rejected:
            self.rejected.append(write)
        elif write.partition != PARTITION:
            self.elsewhere.append(write)
        else:
            self.append(
                write.topic, write.key, write.value, timestamp_ms=write.timestamp_ms or 1, headers=write.headers
            )


class EngineBench:
    """A matcher of one partition over a log that outlives it. Time stands still unless a test advances it."""

    def __init__(
        self, *, registrations_max: int = REGISTRATIONS_MAX, cluster: Cluster = CLUSTER, rules: Rules | None = None
    ) -> None:
        self.log = BenchLog()
        self.now_ms = 1_700_000_000_000
        self.told: dict[int, ToldGateway] = defaultdict(ToldGateway)
        self.notices: list[internal_pb2.Inbox] = []
        self.committed: tuple[int, int | None] = (0, None)
        self.cluster = cluster
        self.registrations_max = registrations_max
        self.rules = rules or Rules()
        self.runs = 0
        self.partition: MatcherPartition
        self._asks: dict[tuple[int, int], int] = defaultdict(int)
        self.load()

    @property
    def engine(self) -> Engine:
        """The present engine."""
        return self.partition.engine

    # --- the matcher's life

    def load(self) -> Step:
        """Starts a matcher: it loads the log, handles what was not committed, and makes that durable."""
        step = self.take_over()
        self.make_durable(step)
        self.settle()
        return step

    def take_over(self) -> Step:
        """Takes the partition over as the worker does: reads everything, claims a generation, and reads the claim back.

        Returns the first step, which is not carried out yet.
        """
        self.runs += 1
        requests_committed, objects_committed = self.committed
        ends = {topic: self.log.end(topic) for topic in self.log.records}
        partition = self.partition = MatcherPartition(
            PARTITION,
            self.cluster,
            f"matcher:{self.runs}",
            registrations_max=self.registrations_max,
            rules=self.rules,
        )
        takeover = Takeover(
            requests_start=requests_committed,
            requests_committed=True,
            table_committed=objects_committed,
            table_in_epoch=True,
        )
        partition.load(dict.fromkeys(ends, 0), ends, takeover)
        self._read = dict.fromkeys(self.log.records, 0)
        self._requests_read = requests_committed
        self.read()
        assert partition.loaded
        while not partition.claimed:
            self.log.write(partition.claim())
            self.read()
        partition.own(self.now_ms, Ends(len(self.log.requests), self.log.end(TOPICS.objects)))
        return partition.engine.take_step(self.now_ms)

    def read(self) -> None:
        """Hand on what the log has and the matcher has not seen."""
        for topic, records in self.log.records.items():
            new = records[bisect_left(records, self._read[topic], key=attrgetter("offset")) :]
            self._read[topic] = self.log.end(topic)
            for record in new:
                self.partition.on_record(record, self.now_ms)
            self.partition.on_end(topic, self._read[topic])

    def step(self) -> Step:
        """Reads everything and answers all requests. Returns the engine's next step, which is not carried out yet."""
        self.read()
        new = list(enumerate(self.log.requests))[self._requests_read :]
        self._requests_read += len(new)
        self.engine.on_requests(new, self.now_ms)
        return self.engine.take_step(self.now_ms)

    def make_durable(self, step: Step, writes_lost: int = 0, inboxes_lost: int = 0) -> None:
        """Carries out a step. The last writes and the last inbox records may be lost, as in a crash."""
        fence = [self.partition.claim_again()] if step.fence else []
        writes = [*step.state, *step.seals, *fence, *step.tombstones]
        for write in writes[: len(writes) - writes_lost]:
            self.log.write(write)
        for inbox, record in step.inboxes[: len(step.inboxes) - inboxes_lost]:
            if not record.gateway:
                self.notices.append(record)
                continue
            assert INBOX[record.gateway] == inbox
            self.told[record.gateway].records.append(record)
            self.told[record.gateway].items += record.items

    def commit(self) -> None:
        """Commits everything that was handled, except what is not stored yet."""
        not_stored = self.partition.first_not_stored
        requests = self._requests_read if not_stored is None else min(self._requests_read, not_stored)
        self.committed = requests, self.engine.objects_done

    def settle(self) -> Step:
        """Step until nothing comes of it any more, then commit. The first step is returned."""
        first = step = self.step()
        for _ in range(10):
            self.make_durable(step)
            step = self.step()
            if not step:
                break
        else:
            raise AssertionError(f"the engine does not come to rest: {step}")
        self.commit()
        return first

    def later(self, ms: int) -> None:
        """Time passes, and the matcher does not run."""
        self.now_ms += ms

    def handle_again(self, committed: tuple[int, int | None]) -> None:
        """Goes back to an earlier commit: the next matcher handles again what came since."""
        self.committed = committed

    def tick(self, ms: int) -> Step:
        """Time passes."""
        self.now_ms += ms
        self.engine.flush(self.now_ms)
        self.engine.on_tick(self.now_ms)
        return self.settle()

    # --- publishers and gateways

    def publish(self, object_: str, value: bytes | None, *, timestamp_ms: int = 1) -> int:
        """A record of the objects topic: its offset. It is handled with the next step."""
        return self.log.append(TOPICS.objects, f"{PREFIX}{object_}".encode(), value, timestamp_ms=timestamp_ms).offset

    def describe(self, object_: str, value: bytes, *, timestamp_ms: int) -> int:
        """A record of an object's description: its offset. It is handled with the next step."""
        key = f"describe:{PREFIX}{object_}".encode()
        return self.log.append(TOPICS.objects, key, value, timestamp_ms=timestamp_ms).offset

    def version(self, object_: str, version: int) -> int:
        """A plain version of an object."""
        return self.publish(object_, b'{"version":%d}' % version)

    def request(
        self, session: int = 1, client: str = "client-1", gateway: int = GATEWAY, **body: object
    ) -> internal_pb2.Request:
        """A gateway's request at the end of the log. It is handled with the next step."""
        of_gateway = "acks" in body or "beat" in body
        request = internal_pb2.Request(
            format=1,
            gateway=gateway,
            inbox=INBOX[gateway],
            session=0 if of_gateway else session,
            domain="" if of_gateway else DOMAIN,
            group="" if of_gateway else GROUP,
            client="" if of_gateway else client,
            **body,  # type: ignore[arg-type]
        )
        self.log.requests.append(request)
        return request

    def operator(self, client: str = "client-1", **body: object) -> int:
        """An operator's request about a client: its offset. It is handled with the next step."""
        about = {"format": 1, "domain": DOMAIN, "group": GROUP, "client": client}
        self.log.requests.append(internal_pb2.Request(**about, **body))  # type: ignore[arg-type]
        return len(self.log.requests) - 1

    def open(
        self,
        wanted: Iterable[str] = (),
        *,
        session: int = 1,
        client: str = "client-1",
        gateway: int = GATEWAY,
        register: Iterable[str] = (),
        unregister: Iterable[str] = (),
        cursor: int | None = None,
        epoch: int | None = EPOCH,
        again: bool = False,
        never_opened: bool = False,
        ask: int | None = None,
        page_bytes: int = 0,
    ) -> None:
        """An Open of a client that wants `wanted` in the end."""
        self._asks[gateway, session] = ask or self._asks[gateway, session] + 1
        self.request(
            session,
            client,
            gateway,
            open=internal_pb2.Open(
                digest=digest(wanted),
                register=register,
                unregister=unregister,
                epoch=epoch,
                cursor=cursor,
                ask=self._asks[gateway, session],
                again=again,
                never_opened=never_opened,
                page_bytes=page_bytes,
            ),
        )

    def opened(
        self,
        *names: str,
        session: int = 1,
        client: str = "client-1",
        gateway: int = GATEWAY,
        cursor: int | None = None,
    ) -> None:
        """Opens a live session of a client that registers for these objects, and discards the items so far."""
        self.open(names, register=names, session=session, client=client, gateway=gateway, cursor=cursor)
        self.settle()
        while (page := pages(self.told[gateway].take())[-1]) and not page.last:
            self.catch_up(page.complete, page=page.page, session=session, client=client, gateway=gateway, ask=page.ask)
            self.settle()

    def register(
        self, *names: str, request: int = 1, session: int = 1, client: str = "client-1", gateway: int = GATEWAY
    ) -> None:
        """A Register."""
        self.request(session, client, gateway, register=wire_pb2.Register(request=request, objects=names))

    def unregister(
        self, *names: str, request: int = 1, session: int = 1, client: str = "client-1", gateway: int = GATEWAY
    ) -> None:
        """An Unregister."""
        self.request(session, client, gateway, unregister=wire_pb2.Unregister(request=request, objects=names))

    def sync(
        self,
        index: int,
        *names: str,
        queries: Iterable[str] = (),
        last: bool = False,
        session: int = 1,
        client: str = "client-1",
        gateway: int = GATEWAY,
        descriptions: bool = False,
    ) -> None:
        """A SyncChunk."""
        said = map(query_interest, queries)
        chunk = wire_pb2.SyncChunk(index=index, objects=names, last=last, interests=said)
        self.request(session, client, gateway, sync=chunk, descriptions=descriptions)

    def catch_up(
        self,
        cursor: int | None,
        *,
        page: int = 0,
        ask: int,
        session: int = 1,
        client: str = "client-1",
        gateway: int = GATEWAY,
        epoch: int | None = None,
        page_bytes: int = 0,
        paging: int = 0,
    ) -> None:
        """A CatchUp."""
        catch_up = internal_pb2.CatchUp(
            cursor=cursor, ask=ask, page=page, epoch=epoch, page_bytes=page_bytes, paging=paging
        )
        self.request(session, client, gateway, catch_up=catch_up)

    def leave(
        self, *, complete: int | None = None, session: int = 1, client: str = "client-1", gateway: int = GATEWAY
    ) -> None:
        """A Leave."""
        self.request(session, client, gateway, leave=internal_pb2.Leave(complete=complete))

    def acks(self, completes: Mapping[int, int], gateway: int = GATEWAY, epoch: int | None = None) -> None:
        """Sends acknowledgements by session. `epoch`: None leaves the epoch out of the request."""
        acks = internal_pb2.Acks(sessions=completes.keys(), completes=completes.values(), epoch=epoch)
        self.request(gateway=gateway, acks=acks)

    def beat(
        self, *sessions: int, gateway: int = GATEWAY, serial: int = 1, number: int = 0, generation: int | None = None
    ) -> None:
        """A Beat of a gateway that has these sessions, and has read its inbox up to record `number`."""
        if generation is None:
            generation = self.engine.state.generation if number else 0
        beat = internal_pb2.Beat(
            sessions=len(sessions), checksum=sum(sessions), serial=serial, number=number, generation=generation
        )
        self.request(gateway=gateway, beat=beat)

    def items(self, gateway: int = GATEWAY) -> list[internal_pb2.Item]:
        """Waits until the engine is at rest, and returns the items that a gateway received since the last call."""
        self.settle()
        return self.told[gateway].take()

    # --- what is durable

    def latest(self, topic: str) -> dict[str, bytes]:
        """Returns what compaction would keep of a topic: the last value of each key, without nulls."""
        last = {record.key.decode(): record.value for record in self.log.records[topic] if record.key is not None}
        return {key: value for key, value in last.items() if value is not None}


def query_interest(text: str, *, held: int | None = None, reached: str = "", reached_at: int = 0) -> wire_pb2.Interest:
    """Returns a query as it is in a frame."""
    return wire_pb2.Interest(kind=wire_pb2.INTEREST_QUERY, text=text, held=held, reached=reached, reached_at=reached_at)


def fan_outs(items: Iterable[internal_pb2.Item]) -> list[tuple[str, int, int, list[int]]]:
    """(object, version, offset, sessions) of each FanOut."""
    return [
        (item.fan_out.newest.name, item.fan_out.newest.version, item.fan_out.newest.offset, sessions_of(item.fan_out))
        for item in items
        if item.WhichOneof("item") == "fan_out"
    ]


def sessions_of(fan_out: internal_pb2.FanOut) -> list[int]:
    """The sessions that a FanOut is for."""
    return list(struct.unpack(f"<{len(fan_out.sessions) // 4}I", fan_out.sessions))


def pages(items: Iterable[internal_pb2.Item]) -> list[internal_pb2.Page]:
    """The Pages among the items."""
    return [item.page for item in items if item.WhichOneof("item") == "page"]


def opened(items: Iterable[internal_pb2.Item]) -> list[internal_pb2.Opened]:
    """The Openeds among the items."""
    return [item.opened for item in items if item.WhichOneof("item") == "opened"]


def answered(items: Iterable[internal_pb2.Item]) -> list[internal_pb2.Answered]:
    """The Answereds among the items."""
    return [item.answered for item in items if item.WhichOneof("item") == "answered"]


def closed(items: Iterable[internal_pb2.Item]) -> list[tuple[int, int]]:
    """(session, close code) of each Closed."""
    return [(item.closed.session, item.closed.code) for item in items if item.WhichOneof("item") == "closed"]


def versions(newest: Iterable[internal_pb2.Newest]) -> list[tuple[str, int | None]]:
    """(object, version) of each; None: unknown."""
    return [(one.name, one.version if one.HasField("version") else None) for one in newest]


def kinds(items: Iterable[internal_pb2.Item]) -> list[str]:
    """Returns the kind of each item."""
    return [item.WhichOneof("item") or "" for item in items]
