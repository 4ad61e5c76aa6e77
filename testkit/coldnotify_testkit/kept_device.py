"""For tests: devices that keep nothing, and the gateway that holds their filters for them, over an engine's bench."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from coldnotify_schemas import internal_pb2, wire_pb2
from coldnotify_schemas.digest import MODULUS
from coldnotify_schemas.filters import fits
from coldnotify_schemas.interests import filter_hash

from coldnotify_testkit.engine_bench import EPOCH, GATEWAY, EngineBench, sessions_of

ALWAYS, IF_NEW, NEVER = 0x00, 0x10, 0x20
"""Options: when a filter is answered with what is there."""
NO_LOCAL = 0x04
HOUR_S = 3_600


@dataclass(frozen=True)
class Said:
    """A version as it is told: without a version it is deleted."""

    name: str
    version: int | None
    offset: int
    answers: tuple[str, ...] = ()
    """The filters that it answers."""


@dataclass(eq=False)
class KeptDevice:
    """One device: a session at a time, whose filters its gateway knows from the service."""

    name: str
    gateway: KeptGateway
    session: int = 0
    """0: it is not connected."""
    filters: dict[str, tuple[int, int]] = field(default_factory=dict)
    """As its gateway holds them: options and identifier, by text."""
    present: bool | None = None
    """The last Opened's; None: none has come in this connection."""
    has_lost: bool = False
    """True once an Opened that nobody asked for has said that it is not present after all."""
    live: bool = False
    reads: bool = True
    """False: it acknowledges nothing."""
    told: list[Said] = field(default_factory=list)
    """All that it was told in this connection."""
    complete: int | None = None
    """As its gateway has it."""
    acked: int | None = None
    ask: int = 0
    closed: tuple[int, str] | None = None
    answered: list[internal_pb2.Answered] = field(default_factory=list)
    waiting: internal_pb2.Page | None = None
    """A page that it has not acknowledged."""
    connections: int = 0
    due: bool = False
    """True if its gateway waits for a page."""
    pages: int = 0
    """Pages of this connection."""
    page_bytes: int = 0
    requests: int = 0

    def connect(
        self,
        *,
        clean: bool = False,
        expiry_s: int = HOUR_S,
        will: internal_pb2.Will | None = None,
        packet_bytes_max: int = 0,
    ) -> KeptDevice:
        """Begin a session, whatever there was."""
        self.gateway.forget(self)
        self.session = self.gateway.next_session()
        self.connections += 1
        self.gateway.devices[self.session] = self
        self.filters, self.present, self.live, self.closed = {}, None, False, None
        self.has_lost = False
        self.told, self.answered, self.waiting, self.pages = [], [], None, 0
        self.complete = self.acked = None
        self.kept = internal_pb2.Kept(
            clean=clean, expiry_s=expiry_s, protocol="mqtt 5.0", will=will, packet_bytes_max=packet_bytes_max
        )
        self.ask = 1
        self._open(internal_pb2.Open(ask=1, kept=self.kept, page_bytes=self.page_bytes))
        return self

    def announce(self) -> None:
        """Its gateway opens the session again."""
        self.ask += 1
        self.live, self.waiting = False, None
        never = self.present is None
        digest = sum(map(filter_hash, self.filters)) % MODULUS
        self._open(
            internal_pb2.Open(
                ask=self.ask,
                kept=self.kept,
                again=True,
                never_opened=never,
                digest=0 if never else digest,
                epoch=EPOCH,
                cursor=self.complete,
                acked=self.acked,
                page_bytes=self.page_bytes,
            )
        )

    def subscribe(self, *texts: str, options: int = ALWAYS, identifier: int = 0) -> KeptDevice:
        """Register for filters."""
        self.requests += 1
        said = [
            wire_pb2.Interest(kind=wire_pb2.INTEREST_FILTER, text=text, options=options, identifier=identifier)
            for text in texts
        ]
        self.filters |= dict.fromkeys(texts, (options, identifier))
        self._request(register=wire_pb2.Register(request=self.requests, interests=said))
        return self

    def unsubscribe(self, *texts: str) -> None:
        """Unregister filters."""
        self.requests += 1
        for text in texts:
            self.filters.pop(text, None)
        hashes = map(filter_hash, texts)
        self._request(unregister=wire_pb2.Unregister(request=self.requests, interests=hashes))

    def leave(self, *, expiry_s: int | None = None, will: internal_pb2.WillEnd = internal_pb2.WILL_DROP) -> None:
        """End the session. `will`: what becomes of its will."""
        self._request(leave=internal_pb2.Leave(complete=self.acked, epoch=EPOCH, expiry_s=expiry_s, will=will))
        self.gateway.forget(self)

    def is_present(self) -> bool:
        """Returns what the last Opened said of what was kept."""
        assert self.present is not None, "it has come"
        return self.present

    def ended(self) -> None:
        """Note that its session is over."""
        self.session = 0

    def read(self) -> None:
        """Acknowledge what has come, and go on."""
        self.reads = True
        page, self.waiting = self.waiting, None
        if page is not None:
            self._acknowledge(page)

    def catch_up(self) -> None:
        """Its gateway asks from its place: it may have missed something."""
        self.ask += 1
        self.live, self.waiting = False, None
        self._catch_up(0, 0)

    def names(self) -> list[str]:
        """Returns the names that it was told, in order."""
        return [said.name for said in self.told]

    def take(self) -> list[Said]:
        """Returns what it was told since the last time."""
        told, self.told = self.told, []
        return told

    # --- what its gateway receives

    def on_item(self, item: internal_pb2.Item) -> None:
        """Handle an item for its session."""
        kind = item.WhichOneof("item")
        if kind == "opened":
            self._on_opened(item.opened)
        elif kind == "answered":
            self.answered.append(item.answered)
            for one in item.answered.refused:
                self.filters = {text: said for text, said in self.filters.items() if filter_hash(text) != one.interest}
            if item.answered.catch_up:
                self.catch_up()
        elif kind == "page" and item.page.ask == self.ask:
            self._on_page(item.page)
        elif kind == "fan_out" and self.live:
            newest = item.fan_out.newest
            self._tell(newest)
            self._move(newest.offset - newest.behind)
            if self.reads:
                self._ack()
        elif kind == "closed":
            self.closed = item.closed.code, item.closed.reason
            self.gateway.forget(self)

    def _on_opened(self, opened: internal_pb2.Opened) -> None:
        if self.present and opened.in_sync and not opened.kept.present and not self.has_lost:
            self.has_lost = True
            self.announce()
            return
        if opened.ask not in (0, self.ask):
            return
        if opened.ask and opened.HasField("kept") and self.present is None:
            self.present = opened.kept.present
            self.filters = {one.text: (one.options, one.identifier) for one in opened.kept.filters} | self.filters
            self.complete = self.acked = opened.kept.complete if opened.kept.HasField("complete") else None
        if opened.in_sync:
            return
        if not opened.ask:
            self.announce()
            return
        said = [
            wire_pb2.Interest(kind=wire_pb2.INTEREST_FILTER, text=text, options=options, identifier=identifier)
            for text, (options, identifier) in self.filters.items()
        ]
        self._request(sync=wire_pb2.SyncChunk(index=0, last=True, interests=said))

    def _on_page(self, page: internal_pb2.Page) -> None:
        if page.kind != internal_pb2.PAGE:
            return
        if not self.due:
            # A new matcher answers an earlier question again: the session's place is another one.
            self.catch_up()
            return
        self.due = False
        self.pages += 1
        for newest in page.newest:
            self._tell(newest)
        if page.HasField("complete"):
            self._move(page.complete)
        self.live = page.last
        if self.reads:
            self._acknowledge(page)
        else:
            self.waiting = page

    def _acknowledge(self, page: internal_pb2.Page) -> None:
        self._ack()
        if not page.last:
            self._catch_up(page.page, page.paging)

    def _move(self, complete: int) -> None:
        if self.complete is None or complete > self.complete:
            self.complete = complete

    def _ack(self) -> None:
        if self.acked != self.complete and self.complete is not None:
            self.acked = self.complete
            self.gateway.bench.acks({self.session: self.acked}, gateway=self.gateway.id, epoch=EPOCH)

    def _tell(self, newest: internal_pb2.Newest) -> None:
        texts = {filter_hash(text): text for text in self.filters}
        answers = tuple(texts[hash_] for hash_ in newest.answers if hash_ in texts)
        if newest.answer and not answers:
            return  # of a filter that it has unregistered
        if not any(fits(text, newest.name) for text in self.filters):
            return
        said = Said(newest.name, None if newest.deleted else newest.version, newest.offset, answers)
        before = [one for one in self.told if one.name == said.name]
        assert newest.answer or all(one.offset < said.offset for one in before if not one.answers), (
            f"{self.name} is told {said} after {before}"
        )
        assert all(one.offset <= said.offset for one in before), f"{self.name} goes back: {said} after {before}"
        self.told.append(said)

    def _catch_up(self, page: int, paging: int) -> None:
        self.due = True
        catch_up = internal_pb2.CatchUp(
            cursor=self.complete, ask=self.ask, page=page, paging=paging, epoch=EPOCH, page_bytes=self.page_bytes
        )
        self._request(catch_up=catch_up)

    def _open(self, open_: internal_pb2.Open) -> None:
        self.due = True
        self._request(open=open_)

    def _request(self, **body: object) -> None:
        self.gateway.bench.request(self.session, self.name, self.gateway.id, **body)


class KeptGateway:
    """One gateway, with the devices that are connected to it."""

    def __init__(self, bench: EngineBench, id_: int = GATEWAY) -> None:
        self.bench = bench
        self.id = id_
        self.devices: dict[int, KeptDevice] = {}
        """By session."""
        self._sessions = 0

    def device(self, name: str = "unit-1", *, page_bytes: int = 0) -> KeptDevice:
        """A device that is not connected yet."""
        return KeptDevice(name, self, page_bytes=page_bytes)

    def next_session(self) -> int:
        """The number of a new session."""
        self._sessions += 1
        return self._sessions

    def forget(self, device: KeptDevice) -> None:
        """The device's session is over."""
        self.devices.pop(device.session, None)
        device.ended()

    def run(self) -> None:
        """Let everything happen until nothing more comes."""
        for _ in range(10_000):
            items = self.bench.items(self.id)
            if not items:
                return
            self.hand_over(items)
        raise AssertionError("it does not come to rest")

    def hand_over(self, items: Iterable[internal_pb2.Item]) -> None:
        """Hand items to the devices that they are for."""
        for item in items:
            kind = item.WhichOneof("item") or ""
            sessions = sessions_of(item.fan_out) if kind == "fan_out" else [getattr(item, kind).session]
            assert len(sessions) == len(set(sessions)), f"a session is there twice in {item}"
            for session in sessions:
                device = self.devices.get(session)
                if device is not None:
                    device.on_item(item)
