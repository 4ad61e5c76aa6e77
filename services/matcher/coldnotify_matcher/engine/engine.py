"""The engine of one partition: objects and requests in, notifications and state records out.

Theory of operation
-------------------
Everything that concerns a domain/group is in one partition, and this class holds the state of one: `objects` (newest
version and its offset), `clients` (registrations, cursor, current session) and `gateways`. Records of the objects topic
come in through `on_object`, in offset order; requests through `on_requests`, in offset order; time through `on_tick`.
Each may add outputs, and `take_step` hands out what has come together. The shell makes them durable in the order that
Step names, and only then commits the offsets of both inputs. Whatever it had not committed it reads again after a
failure: every handler gives the same result when it sees an input twice.

A client lacks what it is registered for and has a newest offset above its cursor. A session is sent that in pages; at
the instant its last page is computed it joins the fan-out index (`index.Index`), and from then on a publish reaches
it as one number in a packed array. It stays in the index while a gateway has it caught up once more: the gateway drops
what is live for a session that waits for a page, and the page, which comes later in the same inbox, contains it.

Replay: `registrations_applied` of a client is the offset of a request whose writes, and those of all before it, are
durable. A client's buckets are in one partition, written in order by an idempotent producer, so a crash loses only
the last of a step's records: the last one alone says the step's offset, those before it still say the former one. So a
request below it changes nothing when it comes again, and what was done in part is done again as a whole, in order.
"""

from collections.abc import Sequence

import msgspec
from coldnotify_schemas import internal_pb2, topics
from coldnotify_schemas.close_codes import CloseCode
from coldnotify_schemas.names import OBJECT_BYTES_MAX, REGISTRATIONS_MAX, InvalidName, parse_object_key
from coldnotify_schemas.partition import home_of, partition_of
from coldnotify_schemas.records import (
    INCARNATION_JUMP_MAX,
    MOVED_HEADER,
    VERSION_MAX,
    InvalidRecord,
    parse_public_record,
    since_header,
    since_of,
)
from coldnotify_schemas.state import FORMAT, RegistrationsRecord, SessionRecord
from coldnotify_schemas.traceparent import TRACEPARENT_HEADER

from coldnotify_matcher.engine.clients import NO_ASK, NO_CURSOR, Client, Session, SessionState
from coldnotify_matcher.engine.conflation import Conflation
from coldnotify_matcher.engine.forgetting import Forgetting
from coldnotify_matcher.engine.gateways import RETIRED_KEPT_MS
from coldnotify_matcher.engine.history import History
from coldnotify_matcher.engine.index import Index
from coldnotify_matcher.engine.objects import UNKNOWN, Obj
from coldnotify_matcher.engine.outputs import Step, Write
from coldnotify_matcher.engine.paging import Paging
from coldnotify_matcher.engine.rejected import rejected
from coldnotify_matcher.engine.requests import Requests
from coldnotify_matcher.engine.state import State

GATEWAY_SILENCE_MS_MAX = 15_000
"""Three beats: a gateway not heard of for so long is taken for dead, its sessions for offline."""
GATEWAY_FORGOTTEN_AFTER_MS = 3_600_000
"""Until then a gateway that was only stopped finds the numbers of its inbox records going on."""
OUTDONE_MS = 3_000
"""Longer than a matcher that was only stopped needs to read its successor's claim, of which gateways tell it, too."""
STORE_CURSORS_EVERY_MS = 30_000
"""How old the stored copy of a connected client's cursor may be; it is for looking in, the client has the true one."""

UNMADE_BYTES_MAX = 8192
"""Of a record that is kept for an object: a payload keeps all of it alive, and of a longer one most is white space."""

_encode = msgspec.json.Encoder().encode


class Engine(State):
    """The state of one partition and what happens to it."""

    def __init__(
        self, partition: int, partitions: int, epoch: int, *, registrations_max: int = REGISTRATIONS_MAX
    ) -> None:
        super().__init__(partition, partitions, epoch, registrations_max=registrations_max)
        self.history = History()
        self._index = Index(self)
        self._conflation = Conflation(self, self._index)
        self._requests = Requests(self, self._index, Paging(self, self._index), self._conflation)
        self._forgetting = Forgetting(self)
        self._live = False
        self._replay_from = 0
        self._repairs: dict[Obj, None] = {}
        self._writes: list[Write] = []
        self._tombstones: list[Write] = []
        self._strays: dict[bytes, list[tuple[int, Write]]] = {}
        """By key: (offset, the move)."""
        self._notices: list[tuple[int, internal_pb2.Inbox]] = []
        self._retired_turned_ms = 0
        self._outdone_since_ms: int | None = None

    # ---- loading -------------------------------------------------------------------------------------------------

    def start_load(self, objects_committed: int | None) -> None:
        """`objects_committed`: the offset up to which a predecessor handled the objects topic; None: nobody did.

        Feed the compacted topics then: `load_registrations`, `load_session`, and `on_object` for the objects. Objects
        may have been fed before, while another owned the partition: feed those from `objects_committed` on again.
        """
        self._live = False
        self._replay_from = 0 if objects_committed is None else objects_committed
        for key, moves in list(self._strays.items()):
            self._keep_strays(key, [move for move in moves if move[0] < self._replay_from])

    def load_registrations(self, key: str, record: RegistrationsRecord, *, applied_counts: bool) -> None:
        """One bucket, the winner among its key's records. `applied_counts`: it is of today's requests topic."""
        client_key, _, bucket = key.rpartition("/")
        client = self.client_of(client_key)
        group = client.group_key
        client.load_bucket(int(bucket), [self.object_of(f"{group}/{name}") for name in record.objects])
        if client.changed:
            self.changed[client] = None
        if applied_counts:
            client.registrations_applied = max(client.registrations_applied, record.applied)
            client.registrations_stored = client.registrations_applied

    def load_session(self, key: str, record: SessionRecord, now_ms: int, *, applied_counts: bool) -> None:
        """A client's session record, the winner among its key's records."""
        client = self.client_of(key)
        client.session_stored = True
        client.last_seen_ms = record.last_seen
        client.stored_ms = now_ms
        if applied_counts:
            client.session_applied = record.applied
        same_epoch = record.epoch == self.epoch
        client.cursor = record.cursor if same_epoch else NO_CURSOR
        if not record.online:
            return
        gateway = self.gateway_of(int(record.gateway, 16), record.inbox, now_ms)
        if same_epoch:
            client.session = Session(gateway, record.session, ask=0, cursor=record.cursor)
            gateway.add(record.session, client)
            if record.digest not in (None, client.digest):
                self._doubt(client, client.session)
        else:
            # Its cursors mean nothing any more: let it come and say Hello.
            self.tell_closed(gateway, record.session, CloseCode.UNKNOWN_SESSION, "the objects topic is another one")
            self.changed[client] = None

    def _doubt(self, client: Client, session: Session) -> None:
        """Its registrations are not those that its session was last written down with: it is to be announced anew.

        A matcher that was thought dead has written a bucket, and nobody lived who writes over it; or a step was cut.
        Told what is published, the session would pass over what is missing here.
        """
        session.state = SessionState.UNSYNCED
        opened = internal_pb2.Opened(session=session.number, ask=NO_ASK, in_sync=False, digest=client.digest)
        session.gateway.tell(internal_pb2.Item(opened=opened))
        self.count("doubted")

    def finish_load(self, generation: int, inboxes: int, now_ms: int, *, objects_committed: int | None) -> None:
        """Take the partition over: tell all gateways, and fan out what the predecessor may not have."""
        self.at = None
        self.generation = generation
        self._live = True
        self._notices = [
            (inbox, internal_pb2.Inbox(format=1, partition=self.partition, generation=generation))
            for inbox in range(inboxes)
        ]
        online = [client for client in self.clients.values() if client.session is not None]
        for client in online:
            if client.session is not None and client.session.state is not SessionState.UNSYNCED:
                self._index.join(client)
        if objects_committed is None:
            objects_committed = min((client.cursor + 1 for client in online), default=self.position)
        missed = [obj for obj in self.objects.made() if obj.subscribers and obj.offset >= objects_committed]
        for obj in sorted(missed, key=lambda obj: obj.offset):
            self.at = topics.OBJECTS, obj.kept_offset
            self._conflation.fan_out(obj, now_ms)
        self.at = None
        self._repairs.update((obj, None) for obj in self.objects.made() if obj.needs_repair)

    # ---- objects -------------------------------------------------------------------------------------------------

    def on_object(
        self,
        key: bytes | None,
        value: bytes | None,
        offset: int,
        timestamp_ms: int,
        now_ms: int,
        *,
        moved: bool = False,
        traceparent: str = "",
        since: bytes = b"",
    ) -> None:
        """One record of the objects topic's partition. `moved`, `traceparent`, `since`: as its headers say."""
        # Merging it twice would not be the same: without an incarnation it means the one that is in force by now.
        merged = offset < self.position
        if not merged:
            self.position = offset + 1
            if not self._live and self._keep_unmade(key, value, offset, timestamp_ms, traceparent, since):
                return
        # Of an object that has a version the key was checked then. A key that is no UTF-8 is none of these.
        obj = None if key is None else self.objects.get(key.decode(errors="surrogateescape"))
        if obj is None or obj.version == UNKNOWN:
            obj = self._object_at(key, value, offset, timestamp_ms, traceparent, moved=moved)
            if obj is None:
                return
        try:
            if value is None:
                raise InvalidRecord('record: is null; publish {"deleted": true} to say that the object is gone')
            record = parse_public_record(value)
            version = record.version_at(timestamp_ms)
            if not 0 <= version <= VERSION_MAX:
                raise InvalidRecord(
                    f"version: is missing, and the record's timestamp ({timestamp_ms}) cannot stand for it"
                )
            if record.incarnation is not None and record.incarnation > obj.incarnation + INCARNATION_JUMP_MAX:
                raise InvalidRecord(
                    f"incarnation: is {record.incarnation}, far above the one in force ({obj.incarnation})"
                )
        except InvalidRecord as error:
            obj.last_offset = max(obj.last_offset, offset)
            self._reject(key, value, str(error), offset, timestamp_ms)
            if self._live and obj.needs_repair:
                self._repairs[obj] = None
            self.forget_if_idle(obj)
            return
        if merged:
            return
        outcome = self.history.taken(obj, record, version, offset)
        # What is newer than all before it here came first with this record, whatever it says of another place.
        first_offset = since_of(since, self.epoch, offset) if since and not self._live else None
        newer = obj.merge(record, version, offset, first_offset)
        if newer:
            obj.published_ms = timestamp_ms
            obj.traceparent = traceparent
            self.history.published(obj.key, obj.incarnation, version, obj.offset, timestamp_ms)
        if not self._live:
            return
        self.count(outcome + ":" + obj.domain)
        if newer:
            self._conflation.publish(obj, offset, now_ms)
        if obj.needs_repair:
            self._repairs[obj] = None

    def skip_object(self, key: bytes | None, offset: int) -> None:
        """The record at this offset is set aside: its object's newest version is to stand behind it again."""
        self.position = max(self.position, offset + 1)
        obj = None if key is None else self.objects.get(key.decode(errors="surrogateescape"))
        if obj is None:
            return
        obj.last_offset = max(obj.last_offset, offset)
        if self._live and obj.needs_repair:
            self._repairs[obj] = None

    def on_objects_end(self, offset: int) -> None:
        """The objects topic has been read up to `offset`, also where its last offsets hold no records."""
        self.position = max(self.position, offset)

    def _keep_unmade(
        self, key: bytes | None, value: bytes | None, offset: int, timestamp_ms: int, traceparent: str, since: bytes
    ) -> bool:
        """Keep just the record, if it is its object's first and in order. False: it is for the rest of `on_object`."""
        if key is None or value is None or len(key) > OBJECT_BYTES_MAX or len(value) > UNMADE_BYTES_MAX:
            return False
        try:
            name = key.decode()
            domain, group, object_ = name.split("/", 2)
            if name in self.objects or not object_ or home_of(domain, group, self.partitions) != self.partition:
                return False
            record = parse_public_record(value)
        except ValueError:
            return False
        version = record.version_at(timestamp_ms)
        if not 0 <= version <= VERSION_MAX or (record.incarnation or 0) > INCARNATION_JUMP_MAX:
            return False
        first_offset = since_of(since, self.epoch, offset) if since else None
        self.objects.keep(name, record, offset, timestamp_ms, traceparent, first_offset)
        came_at = offset if first_offset is None else first_offset
        self.history.published(name, record.incarnation or 0, version, came_at, timestamp_ms)
        return True

    def _object_at(
        self, key: bytes | None, value: bytes | None, offset: int, timestamp_ms: int, traceparent: str, *, moved: bool
    ) -> Obj | None:
        """The object whose key this is, known or new; None: it is no key, or one that belongs elsewhere."""
        try:
            domain, group, _ = parse_object_key(key)
        except InvalidName as error:
            self._reject(key, value, str(error), offset, timestamp_ms)
            return None
        assert key is not None
        right_partition = partition_of(domain, group, self.partitions)
        if right_partition != self.partition:
            self._on_stray(key, value, offset, timestamp_ms, right_partition, traceparent, moved=moved)
            return None
        return self.object_of(key.decode())

    def _on_stray(
        self,
        key: bytes,
        value: bytes | None,
        offset: int,
        timestamp_ms: int,
        right: int,
        traceparent: str,
        *,
        moved: bool,
    ) -> None:
        """A record that its producer put into a partition that is not its key's: Kafka's default partitioner does."""
        if value is None:
            # Our own tombstone of a stray that was moved, or a null that says nothing here. What an earlier owner had
            # not handled may stand before the tombstone of an earlier stray: that is moved all the same.
            self._keep_strays(key, [m for m in self._strays.get(key, ()) if m[0] >= self._replay_from])
            return
        if moved:
            reason = f"key: belongs to partition {right} and was moved once already"
            self._reject(key, value, reason, offset, timestamp_ms)
            return
        try:
            parse_public_record(value)
        except InvalidRecord as error:
            self._reject(key, value, str(error), offset, timestamp_ms)
            return
        headers = [(MOVED_HEADER, f"{self.partition}@{offset}".encode())]
        if traceparent:
            headers.append((TRACEPARENT_HEADER, traceparent.encode()))
        timestamp = timestamp_ms if timestamp_ms >= 0 else None
        write = Write(topics.OBJECTS, right, key, value, tuple(headers), timestamp)
        self._strays.setdefault(key, []).append((offset, write))

    def _keep_strays(self, key: bytes, moves: list[tuple[int, Write]]) -> None:
        if moves:
            self._strays[key] = moves
        else:
            self._strays.pop(key, None)

    def _reject(self, key: bytes | None, value: bytes | None, reason: str, offset: int, timestamp_ms: int) -> None:
        self.history.rejected(key, offset, timestamp_ms, reason)
        if offset < self._replay_from:
            return
        self._writes.append(rejected(topics.OBJECTS, self.partition, offset, key, value, reason))
        self.count(f"rejected:{reason.partition(':')[0]}")

    # ---- requests ------------------------------------------------------------------------------------------------

    def on_requests(self, requests: Sequence[tuple[int, internal_pb2.Request]], now_ms: int) -> None:
        """A batch of (offset, request), in order. The objects topic has been read up to its end as of now.

        Of several Opens of one client in a row only the last is answered: it says all that the earlier ones said.
        """
        self._requests.on_requests(requests, now_ms)
        if self.rules.conflation.auto:
            self._look_for_lag(requests, now_ms)

    def _look_for_lag(self, requests: Sequence[tuple[int, internal_pb2.Request]], now_ms: int) -> None:
        for _, request in requests:
            beat = request.beat if request.HasField("beat") else None
            # Others are of the inbox records of a predecessor, or of none: 0 is a gateway that does not know.
            if beat is not None and beat.number and beat.generation == self.generation:
                self._conflation.on_beat(self.gateways[request.gateway], beat.number, now_ms)

    # ---- time ----------------------------------------------------------------------------------------------------

    def on_tick(self, now_ms: int) -> None:
        """Time passes: gateways that fell silent, cursors to be stored, clients to be forgotten."""
        self.at = None
        if self.generation_heard <= self.generation:
            self._outdone_since_ms = None
        elif self._outdone_since_ms is None:
            self._outdone_since_ms = now_ms
        self.outdone = self._outdone_since_ms is not None and now_ms - self._outdone_since_ms >= OUTDONE_MS
        for gateway in list(self.gateways.values()):
            silent_ms = now_ms - gateway.heard_ms
            if silent_ms > GATEWAY_SILENCE_MS_MAX and gateway.sessions:
                self.count("silent_gateways")
                for client in list(gateway.sessions.values()):
                    self.end_session(client)
                # Should it be heard again it announces the same sessions: they must not be taken for those that are
                # still in the index. So it is another one from here on, only its numbers go on.
                self.gateways[gateway.id] = gateway.successor()
            elif silent_ms > GATEWAY_FORGOTTEN_AFTER_MS:
                del self.gateways[gateway.id]
        if now_ms - self._retired_turned_ms > RETIRED_KEPT_MS:
            self._retired_turned_ms = now_ms
            for gateway in self.gateways.values():
                gateway.turn_retired()
        due = [c for c in self.dirty_cursors if now_ms - c.stored_ms >= STORE_CURSORS_EVERY_MS]
        for client in due:
            del self.dirty_cursors[client]
            if client.worth_keeping:
                self.changed[client] = None
        self._writes += self._forgetting.on_tick(now_ms)
        self._conflation.on_tick(now_ms)

    def flush(self, now_ms: int) -> None:
        """Fan out what was held back until now."""
        self._conflation.flush(now_ms)

    def next_due_ms(self) -> int | None:
        """When `flush` has something to do (Unix time); None: never, as things are."""
        return self._conflation.next_due_ms()

    def held_since(self, obj: Obj) -> int | None:
        """The offset of the first publish of this object that is held back now; None: none is."""
        return self._conflation.held_since(obj)

    def conflation_interval_ms(self, entry: str) -> int:
        """The present interval of a domain, or of `*`, as the rules name it."""
        return self._conflation.interval_ms(entry)

    @property
    def objects_done(self) -> int:
        """Up to which offset of the objects topic nothing is left to be done: what may be committed."""
        return self._conflation.floor

    def take_step(self, now_ms: int) -> Step:
        """All outputs since the last step."""
        for obj in self._repairs:
            if obj.needs_repair:
                self.at = topics.OBJECTS, obj.kept_offset
                headers = (since_header(self.epoch, obj.offset),)
                self._writes.append(
                    Write(topics.OBJECTS, self.partition, obj.key.encode(), obj.repair_record(), headers)
                )
                self.count("repaired")
        for client in self.changed:
            self.at = client.key
            self._write_client(client, now_ms)
        self.at = None
        self._tombstones += self._forgetting.take_session_writes()
        for key, moves in self._strays.items():
            self._writes += [write for _, write in moves]
            self._tombstones.append(Write(topics.OBJECTS, self.partition, key, None))
            self.count("moved", len(moves))
        step = Step(self._writes, self._tombstones, self._notices)
        for gateway in self.gateways.values():
            records = gateway.take_records(self.partition, self.generation)
            if records and self.rules.conflation.auto:
                gateway.unread.made(records[0][1].number, now_ms)
            step.inboxes += records
        self._writes, self._tombstones, self._notices = [], [], []
        self._repairs, self.changed, self._strays = {}, {}, {}
        return step

    def rewrite(self, topic: str, key: str, *, was_null: bool) -> None:
        """A null or a record with a lower generation was seen in a state topic: ours is written again after it."""
        client_key, bucket = (key, None) if topic == topics.SESSIONS else key.rpartition("/")[::2]
        client = self.clients.get(client_key)
        index = int(bucket) if bucket is not None and bucket.isdecimal() else None
        if client is None or (index is not None and index >= len(client.buckets)):
            if was_null:
                return
            self._writes.append(Write(topic, self.partition, key.encode(), None))
        elif index is not None:
            client.changed.add(index)
            self.changed[client] = None
        elif client.worth_keeping:
            self.changed[client] = None
        self.count("state_repaired")

    def _write_client(self, client: Client, now_ms: int) -> None:
        changed = sorted(client.changed)
        for index in changed:
            applied = client.registrations_applied if index == changed[-1] else client.registrations_stored
            names = sorted(obj.name for obj in client.buckets[index])
            record = RegistrationsRecord(FORMAT, self.generation, applied, names)
            key = f"{client.key}/{index}".encode()
            self._writes.append(Write(topics.REGISTRATIONS, self.partition, key, _encode(record)))
        if changed:
            client.registrations_stored = client.registrations_applied
        client.changed.clear()
        session = client.session
        record_of_session = SessionRecord(
            format=FORMAT,
            generation=self.generation,
            applied=client.session_applied,
            online=session is not None,
            gateway=f"{session.gateway.id if session else 0:016x}",
            inbox=session.gateway.inbox if session else 0,
            session=session.number if session else 0,
            epoch=self.epoch,
            cursor=client.cursor,
            last_seen=client.last_seen_ms,
            digest=client.digest,
        )
        self._writes.append(Write(topics.SESSIONS, self.partition, client.key.encode(), _encode(record_of_session)))
        client.session_stored = True
        client.stored_ms = now_ms
        self.dirty_cursors.pop(client, None)
