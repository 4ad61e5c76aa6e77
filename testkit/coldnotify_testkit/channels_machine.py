"""For tests: an engine with a log of channels, and subscribers behind gateways, driven at random by a seed.

Subscribers and gateways follow docs/protocol.md and docs/internal-protocol.md in the simplest way. `ChannelsMachine`
judges from outside of the engine (P8): whenever a subscriber learns that it is complete up to some offset of the log,
everything for it up to there was delivered once and in order, or reported as missed for a valid reason.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from random import Random
from typing import Any, ClassVar, TypeVar

from coldnotify_matcher.engine import Rules
from coldnotify_matcher.engine.rules.channel_bounds import ChannelBounds
from coldnotify_matcher.engine.tenants.allowances import Allowances, OutAgreement
from coldnotify_schemas import internal_pb2, wire_pb2
from coldnotify_schemas.channels import MessageHeaders
from coldnotify_schemas.interests import expression_of, pattern_name

from coldnotify_testkit.channels_bench import ChannelsBench
from coldnotify_testkit.channels_subscribers import (
    NOWHERE,
    Subscribed,
    SubscriberDevice,
    SubscriberSession,
    TakenMessage,
)
from coldnotify_testkit.counted_turns import turn_of
from coldnotify_testkit.engine_bench import DOMAIN, EPOCH, GATEWAY, OTHER_GATEWAY, sessions_of

CHANNELS = ["a", "b", "c"]
PATTERNS = [pattern_name(one) for one in ("^[ab]$", "^[a-c]", "c|[0-4]$", "^new/")]
"""Patterns of runs that have some: they fit several of the channels, and those that come later."""
ATTRIBUTES: list[tuple[str, ...]] = [(), (), ("x",), ("x", "y")]
CLIENTS = ["c0", "c1", "c2"]
GATEWAYS = [GATEWAY, OTHER_GATEWAY]
KNOWN_OFFSETS = 6
"""REPEATS_KNOWN_OFFSETS of these runs."""
BLOCK_OFFSETS = 4
"""That of these runs."""
PAGE_BYTES = 120
"""Two entries or so, where the engine takes no less for a page."""
BOUNDS = ChannelBounds(tail_messages_max=5, blocks_bytes_max=4_000, summaries_bytes_max=30_000, pages_bytes_max=200)
SINCE = [
    wire_pb2.SINCE_NOW, wire_pb2.SINCE_NOW, wire_pb2.SINCE_OLDEST, wire_pb2.SINCE_OLDEST, wire_pb2.SINCE_NEWEST,
    wire_pb2.SINCE_BEGINNING, wire_pb2.SINCE_TIME,
]  # fmt: skip
STRAY = b"animal.observer/region-2/a"


_WEIGHT = "weight"
F = TypeVar("F", bound=Callable[..., None])


def rule(weight: int = 4, **choices: Sequence[object]) -> Callable[[F], F]:
    """Marks an event that may happen, with the choices for its arguments. The larger the weight, the more often it
    happens.
    """

    def mark(function: F) -> F:
        setattr(function, _WEIGHT, (weight, choices))
        return function

    return mark


class ChannelsMachine:
    """The rules at random."""

    counted: ClassVar[Counter[str]] = Counter()
    """Counts of events over all runs."""

    def __init__(self, seed: int, *, patterns: bool = False) -> None:
        """`patterns`: some subscriptions are for patterns, and channels come that were not there before."""
        self.random = Random(seed)
        self.patterns = Random(seed ^ 0x9A77) if patterns else None  # so that the rest of a run stays what it is
        self.seed = seed
        self.priorities = Random(seed ^ 0x4171)  # so that the rest of a run stays what it is
        self.high = self.priorities.choice([0.0, 0.2, 0.6])
        self.done: list[str] = []
        self.allowances = Allowances()
        rules = Rules(channel_bounds=BOUNDS, bucket_objects_max=2, allowances=self.allowances)
        self.bench = ChannelsBench(rules=rules, block_records=4)
        turns = Random(seed ^ 0x7042)  # so that the rest of the run stays what it is
        if turns.random() < 0.5:
            self.bench.next_turn = lambda: turn_of(turns.choice((0, 1, 3)))
        self.sent: list[TakenMessage] = []
        self.ids: list[tuple[int, str, MessageHeaders]] = []
        self.unreadable: set[int] = set()
        self.strays: set[int] = set()
        self.devices = {name: SubscriberDevice(name) for name in CLIENTS}
        self.sessions: dict[tuple[int, int], SubscriberSession] = {}
        self.said_positions: dict[tuple[str, int, int], int] = {}
        """The positions that the service has reported, by client, hash and epoch."""
        self.asked_twice: set[tuple[str, int]] = set()
        """Client, hash: registered, given up, and registered again, which may be in one step."""
        self.next_session = 1

    def run(self, steps: int) -> None:
        """Many things happen, and then all comes to rest."""
        rules: list[tuple[str, int, dict[str, Any]]] = [
            (name, *getattr(function, _WEIGHT))
            for name, function in vars(ChannelsMachine).items()
            if hasattr(function, _WEIGHT)
        ]
        weights = [weight for _, weight, _ in rules]
        try:
            for name, _, choices in self.random.choices(rules, weights, k=steps):
                said = {key: self.random.choice(values) for key, values in choices.items()}
                self.done.append(f"{name}({', '.join(f'{key}={value!r}' for key, value in said.items())})")
                getattr(self, name)(**said)
            self.done.append("teardown()")
            self.teardown()
        except Exception as error:
            error.add_note(f"seed {self.seed}, after " + "\n".join(self.done))
            raise

    def one_or_pattern(self, name: str) -> str:
        """Returns the name, or now and then a pattern in its place."""
        if self.patterns is None or self.patterns.random() < 0.5:
            return name
        return PATTERNS[(CHANNELS.index(name) + self.patterns.randrange(2)) % len(PATTERNS)]

    # --- publishers

    @rule(2, per_s=[None, 0.01, 1, 20])
    def agree(self, per_s: float | None) -> None:
        """So many deliveries a second were agreed with the domain's tenant."""
        agreed = [] if per_s is None else [OutAgreement(DOMAIN, per_s, None, 2)]
        self.allowances.agree(agreed, self.bench.now_ms)

    @rule(2, share=[0.1, 0.5, 1.0])
    def bound(self, share: float) -> None:
        """Other partitions of the matcher use more or less of its memory."""
        kept = ("tail_bytes_max", "blocks_bytes_max", "summaries_bytes_max", "pages_bytes_max")
        bounds = replace(BOUNDS, **{name: int(getattr(BOUNDS, name) * share) for name in kept})
        for log in self.bench.engine.state.channel_logs.values():
            log.bound(bounds)

    @rule(
        12,
        name=CHANNELS,
        id_=["", "", "", "i1", "i2", "i3"],
        to=[(), (), ("x",), ("y",), ("z",)],
        expires_ms=[None, None, None, None, -1, 3],
        moved=[None, None, None, b"1@5", b"1@6"],
        gap=[0, 0, 0, 0, 1, 3],
    )
    def send(
        self, name: str, id_: str, to: tuple[str, ...], expires_ms: int | None, moved: bytes | None, gap: int
    ) -> None:
        self.put(name, id_, to, expires_ms, moved, gap)

    @rule(6, number=range(3, 13))
    def send_many(self, number: int) -> None:
        for _ in range(number):
            self.put(self.random.choice(CHANNELS), "", (), None, None, 0)

    def put(
        self, name: str, id_: str, to: tuple[str, ...], expires_ms: int | None, moved: bytes | None, gap: int
    ) -> None:
        expires_at = None if expires_ms is None else self.bench.now_ms + expires_ms
        high = self.priorities.random() < self.high
        headers = MessageHeaders(id=id_, to=to, expires_at=expires_at, moved=moved, high_priority=high)
        if self.patterns is not None and self.patterns.random() < 0.3:
            name = f"new/{self.patterns.randrange(10)}"
        offset = self.bench.send(name, b"x" * 20, headers, gap=gap)
        original = next(
            (
                at
                for at, other, said in reversed(self.ids)
                if at >= offset - KNOWN_OFFSETS
                and other == name
                and ((id_ and said.id == id_) or (moved is not None and said.moved == moved))
            ),
            None,
        )
        self.ids.append((offset, name, headers))
        self.sent.append(TakenMessage(offset, name, to, expires_at, original))
        self.counted["repeats"] += original is not None

    @rule(1, why=["key", "headers", "stray", "moved twice"])
    def send_nonsense(self, why: str) -> None:
        if why == "key":
            self.bench.send("", key=b"nonsense")
        elif why == "headers":
            self.bench.send("a", headers="id: is not UTF-8")
        elif why == "stray":
            self.strays.add(self.bench.send("", key=STRAY))
        else:
            self.bench.send("", headers=MessageHeaders(moved=b"1@1"), key=STRAY)

    @rule(1, share=[0.2, 0.5, 1.0])
    def retention(self, share: float) -> None:
        log_start = self.bench.log_start + int((self.bench.end - self.bench.log_start) * share)
        self.remove_below(log_start)
        self.bench.engine.channels.on_log_start(self.bench.retention, self.bench.log_start)

    @rule(1, share=[0.3, 0.6])
    def retention_unheard(self, share: float) -> None:
        """The engine hears of it with the next block only."""
        read = max(self.bench.read_to, self.bench.log_start)
        self.remove_below(self.bench.log_start + int((read - self.bench.log_start) * share))

    def remove_below(self, log_start: int) -> None:
        self.bench.remove_below(log_start)
        self.strays = {offset for offset in self.strays if offset >= log_start}

    # --- the matcher

    @rule(8, records=range(1, 6 + 1))
    def read(self, records: int) -> None:
        self.bench.read(records)

    @rule(8)
    def handle(self) -> None:
        self.bench.handle()

    @rule(12, commits=(False, True))
    def step(self, commits: bool) -> None:
        self.bench.engine.channels.commit_due = commits
        self.bench.step()

    @rule(10, number=range(1, 3 + 1), unreadable=[False] * 7 + [True])
    def read_blocks(self, number: int, unreadable: bool) -> None:
        if not unreadable:
            self.counted["blocks"] += self.bench.read_blocks(number)
            return
        wanted = self.bench.engine.channels.wanted_blocks()
        if wanted:
            start = wanted[0][1]
            self.bench.read_block(start, unreadable=True)
            records = [one.offset for one in self.bench.log if one.offset >= start][: self.bench.block_records]
            self.unreadable |= set(range(start, (records or [start])[-1] + 1))

    @rule(2, ms=[1, 600, 3_100])
    def tick(self, ms: int) -> None:
        self.bench.tick(ms)

    @rule(4, writes_lost=[None, None, slice(-1, None), slice(-3, None), slice(0, -1)], unheard=(False, True))
    def crash(self, writes_lost: slice | None, unheard: bool) -> None:
        """Replaces the matcher. Some writes of its last step are lost, and possibly everything that it sent."""
        if unheard:
            self.bench.step(writes_lost=writes_lost, told_lost=True)
        self.bench.take_over()
        self.counted["takeovers"] += 1

    @rule(1)
    def another_log(self) -> None:
        """Deletes and recreates the topic: its messages are lost."""
        for gateway in GATEWAYS:
            self.deliver(gateway, 10_000)
        bench = self.bench
        bench.log, bench.log_start, bench.end, bench.epoch = [], 0, 0, bench.epoch + 1
        bench.committed = None
        self.sent, self.ids, self.unreadable, self.strays = [], [], set(), set()
        bench.take_over()
        self.counted["other logs"] += 1

    # --- subscribers

    @rule(
        5,
        client=CLIENTS,
        name=CHANNELS,
        attributes=ATTRIBUTES,
        since=SINCE,
        back=range(9 + 1),
    )
    def subscribe(self, client: str, name: str, attributes: tuple[str, ...], since: wire_pb2.Since, back: int) -> None:
        device, name = self.devices[client], self.one_or_pattern(name)
        at = max(self.bench.end - back, 0) if since == wire_pb2.SINCE_TIME else 0
        new = Subscribed(name, attributes, since, at)
        if new.hash in device.channels:
            return
        for hash_ in [hash_ for hash_, one in device.channels.items() if one.name == name]:
            del device.channels[hash_]
            self.asked_twice.add((client, hash_))
        device.unregistering.discard(new.hash)
        device.channels[new.hash] = new
        self.say_operations(device)

    @rule(1, client=CLIENTS, name=CHANNELS)
    def unsubscribe(self, client: str, name: str) -> None:
        device, name = self.devices[client], self.one_or_pattern(name)
        for hash_ in [hash_ for hash_, one in device.channels.items() if one.name == name]:
            del device.channels[hash_]
            self.asked_twice.add((client, hash_))
            device.unregistering.add(hash_)
        self.say_operations(device)

    @rule(1, client=CLIENTS, name=CHANNELS)
    def lose_operation(self, client: str, name: str) -> None:
        """Sets a device back to an older state: the service does not learn of the unregistration."""
        device, name = self.devices[client], self.one_or_pattern(name)
        self.hang_up(device, leaves=True)
        for hash_ in [hash_ for hash_, one in device.channels.items() if one.name == name]:
            del device.channels[hash_]
            self.asked_twice.add((client, hash_))

    @rule(2, client=CLIENTS, name=CHANNELS)
    def park(self, client: str, name: str) -> None:
        """Its callback fails: the channel stays where it is, and is pending."""
        device, name = self.devices[client], self.one_or_pattern(name)
        for one in device.channels.values():
            if one.name == name and one.position is not None and not one.lost:
                one.known = self.known(device, one)
                one.parked = one.pending = True
                self.counted["parked"] += 1

    def say_operations(self, device: SubscriberDevice) -> None:
        session = device.session
        if session is None or session.state != "open":
            return
        new = [one for one in device.channels.values() if one.position is None and not one.said]
        if new:
            for one in new:
                one.said = True
            session.registers += 1
            session.behind = True
            said = wire_pb2.Register(request=9, interests=[one.frame() for one in new])
            self.bench.request(session.number, device.name, session.gateway, register=said)
        if device.unregistering:
            gone = wire_pb2.Unregister(request=9, interests=sorted(device.unregistering))
            self.bench.request(session.number, device.name, session.gateway, unregister=gone)

    @rule(3, client=CLIENTS, gateway=GATEWAYS, leaves=(False, True))
    def connect(self, client: str, gateway: int, leaves: bool) -> None:
        device = self.devices[client]
        self.hang_up(device, leaves=leaves)
        pending = []
        for one in device.channels.values():
            one.said = one.position is None
            # A session that ended before it was told so: the client says it to its application by itself.
            one.parked = one.lost = False
            if one.pending:
                pending.append(one.frame())
        cursor = device.cursor if device.epoch is not None else NOWHERE
        session = SubscriberSession(
            device,
            gateway,
            self.next_session,
            device.digest,
            pending,
            sorted(device.unregistering),
            cursor,
            device.epoch,
        )
        session.behind = bool(pending)
        self.next_session += 1
        device.session = self.sessions[gateway, session.number] = session
        self.open(session)

    @rule(1, client=CLIENTS, leaves=(False, True))
    def disconnect(self, client: str, leaves: bool) -> None:
        self.hang_up(self.devices[client], leaves=leaves)

    def hang_up(self, device: SubscriberDevice, *, leaves: bool) -> None:
        session, device.session = device.session, None
        if session is not None and leaves:
            leave = internal_pb2.Leave()
            if device.cursor != NOWHERE:
                leave.streams.add(complete=device.cursor)
            self.bench.request(session.number, device.name, session.gateway, leave=leave)
            self.sessions.pop((session.gateway, session.number), None)

    @rule(1, client=CLIENTS)
    def acknowledge(self, client: str) -> None:
        device = self.devices[client]
        if device.session is not None and device.cursor != NOWHERE:
            stream = internal_pb2.AckedStream(sessions=[device.session.number], completes=[device.cursor])
            acks = internal_pb2.Acks(streams=[stream])
            self.bench.request(gateway=device.session.gateway, acks=acks)

    # --- gateways

    def open(self, session: SubscriberSession) -> None:
        again = session.ask > 0
        session.ask += 1
        session.state, session.live = "opening" if not again else "announced", False
        device = session.device
        cursor = None if session.cursor == NOWHERE else session.cursor
        stream = internal_pb2.OpenStream(epoch=session.epoch, cursor=cursor, ask=session.ask)
        self.bench.request(
            session.number,
            device.name,
            session.gateway,
            open=internal_pb2.Open(
                digest=session.digest,
                epoch=EPOCH,
                ask=session.ask,
                again=again,
                interests=[] if again else session.channels,
                unregister_interests=[] if again else session.unregister,
                streams=[stream],
                page_bytes=PAGE_BYTES,
            ),
        )

    def ask(self, session: SubscriberSession, page: int = 0) -> None:
        session.page = page + 1
        if not page:
            session.ask += 1
            session.live = False
        session.due = True
        catch_up = internal_pb2.CatchUp(
            cursor=None if session.cursor == NOWHERE else session.cursor,
            ask=session.ask,
            page=page,
            epoch=session.epoch,
            page_bytes=PAGE_BYTES,
            paging=session.paging if page else 0,
        )
        self.bench.request(session.number, session.device.name, session.gateway, stream_catch_up=catch_up)

    def close(self, session: SubscriberSession) -> None:
        self.sessions.pop((session.gateway, session.number), None)
        if session.connected:
            session.device.session = None

    @rule(2, client=CLIENTS)
    def slow(self, client: str) -> None:
        session = self.devices[client].session
        if session is not None and session.state == "open" and session.live and not session.behind:
            self.ask(session)

    @rule(2, gateway=GATEWAYS)
    def beat(self, gateway: int) -> None:
        numbers = [number for at, number in self.sessions if at == gateway]
        beat = internal_pb2.Beat(sessions=len(numbers), checksum=sum(numbers), serial=1)
        self.bench.request(gateway=gateway, beat=beat)

    @rule(16, gateway=GATEWAYS, items=range(1, 8 + 1))
    def deliver(self, gateway: int, items: int) -> None:
        told = self.bench.told[gateway]
        now, self.bench.told[gateway] = told[:items], told[items:]
        for item in now:
            self.on_item(gateway, item)

    def on_item(self, gateway: int, item: internal_pb2.Item) -> None:
        match item.WhichOneof("item"):
            case "stream_fan_out":
                for number in sessions_of(item.stream_fan_out):
                    session = self.sessions.get((gateway, number))
                    if session is not None and session.live:
                        self.on_live(session, item.stream_fan_out.entry)
            case "opened":
                self.on_opened(gateway, item.opened)
            case "answered":
                self.on_answered(gateway, item.answered)
            case "page":
                page = item.page
                session = self.sessions.get((gateway, page.session))
                if session is not None and page.streams and page.streams[0].ask == session.ask:
                    self.on_caught_up(session, page.streams[0].complete)
            case "stream_page":
                self.on_page(gateway, item.stream_page)
            case "closed":
                session = self.sessions.get((gateway, item.closed.session))
                if session is not None:
                    self.close(session)
            case "beat":
                self.on_beat(gateway, item.beat)

    def on_opened(self, gateway: int, opened: internal_pb2.Opened) -> None:
        session = self.sessions.get((gateway, opened.session))
        if session is None:
            return
        assert not opened.refused
        stream = opened.streams[0] if opened.streams else internal_pb2.BegunStream()
        self.check_positions(session, stream.positions)
        if opened.ask != session.ask or session.state not in ("opening", "announced", "unsynced"):
            if session.state == "open" and not opened.in_sync:
                self.announce(session)
            return
        session.due, session.page = bool(opened.streams), 1
        if session.state == "announced":
            if not opened.in_sync or (stream.HasField("epoch") and session.epoch != stream.epoch):
                self.close(session)
            else:
                session.state = "open"
                if session.connected:
                    self.say_operations(session.device)
            return
        if stream.HasField("epoch"):
            session.behind |= session.epoch is not None
            session.epoch, session.cursor = stream.epoch, NOWHERE
        if session.connected:
            self.on_welcome(session, opened, stream)

    def announce(self, session: SubscriberSession) -> None:
        if session.behind or session.epoch is None:
            self.close(session)
        else:
            self.open(session)

    def on_welcome(
        self, session: SubscriberSession, opened: internal_pb2.Opened, stream: internal_pb2.BegunStream
    ) -> None:
        device = session.device
        if stream.HasField("epoch"):
            void = device.epoch is not None
            device.epoch, device.cursor = stream.epoch, NOWHERE
            for one in device.channels.values():
                if void and one.position is not None:
                    one.lost, one.pending = True, True
        device.unregistering -= set(session.unregister)
        session.unregister = []
        self.on_positions(device, stream.positions)
        if opened.in_sync:
            session.state = "open"
            session.digest = opened.digest
            self.say_operations(device)
            return
        session.state = "unsynced"
        session.behind = True
        said = []
        for one in device.channels.values():
            if not one.lost:
                one.known = self.known(device, one)
            one.pending, one.said = True, True
            said.append(one.frame())
        session.digest = device.digest
        session.unregister = sorted(device.unregistering)
        chunk = wire_pb2.SyncChunk(index=0, interests=said, last=True)
        self.bench.request(session.number, device.name, session.gateway, sync=chunk)
        self.counted["syncs"] += 1

    def on_positions(self, device: SubscriberDevice, positions: Iterable[wire_pb2.Position]) -> None:
        for one in positions:
            position = one.position if one.HasField("position") else NOWHERE
            subscribed = device.channels.get(one.interest)
            if subscribed is None:
                continue
            if subscribed.lost:
                subscribed.known = position
            elif subscribed.position is None:
                subscribed.position = subscribed.known = position

    def check_positions(self, session: SubscriberSession, positions: Iterable[wire_pb2.Position]) -> None:
        """Asserts that a position that was reported once is reported again, to whichever session."""
        name, now = session.device.name, session.device.channels
        for one in positions:
            subscribed = now.get(one.interest)
            if subscribed is None or subscribed.since == wire_pb2.SINCE_BEGINNING or subscribed.position is not None:
                continue
            if (name, one.interest) in self.asked_twice:
                continue
            position = one.position if one.HasField("position") else NOWHERE
            first = self.said_positions.setdefault((name, one.interest, self.bench.epoch), position)
            assert first == position, f"{name} is told {position} where it was {first} before"

    def on_answered(self, gateway: int, answered: internal_pb2.Answered) -> None:
        session = self.sessions.get((gateway, answered.session))
        if session is None:
            return
        assert not answered.refused
        stream = answered.streams[0] if answered.streams else internal_pb2.BegunStream()
        self.check_positions(session, stream.positions)
        if answered.unregistered:
            if session.connected:
                session.device.unregistering.clear()
            session.digest = answered.digest
            return
        session.registers -= 1
        session.digest = answered.digest
        if stream.HasField("epoch"):
            session.epoch, session.cursor = stream.epoch, NOWHERE
            if session.connected:
                session.device.epoch, session.device.cursor = stream.epoch, NOWHERE
        if session.connected:
            self.on_positions(session.device, stream.positions)
        if stream.catch_up and session.state == "open" and not session.due:
            self.ask(session)

    def on_page(self, gateway: int, page: internal_pb2.Page) -> None:
        session = self.sessions.get((gateway, page.session))
        if session is None or page.ask != session.ask or session.state != "open":
            return
        if page.kind == internal_pb2.PAGE_AHEAD:
            # As gateways do: what follows the page that its client has.
            if not session.due and not session.live and page.page == session.page and session.connected:
                for entry in page.entries:
                    self.on_entry(session.device, entry)
            return
        if page.kind != internal_pb2.PAGE or not session.due or page.page != session.page:
            if session.live:
                self.ask(session)
            return
        self.counted["pages"] += 1
        self.counted["urgent pages"] += bool(page.urgent)
        session.paging, session.due = page.paging, False
        if session.connected:
            for entry in page.entries:
                self.on_entry(session.device, entry)
        if page.HasField("complete"):
            assert page.complete >= session.cursor
            session.cursor = page.complete
            if session.connected:
                self.complete(session.device, page.complete)
        if page.last:
            self.counted["caught up by pages"] += 1
            self.on_caught_up(session, session.cursor)
        elif session.connected:
            self.ask(session, page=page.page)

    def on_caught_up(self, session: SubscriberSession, complete: int) -> None:
        if session.state != "open":
            return
        session.live, session.due = True, False
        session.behind = session.registers > 0
        session.cursor = complete
        if not session.connected:
            return
        device = session.device
        for one in device.channels.values():
            if one.position is not None and not one.parked and not (one.said and one.position is None):
                if one.pending:
                    self.know(device, one, complete)
                one.pending = False
                assert not one.lost, "what was lost is told first"
        self.complete(device, complete)

    def on_live(self, session: SubscriberSession, entry: internal_pb2.Entry) -> None:
        told = entry.message if entry.HasField("message") else entry.missed
        if told.paged:
            assert self.patterns is not None, "each message is told once"
            self.counted["told again"] += 1
            if session.connected:
                self.on_entry(session.device, entry)
            return
        complete = entry.message.offset if entry.HasField("message") else entry.missed.before - 1
        session.cursor = max(session.cursor, complete)
        if session.connected:
            self.counted["live"] += 1
            self.on_entry(session.device, entry)
            self.complete(session.device, complete)

    def on_beat(self, gateway: int, answer: internal_pb2.BeatAnswer) -> None:
        for (at, _), session in self.sessions.items():
            if at == gateway and session.live and answer.agreed:
                for one in answer.streams:
                    if not one.HasField("complete"):
                        continue  # the log is empty
                    session.cursor = max(session.cursor, one.complete)
                    if session.connected:
                        self.complete(session.device, one.complete)

    # --- what subscribers are told, and what they know then

    def known(self, device: SubscriberDevice, one: Subscribed) -> int:
        return one.known if one.pending else max(one.known, device.cursor)

    def complete(self, device: SubscriberDevice, complete: int) -> None:
        """The device's cursor may go there."""
        if complete <= device.cursor:
            return
        for one in device.channels.values():
            if not one.pending and not one.parked:
                self.know(device, one, complete)
        device.cursor = complete

    def know(self, device: SubscriberDevice, one: Subscribed, upto: int) -> None:
        """Asserts that the device really has everything of the channel up to `upto`, as it has been told."""
        known = self.known(device, one)
        for sent in self.sent:
            if known < sent.offset <= upto and one.wants(sent) and sent.original is None:
                raise AssertionError(f"P8: {device.name} was not told {sent}, and is to know all up to {upto}")
        one.known = max(known, upto)

    def on_entry(self, device: SubscriberDevice, entry: internal_pb2.Entry) -> None:
        if entry.HasField("message"):
            self.on_message(device, entry.message)
        else:
            self.on_missed(device, entry.missed)

    def on_message(self, device: SubscriberDevice, message: wire_pb2.Message) -> None:
        one = device.channels.get(message.channel)
        if one is None or one.parked or one.position is None:
            return
        assert not one.lost, "what was lost is told first"
        known = self.known(device, one)
        if message.offset <= known:
            return
        assert message.offset - message.back <= known, f"{device.name} misses what is before {message.offset}"
        (sent,) = (sent for sent in self.sent if sent.offset == message.offset)
        assert one.wants(sent), "only what is for it"
        is_pattern = expression_of(one.name) is not None
        assert message.name == (sent.channel if is_pattern else ""), "a message of a pattern says its channel"
        self.counted["told by patterns"] += is_pattern
        if sent.original is not None:
            # Its original is not in the log any more: nobody can know then.
            assert sent.original < self.bench.log_start, f"P8: {sent} is told twice"
        assert sent.expires_at is None or sent.expires_at > self.bench.now_ms - 10_000
        self.know(device, one, message.offset - 1)
        one.known = message.offset
        one.told.append(message.offset)
        self.counted["told"] += 1

    def on_missed(self, device: SubscriberDevice, missed: wire_pb2.Missed) -> None:
        one = device.channels.get(missed.channel)
        if one is None or one.parked or one.position is None:
            return
        reason = wire_pb2.Reason.Name(missed.reason)
        self.counted[reason] += 1
        if missed.reason == wire_pb2.LOST and (one.lost or missed.before - 1 <= self.known(device, one)):
            if one.lost:
                one.lost, one.known = False, missed.before - 1
            return
        assert not one.lost
        known = self.known(device, one)
        if missed.HasField("after"):
            self.know(device, one, min(missed.after, missed.before - 1))
        known = self.known(device, one)
        if missed.before - 1 <= known:
            return
        between = [sent for sent in self.sent if known < sent.offset < missed.before and one.wants(sent)]
        # A channel that begins with the beginning may be one of another log: the matcher that lost its set cannot know.
        if missed.reason in (wire_pb2.RETENTION, wire_pb2.LOST):
            assert missed.before <= self.bench.log_start, "it is there yet"
        elif missed.reason == wire_pb2.UNREADABLE:
            assert all(sent.offset in self.unreadable for sent in between)
        else:
            assert all(
                sent.original is not None or (sent.expires_at is not None and sent.expires_at <= self.bench.now_ms)
                for sent in between
            )
        one.known = missed.before - 1

    # --- in the end

    def come_to_rest(self) -> None:
        for _ in range(1_000):
            self.bench.settle()
            told = sum(len(items) for items in self.bench.told.values())
            for gateway in GATEWAYS:
                self.deliver(gateway, 10_000)
            if not told and self.bench.handled == len(self.bench.requests):
                break
        else:
            raise AssertionError("it does not come to rest")

    def teardown(self) -> None:
        self.agree(None)
        for _ in range(2):
            self.bench.engine.flush(self.bench.now_ms)
            self.come_to_rest()
        for device in self.devices.values():
            if device.session is None or any(one.parked for one in device.channels.values()):
                self.connect(device.name, GATEWAY, leaves=False)
        for _ in range(3):
            self.come_to_rest()
            for gateway in GATEWAYS:
                self.beat(gateway)
            for device in self.devices.values():
                # What a takeover fell into is begun again once a gateway or client has waited for long enough.
                if device.session is None or (device.channels and not device.session.live):
                    self.connect(device.name, GATEWAY, leaves=False)
        self.come_to_rest()
        for gateway in GATEWAYS:
            self.beat(gateway)
        self.come_to_rest()
        for device in self.devices.values():
            assert device.session is not None
            if not device.channels:
                continue
            assert device.session.live, f"{device.name} is not live"
            for one in device.channels.values():
                assert one.position is not None, f"{device.name} has not got {one}"
                assert not one.pending
                assert not one.lost
                self.know(device, one, self.bench.end - 1)
        places = [dict(write.headers)["coldnotify-moved"] for write in self.bench.moved]
        for offset in self.strays:
            assert any(place.endswith(b"@%d" % offset) for place in places), "a stray was dropped"
