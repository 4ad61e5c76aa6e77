"""A device of ColdNotify's that registers by queries: keeps their members, compares its sets with a digest. Pure."""

from dataclasses import dataclass
from functools import lru_cache

from coldnotify_load.population import Population
from coldnotify_load.remembered import Remembered
from coldnotify_load.tcp_device import KEEPALIVE_S, OBJECTS_A_FRAME
from coldnotify_schemas.digest import MODULUS, digest, sets_digest
from coldnotify_schemas.frames import GATEWAY_FRAME_BYTES_MAX, FrameBuffer, encode, parse_gateway_frame
from coldnotify_schemas.interests import query_hash
from coldnotify_schemas.wire_pb2 import (
    CAPABILITY_NAMES,
    CAPABILITY_QUERIES,
    INTEREST_QUERY,
    ClientFrame,
    GatewayFrame,
    Interest,
    Notification,
    Registered,
)

from coldnotify_loadtest.described import DescribedLoad

_REQUESTS_MAX = 2
"""A change of queries is two requests; four may be unanswered."""

_digest = lru_cache(maxsize=4096)(digest)
_live: Remembered["_Live"] = Remembered()


@dataclass(frozen=True)
class _Difference:
    name: str
    entered: tuple[int, ...]
    left: tuple[int, ...]


@dataclass(frozen=True)
class _Live:
    """The meaning of bytes that contain only notifications of a live session."""

    complete: int
    stamps: tuple[int, ...]
    differences: tuple[_Difference, ...]


@dataclass(frozen=True)
class HeldMembers:
    """The final state of a device."""

    digest: int
    """Digest of its sets."""
    queries: int
    refused: int
    """Queries that the service did not take."""
    asked: int
    """How often it asked which of its sets differ from the service's."""
    again: int
    """Queries whose answer did not come, and that were registered again."""


class QueryDevice:
    """Registers for objects by name and for queries, in its Hello: both together are at most 64."""

    __slots__ = (
        "_acked", "_again", "_answers", "_asked", "_buffer", "_confirmed", "_members", "_names", "_new", "_number",
        "_pending", "_population", "_refused", "_request", "_requests", "_texts", "closed", "cursor", "epoch",
        "ready", "registered",
    )  # fmt: skip

    def __init__(self, population: Population, number: int) -> None:
        self._population, self._number = population, number
        self._names = population.objects(population.block_of(number))
        self._texts = {query_hash(text): text for text in population.queries(number)}
        if len(self._names) + len(self._texts) > OBJECTS_A_FRAME:
            raise ValueError(f"more than {OBJECTS_A_FRAME} objects and queries do not fit into a Hello")
        self._buffer: FrameBuffer | None = None
        self._acked = -1
        self._members: dict[int, set[str]] = {}
        self._answers: dict[int, set[str]] = {}
        self._pending = dict.fromkeys(self._texts)
        self._confirmed: set[int] = set()
        self._requests: dict[int, tuple[int, ...]] = {}
        """Those that are not answered: which queries they register."""
        self._request = self._new = self._refused = self._asked = self._again = 0
        self.cursor: int | None = None
        self.epoch: int | None = None
        self.registered = False
        self.ready = False
        self.closed = ""

    def hello(self) -> bytes:
        """Returns the Hello, with what is pending."""
        self._buffer, self.ready, self.closed, self._acked = None, False, "", -1
        self._answers, self._confirmed, self._requests, self._request = {}, set(), {}, 0
        frame = ClientFrame()
        hello = frame.hello
        hello.protocol = 1
        hello.domain = self._population.domain
        hello.group = self._population.group(self._population.block_of(self._number))
        hello.client = self._population.client(self._number)
        hello.digest = self._wanted_digest()
        hello.keepalive_s = KEEPALIVE_S
        if self._texts:
            hello.capabilities = CAPABILITY_NAMES | CAPABILITY_QUERIES
        if not self.registered:
            hello.register.extend(self._names)
        hello.interests.extend(self._query(one) for one in self._pending)
        if self.epoch is not None:
            hello.epoch = self.epoch
            if self.cursor is not None:
                hello.cursor = self.cursor
        return encode(frame)

    def receive(self, data: bytes) -> tuple[bytes, tuple[int, ...]]:
        """See Device."""
        buffer = self._buffer
        if self.ready and buffer is None and (known := _live.get(data)) is not None:
            self._apply(known)
            return b"", known.stamps
        if buffer is None:
            buffer = FrameBuffer(GATEWAY_FRAME_BYTES_MAX)
        was_alone, only_live = not len(buffer), self.ready
        reply, stamps, differences, complete = b"", [], [], -1
        for body in buffer.feed(data):
            frame = parse_gateway_frame(body)
            if frame.WhichOneof("frame") != "notification":
                only_live = False
                reply += self._on_control(frame)
                continue
            notification = frame.notification
            if notification.answer:
                only_live = False
                self._on_answer(notification)
                continue
            complete = max(complete, notification.offset - notification.behind)
            if notification.entered or notification.left:
                difference = _Difference(notification.name, tuple(notification.entered), tuple(notification.left))
                # One after the other: an answer that follows in these bytes must find it done.
                self._change_sets(difference)
                differences.append(difference)
                stamps.append(-1 - notification.offset)
            elif notification.payload.isdigit():
                stamps.append(int(notification.payload))
        if complete >= 0:
            self.cursor = max(self.cursor or 0, complete)
        whole = not len(buffer)
        if only_live and was_alone and whole:
            _live.put(data, _Live(complete, tuple(stamps), tuple(differences)))
        self._buffer = None if whole else buffer
        return reply, tuple(stamps)

    def tick(self) -> bytes:
        """Returns an Ack, if there is something to acknowledge."""
        if self.cursor is None or self.cursor == self._acked or not self.ready:
            return b""
        self._acked = self.cursor
        frame = ClientFrame()
        frame.ack.complete = self.cursor
        return encode(frame)

    def ping(self) -> bytes:
        """A Ping; with the digest, if nothing is pending."""
        frame = ClientFrame()
        frame.ping.SetInParent()
        if not self._pending and not self._requests:
            frame.ping.digest = self._wanted_digest()
        return encode(frame)

    def change(self, count: int) -> bytes:
        """Register for so many new queries, unregister the oldest; nothing while requests are unanswered.

        A device that has no queries does so with objects by name.
        """
        if len(self._requests) > _REQUESTS_MAX or not isinstance(self._population, DescribedLoad):
            return b""
        numbers = range(self._new, self._new + count)
        self._new += count
        if not self._texts:
            return self._change_names([self._population.new_object(self._number, number) for number in numbers])
        gone = list(self._texts)[:count]
        for one in gone:
            del self._texts[one]
            self._members.pop(one, None)
            self._answers.pop(one, None)
            self._pending.pop(one, None)
            self._confirmed.discard(one)
        texts = {query_hash(text): text for text in (self._population.new_query(self._number, n) for n in numbers)}
        self._texts |= texts
        self._pending |= dict.fromkeys(texts)
        frame = ClientFrame()
        frame.unregister.request = self._next_request(())
        frame.unregister.interests.extend(gone)
        return encode(frame) + self._register(list(texts))

    def _change_names(self, new: list[str]) -> bytes:
        gone, self._names = self._names[: len(new)], (*self._names[len(new) :], *new)
        less, more = ClientFrame(), ClientFrame()
        less.unregister.request = self._next_request(())
        less.unregister.objects.extend(gone)
        more.register.request = self._next_request(())
        more.register.objects.extend(new)
        return encode(less) + encode(more)

    def held(self) -> HeldMembers:
        """Returns its final state."""
        return HeldMembers(self._sets_digest(), len(self._texts), self._refused, self._asked, self._again)

    # -- frames --------------------------------------------------------------------------------------------------------

    def _on_control(self, frame: GatewayFrame) -> bytes:
        """Returns the answer to a frame that is not a notification."""
        kind = frame.WhichOneof("frame")
        if kind == "welcome":
            if frame.welcome.HasField("epoch"):
                self.epoch, self.cursor = frame.welcome.epoch, None
            for refusal in frame.welcome.refused:
                self._on_refused(refusal.interest)
            if not frame.welcome.in_sync:
                self.ready = False
                self._pending = dict.fromkeys(self._texts)
                return self._sync_chunk()
            self.registered = True
            self._confirmed = set(self._pending)
        elif kind == "page_end":
            reply = ClientFrame()
            reply.ack.page = frame.page_end.page
            return encode(reply)
        elif kind == "registered":
            self._on_registered(frame.registered)
        elif kind == "unregistered":
            self._requests.pop(frame.unregistered.request, None)
        elif kind == "caught_up":
            if frame.caught_up.HasField("complete"):
                self.cursor = max(self.cursor or 0, frame.caught_up.complete)
            if frame.caught_up.HasField("sets_digest") and frame.caught_up.sets_digest != self._sets_digest():
                self._asked += 1
                self._pending = dict.fromkeys(self._texts)
                self._confirmed = set()
                return self._register(list(self._texts))
            if self._confirmed:
                self._again += len(self._confirmed)
                lost, self._confirmed = list(self._confirmed), set()
                return self._register(lost)
            self.ready = self.ready or not self._pending
        elif kind == "pong" and frame.pong.HasField("complete"):
            self.cursor = max(self.cursor or 0, frame.pong.complete)
        elif kind == "close":
            self.closed = f"{frame.close.code} {frame.close.reason}"
        return b""

    def _on_registered(self, said: Registered) -> None:
        for refusal in said.refused:
            self._on_refused(refusal.interest)
        if said.request:
            self._confirmed.update(one for one in self._requests.pop(said.request, ()) if one in self._pending)
        for one in said.begun:
            self._answers[one] = set()
        for one in said.answered:
            if one in self._texts:
                self._members[one] = self._answers.pop(one, set())
            self._settle(one)
        for one in said.unchanged:
            self._settle(one)

    def _on_refused(self, query: int) -> None:
        if self._texts.pop(query, None) is not None:
            self._refused += 1
            self._members.pop(query, None)
            self._settle(query)

    def _settle(self, query: int) -> None:
        self._pending.pop(query, None)
        self._confirmed.discard(query)

    def _on_answer(self, notification: Notification) -> None:
        for one in notification.entered:
            if one in self._answers:
                self._answers[one].add(notification.name)

    def _apply(self, live: "_Live") -> None:
        for one in live.differences:
            self._change_sets(one)
        if live.complete >= 0:
            self.cursor = max(self.cursor or 0, live.complete)

    def _change_sets(self, difference: _Difference) -> None:
        for sets in (self._members, self._answers):
            for one in difference.entered:
                if one in sets:
                    sets[one].add(difference.name)
            for one in difference.left:
                if one in sets:
                    sets[one].discard(difference.name)

    # -- what is said --------------------------------------------------------------------------------------------------

    def _register(self, queries: list[int]) -> bytes:
        frame = ClientFrame()
        frame.register.request = self._next_request(tuple(queries))
        frame.register.interests.extend(self._query(one) for one in queries)
        return encode(frame)

    def _next_request(self, registers: tuple[int, ...]) -> int:
        self._request += 1
        self._requests[self._request] = registers
        return self._request

    def _sync_chunk(self) -> bytes:
        frame = ClientFrame()
        frame.sync.last = True
        frame.sync.objects.extend(self._names)
        frame.sync.interests.extend(self._query(one) for one in self._texts)
        return encode(frame)

    def _query(self, query: int) -> Interest:
        made = Interest(kind=INTEREST_QUERY, text=self._texts[query])
        if query in self._members:
            made.held = digest(self._members[query])
        return made

    def _wanted_digest(self) -> int:
        return (_digest(self._names) + sum(self._texts)) % MODULUS

    def _sets_digest(self) -> int:
        return sets_digest((one, digest(names)) for one, names in self._members.items())
