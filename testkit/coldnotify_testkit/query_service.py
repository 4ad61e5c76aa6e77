"""A service in memory that supports queries, for tests: a log, final states since a cursor, answers in pages.

It is the service's side of `docs/protocol.md` for one client. A test decides which objects enter and leave which query.
It can forget the changes that it knows, like a matcher that takes over, and it can be cut off at any byte.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

from coldnotify_schemas import wire_pb2 as wire
from coldnotify_schemas.digest import digest, sets_digest
from coldnotify_schemas.frames import FrameBuffer, encode, parse_client_frame
from coldnotify_schemas.interests import query_hash
from coldnotify_schemas.protocol import CLIENT_FRAME_BYTES_MAX

PAGE = 3
"""Notifications."""


@dataclass
class StandingChange:
    """The membership of an object in a query since an offset."""

    offset: int
    member: bool


@dataclass
class QueryVersion:
    """An object's newest version."""

    version: int
    offset: int
    deleted: bool = False


class QueryService:
    """Objects, the queries' members, and what one client is registered for."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.epoch = 1
        self.end = 0
        self.objects: dict[str, QueryVersion] = {}
        self.sets: dict[str, set[str]] = {}
        self.changes: dict[str, dict[str, StandingChange]] = {}
        self.changed_at: dict[str, dict[str, int]] = {}
        """The latest change, by query and name. For tests; never forgotten."""
        self.descriptions: dict[str, tuple[bytes, int]] = {}
        """Descriptions by name: JSON, and the offset since which it is in force."""
        self.tells_descriptions = True
        self.known_from = 0
        """Changes of sets above this offset are known."""
        self.names: set[str] = set()
        self.queries: set[str] = set()
        self.refuses: set[str] = set()
        self.knows_queries = True
        self.session: QuerySession | None = None

    # The world

    def publish(self, name: str, *, deleted: bool = False) -> None:
        self.end += 1
        old = self.objects.get(name)
        self.objects[name] = QueryVersion(old.version + 1 if old else 1, self.end, deleted)
        gone = [text for text, members in self.sets.items() if deleted and name in members]
        for text in gone:
            self._put(text, name, member=False)
        self._tell(name, left=gone, version=True)

    def enter(self, text: str, name: str) -> None:
        if name not in self.members(text):
            self.end += 1
            self._put(text, name, member=True)
            self._tell(name, entered=[text], version=True)

    def leave(self, text: str, name: str) -> None:
        if name in self.members(text):
            self.end += 1
            self._put(text, name, member=False)
            self._tell(name, left=[text])

    def move(self, name: str, source: str, target: str) -> None:
        """One change of a description: out of one query, into another."""
        if name in self.members(source) and name not in self.members(target):
            self.end += 1
            self._put(source, name, member=False)
            self._put(target, name, member=True)
            self._tell(name, entered=[target], left=[source], version=True)

    def describe(self, name: str, description: bytes) -> None:
        """It leaves the object in the queries that it is in."""
        self.end += 1
        self.descriptions[name] = description, self.end
        if self.session is not None:
            self.session.redescribe(name)

    def take_over(self) -> None:
        """Replaces the matcher: the new one knows the sets, but not how they came about."""
        self.known_from = self.end
        for changes in self.changes.values():
            changes.clear()

    def new_epoch(self) -> None:
        self.epoch += 1
        self.end = len(self.objects)
        for offset, newest in enumerate(self.objects.values(), 1):
            newest.offset = offset
        self.descriptions = {name: (description, self.end) for name, (description, _) in self.descriptions.items()}
        for text, members in self.sets.items():
            self.changed_at[text] = dict.fromkeys(members, self.end)
        self.take_over()
        self.session = None

    def members(self, text: str) -> set[str]:
        return self.sets.setdefault(text, set())

    def _put(self, text: str, name: str, *, member: bool) -> None:
        (self.members(text).add if member else self.members(text).discard)(name)
        self.changes.setdefault(text, {})[name] = StandingChange(self.end, member)
        self.changed_at.setdefault(text, {})[name] = self.end

    def _tell(self, name: str, entered: list[str] = [], left: list[str] = [], *, version: bool = False) -> None:  # noqa: B006
        if self.session is not None:
            self.session.fan_out(name, entered, left, version=version)

    @property
    def told_queries(self) -> set[str]:
        """The queries that this release reports on."""
        return self.queries if self.knows_queries else set()

    @property
    def digest(self) -> int:
        return (digest(self.names) + sum(map(query_hash, self.told_queries))) % (1 << 64)

    def open(self) -> "QuerySession":
        self.session = QuerySession(self)
        return self.session


@dataclass
class OwedAnswer:
    """A query whose members have to be delivered."""

    text: str
    begun: bool = False
    reached: str = ""
    reached_at: int = 0
    names: list[str] = field(default_factory=list)


@dataclass
class LackedObject:
    """A delivery about an object that a session lacks, as of an offset."""

    offset: int
    name: str
    entered: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    describes: bool = False


class QuerySession:
    """One connection."""

    def __init__(self, service: QueryService) -> None:
        self.service = service
        self.random = service.random
        self.out = bytearray()
        self.frames = FrameBuffer(CLIENT_FRAME_BYTES_MAX)
        self.received: list[wire.ClientFrame] = []
        self.live = False
        self.position: int | None = None
        self.since: int | None = None
        """The position at which the catching up began."""
        self.steps: Iterator[None] | None = None
        self.page = 0
        self.in_sync = False
        self.describes = False
        self.sync: list[wire.SyncChunk] = []
        self.answers: list[OwedAnswer] = []
        self.owed: list[str] = []

    def take(self, limit: int | None = None) -> bytes:
        data = bytes(self.out[:limit])
        del self.out[: len(data)]
        return data

    def receive(self, data: bytes) -> None:
        for body in self.frames.feed(data):
            assert len(body) <= CLIENT_FRAME_BYTES_MAX
            frame = parse_client_frame(body)
            self.received.append(frame)
            kind = frame.WhichOneof("frame")
            handler = getattr(self, f"_on_{kind}", None)
            if handler is not None:
                handler(getattr(frame, kind or ""))

    def _say(self, **frame: object) -> None:
        self.out += encode(wire.GatewayFrame(**frame))  # type: ignore[arg-type]

    # Registrations

    def _on_hello(self, hello: wire.Hello) -> None:
        service = self.service
        service.names.difference_update(hello.unregister)
        self.describes = bool(hello.capabilities & wire.CAPABILITY_DESCRIPTIONS) and service.tells_descriptions
        refused = self._register(list(hello.register), list(hello.interests))
        hashes = set(hello.unregister_interests)
        if service.knows_queries:
            service.queries = {text for text in service.queries if query_hash(text) not in hashes}
        same = hello.HasField("epoch") and hello.epoch == service.epoch
        void = not same or (hello.HasField("cursor") and hello.cursor > service.end)
        self.position = None if void or not hello.HasField("cursor") else hello.cursor
        self._welcome(hello.digest == service.digest, refused, epoch=service.epoch if void else None)
        if self.in_sync:
            if self.position is None:
                self._answer_all()
            else:
                self._answer(list(hello.register), list(hello.interests))
            self._catch_up()

    def _welcome(self, in_sync: bool, refused: list[wire.Refusal], epoch: int | None = None) -> None:
        self.in_sync = in_sync
        self.live = False
        kinds = wire.KINDS_NAMES | wire.KINDS_QUERIES if self.service.knows_queries else 0
        kinds |= wire.KINDS_DESCRIPTIONS if self.describes else 0
        self._say(welcome=wire.Welcome(in_sync=in_sync, epoch=epoch, refused=refused, kinds=kinds))

    def _register(self, names: list[str], queries: list[wire.Interest]) -> list[wire.Refusal]:
        self.service.names.update(names)
        refused = []
        for query in queries if self.service.knows_queries else ():
            assert query.kind == wire.INTEREST_QUERY
            if query.text in self.service.refuses:
                refused.append(wire.Refusal(interest=query_hash(query.text), reason="1:1: no query"))
            else:
                self.service.queries.add(query.text)
        return refused

    def _answer(self, names: list[str], queries: list[wire.Interest]) -> None:
        self.owed += names
        for query in queries:
            if query.text not in self.service.told_queries:
                continue
            held = digest(self.service.members(query.text))
            if query.HasField("held") and query.held == held:
                self._say(registered=wire.Registered(unchanged=[query_hash(query.text)]))
                continue
            answer = OwedAnswer(query.text)
            if query.reached and query.reached_at >= self.service.known_from:
                answer.begun, answer.reached, answer.reached_at = True, query.reached, query.reached_at
            self.answers = [other for other in self.answers if other.text != query.text]
            self.answers.append(answer)

    def _answer_all(self) -> None:
        self.owed = sorted(self.service.names)
        self.answers = [OwedAnswer(text) for text in sorted(self.service.told_queries)]

    def _on_register(self, register: wire.Register) -> None:
        refused = self._register(list(register.objects), list(register.interests))
        kinds = wire.KINDS_NAMES | wire.KINDS_QUERIES if register.interests and self.service.knows_queries else 0
        self._say(registered=wire.Registered(request=register.request, refused=refused, kinds=kinds))
        self._answer(list(register.objects), list(register.interests))
        if self.live:
            self.live = False
            self._catch_up()

    def _on_unregister(self, unregister: wire.Unregister) -> None:
        hashes = set(unregister.interests)
        self.service.names.difference_update(unregister.objects)
        self.service.queries = {text for text in self.service.queries if query_hash(text) not in hashes}
        self.answers = [answer for answer in self.answers if answer.text in self.service.queries]
        self.owed = [name for name in self.owed if name in self.service.names]
        self._say(unregistered=wire.Unregistered(request=unregister.request))

    def _on_sync(self, chunk: wire.SyncChunk) -> None:
        if chunk.index == 0:
            self.sync = []
        self.sync.append(chunk)
        if chunk.last:
            service = self.service
            service.names, service.queries = set(), set()
            refused = []
            for one in self.sync:
                refused += self._register(list(one.objects), list(one.interests))
            self._welcome(True, refused)
            self._answer_all()
            self._catch_up()

    def _on_ping(self, ping: wire.Ping) -> None:
        self._say(pong=wire.Pong(complete=self.position if self.live else None))
        if ping.HasField("digest") and self.in_sync and ping.digest != self.service.digest:
            self._welcome(False, [])

    def _on_ack(self, ack: wire.Ack) -> None:
        if ack.page and ack.page == self.page and self.steps is not None:
            next(self.steps, None)

    # What is told

    def fan_out(self, name: str, entered: list[str], left: list[str], *, version: bool) -> None:
        """Delivers a change to the session. One that is not live may receive it at once, too; its pages contain it in
        any case.
        """
        registered = self.service.told_queries
        if not self.in_sync or (not self.live and self.random.random() < 0.5):
            return
        concerned = name in self.service.names or any(name in self.service.members(text) for text in registered)
        entered, left = ([text for text in texts if text in registered] for texts in (entered, left))
        if entered or left or (concerned and version):
            self._notify(name, entered, left, self.service.end, complete=self.live, version=version)
        if self.live:
            self.position = self.service.end

    def redescribe(self, name: str) -> None:
        """An object is described in another way. As `fan_out`."""
        if not self.in_sync or (not self.live and self.random.random() < 0.5):
            return
        if self.describes and self._described_at(name):
            self._notify(name, [], [], self.service.end, complete=self.live, describe=True)
        if self.live:
            self.position = self.service.end

    def _described_at(self, name: str) -> int:
        """Since when a member of a query is described as it is."""
        is_member = any(name in self.service.members(text) for text in self.service.told_queries)
        return self.service.descriptions.get(name, (b"", 0))[1] if is_member and self.describes else 0

    def _description(self, name: str) -> bytes | None:
        return self.service.descriptions.get(name, (b"", 0))[0] if self.describes else None

    def _notify(
        self,
        name: str,
        entered: list[str],
        left: list[str],
        offset: int,
        *,
        complete: bool,
        version: bool = True,
        describe: bool = False,
    ) -> None:
        newest = self.service.objects.get(name) if version else None
        self._say(
            notification=wire.Notification(
                name=name,
                version=None if newest is None else newest.version,
                deleted=newest is not None and newest.deleted,
                payload=b"" if newest is None else str(newest.version).encode(),
                offset=offset,
                behind=0 if complete else offset,
                entered=map(query_hash, entered),
                left=map(query_hash, left),
                description=self._description(name) if entered or describe else None,
            )
        )

    def _catch_up(self) -> None:
        if self.steps is None:
            self.since = self.position
            self.steps = self._pages()
            next(self.steps, None)

    def _page_end(self, **more: object) -> None:
        self.page += 1
        self._say(page_end=wire.PageEnd(page=self.page, **more))  # type: ignore[arg-type]

    def _pages(self) -> Iterator[None]:
        """Sends answers first, then the final state of everything that changed since the position."""
        while self.owed or self.answers:
            for name in self.owed[:PAGE]:
                self._answer_name(name)
            del self.owed[:PAGE]
            if self.answers:
                yield from self._tell_answer(self.answers[0])
        lacks = self.since is not None and self.since < self.service.known_from and bool(self.service.told_queries)
        unsaid = lacks
        """Its client does not know yet that changes of its sets may be missing: it must not pass any."""
        if lacks and len(self._lacking()) > PAGE:
            self._page_end(sets_unknown=True)
            unsaid = False
            yield
        while True:
            lacking = self._lacking()
            for lacked in lacking[:PAGE]:
                newest = self.service.objects.get(lacked.name)
                says = not lacked.left or bool(lacked.entered) or (newest is not None and newest.deleted)
                self._notify(
                    lacked.name,
                    lacked.entered,
                    lacked.left,
                    lacked.offset,
                    complete=not unsaid,
                    version=says,
                    describe=lacked.describes,
                )
                self.position = lacked.offset
            if self.answers or self.owed:
                yield from self._pages()
                return
            if len(lacking) <= PAGE:
                break
            self._page_end()
            yield
        self.position = self.service.end
        sets = ((query_hash(text), digest(self.service.members(text))) for text in self.service.queries)
        self._say(
            caught_up=wire.CaughtUp(complete=self.service.end or None, sets_digest=sets_digest(sets) if lacks else None)
        )
        self.live, self.steps = True, None

    def _answer_name(self, name: str) -> None:
        if name in self.service.names:
            newest = self.service.objects.get(name)
            version = None if newest is None else newest.version
            deleted = newest is not None and newest.deleted
            self._say(notification=wire.Notification(name=name, version=version, deleted=deleted, answer=True))

    def _tell_answer(self, answer: OwedAnswer) -> Iterator[None]:
        service, hash_ = self.service, query_hash(answer.text)
        resumed_at = answer.reached_at if answer.begun else None
        if not answer.begun:
            answer.begun, answer.reached_at = True, service.end
            self._say(registered=wire.Registered(begun=[hash_]))
        told = 0
        while answer in self.answers:
            names = sorted(name for name in service.members(answer.text) if name > answer.reached)
            if not names:
                break
            if told == PAGE:
                told = 0
                self._page_end(query=hash_, reached=answer.reached, reached_at=answer.reached_at)
                yield
                continue
            newest = service.objects.get(names[0])
            self._say(
                notification=wire.Notification(
                    name=names[0],
                    version=None if newest is None else newest.version,
                    deleted=newest is not None and newest.deleted,
                    answer=True,
                    entered=[hash_],
                    description=self._description(names[0]),
                )
            )
            answer.reached = names[0]
            told += 1
        if answer not in self.answers:
            return
        names = sorted({*service.objects, *service.changes.get(answer.text, {}), *service.descriptions})
        for name in names if resumed_at is not None else ():
            change, newest = service.changes.get(answer.text, {}).get(name), service.objects.get(name)
            offsets = change.offset if change else 0, newest.offset if newest else 0, self._described_at(name)
            if max(offsets) > (resumed_at or 0):
                member = name in service.members(answer.text)
                entered, left = ([answer.text], []) if member else ([], [answer.text])
                if member or change:
                    self._notify(name, entered, left, 0, complete=False, version=member)
        self.answers.remove(answer)
        self._say(registered=wire.Registered(answered=[hash_]))

    def _lacking(self) -> list[LackedObject]:
        """Returns what is above the position, as the matcher sends it, in the order of offsets.

        Each change of the sets has its own offset. The newest version and description have theirs, unless the object
        entered a query before: then they go with that change.
        """
        service, position = self.service, self.position or 0
        found: dict[tuple[int, str], LackedObject] = {}
        for text in sorted(service.told_queries):
            for name, change in service.changes.get(text, {}).items():
                if change.offset > position:
                    lacked = found.setdefault((change.offset, name), LackedObject(change.offset, name))
                    (lacked.entered if change.member else lacked.left).append(text)
        said: dict[str, int] = {}
        for lacked in found.values():
            if lacked.entered:
                said[lacked.name] = min(lacked.offset, said.get(lacked.name, lacked.offset))
        for name in {*service.objects, *service.descriptions}:
            is_member = any(name in service.members(text) for text in service.told_queries)
            newest = service.objects[name].offset if name in service.objects else 0
            newest = newest if is_member or name in service.names else 0
            for offset in sorted({newest, self._described_at(name)}):
                if offset > position and said.setdefault(name, offset) >= offset:
                    lacked = found.setdefault((offset, name), LackedObject(offset, name))
                    lacked.describes = is_member and not lacked.left
        return sorted(found.values(), key=lambda lacked: lacked.offset)
