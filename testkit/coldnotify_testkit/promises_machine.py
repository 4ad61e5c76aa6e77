"""For tests: an engine, publishers, and devices behind gateways as a state machine for hypothesis. Anything may crash.

Devices and gateways follow docs/protocol.md and docs/internal-protocol.md in the simplest way. At every frame `Machine`
checks that no version goes back (P3), that only what was published arrives (P4), and that cursors are true. When
everything has come to rest, it checks that each device has the newest version of everything it wants (P2), and that the
matcher and the registrations topic know what that is (P5).
"""

from dataclasses import dataclass, field

import msgspec
from coldnotify_matcher.engine import Intervals, Rules, Step
from coldnotify_schemas import internal_pb2
from coldnotify_schemas.digest import digest
from coldnotify_schemas.matcher_state import BUCKET_OBJECTS_MAX, RegistrationsRecord, is_wills_key
from coldnotify_schemas.topics import TopicNames
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from coldnotify_testkit.engine_bench import DOMAIN, GATEWAY, OTHER_GATEWAY, PREFIX, EngineBench

TOPICS = TopicNames()

OBJECTS = [f"o{i}" for i in range(5)]
CLIENTS = ["c0", "c1", "c2"]
NONE = -1
UNKNOWN = (-1, -1)
INTERVAL_MS = 200
"""The interval of conflation."""
PAGE_BYTES = 60
"""Two objects or so: pages are many, and cut anywhere."""


@dataclass
class MachineDevice:
    """The state that a client keeps, and what it has received."""

    name: str
    wanted: set[str] = field(default_factory=set)
    registering: dict[str, bool] = field(default_factory=dict)
    """Not settled; true: confirmed, its notification is to come."""
    unregistering: set[str] = field(default_factory=set)
    cursor: int = NONE
    floors: dict[str, tuple[int, int]] = field(default_factory=dict)
    session: "MachineSession | None" = None


@dataclass
class MachineSession:
    """A connection as its gateway sees it."""

    device: MachineDevice
    gateway: int
    number: int
    said: int
    """The digest of the Hello."""
    register: set[str]
    unregister: set[str]
    complete: int
    state: str = "opening"
    ask: int = 0
    page_due: int = 0
    paging: int = 0
    agreed: int | None = None
    welcomed: bool = False
    waiting: set[str] = field(default_factory=set)
    """Registrations asked for in this session, not answered yet."""
    closed: bool = False


class Machine(RuleBasedStateMachine):
    """The rules at random."""

    conflation = Intervals()
    bucket_objects_max = BUCKET_OBJECTS_MAX

    def __init__(self) -> None:
        super().__init__()
        self.bench = EngineBench(rules=Rules(conflation=self.conflation, bucket_objects_max=self.bucket_objects_max))
        self.devices = {name: MachineDevice(name) for name in CLIENTS}
        self.sessions: dict[tuple[int, int], MachineSession] = {}
        self.published: dict[str, set[tuple[int, int]]] = {name: set() for name in OBJECTS}
        self.newest_at: dict[str, list[tuple[int, tuple[int, int]]]] = {name: [] for name in OBJECTS}
        self.read = {GATEWAY: 0, OTHER_GATEWAY: 0}
        self.generations = {GATEWAY: 0, OTHER_GATEWAY: 0}
        self.numbers = {GATEWAY: 0, OTHER_GATEWAY: 0}
        self.next_session = 1
        self.log_read = 0
        self.frames_left: int | None = None
        """So many more frames of pages arrive, before a connection ends; None: it does not."""

    # --- publishers

    @rule(
        name=st.sampled_from(OBJECTS), version=st.integers(0, 6), incarnation=st.sampled_from([None, None, None, 0, 1])
    )
    def publish(self, name: str, version: int, incarnation: int | None) -> None:
        more = b"" if incarnation is None else b',"incarnation":%d' % incarnation
        self.bench.publish(name, b'{"version":%d%s}' % (version, more))
        self.note_published()

    @rule(name=st.sampled_from(OBJECTS), value=st.sampled_from([None, b"nonsense", b"{}"]))
    def publish_nonsense(self, name: str, value: bytes | None) -> None:
        self.bench.publish(name, value, timestamp_ms=-1)

    def note_published(self) -> None:
        """Notes the versions in the log, read as the document demands."""
        records = self.bench.log.records[TOPICS.objects]
        for record in records[self.log_read :]:
            name = (record.key or b"").decode().removeprefix(PREFIX)
            try:
                value = msgspec.json.decode(record.value or b"")
                version = value["version"]
            except (msgspec.DecodeError, KeyError):
                continue
            history = self.newest_at[name]
            newest = history[-1][1] if history else UNKNOWN
            said = value.get("incarnation", max(newest[0], 0)), version
            self.published[name].add(said)
            history.append((record.offset, max(newest, said)))
        self.log_read = len(records)

    def newest(self, name: str, at: int | None = None) -> tuple[int, int]:
        """The newest version of an object, at or below an offset."""
        newest = UNKNOWN
        for offset, version in self.newest_at[name]:
            if at is None or offset <= at:
                newest = version
        return newest

    # --- devices

    @rule(client=st.sampled_from(CLIENTS), name=st.sampled_from(OBJECTS))
    def register(self, client: str, name: str) -> None:
        device = self.devices[client]
        device.wanted.add(name)
        device.registering[name] = False
        device.unregistering.discard(name)
        self.ask_for_operations(device)

    @rule(client=st.sampled_from(CLIENTS), name=st.sampled_from(OBJECTS))
    def unregister(self, client: str, name: str) -> None:
        device = self.devices[client]
        if name not in device.wanted:
            return
        device.wanted.discard(name)
        device.registering.pop(name, None)
        device.unregistering.add(name)
        device.floors.pop(name, None)
        session = device.session
        if session is not None:
            session.waiting.discard(name)
        self.ask_for_operations(device)

    def ask_for_operations(self, device: MachineDevice) -> None:
        session = device.session
        if session is None or session.state not in ("live", "catching") or not session.welcomed:
            return
        names = [n for n, confirmed in device.registering.items() if not confirmed and n not in session.waiting]
        if names:
            session.waiting |= set(names)
            self.bench.register(*names, session=session.number, client=device.name, gateway=session.gateway)
        if device.unregistering:
            gone = sorted(device.unregistering)
            self.bench.unregister(*gone, session=session.number, client=device.name, gateway=session.gateway)

    @rule(client=st.sampled_from(CLIENTS), gateway=st.sampled_from([GATEWAY, OTHER_GATEWAY]), leaves=st.booleans())
    def connect(self, client: str, gateway: int, leaves: bool) -> None:
        """A device comes (back). Of its connection before, the gateway has noticed the end, or it has not."""
        device = self.devices[client]
        if leaves:
            self.hang_up(client, leaves=True)
        for name in device.registering:
            device.registering[name] = False
        session = MachineSession(
            device,
            gateway,
            self.next_session,
            self.digest_of(device),
            set(device.registering),
            set(device.unregistering),
            device.cursor,
        )
        device.session = self.sessions[gateway, session.number] = session
        self.next_session += 1
        self.open(session)

    @rule(client=st.sampled_from(CLIENTS), leaves=st.booleans())
    def disconnect(self, client: str, leaves: bool) -> None:
        self.hang_up(client, leaves=leaves)

    def hang_up(self, client: str, *, leaves: bool) -> None:
        device = self.devices[client]
        session, device.session = device.session, None
        if session is None:
            return
        if leaves:
            complete = None if device.cursor == NONE else device.cursor
            self.bench.leave(complete=complete, session=session.number, client=client, gateway=session.gateway)
            self.close(session)

    @rule(client=st.sampled_from(CLIENTS))
    def wipe(self, client: str) -> None:
        """A new SD card: the application wants the same, all else is forgotten."""
        self.hang_up(client, leaves=False)
        device = self.devices[client]
        self.devices[client] = MachineDevice(client, device.wanted, dict.fromkeys(device.wanted, False))

    @rule(client=st.sampled_from(CLIENTS), frames=st.integers(0, 6))
    def wake_without_cursor(self, client: str, frames: int) -> None:
        """Wakes a device as after a Welcome with another epoch: everything is delivered again. The connection ends
        after `frames` frames.
        """
        self.hang_up(client, leaves=False)
        self.devices[client].cursor = NONE
        self.connect(client, GATEWAY, leaves=False)
        self.commit()
        self.frames_left = frames
        for _ in range(3):
            self.hand_over(GATEWAY, 10_000)
            self.commit()
        self.frames_left = None

    def close(self, session: MachineSession) -> None:
        session.closed = True
        self.sessions.pop((session.gateway, session.number), None)
        if session.device.session is session:
            session.device.session = None

    def all_want_everything(self) -> None:
        """Registers all devices for everything and connects them, because otherwise few runs reach a state in which
        something is held, or spread over several records.
        """
        for name, device in self.devices.items():
            device.wanted = set(OBJECTS)
            device.registering = dict.fromkeys(OBJECTS, False)
            self.connect(name, GATEWAY, leaves=False)
        self.come_to_rest()

    def digest_of(self, device: MachineDevice) -> int:
        return digest(device.wanted)

    # --- gateways

    def describes(self, device: MachineDevice) -> bool:
        """Returns true if the device asks for members' descriptions."""
        return False

    def more_operations(self, session: MachineSession) -> dict[str, object]:
        """Returns additional fields of an Open."""
        return {}

    def open(self, session: MachineSession) -> None:
        again = session.ask > 0
        session.ask += 1
        session.state, session.page_due = "opening", 0
        said = session.said if session.agreed is None else session.agreed
        self.bench.request(
            session.number,
            session.device.name,
            session.gateway,
            open=internal_pb2.Open(
                digest=said,
                register=sorted(session.register),
                unregister=sorted(session.unregister),
                epoch=self.bench.cluster.epoch,
                cursor=None if session.complete == NONE else session.complete,
                ask=session.ask,
                again=again,
                **self.more_operations(session),  # type: ignore[arg-type]
            ),
        )

    def catch_up(self, session: MachineSession, page: int = 0) -> None:
        if not page:
            session.ask += 1
        session.state, session.page_due = "catching", page + 1
        self.bench.catch_up(
            None if session.complete == NONE else session.complete,
            page=page,
            ask=session.ask,
            session=session.number,
            client=session.device.name,
            gateway=session.gateway,
            paging=session.paging if page else 0,
        )

    @rule(client=st.sampled_from(CLIENTS))
    def slow(self, client: str) -> None:
        session = self.devices[client].session
        if session is not None and session.state == "live":
            self.catch_up(session)

    @rule(gateway=st.sampled_from([GATEWAY, OTHER_GATEWAY]))
    def beat(self, gateway: int) -> None:
        self.bench.beat(*(number for at, number in self.sessions if at == gateway), gateway=gateway)

    @rule(client=st.sampled_from(CLIENTS))
    def acknowledge(self, client: str) -> None:
        device = self.devices[client]
        if device.session is not None and device.cursor != NONE:
            self.bench.acks({device.session.number: device.cursor}, gateway=device.session.gateway)

    @rule(gateway=st.sampled_from([GATEWAY, OTHER_GATEWAY]), records=st.integers(1, 4))
    def deliver(self, gateway: int, records: int) -> None:
        """The gateway reads on in its inbox."""
        self.hand_over(gateway, records)

    def hand_over(self, gateway: int, records: int) -> None:
        told = self.bench.told[gateway].records
        for record in told[self.read[gateway] : self.read[gateway] + records]:
            self.read[gateway] += 1
            if record.generation < self.generations[gateway]:
                continue
            if record.generation > self.generations[gateway]:
                self.generations[gateway], self.numbers[gateway] = record.generation, 0
            last, self.numbers[gateway] = self.numbers[gateway], record.number
            assert record.number == last + 1, "inbox numbers have no gaps"
            for item in record.items:
                self.on_item(gateway, item)

    def on_item(self, gateway: int, item: internal_pb2.Item) -> None:
        match item.WhichOneof("item"):
            case "fan_out":
                self.on_fan_out(gateway, item.fan_out)
            case "opened":
                self.on_opened(gateway, item.opened)
            case "answered":
                self.on_answered(gateway, item.answered)
            case "page":
                self.on_page(gateway, item.page)
            case "closed":
                session = self.sessions.get((gateway, item.closed.session))
                if session is not None:
                    self.close(session)
            case "beat":
                self.on_beat(gateway, item.beat)

    def on_beat(self, gateway: int, answer: internal_pb2.BeatAnswer) -> None:
        """Advances all live sessions to what the answer to a beat confirms. Their devices learn of it with the next
        Pong.
        """
        for (at, _), session in self.sessions.items():
            if at == gateway and session.state == "live" and answer.agreed and answer.HasField("complete"):
                session.complete = max(session.complete, answer.complete)
                if session.device.session is session:
                    session.device.cursor = max(session.device.cursor, answer.complete)

    def on_fan_out(self, gateway: int, fan_out: internal_pb2.FanOut) -> None:
        for start in range(0, len(fan_out.sessions), 4):
            number = int.from_bytes(fan_out.sessions[start : start + 4], "little")
            session = self.sessions.get((gateway, number))
            if session is not None and session.state == "live":
                self.notify(session, fan_out.newest)
                session.complete = max(session.complete, fan_out.newest.offset - fan_out.newest.behind)

    def on_opened(self, gateway: int, opened: internal_pb2.Opened) -> None:
        session = self.sessions.get((gateway, opened.session))
        if session is None:
            return
        if opened.ask != session.ask and session.state == "live" and not opened.in_sync:
            self.open(session)  # a new matcher is in doubt about it
            return
        if opened.ask != session.ask or session.state not in ("opening", "unsynced"):
            return
        device = session.device if session.device.session is session else None
        if not session.welcomed and device is not None:
            # The pending operations of the Hello are durable.
            for name in session.register & set(device.registering):
                device.registering[name] = True
            device.unregistering -= session.unregister
            self.on_operations_durable(session)
        session.register = session.unregister = set()
        if opened.in_sync:
            if session.state == "unsynced" and device is not None:
                session.complete = NONE
                for name in session.waiting & set(device.registering):
                    device.registering[name] = True
                device.unregistering.clear()
                session.waiting.clear()
                self.on_set_durable(session)
            session.state, session.page_due = "catching", 1
            session.agreed, session.welcomed = opened.digest, True
        else:
            session.state, session.welcomed = "unsynced", True
            if device is not None:
                device.registering = dict.fromkeys(device.wanted, False)
                session.waiting = set(device.wanted)
                chunks = [sorted(device.wanted)[i : i + 2] for i in range(0, len(device.wanted), 2)] or [[]]
                for index, names in enumerate(chunks):
                    last = index == len(chunks) - 1
                    self.bench.sync(
                        index, *names, last=last, session=session.number, client=device.name, gateway=gateway,
                        queries=self.queries_to_sync(session) if last else (), descriptions=self.describes(device),
                    )  # fmt: skip

    def on_operations_durable(self, session: MachineSession) -> None:
        """Notes that the operations from `more_operations` are durable."""

    def on_set_durable(self, session: MachineSession) -> None:
        """Notes that the set of a reg-sync is durable."""

    def queries_to_sync(self, session: MachineSession) -> list[str]:
        """The rest of the set."""
        return []

    def on_frame(self, session: MachineSession, newest: internal_pb2.Newest) -> None:
        """A frame of a page, which may be the last one that arrives."""
        self.notify(session, newest)
        if self.frames_left is not None and session.device.session is session:
            self.frames_left -= 1
            if self.frames_left < 0:
                self.frames_left = None
                self.hang_up(session.device.name, leaves=False)

    def on_answers(self, session: MachineSession, page: internal_pb2.Page) -> None:
        """Notes which answers are complete with this page."""

    def on_page_of_queries(self, session: MachineSession, page: internal_pb2.Page) -> None:
        """Handles the part of a page that concerns queries, before the part that concerns the cursor."""

    def on_answered(self, gateway: int, answered: internal_pb2.Answered) -> None:
        session = self.sessions.get((gateway, answered.session))
        if session is None:
            return
        if answered.request:
            session.agreed = answered.digest
        device = session.device
        if device.session is session:
            if answered.unregistered:
                device.unregistering.clear()
            for newest in answered.newest:
                if newest.name in session.waiting:
                    session.waiting.discard(newest.name)
                    device.registering[newest.name] = True
                self.notify(session, newest)

    def is_due(self, session: MachineSession, page: internal_pb2.Page) -> bool:
        """Returns true if the gateway waits for this page."""
        return page.ask == session.ask and page.page == session.page_due and session.state == "catching"

    def on_page(self, gateway: int, page: internal_pb2.Page) -> None:
        session = self.sessions.get((gateway, page.session))
        if session is None:
            return
        if not self.is_due(session, page):
            if session.state == "live":
                # A new matcher has answered an Open once more, and believes the session to be where this page ends.
                self.catch_up(session)
            return
        session.paging = page.paging
        # As the gateway writes it: answers, that they are whole, what moves the cursor, the page's end.
        for newest in page.newest:
            if newest.answer:
                self.on_frame(session, newest)
        self.on_answers(session, page)
        for newest in page.newest:
            if not newest.answer:
                self.on_frame(session, newest)
        self.on_page_of_queries(session, page)
        if page.HasField("complete"):
            session.complete = max(session.complete, page.complete)
            if session.device.session is session and page.last:
                session.device.cursor = max(session.device.cursor, page.complete)
        if not page.last:
            self.catch_up(session, page.page)
            return
        session.state, session.page_due = "live", 0
        device = session.device
        if device.session is session:
            for name, confirmed in device.registering.items():
                if confirmed:  # it was confirmed before, and its notification did not come
                    device.registering[name] = False
                    session.waiting.discard(name)
            self.ask_for_operations(device)

    def notify(self, session: MachineSession, newest: internal_pb2.Newest) -> None:
        device = session.device
        if device.session is not session:
            return  # nobody listens any more
        name = newest.name
        if newest.HasField("version"):
            version = newest.incarnation, newest.version
            assert version in self.published[name], "P4: only what was published"
            if name in device.wanted:
                assert version >= device.floors.get(name, UNKNOWN), "P3: never backwards"
                device.floors[name] = version
        if device.registering.get(name):
            del device.registering[name]
        if not newest.answer:
            device.cursor = max(device.cursor, newest.offset - newest.behind)

    # --- the matcher

    @rule()
    def step(self) -> None:
        self.bench.make_durable(self.bench.step())
        self.note_published()

    @rule()
    def commit(self) -> None:
        self.bench.settle()
        self.note_published()

    @rule(writes_lost=st.integers(0, 9), inboxes_lost=st.integers(0, 2), again=st.integers(0, 9))
    def crash(self, writes_lost: int, inboxes_lost: int, again: int) -> None:
        """Crashes the matcher in the middle of a step. Its successor crashes in its first step, too, unless `again` is
        0.
        """
        self.cut(self.bench.step(), writes_lost, inboxes_lost)
        if again:
            self.cut(self.bench.take_over(), again - 1, 0)
        self.bench.load()
        self.note_published()

    def cut(self, step: Step, writes_lost: int, inboxes_lost: int) -> None:
        """Answers are written only after all state is."""
        lost = min(writes_lost, len(step.state) + len(step.seals) + len(step.tombstones))
        self.bench.make_durable(step, lost, len(step.inboxes) if lost else min(inboxes_lost, len(step.inboxes)))

    @rule(ms=st.sampled_from([1000, 16_000]))
    def time(self, ms: int) -> None:
        self.bench.tick(ms)
        self.note_published()

    @rule(ms=st.sampled_from([1, 50, INTERVAL_MS]))
    def moment(self, ms: int) -> None:
        """Advances time by less than a tick, and flushes what is held, as the shell does."""
        self.bench.now_ms += ms
        self.bench.engine.flush(self.bench.now_ms)

    # --- what must hold

    @invariant()
    def cursors_are_true(self) -> None:
        self.note_published()
        for device in self.devices.values():
            for name in device.wanted - set(device.registering):
                due = self.newest(name, device.cursor)
                if self.newest(name) > due:
                    continue  # it comes by its own offset, which is above: a page may end between the two
                assert device.floors.get(name, UNKNOWN) >= due, (
                    f"{device.name} says {device.cursor} and lacks {name} {due}"
                )

    def come_to_rest(self) -> None:
        """Faults stop; gateways find out by beats what matchers have lost sight of, and ask again."""
        self.frames_left = None
        for _ in range(100):  # a page each, at worst
            requests = len(self.bench.log.requests)
            self.bench.settle()
            self.moment(INTERVAL_MS)
            self.bench.settle()
            self.note_published()
            for gateway in (GATEWAY, OTHER_GATEWAY):
                self.hand_over(gateway, 10_000)
            if len(self.bench.log.requests) > requests:
                continue
            again = False
            for session in list(self.sessions.values()):
                if session.device.session is not session:
                    self.bench.leave(session=session.number, client=session.device.name, gateway=session.gateway)
                    self.close(session)
                    again = True
                elif session.state != "live" or not self.known(session):
                    self.open(session)
                    again = True
                elif not session.device.registering and session.agreed != self.digest_of(session.device):
                    session.ask += 1
                    session.state = "unsynced"  # as long as it takes
                    check = internal_pb2.CheckDigest(digest=self.digest_of(session.device), ask=session.ask)
                    self.bench.request(session.number, session.device.name, session.gateway, check_digest=check)
                    again = True
                elif session.device.registering and not session.waiting:
                    self.ask_for_operations(session.device)
                    again = True
                elif session.waiting:
                    session.waiting.clear()  # not answered for 30 s
                    self.ask_for_operations(session.device)
                    again = True
                else:
                    again |= self.ask_for_queries(session)
            if not again:
                return
        raise AssertionError("it does not come to rest")

    def ask_for_queries(self, session: MachineSession) -> bool:
        """Asks for what is still missing of queries. Returns true if there is something."""
        return False

    def known(self, session: MachineSession) -> bool:
        """Returns true if the matcher knows the session, which is the purpose of beats."""
        view = self.bench.engine.state.gateways.get(session.gateway)
        return view is not None and session.number in view.sessions

    @invariant()
    def what_there_is_is_counted(self) -> None:
        """Asserts that incremental counts equal a full count."""
        engine = self.bench.engine
        clients = engine.state.clients.values()
        counted = (
            sum(engine.state.objects.is_published(key) is True for key in engine.state.objects),
            sum(client.session is not None for client in clients),
            sum(client.registered for client in clients),
        )
        assert engine.inventory.look().get(DOMAIN, (0, 0, 0)) == counted
        assert sum(tally.known for tally in engine.state.tallies.values()) == len(clients)

    def teardown(self) -> None:
        self.come_to_rest()
        self.cursors_are_true()
        for device in self.devices.values():
            if device.session is None:
                continue
            assert not device.registering, f"{device.name}: {device.registering} not settled"
            for name in device.wanted:
                assert device.floors.get(name, UNKNOWN) == self.newest(name), f"P2: {device.name} lacks {name}"
            client = self.bench.engine.state.clients.get(PREFIX + device.name)
            registered = set() if client is None else {obj.name for obj in client.objects()}
            assert registered == device.wanted, "P5"
            assert self.stored(device.name) == device.wanted, "P5, durably"

    def stored(self, client: str) -> set[str]:
        records = self.bench.latest(TOPICS.registrations)
        buckets = {key: value for key, value in records.items() if not is_wills_key(key)}
        ours = [value for key, value in buckets.items() if key.startswith(f"{PREFIX}{client}/")]
        return {name for value in ours for name in msgspec.json.decode(value, type=RegistrationsRecord).objects}
