"""For tests: a matcher that keeps to docs/internal-protocol.md, in memory and as simple as can be."""

import struct
from dataclasses import dataclass, field

from coldnotify_schemas.close_codes import CloseCode
from coldnotify_schemas.digest import digest
from coldnotify_schemas.internal_pb2 import (
    Answered,
    BeatAnswer,
    Closed,
    FanOut,
    Inbox,
    Item,
    Newest,
    Opened,
    Page,
    Request,
)
from coldnotify_schemas.wire_pb2 import SyncChunk

from coldnotify_testkit.device_frames import EPOCH

NONE = -1


@dataclass
class MatcherSession:
    """One client's session in the matcher's eyes."""

    gateway: int
    inbox: int
    number: int
    ask: int
    state: str = "catching"
    cursor: int = NONE
    page: int = 0
    owed: list[str] = field(default_factory=list)
    chunks: list[str] | None = None
    next_chunk: int = 0


class MatcherDouble:
    """The matcher of one partition, as docs/internal-protocol.md describes it. `take_records` returns its records.

    `page_objects`: the most objects in a page. `fan_out_sessions`: the most sessions in a fan-out; the rest is in
    another one of the same offset. `record_items`: the most items in an inbox record.
    """

    def __init__(
        self, partition: int = 0, page_objects: int = 2, fan_out_sessions: int = 1000, record_items: int = 1000
    ) -> None:
        self.partition = partition
        self.generation = 1
        self.log: list[Newest] = []
        self.registrations: dict[str, set[str]] = {}
        self.sessions: dict[str, MatcherSession] = {}
        self._page_objects = page_objects
        self._fan_out_sessions = fan_out_sessions
        self._record_items = record_items
        self._inboxes: dict[int, int] = {}
        self._numbers: dict[int, int] = {}
        self._items: dict[int, list[Item]] = {}
        self._notices: list[tuple[int, Inbox]] = []

    # --- what a test may do

    def publish(
        self, name: str, version: int, payload: bytes = b"", deleted: bool = False, *, urgent: bool = False
    ) -> int:
        """A new version; its offset. `urgent`: it is of high priority."""
        offset = len(self.log)
        self.log.append(Newest(name=name, version=version, offset=offset, payload=payload, deleted=deleted))
        self._fan_out(self.log[-1], urgent=urgent)
        return offset

    def newest(self, name: str) -> Newest | None:
        """The newest version of an object."""
        return next((one for one in reversed(self.log) if one.name == name), None)

    def take_over(self, repeat: int = 3) -> None:
        """Replaces the matcher: what was only in memory is lost, and the last publishes are sent again."""
        self.generation += 1
        self._numbers.clear()
        self._items.clear()
        for session in self.sessions.values():
            session.state, session.page, session.owed, session.chunks = "live", 0, [], None
        for inbox in set(self._inboxes.values()):
            notice = Inbox(format=1, partition=self.partition, generation=self.generation)
            self._notices.append((inbox, notice))
        for one in self.log[max(0, len(self.log) - repeat) :]:
            if self.newest(one.name) is one:
                self._fan_out(one)

    def forget_gateways(self) -> None:
        """No gateway was heard of for too long: their sessions are offline, and their next record shows a gap."""
        self.sessions.clear()
        for gateway in self._inboxes:
            self._numbers[gateway] = self._numbers.get(gateway, 0) + 1

    def take_records(self) -> list[tuple[int, Inbox]]:
        """Returns the records to be written since the last call, as (inbox, record)."""
        records, self._notices = self._notices, []
        for gateway, items in self._items.items():
            for start in range(0, len(items), self._record_items):
                number = self._numbers[gateway] = self._numbers.get(gateway, 0) + 1
                part = items[start : start + self._record_items]
                records.append((self._inboxes[gateway], self.record(gateway, number, *part)))
        self._items = {}
        return records

    def record(self, gateway: int, number: int, *items: Item) -> Inbox:
        """An inbox record of the present generation."""
        return Inbox(
            format=1,
            partition=self.partition,
            generation=self.generation,
            gateway=gateway,
            number=number,
            items=items,
        )

    # --- requests

    def on_request(self, request: Request) -> None:
        """One request, in the order of the partition."""
        gateway = request.gateway
        self._inboxes[gateway] = request.inbox
        kind = request.WhichOneof("body")
        if kind == "beat":
            numbers = [session.number for session in self.sessions.values() if session.gateway == gateway]
            agreed = len(numbers) == request.beat.sessions and sum(numbers) == request.beat.checksum
            complete = len(self.log) - 1 if self.log else None
            self._tell(gateway, beat=BeatAnswer(agreed=agreed, complete=complete, serial=request.beat.serial))
            return
        if kind == "acks":
            return
        client = f"{request.domain}/{request.group}/{request.client}"
        if kind == "open":
            self._on_open(client, request)
            return
        session = self.sessions.get(client)
        if session is None or (session.gateway, session.number) != (gateway, request.session):
            if kind != "leave":
                self._close(gateway, request.session, CloseCode.UNKNOWN_SESSION)
            return
        registered = self.registrations.setdefault(client, set())
        match kind:
            case "register":
                registered.update(request.register.objects)
                newest = [self._answer(name) for name in request.register.objects]
                answered = Answered(session=session.number, request=request.register.request, newest=newest)
                answered.digest = digest(registered)
                self._tell(gateway, answered=answered)
            case "unregister":
                registered.difference_update(request.unregister.objects)
                answered = Answered(session=session.number, request=request.unregister.request, unregistered=True)
                answered.digest = digest(registered)
                self._tell(gateway, answered=answered)
            case "unsettled":
                asked = request.unsettled.request
                answered = Answered(session=session.number, request=asked, digest=digest(registered))
                self._tell(gateway, answered=answered)
            case "sync":
                self._on_sync(client, session, request.sync)
            case "catch_up":
                self._on_catch_up(client, session, request)
            case "check_digest":
                session.ask = request.check_digest.ask
                in_sync = request.check_digest.digest == digest(registered)
                if not in_sync:
                    session.state = "unsynced"
                self._opened(session, client, in_sync=in_sync, epoch=EPOCH)
            case "leave":
                del self.sessions[client]

    def _on_open(self, client: str, request: Request) -> None:
        body, current = request.open, self.sessions.get(client)
        same = current is not None and (current.gateway, current.number) == (request.gateway, request.session)
        if current is not None and not same:
            if body.again:
                self._close(request.gateway, request.session, CloseCode.UNKNOWN_SESSION)
                return
            self._close(current.gateway, current.number, CloseCode.DISPLACED)
        registered = self.registrations.setdefault(client, set())
        registered.difference_update(body.unregister)
        registered.update(body.register)
        session = MatcherSession(request.gateway, request.inbox, request.session, body.ask)
        self.sessions[client] = session
        counts = body.HasField("cursor") and body.epoch == EPOCH and body.cursor < len(self.log)
        in_sync = body.digest == digest(registered)
        self._opened(session, client, in_sync=in_sync, epoch=body.epoch)
        if in_sync:
            self._begin_pages(client, session, body.cursor if counts else NONE, list(body.register))
        else:
            session.state = "unsynced"

    def _on_sync(self, client: str, session: MatcherSession, chunk: SyncChunk) -> None:
        if chunk.index == 0:
            session.chunks, session.next_chunk = [], 0
        if session.chunks is None or chunk.index != session.next_chunk:
            session.chunks, session.state = None, "unsynced"
            self._opened(session, client, in_sync=False, epoch=EPOCH)
            return
        session.chunks += chunk.objects
        session.next_chunk += 1
        if chunk.last:
            self.registrations[client] = set(session.chunks)
            self._opened(session, client, in_sync=True, epoch=EPOCH)
            self._begin_pages(client, session, NONE, session.chunks)
            session.chunks = None

    def _on_catch_up(self, client: str, session: MatcherSession, request: Request) -> None:
        if session.state == "unsynced":
            return
        body = request.catch_up
        if body.page and body.ask == session.ask and body.page == session.page:
            self._send_page(client, session)
            return
        session.ask = body.ask
        counts = body.HasField("cursor") and body.cursor < len(self.log)
        self._begin_pages(client, session, body.cursor if counts else NONE, [])

    def _begin_pages(self, client: str, session: MatcherSession, cursor: int, owed: list[str]) -> None:
        session.cursor, session.page, session.owed, session.state = cursor, 0, list(owed), "catching"
        self._send_page(client, session)

    def _send_page(self, client: str, session: MatcherSession) -> None:
        session.page += 1
        page = Page(session=session.number, ask=session.ask, page=session.page)
        room = self._page_objects
        while session.owed and room:
            answer = self._answer(session.owed.pop(0))
            if not answer.HasField("version") or answer.offset <= session.cursor:
                page.newest.append(answer)
                room -= 1
        newest = filter(None, (self.newest(name) for name in self.registrations[client]))
        lacking = sorted((one for one in newest if one.offset > session.cursor), key=lambda one: one.offset)
        if not session.owed:
            page.newest.extend(lacking[:room])
            if lacking[:room]:
                session.cursor = lacking[:room][-1].offset
            if len(lacking) <= room:
                page.last = True
                session.cursor = max(session.cursor, len(self.log) - 1)
                session.state = "live"
        if session.cursor != NONE:
            page.complete = session.cursor
        self._tell(session.gateway, page=page)

    def _fan_out(self, newest: Newest, *, urgent: bool = False) -> None:
        self._fan_out_to("live", newest, urgent=urgent)
        if urgent:
            answer = Newest()
            answer.CopyFrom(newest)
            answer.answer = True
            self._fan_out_to("catching", answer, urgent=True)

    def _fan_out_to(self, state: str, newest: Newest, *, urgent: bool) -> None:
        numbers: dict[int, list[int]] = {}
        for client, session in self.sessions.items():
            if session.state == state and newest.name in self.registrations[client]:
                numbers.setdefault(session.gateway, []).append(session.number)
        for gateway, of_gateway in numbers.items():
            for start in range(0, len(of_gateway), self._fan_out_sessions):
                part = of_gateway[start : start + self._fan_out_sessions]
                packed = struct.pack(f"<{len(part)}I", *part)
                self._tell(gateway, fan_out=FanOut(newest=newest, sessions=packed, urgent=urgent))

    def _answer(self, name: str) -> Newest:
        answer = Newest(name=name)
        newest = self.newest(name)
        if newest is not None:
            answer.CopyFrom(newest)
        answer.answer = True
        return answer

    def _opened(self, session: MatcherSession, client: str, *, in_sync: bool, epoch: int) -> None:
        opened = Opened(session=session.number, ask=session.ask, in_sync=in_sync)
        opened.digest = digest(self.registrations.get(client, ()))
        if epoch != EPOCH:
            opened.epoch = EPOCH
        self._tell(session.gateway, opened=opened)

    def _close(self, gateway: int, number: int, code: CloseCode) -> None:
        self._tell(gateway, closed=Closed(session=number, code=code, reason=code.name))

    def _tell(
        self,
        gateway: int,
        *,
        fan_out: FanOut | None = None,
        opened: Opened | None = None,
        answered: Answered | None = None,
        page: Page | None = None,
        closed: Closed | None = None,
        beat: BeatAnswer | None = None,
    ) -> None:
        item = Item(fan_out=fan_out, opened=opened, answered=answered, page=page, closed=closed, beat=beat)
        self._items.setdefault(gateway, []).append(item)
