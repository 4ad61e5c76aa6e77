"""`docs/protocol.md`'s other side, without I/O: `Service` is matcher and gateway in one, `Session` one connection."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field

from coldnotify_schemas import wire_pb2 as wire
from coldnotify_schemas.close_codes import CloseCode
from coldnotify_schemas.digest import object_crc
from coldnotify_schemas.frames import FrameBuffer, FrameError, encode, parse_client_frame
from coldnotify_schemas.protocol import (
    CLIENT_FRAME_BYTES_MAX,
    OBJECTS_PER_FRAME_MAX,
    REGISTRATIONS_MAX,
    REQUESTS_UNANSWERED_MAX,
)

from coldnotify.testing.members import Sets, digest_of, hashes, is_held

_Name = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Newest:
    """The newest version of an object."""

    version: int
    offset: int
    incarnation: int = 0
    payload: bytes = b""
    deleted: bool = False


@dataclass
class _Partition:
    """A domain and group: its objects, and one order of all that is published."""

    objects: dict[str, Newest] = field(default_factory=dict)
    end: int = 0
    """The last offset that was given away; the first one is 1."""
    held: dict[str, int] = field(default_factory=dict)
    """Conflation: objects whose live notification waits, with the lowest offset that it stands for."""
    sets: Sets = field(default_factory=Sets)

    @property
    def complete(self) -> int:
        """Nothing at or below it is held back."""
        return min(self.held.values(), default=self.end + 1) - 1


class Service:
    """Matcher and gateway in one, without I/O: sessions take bytes and give bytes."""

    def __init__(self, *, page_objects: int = 100, registrations_max: int = REGISTRATIONS_MAX) -> None:
        self.page_objects = page_objects
        """Notifications in a page."""
        self.registrations_max = registrations_max
        self.epoch = 1
        self.loses_answers = 0
        """So many answers to registrations get lost on their way."""
        self.away = False
        """The matcher is away: clients that say Hello are told Wait."""
        self.knows_queries = True
        """False: it is an older one."""
        self.refused_queries: dict[str, str] = {}
        """By text: why it is refused."""
        self.registered: dict[_Name, set[str]] = {}
        self.queries: dict[_Name, set[str]] = {}
        """The texts of the queries that each client is registered for."""
        self.acknowledged: dict[_Name, int] = {}
        """The highest cursor each client has acknowledged."""
        self.sessions: list[Session] = []
        self._partitions: dict[tuple[str, str], _Partition] = {}

    def publish(
        self,
        domain: str,
        group: str,
        object_: str,
        payload: object = None,
        *,
        version: int | None = None,
        incarnation: int | None = None,
        deleted: bool = False,
        hold: bool = False,
    ) -> int:
        """A back-end publishes. Without `version`, the next one. `hold`: registered clients are told with `release`."""
        partition = self.partition(domain, group)
        partition.end += 1
        old = partition.objects.get(object_)
        incarnation = incarnation if incarnation is not None else old.incarnation if old else 0
        if version is None:
            version = old.version + 1 if old and old.incarnation == incarnation else 0
        if old is not None and (incarnation, version) < (old.incarnation, old.version):
            return old.version
        encoded = b"" if payload is None else json.dumps(payload).encode()
        partition.objects[object_] = Newest(version, partition.end, incarnation, encoded, deleted)
        partition.held.setdefault(object_, partition.end)
        gone = [query for query in partition.sets.members if deleted and self._put(partition, query, object_)]
        if gone:
            self._tell(domain, group, object_, left=gone)
        elif not hold:
            self.release(domain, group, object_)
        return version

    def enter(self, domain: str, group: str, query: str, object_: str) -> None:
        """The object is a member of the query from here on. It need not have been published."""
        self._change(domain, group, query, object_, member=True)

    def leave(self, domain: str, group: str, query: str, object_: str) -> None:
        """The object is a member of the query no more. One that is deleted leaves by itself."""
        self._change(domain, group, query, object_, member=False)

    def _change(self, domain: str, group: str, query: str, object_: str, *, member: bool) -> None:
        partition = self.partition(domain, group)
        if (object_ in partition.sets.members.get(query, ())) != member:
            partition.end += 1
            self._put(partition, query, object_, member=member)
            entered, left = ([query], []) if member else ([], [query])
            self._tell(domain, group, object_, entered=entered, left=left)

    @staticmethod
    def _put(partition: _Partition, query: str, object_: str, *, member: bool = False) -> bool:
        return partition.sets.put(query, object_, partition.end, member=member)

    def _tell(
        self, domain: str, group: str, object_: str, *, entered: Iterable[str] = (), left: Iterable[str] = ()
    ) -> None:
        self.partition(domain, group).held.pop(object_, None)
        for session in self.sessions:
            session.change(domain, group, object_, set(entered), set(left))

    def release(self, domain: str, group: str, object_: str | None = None) -> None:
        """Tell the clients what was published with `hold`: one object, or all."""
        partition = self.partition(domain, group)
        for name in (
            [object_] if object_ is not None else sorted(partition.held, key=lambda n: partition.objects[n].offset)
        ):
            if partition.held.pop(name, None) is not None:
                for session in self.sessions:
                    session.fan_out(domain, group, name, partition.objects[name])

    def newest(self, domain: str, group: str, object_: str) -> Newest | None:
        """The newest version; None: nothing was ever published."""
        return self.partition(domain, group).objects.get(object_)

    def partition(self, domain: str, group: str) -> _Partition:
        """All of a domain and group."""
        return self._partitions.setdefault((domain, group), _Partition())

    def open(self) -> "Session":
        """A client has connected."""
        session = Session(self)
        self.sessions.append(session)
        return session

    def new_epoch(self) -> None:
        """The objects topic was made anew: offsets start over, the publishers publish their newest versions again."""
        self.close_all(CloseCode.UNKNOWN_SESSION)
        self.epoch += 1
        for (domain, group), partition in list(self._partitions.items()):
            old, partition.objects, partition.end, partition.held = partition.objects, {}, 0, {}
            for name, newest in old.items():
                payload = json.loads(newest.payload) if newest.payload else None
                self.publish(domain, group, name, payload, version=newest.version, incarnation=newest.incarnation)
            partition.sets.begin_anew()

    def come_back(self) -> None:
        """The matcher is there again: clients that wait get their Welcome."""
        self.away = False
        for session in list(self.sessions):
            session.resume()

    def close_all(self, code: int, reason: str = "") -> None:
        """End every session with this code."""
        for session in list(self.sessions):
            session.close(code, reason)


class Session:
    """One connection, seen from the service. Over when `closed`: what is in `take` then is the last."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._frames = FrameBuffer(CLIENT_FRAME_BYTES_MAX)
        self._out = bytearray()
        self.received: list[wire.ClientFrame] = []
        self.hello: wire.Hello | None = None
        self.closed = False
        self.said_bye = False
        self._waiting: list[wire.ClientFrame] = []
        self._names = False
        self._crcs: dict[int, str] = {}
        self._live = False
        self._agreed: int | None = None
        self._sync: list[wire.SyncChunk] | None = None
        self._cursor: int | None = None
        self._owed: list[str] = []
        self._page = 0

    # Bytes

    def receive(self, data: bytes) -> None:
        """Bytes from the client."""
        try:
            for body in self._frames.feed(data):
                if not self.closed:
                    frame = parse_client_frame(body)
                    self.received.append(frame)
                    self._take(frame)
        except FrameError as error:
            self.close(CloseCode.PROTOCOL_ERROR, str(error))

    def take(self, limit: int | None = None) -> bytes:
        """Bytes for the client, at most `limit`."""
        data = bytes(self._out[:limit])
        del self._out[: len(data)]
        return data

    def close(self, code: int, reason: str = "") -> None:
        """Say Close, and be over."""
        if not self.closed:
            self._send(close=wire.Close(code=code, reason=reason))
            self.drop()

    def drop(self) -> None:
        """The connection is gone."""
        self.closed = True
        if self in self._service.sessions:
            self._service.sessions.remove(self)

    def forget(self) -> None:
        """The service loses this client's registrations, and does not notice."""
        self._service.registered.pop(self.name, None)
        self._service.queries.pop(self.name, None)

    # Frames

    @property
    def name(self) -> _Name:
        """Who is connected."""
        assert self.hello is not None
        return self.hello.domain, self.hello.group, self.hello.client

    @property
    def _partition(self) -> _Partition:
        assert self.hello is not None
        return self._service.partition(self.hello.domain, self.hello.group)

    @property
    def _registered(self) -> set[str]:
        return self._service.registered.setdefault(self.name, set())

    @property
    def _queries(self) -> set[str]:
        return self._service.queries.setdefault(self.name, set())

    @property
    def _digest(self) -> int:
        return digest_of(self._registered, self._queries)

    def resume(self) -> None:
        """The matcher is back: what waited is done."""
        waiting, self._waiting = self._waiting, []
        for frame in waiting:
            if not self.closed:
                self._do(frame)

    def _take(self, frame: wire.ClientFrame) -> None:
        wrong = self._wrong(frame)
        if wrong:
            self.close(CloseCode.PROTOCOL_ERROR, wrong)
        else:
            self._do(frame)

    def _do(self, frame: wire.ClientFrame) -> None:
        kind = frame.WhichOneof("frame")
        if kind == "ping":
            self._on_ping(frame.ping)
        elif kind == "bye":
            self.said_bye = True
            self.drop()
        elif kind == "use_names":
            self._names = True
        elif kind == "hello":
            self.hello = frame.hello
            if self._service.away:
                self._waiting.append(frame)
                self._send(wait=wire.Wait(seconds=1))
            else:
                self._on_hello(frame.hello)
        elif kind == "ack":
            self._on_ack(frame.ack)
        elif self._service.away:
            self._waiting.append(frame)
        elif kind == "register":
            self._on_register(frame.register)
        elif kind == "unregister":
            self._unregister(frame.unregister.objects, frame.unregister.queries)
            self._agreed = self._digest
            self._send(unregistered=wire.Unregistered(request=frame.unregister.request))
        elif kind == "sync":
            self._on_sync(frame.sync)

    def _wrong(self, frame: wire.ClientFrame) -> str:
        """What the protocol forbids, in words."""
        kind = frame.WhichOneof("frame")
        if (kind == "hello") == (self.hello is not None) and kind not in ("bye", None):
            return "Hello is the first frame, and the only Hello"
        names = {
            "hello": [*frame.hello.register, *frame.hello.unregister],
            "register": frame.register.objects,
            "unregister": frame.unregister.objects,
            "sync": frame.sync.objects,
        }.get(kind or "", [])
        queries = {
            "hello": [*frame.hello.queries, *frame.hello.unregister_queries],
            "register": frame.register.queries,
            "unregister": frame.unregister.queries,
            "sync": frame.sync.queries,
        }.get(kind or "", [])
        if len(names) + len(queries) > OBJECTS_PER_FRAME_MAX:
            return f"more than {OBJECTS_PER_FRAME_MAX} objects in a frame"
        requests = sum(waiting.WhichOneof("frame") in ("register", "unregister") for waiting in self._waiting)
        if kind in ("register", "unregister") and requests >= REQUESTS_UNANSWERED_MAX:
            return f"more than {REQUESTS_UNANSWERED_MAX} requests unanswered"
        if kind == "hello":
            self._names = bool(frame.hello.capabilities & wire.CAPABILITY_NAMES)
        if queries and not self._names and self._service.knows_queries:
            return "a client with a query asks for names"
        if not self._names and any(self._crcs.setdefault(object_crc(name), name) != name for name in names):
            return "two names under one CRC"
        return ""

    def _on_hello(self, hello: wire.Hello) -> None:
        for other in list(self._service.sessions):
            if other is not self and other.hello is not None and other.name == self.name:
                other.close(CloseCode.DISPLACED, "connected elsewhere")
        self._unregister(hello.unregister, hello.unregister_queries)
        refused = self._register(hello.register, hello.queries)
        same_epoch = hello.HasField("epoch") and hello.epoch == self._service.epoch
        end = self._partition.end
        self._cursor = hello.cursor if same_epoch and hello.HasField("cursor") and hello.cursor <= end else None
        self._welcome(self._digest == hello.digest, refused, new_epoch=not same_epoch)
        if self._agreed is not None:
            queries = hello.queries if self._cursor is not None else self._all_queries
            self._catch_up([name for name in hello.register if name in self._registered], queries)

    def _welcome(self, in_sync: bool, refused: Iterable[wire.Refusal] = (), *, new_epoch: bool = False) -> None:
        self._agreed = self._digest if in_sync else None
        self._live = self._live and in_sync
        epoch = self._service.epoch if new_epoch else None
        asks = self.hello is not None and self.hello.capabilities & wire.CAPABILITY_QUERIES
        kinds = self._kinds if asks else wire.KINDS_UNSAID
        self._send(welcome=wire.Welcome(in_sync=in_sync, epoch=epoch, refused=refused, kinds=kinds))

    @property
    def _kinds(self) -> int:
        return wire.KINDS_NAMES | wire.KINDS_QUERIES if self._service.knows_queries else wire.KINDS_UNSAID

    @property
    def _all_queries(self) -> list[wire.Query]:
        return [wire.Query(text=query) for query in sorted(self._queries)]

    def _on_register(self, register: wire.Register) -> None:
        refused = self._register(register.objects, register.queries)
        self._agreed = self._digest
        kinds = self._kinds if register.queries else wire.KINDS_UNSAID
        self._send(registered=wire.Registered(request=register.request, refused=refused, kinds=kinds))
        for name in register.objects:
            if name in self._registered:
                self._notify(name, answer=True)
        if register.queries and self._service.knows_queries:
            self._answer(register.queries)
            if self._live:
                self._send(caught_up=wire.CaughtUp(complete=self._partition.end or None))

    def _answer(self, queries: Iterable[wire.Query]) -> None:
        """Tell all members of these."""
        sets = self._partition.sets
        for query in queries:
            if query.text in self._queries:
                (hash_,) = hashes([query.text])
                if is_held(query, sets.answer(query.text)):
                    self._send(registered=wire.Registered(unchanged=[hash_]))
                    continue
                self._send(registered=wire.Registered(begun=[hash_]))
                for name in sets.answer(query.text):
                    self._notify(name, answer=True, entered=[query.text])
                self._send(registered=wire.Registered(answered=[hash_]))

    def _unregister(self, names: Iterable[str], unregistered: Iterable[int]) -> None:
        self._registered.difference_update(names)
        gone = set(unregistered)
        self._queries.difference_update([query for query in self._queries if hashes([query])[0] in gone])

    def _register(self, names: Iterable[str], queries: Iterable[wire.Query] = ()) -> list[wire.Refusal]:
        refused = []
        for query in queries if self._service.knows_queries else ():
            reason = self._service.refused_queries.get(query.text)
            if reason is None:
                self._queries.add(query.text)
            else:
                refused.append(wire.Refusal(query=hashes([query.text])[0], reason=reason))
        for name in names:
            if name not in self._registered and len(self._registered) >= self._service.registrations_max:
                refused.append(wire.Refusal(object=name, reason="too many objects"))
            else:
                self._registered.add(name)
        return refused

    def _on_sync(self, chunk: wire.SyncChunk) -> None:
        if chunk.index == 0:
            self._sync = []
        if self._sync is None:
            return
        self._sync.append(chunk)
        if chunk.last:
            self._registered.clear()
            self._queries.clear()
            names = [name for one in self._sync for name in one.objects]
            refused = self._register(names, [query for one in self._sync for query in one.queries])
            self._sync = None
            self._cursor = None
            self._welcome(True, refused)
            unknown = sorted(name for name in self._registered if name not in self._partition.objects)
            self._catch_up(unknown, self._all_queries)

    def _on_ping(self, ping: wire.Ping) -> None:
        self._send(pong=wire.Pong(complete=self._partition.complete if self._live else None))
        if ping.HasField("digest") and self._agreed is not None and ping.digest != self._digest:
            self._welcome(False)

    def _on_ack(self, ack: wire.Ack) -> None:
        if ack.HasField("complete"):
            self._service.acknowledged[self.name] = ack.complete
        if ack.page and ack.page == self._page and not self._live:
            self._next_page()

    def _catch_up(self, owed: list[str], queries: Iterable[wire.Query]) -> None:
        self._owed = owed
        self._page = 0
        self._live = False
        self._answer(queries)
        self._next_page()

    def _lacking(self, cursor: int) -> list[tuple[int, str, list[str], list[str]]]:
        """What stands above this offset: each object's last change, the object, and where it stands in the queries."""
        objects, sets, found = self._partition.objects, self._partition.sets, []
        for name in {*objects, *(name for query in self._queries for name in sets.changes.get(query, ()))}:
            changes = sets.changed(name, self._queries)
            offsets = [*changes.values()]
            entered = sets.of(name, self._queries)
            if name in objects and (name in self._registered or entered):
                offsets.append(objects[name].offset)
            if max(offsets, default=-1) > cursor:
                found.append((max(offsets), name, entered, sorted(set(changes) - set(entered))))
        return sorted(found)

    def _next_page(self) -> None:
        """Answers first, then what is above the cursor, in the order of its offsets."""
        answers, self._owed = self._owed[: self._service.page_objects], self._owed[self._service.page_objects :]
        for name in answers:
            self._notify(name, answer=True)
        cursor = -1 if self._cursor is None else self._cursor
        lacking = self._lacking(cursor)
        room = self._service.page_objects - len(answers)
        for offset, name, entered, left in lacking[:room]:
            self._notify(name, entered=entered, left=left)
            self._cursor = offset
        if self._owed or len(lacking) > room:
            self._page += 1
            self._send(page_end=wire.PageEnd(page=self._page))
        else:
            self._live = True
            self._send(caught_up=wire.CaughtUp(complete=self._partition.end or None))

    def fan_out(self, domain: str, group: str, name: str, newest: Newest) -> None:
        """A version was published."""
        if not self._live or self.hello is None or self.name[:2] != (domain, group):
            return
        if name in self._registered or self._partition.sets.of(name, self._queries):
            self._notify(name, behind=max(0, newest.offset - self._partition.complete))

    def change(self, domain: str, group: str, name: str, entered: set[str], left: set[str]) -> None:
        """The object entered and left queries."""
        if self._live and self.hello is not None and self.name[:2] == (domain, group):
            entered, left = entered & self._queries, left & self._queries
            if entered or left or name in self._registered:
                self._notify(name, entered=sorted(entered), left=sorted(left))

    def _notify(
        self,
        name: str,
        *,
        answer: bool = False,
        behind: int = 0,
        entered: Iterable[str] = (),
        left: Iterable[str] = (),
    ) -> None:
        if answer and self._service.loses_answers:
            self._service.loses_answers -= 1
            return
        notification = wire.Notification(answer=answer, entered=hashes(entered), left=hashes(left))
        if self._names:
            notification.name = name
        else:
            notification.crc = object_crc(name)
        newest = self._partition.objects.get(name)
        if newest is not None:
            notification.version = newest.version
            notification.incarnation = newest.incarnation
            notification.payload = newest.payload
            notification.deleted = newest.deleted
            # In an answer these two mean nothing; a client that believes them is found out.
            notification.offset = newest.offset
            notification.behind = behind
        if entered or left:
            # The frame is as of the newest offset, whatever that of the version is.
            notification.offset = self._partition.end
            notification.behind = self._partition.end - self._partition.complete if self._live else self._partition.end
        self._send(notification=notification)

    def _send(self, **frame: object) -> None:
        self._out += encode(wire.GatewayFrame(**frame))  # type: ignore[arg-type]
