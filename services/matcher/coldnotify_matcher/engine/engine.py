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
the instant its last page is computed it joins the fan-out index (`Obj.subscribers`), and from then on a publish reaches
it as one number in a packed array. It stays in the index while a gateway has it caught up once more: the gateway drops
what is live for a session that waits for a page, and the page, which comes later in the same inbox, contains it.

Replay: `registrations_applied` of a client is the offset of a request whose writes, and those of all before it, are
durable. A client's buckets are in one partition, written in order by an idempotent producer, so a crash loses only
the last of a step's records: the last one alone says the step's offset, those before it still say the former one. So a
request below it changes nothing when it comes again, and what was done in part is done again as a whole, in order.
"""

from collections.abc import Iterable, Sequence

import msgspec
from coldnotify_schemas import internal_pb2, topics, wire_pb2
from coldnotify_schemas.close_codes import CloseCode
from coldnotify_schemas.digest import MODULUS, digest
from coldnotify_schemas.names import REGISTRATIONS_MAX, InvalidName, parse_object_key
from coldnotify_schemas.partition import partition_of
from coldnotify_schemas.records import (
    MOVED_HEADER,
    REASON_HEADER,
    VERSION_MAX,
    InvalidRecord,
    parse_public_record,
)
from coldnotify_schemas.state import FORMAT, RegistrationsRecord, SessionRecord

from coldnotify_matcher.engine.clients import NO_CURSOR, Client, Session, SessionState
from coldnotify_matcher.engine.gateways import RETIRED_KEPT_MS, GatewayView
from coldnotify_matcher.engine.objects import GONE_KEPT_MAX, Obj, Subscribers
from coldnotify_matcher.engine.opens import LastOpens
from coldnotify_matcher.engine.outputs import Step, Write

PAGE_BYTES_MAX = 64 * 1024
"""Of one page: what a slow link has under way at most, so that the newest is chosen late."""
GATEWAY_SILENCE_MS_MAX = 15_000
"""Three beats: a gateway not heard of for so long is taken for dead, its sessions for offline."""
GATEWAY_FORGOTTEN_AFTER_MS = 3_600_000
"""Until then a gateway that was only stopped finds the numbers of its inbox records going on."""
REFUSALS_MAX = 500
"""Named in one Welcome, which must stay a frame that a client takes. The next reg-sync names the others."""
REJECTED_BYTES_MAX = 1_500_000
"""Of a rejected record's key and value. The topic takes 2 MiB: larger ones come only where an operator lets them in."""
STORE_CURSORS_EVERY_MS = 30_000
"""How old the stored copy of a connected client's cursor may be; it is for looking in, the client has the true one."""

_DISPLACED = "the same client connected elsewhere"

_encode = msgspec.json.Encoder().encode


class Engine:
    """The state of one partition and what happens to it."""

    def __init__(
        self, partition: int, partitions: int, epoch: int, *, registrations_max: int = REGISTRATIONS_MAX
    ) -> None:
        self.partition = partition
        self.partitions = partitions
        self.epoch = epoch
        self.registrations_max = registrations_max
        self.generation = 0
        self.position = 0
        """The next offset of the objects topic."""
        self.objects: dict[str, Obj] = {}
        self.clients: dict[str, Client] = {}
        self.gateways: dict[int, GatewayView] = {}
        self.counts: dict[str, int] = {}
        """Events since the last step, by name; the shell turns them into metrics."""
        self._live = False
        self._replay_from = 0
        self._repairs: dict[Obj, None] = {}
        self._changed: dict[Client, None] = {}
        self._dirty_cursors: dict[Client, None] = {}
        self._state: list[Write] = []
        self._tombstones: list[Write] = []
        self._strays: dict[bytes, list[tuple[int, Write]]] = {}
        """By key: (offset, the move)."""
        self._notices: list[tuple[int, internal_pb2.Inbox]] = []
        self._retired_turned_ms = 0

    # ---- loading -------------------------------------------------------------------------------------------------

    def start_load(self, objects_committed: int | None) -> None:
        """`objects_committed`: the offset up to which a predecessor handled the objects topic; None: nobody did.

        Feed the compacted topics then: `load_registrations`, `load_session`, and `on_object` for the objects.
        """
        self._live = False
        self._replay_from = 0 if objects_committed is None else objects_committed

    def load_registrations(self, key: str, record: RegistrationsRecord, *, applied_counts: bool) -> None:
        """One bucket, the winner among its key's records. `applied_counts`: it is of today's requests topic."""
        client_key, _, bucket = key.rpartition("/")
        client = self._client(client_key)
        group = client.group_key
        client.load_bucket(int(bucket), [self._object(f"{group}/{name}") for name in record.objects])
        if client.changed:
            self._changed[client] = None
        if applied_counts:
            client.registrations_applied = max(client.registrations_applied, record.applied)
            client.registrations_stored = client.registrations_applied

    def load_session(self, key: str, record: SessionRecord, now_ms: int, *, applied_counts: bool) -> None:
        """A client's session record, the winner among its key's records."""
        client = self._client(key)
        client.session_stored = True
        client.last_seen_ms = record.last_seen
        client.stored_ms = now_ms
        if applied_counts:
            client.session_applied = record.applied
        same_epoch = record.epoch == self.epoch
        client.cursor = record.cursor if same_epoch else NO_CURSOR
        if not record.online:
            return
        gateway = self._gateway(int(record.gateway, 16), record.inbox, now_ms)
        if same_epoch:
            client.session = Session(gateway, record.session, ask=0, cursor=record.cursor)
            gateway.add(record.session, client)
        else:
            # Its cursors mean nothing any more: let it come and say Hello.
            self._tell_closed(gateway, record.session, CloseCode.UNKNOWN_SESSION, "the objects topic is another one")
            self._changed[client] = None

    def finish_load(self, generation: int, inboxes: int, now_ms: int, *, objects_committed: int | None) -> None:
        """Take the partition over: tell all gateways, and fan out what the predecessor may not have."""
        self.generation = generation
        self._live = True
        self._notices = [
            (inbox, internal_pb2.Inbox(format=1, partition=self.partition, generation=generation))
            for inbox in range(inboxes)
        ]
        online = [client for client in self.clients.values() if client.session is not None]
        for client in online:
            self._join_index(client)
        if objects_committed is None:
            objects_committed = min((client.cursor + 1 for client in online), default=self.position)
        missed = [obj for obj in self.objects.values() if obj.subscribers and obj.offset >= objects_committed]
        for obj in sorted(missed, key=lambda obj: obj.offset):
            self._fan_out(obj, now_ms)
        self._repairs.update((obj, None) for obj in self.objects.values() if obj.needs_repair)

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
    ) -> None:
        """One record of the objects topic's partition."""
        self.position = offset + 1
        fresh = offset >= self._replay_from
        try:
            domain, group, _ = parse_object_key(key)
        except InvalidName as error:
            self._reject(key, value, str(error), fresh=fresh)
            return
        assert key is not None
        right_partition = partition_of(domain, group, self.partitions)
        if right_partition != self.partition:
            self._on_stray(key, value, offset, timestamp_ms, right_partition, moved=moved, fresh=fresh)
            return
        obj = self._object(key.decode())
        try:
            if value is None:
                raise InvalidRecord('record: is null; publish {"deleted": true} to say that the object is gone')
            record = parse_public_record(value)
            version = timestamp_ms if record.version is None else record.version
            if not 0 <= version <= VERSION_MAX:
                raise InvalidRecord(
                    f"version: is missing, and the record's timestamp ({timestamp_ms}) cannot stand for it"
                )
        except InvalidRecord as error:
            obj.last_offset = offset
            self._reject(key, value, str(error), fresh=fresh)
            if self._live and obj.needs_repair:
                self._repairs[obj] = None
            self._forget_if_idle(obj)
            return
        newer = obj.merge(record, version, offset)
        if not self._live:
            return
        if newer:
            self._count("publishes")
            self._fan_out(obj, now_ms)
        else:
            self._count("stale" if obj.offset != offset else "repeated")
        if obj.needs_repair:
            self._repairs[obj] = None

    def on_objects_end(self, offset: int) -> None:
        """The objects topic has been read up to `offset`, also where its last offsets hold no records."""
        self.position = max(self.position, offset)

    def _on_stray(
        self, key: bytes, value: bytes | None, offset: int, timestamp_ms: int, right: int, *, moved: bool, fresh: bool
    ) -> None:
        """A record that its producer put into a partition that is not its key's: Kafka's default partitioner does."""
        if value is None:
            # Our own tombstone of a stray that was moved, or a null that says nothing here. What an earlier owner had
            # not handled may stand before the tombstone of an earlier stray: that is moved all the same.
            self._strays[key] = [m for m in self._strays.get(key, ()) if m[0] >= self._replay_from]
            return
        if moved:
            self._reject(key, value, f"key: belongs to partition {right} and was moved once already", fresh=fresh)
            return
        try:
            parse_public_record(value)
        except InvalidRecord as error:
            self._reject(key, value, str(error), fresh=fresh)
            return
        header = (MOVED_HEADER, f"{self.partition}@{offset}".encode())
        timestamp = timestamp_ms if timestamp_ms >= 0 else None
        write = Write(topics.OBJECTS, right, key, value, (header,), timestamp)
        self._strays.setdefault(key, []).append((offset, write))

    def _reject(self, key: bytes | None, value: bytes | None, reason: str, *, fresh: bool) -> None:
        if not fresh:
            return
        size = len(key or b"") + len(value or b"")
        if size > REJECTED_BYTES_MAX:
            reason = f"{reason} (the record has {size} bytes; this is only its beginning)"
            key = key and key[: REJECTED_BYTES_MAX // 2]
            value = value and value[: REJECTED_BYTES_MAX // 2]
        self._state.append(Write(topics.REJECTED, None, key, value, ((REASON_HEADER, reason.encode()),)))
        self._count("rejected")

    def _fan_out(self, obj: Obj, now_ms: int) -> None:
        newest = obj.newest(now_ms)
        spared = None
        if obj.source is not None:
            source = self.clients.get(obj.key[: len(obj.key) - len(obj.name)] + obj.source)
            spared = source.session if source is not None else None
        for gateway, subscribers in list(obj.subscribers.items()):
            subscribers.remove_gone(gateway)
            numbers = subscribers.numbers
            if not numbers:
                del obj.subscribers[gateway]
                continue
            if spared is not None and spared.gateway is gateway and spared.number in numbers:
                numbers = type(numbers)("I", [n for n in numbers if n != spared.number])
                if not numbers:
                    continue
            gateway.items.append(
                internal_pb2.Item(fan_out=internal_pb2.FanOut(newest=newest, sessions=numbers.tobytes()))
            )
            self._count("deliveries", len(numbers))

    # ---- requests ------------------------------------------------------------------------------------------------

    def on_requests(self, requests: Sequence[tuple[int, internal_pb2.Request]], now_ms: int) -> None:
        """A batch of (offset, request), in order. The objects topic has been read up to its end as of now.

        Of several Opens of one client in a row only the last is answered: it says all that the earlier ones said.
        """
        last_opens = LastOpens(requests)
        for offset, request in requests:
            if offset not in last_opens.superseded:
                self._on_request(offset, request, now_ms, first_open=offset in last_opens.first)
                continue
            self._count("superseded_opens")
            if offset in last_opens.displaced:
                gateway = self._gateway(request.gateway, request.inbox, now_ms)
                self._tell_closed(gateway, request.session, CloseCode.DISPLACED, _DISPLACED)

    def _on_request(self, offset: int, request: internal_pb2.Request, now_ms: int, *, first_open: bool) -> None:
        gateway = self._gateway(request.gateway, request.inbox, now_ms)
        gateway.heard_ms = max(gateway.heard_ms, now_ms)
        kind = request.WhichOneof("body")
        if kind == "beat":
            self._on_beat(gateway, request.beat)
            return
        if kind == "acks":
            self._on_acks(gateway, request.acks, now_ms)
            return
        key = f"{request.domain}/{request.group}/{request.client}"
        if kind == "open":
            again = request.open.again and not first_open
            self._on_open(offset, gateway, request.session, key, request.open, now_ms, again=again)
            return
        client = self.clients.get(key)
        session = client.session if client is not None else None
        if client is None or session is None or session.gateway is not gateway or session.number != request.session:
            if kind != "leave":
                self._tell_closed(gateway, request.session, CloseCode.UNKNOWN_SESSION, "this session is not known")
            return
        client.last_seen_ms = max(client.last_seen_ms, now_ms)
        if kind == "register":
            self._on_register(offset, client, session, request.register, now_ms)
        elif kind == "unregister":
            self._on_unregister(offset, client, session, request.unregister)
        elif kind == "sync":
            self._on_sync(offset, client, session, request.sync, now_ms)
        elif kind == "catch_up":
            self._on_catch_up(client, session, request.catch_up, now_ms)
        elif kind == "check_digest":
            self._on_check_digest(client, session, request.check_digest)
        elif kind == "leave":
            if request.leave.HasField("complete"):
                self._acknowledge(client, request.leave.complete)
            self._end_session(client)

    def _on_open(
        self,
        offset: int,
        gateway: GatewayView,
        number: int,
        key: str,
        request: internal_pb2.Open,
        now_ms: int,
        *,
        again: bool,
    ) -> None:
        client = self._client(key)
        current = client.session
        same = current is not None and current.gateway is gateway and current.number == number
        outdone = offset < client.session_applied or (again and current is not None) or gateway.has_retired(number)
        if outdone and not same:
            self._tell_closed(gateway, number, CloseCode.UNKNOWN_SESSION, "the client has, or had, another session")
            self._forget_if_nobody(client)
            return
        if current is not None and not same:
            self._tell_closed(current.gateway, current.number, CloseCode.DISPLACED, _DISPLACED)
            current.gateway.remove(current.number, indexed=current.indexed)
        session = current if same and current is not None else Session(gateway, number, ask=request.ask)
        client.session = session
        client.session_applied = max(client.session_applied, offset)
        client.last_seen_ms = max(client.last_seen_ms, now_ms)
        gateway.add(number, client)
        session.ask = request.ask
        session.synced_chunks, session.synced = 0, []
        self._unregister_all(offset, client, session, request.unregister)
        registered, refused = self._register_all(offset, client, session, request.register)
        cursor_counts = request.epoch == self.epoch and request.HasField("cursor") and request.cursor < self.position
        cursor = request.cursor if cursor_counts else NO_CURSOR
        client.cursor = cursor
        if client.worth_keeping:
            self._changed[client] = None
        # The client's digest includes what is refused now and then leaves its wanted set. A replayed Open cannot be
        # compared, the client's set is that of later requests, which follow: they came from a client that was in sync.
        with_refused = (client.digest + digest(refusal.object for refusal in refused)) % MODULUS
        in_sync = with_refused == request.digest or offset < client.registrations_applied
        # Also a cursor above the end of the log, in the same epoch, is void, and the client has to be told so.
        void = request.HasField("cursor") and not cursor_counts
        client_epoch = None if void else request.epoch
        self._tell_opened(client, session, in_sync=in_sync, client_epoch=client_epoch, refused=refused)
        self._count("opens" if in_sync else "opens_not_in_sync")
        if in_sync:
            self._begin_pages(client, session, cursor, registered, now_ms)
        else:
            session.state = SessionState.UNSYNCED

    def _on_register(
        self, offset: int, client: Client, session: Session, request: wire_pb2.Register, now_ms: int
    ) -> None:
        registered, refused = self._register_all(offset, client, session, request.objects)
        answer = internal_pb2.Answered(
            session=session.number, request=request.request, refused=refused, digest=client.digest
        )
        size = 0
        for obj in registered:
            newest = obj.newest(now_ms, answer=True)
            newest_bytes = newest.ByteSize()
            if size and size + newest_bytes > PAGE_BYTES_MAX:
                session.gateway.items.append(internal_pb2.Item(answered=answer))
                answer = internal_pb2.Answered(session=session.number, digest=client.digest)
                size = 0
            answer.newest.append(newest)
            size += newest_bytes
        session.gateway.items.append(internal_pb2.Item(answered=answer))

    def _on_unregister(self, offset: int, client: Client, session: Session, request: wire_pb2.Unregister) -> None:
        self._unregister_all(offset, client, session, request.objects)
        session.gateway.items.append(
            internal_pb2.Item(
                answered=internal_pb2.Answered(
                    session=session.number, request=request.request, unregistered=True, digest=client.digest
                )
            )
        )

    def _on_sync(self, offset: int, client: Client, session: Session, chunk: wire_pb2.SyncChunk, now_ms: int) -> None:
        if chunk.index == 0:
            session.synced_chunks, session.synced = 0, []
        in_order = chunk.index == session.synced_chunks
        if not in_order:
            # The parts before went to a matcher that is no more, or the client began twice.
            session.synced_chunks, session.synced = 0, []
            if chunk.last:
                session.state = SessionState.UNSYNCED
                self._tell_opened(client, session, in_sync=False, client_epoch=self.epoch)
            return
        session.synced_chunks += 1
        room = self.registrations_max + REFUSALS_MAX - len(session.synced)
        session.synced += chunk.objects[: max(room, 0)]
        if not chunk.last:
            return
        wanted = dict.fromkeys(session.synced)
        session.synced_chunks, session.synced = 0, []
        group = client.group_key
        target = {self._object(f"{group}/{name}"): None for name in wanted}
        self._unregister_all(offset, client, session, [obj.name for obj in client.where if obj not in target])
        _, refused = self._register_all(offset, client, session, wanted)
        self._count("syncs")
        self._tell_opened(client, session, in_sync=True, client_epoch=self.epoch, refused=refused)
        self._begin_pages(client, session, NO_CURSOR, list(client.where), now_ms)

    def _on_catch_up(self, client: Client, session: Session, request: internal_pb2.CatchUp, now_ms: int) -> None:
        if session.state is SessionState.UNSYNCED:
            return
        if request.page and request.ask == session.ask and request.page == session.page:
            self._send_page(client, session, now_ms)
            return
        session.ask = request.ask
        cursor_counts = (
            request.HasField("cursor")
            and request.cursor < self.position
            and (not request.HasField("epoch") or request.epoch == self.epoch)
        )
        cursor = request.cursor if cursor_counts else NO_CURSOR
        # A page above 0 that we did not send, a predecessor did: the next one goes on from there.
        self._begin_pages(client, session, cursor, session.owed[::-1], now_ms, after_page=request.page)

    def _on_check_digest(self, client: Client, session: Session, request: internal_pb2.CheckDigest) -> None:
        session.ask = request.ask
        in_sync = request.digest == client.digest
        if not in_sync:
            session.state = SessionState.UNSYNCED
            session.synced_chunks, session.synced = 0, []
        self._tell_opened(client, session, in_sync=in_sync, client_epoch=self.epoch)

    def _on_acks(self, gateway: GatewayView, acks: internal_pb2.Acks, now_ms: int) -> None:
        for number, complete in zip(acks.sessions, acks.completes, strict=False):
            client = gateway.sessions.get(number)
            if client is not None:
                client.last_seen_ms = max(client.last_seen_ms, now_ms)
                self._acknowledge(client, complete)

    def _on_beat(self, gateway: GatewayView, beat: internal_pb2.Beat) -> None:
        agreed = len(gateway.sessions) == beat.sessions and gateway.checksum == beat.checksum
        # Of sessions that only the gateway knows it would not be true that they are complete.
        complete = self.position - 1 if agreed and self.position else None
        gateway.items.append(internal_pb2.Item(beat=internal_pb2.BeatAnswer(agreed=agreed, complete=complete)))

    # ---- time ----------------------------------------------------------------------------------------------------

    def on_tick(self, now_ms: int) -> None:
        """Time passes: gateways that fell silent, cursors to be stored."""
        for gateway in list(self.gateways.values()):
            silent_ms = now_ms - gateway.heard_ms
            if silent_ms > GATEWAY_SILENCE_MS_MAX and gateway.sessions:
                self._count("silent_gateways")
                for client in list(gateway.sessions.values()):
                    self._end_session(client)
                # Should it be heard again it announces the same sessions: they must not be taken for those that are
                # still in the index. So it is another one from here on, only its numbers go on.
                self.gateways[gateway.id] = gateway.successor()
            elif silent_ms > GATEWAY_FORGOTTEN_AFTER_MS:
                del self.gateways[gateway.id]
        if now_ms - self._retired_turned_ms > RETIRED_KEPT_MS:
            self._retired_turned_ms = now_ms
            for gateway in self.gateways.values():
                gateway.turn_retired()
        due = [c for c in self._dirty_cursors if now_ms - c.stored_ms >= STORE_CURSORS_EVERY_MS]
        for client in due:
            del self._dirty_cursors[client]
            if client.worth_keeping:
                self._changed[client] = None

    def take_step(self, now_ms: int) -> Step:
        """All outputs since the last step."""
        for obj in self._repairs:
            if obj.needs_repair:
                self._state.append(Write(topics.OBJECTS, self.partition, obj.key.encode(), obj.repair_record()))
                self._count("repaired")
        for client in self._changed:
            self._write_client(client, now_ms)
        for key, moves in self._strays.items():
            if not moves:
                continue
            self._state += [write for _, write in moves]
            self._tombstones.append(Write(topics.OBJECTS, self.partition, key, None))
            self._count("moved", len(moves))
        step = Step(self._state, self._tombstones, self._notices)
        for gateway in self.gateways.values():
            step.inboxes += gateway.take_records(self.partition, self.generation)
        self._state, self._tombstones, self._notices = [], [], []
        self._repairs, self._changed, self._strays = {}, {}, {}
        return step

    def rewrite(self, topic: str, key: str, *, was_null: bool) -> None:
        """A null or a record with a lower generation was seen in a state topic: ours is written again after it."""
        client_key, bucket = (key, None) if topic == topics.SESSIONS else key.rpartition("/")[::2]
        client = self.clients.get(client_key)
        index = int(bucket) if bucket is not None and bucket.isdecimal() else None
        if client is None or (index is not None and index >= len(client.buckets)):
            if was_null:
                return
            self._state.append(Write(topic, self.partition, key.encode(), None))
        elif index is not None:
            client.changed.add(index)
            self._changed[client] = None
        elif client.worth_keeping:
            self._changed[client] = None
        self._count("state_repaired")

    # ---- the pieces ----------------------------------------------------------------------------------------------

    def _register_all(
        self, offset: int, client: Client, session: Session, names: Iterable[str]
    ) -> tuple[list[Obj], list[wire_pb2.Refusal]]:
        """Register the client: (those of `names` that it is registered for now, the refused ones)."""
        registered, refused = [], []
        group = client.group_key
        replayed = offset < client.registrations_applied
        for name in names:
            obj = self._object(f"{group}/{name}")
            if obj not in client.where and not replayed:
                if len(client.where) >= self.registrations_max:
                    reason = f"at most {self.registrations_max} objects a client"
                    refused.append(wire_pb2.Refusal(object=name, reason=reason))
                    self._forget_if_idle(obj)
                    continue
                client.register(obj)
                self._count("registered")
                if session.indexed:
                    self._subscribe(obj, session)
            if obj in client.where:
                registered.append(obj)
            else:
                self._forget_if_idle(obj)
        self._note_changed(offset, client)
        return registered, refused

    def _unregister_all(self, offset: int, client: Client, session: Session, names: Iterable[str]) -> None:
        if offset >= client.registrations_applied:
            for name in names:
                obj = self.objects.get(f"{client.group_key}/{name}")
                if obj is not None and client.unregister(obj):
                    self._count("unregistered")
                    if session.indexed:
                        self._unsubscribe(obj, session)
                    self._forget_if_idle(obj)
        self._note_changed(offset, client)

    def _note_changed(self, offset: int, client: Client) -> None:
        if client.changed:
            client.registrations_applied = max(client.registrations_applied, offset)
            self._changed[client] = None

    def _begin_pages(
        self, client: Client, session: Session, cursor: int, owed: Iterable[Obj], now_ms: int, *, after_page: int = 0
    ) -> None:
        session.cursor = cursor
        session.page = after_page
        session.owed = list(owed)[::-1]
        session.state = SessionState.CATCHING
        self._send_page(client, session, now_ms)

    def _send_page(self, client: Client, session: Session, now_ms: int) -> None:
        """The next page: owed answers that the cursor hides, then what lies above the cursor, by offset."""
        session.page += 1
        page = internal_pb2.Page(session=session.number, ask=session.ask, page=session.page)
        size = 0
        full = False
        while session.owed and not full:
            obj = session.owed[-1]
            if obj in client.where and obj.offset <= session.cursor:
                newest = obj.newest(now_ms, answer=True)
                size += newest.ByteSize()
                full = size > PAGE_BYTES_MAX and bool(page.newest)
                if full:
                    break
                page.newest.append(newest)
            session.owed.pop()
        if not full:
            lacking = sorted((o for o in client.where if o.offset > session.cursor), key=lambda o: o.offset)
            for obj in lacking:
                newest = obj.newest(now_ms)
                size += newest.ByteSize()
                full = size > PAGE_BYTES_MAX and bool(page.newest)
                if full:
                    break
                page.newest.append(newest)
                session.cursor = obj.offset
        if not full:
            page.last = True
            session.cursor = max(session.cursor, self.position - 1)
            session.state = SessionState.LIVE
            self._join_index(client)
        if session.cursor != NO_CURSOR:
            page.complete = session.cursor
        session.gateway.items.append(internal_pb2.Item(page=page))
        self._count("pages")
        self._count("paged", len(page.newest))

    def _join_index(self, client: Client) -> None:
        session = client.session
        if session is None or session.indexed:
            return
        session.indexed = True
        for obj in client.where:
            self._subscribe(obj, session)

    def _subscribe(self, obj: Obj, session: Session) -> None:
        gateway = session.gateway
        subscribers = obj.subscribers.get(gateway)
        if subscribers is None:
            obj.forget_gone_gateways()
            subscribers = obj.subscribers[gateway] = Subscribers(gateway.retirements)
        elif len(subscribers.numbers) > 2 * obj.registered + GONE_KEPT_MAX:
            # Of an object that is hardly ever published nobody else would take out those that are gone.
            subscribers.remove_gone(gateway)
        subscribers.numbers.append(session.number)

    def _unsubscribe(self, obj: Obj, session: Session) -> None:
        subscribers = obj.subscribers.get(session.gateway)
        if subscribers is not None and session.number in subscribers.numbers:
            subscribers.numbers.remove(session.number)
            if not subscribers.numbers:
                del obj.subscribers[session.gateway]

    def _end_session(self, client: Client) -> None:
        session = client.session
        if session is None:
            return
        client.session = None
        session.gateway.remove(session.number, indexed=session.indexed)
        if client.worth_keeping:
            self._changed[client] = None
        self._forget_if_nobody(client)

    def _acknowledge(self, client: Client, complete: int) -> None:
        complete = min(complete, self.position - 1)
        if complete > client.cursor:
            client.cursor = complete
            self._dirty_cursors[client] = None

    def _tell_opened(
        self,
        client: Client,
        session: Session,
        *,
        in_sync: bool,
        client_epoch: int | None,
        refused: Sequence[wire_pb2.Refusal] = (),
    ) -> None:
        opened = internal_pb2.Opened(
            session=session.number, ask=session.ask, in_sync=in_sync, digest=client.digest, refused=refused
        )
        if client_epoch != self.epoch:
            opened.epoch = self.epoch
        session.gateway.items.append(internal_pb2.Item(opened=opened))

    def _tell_closed(self, gateway: GatewayView, number: int, code: CloseCode, reason: str) -> None:
        gateway.items.append(internal_pb2.Item(closed=internal_pb2.Closed(session=number, code=code, reason=reason)))
        self._count("closed")

    def _write_client(self, client: Client, now_ms: int) -> None:
        changed = sorted(client.changed)
        for index in changed:
            applied = client.registrations_applied if index == changed[-1] else client.registrations_stored
            names = sorted(obj.name for obj in client.buckets[index])
            record = RegistrationsRecord(FORMAT, self.generation, applied, names)
            key = f"{client.key}/{index}".encode()
            self._state.append(Write(topics.REGISTRATIONS, self.partition, key, _encode(record)))
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
        )
        self._state.append(Write(topics.SESSIONS, self.partition, client.key.encode(), _encode(record_of_session)))
        client.session_stored = True
        client.stored_ms = now_ms
        self._dirty_cursors.pop(client, None)

    def _client(self, key: str) -> Client:
        client = self.clients.get(key)
        if client is None:
            client = self.clients[key] = Client(key)
        return client

    def _object(self, key: str) -> Obj:
        obj = self.objects.get(key)
        if obj is None:
            obj = self.objects[key] = Obj(key)
        return obj

    def _gateway(self, id_: int, inbox: int, now_ms: int) -> GatewayView:
        gateway = self.gateways.get(id_)
        if gateway is None:
            gateway = self.gateways[id_] = GatewayView(id_, inbox, now_ms)
        return gateway

    def _forget_if_nobody(self, client: Client) -> None:
        """Nothing is kept of a client that is gone and never registered for anything."""
        if client.session is None and not client.worth_keeping:
            self.clients.pop(client.key, None)

    def _forget_if_idle(self, obj: Obj) -> None:
        """Nothing is kept of an object that was never published and that nobody wants."""
        if obj.version < 0 and not obj.registered:
            self.objects.pop(obj.key, None)

    def _count(self, name: str, by: int = 1) -> None:
        self.counts[name] = self.counts.get(name, 0) + by
