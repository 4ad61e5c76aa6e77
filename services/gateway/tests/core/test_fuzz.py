"""Anything from clients and the inbox: nothing is raised, closes are the protocol's, what is kept is bounded.

And whatever happens while the core's outputs are done, none of its handlers is called while another one runs.
"""

from collections.abc import Sequence

from coldnotify_gateway.core import (
    Finish,
    Frame,
    Gateway,
    HighWater,
    Identified,
    Limits,
    Peer,
    Produce,
    Send,
    SendAll,
    SendUrgent,
    SessionState,
)
from coldnotify_gateway.core.partition_view import LEAVES_OWED_MAX
from coldnotify_gateway.core.timers import LOOK_AHEAD_S
from coldnotify_schemas.close_codes import CloseCode
from coldnotify_schemas.frames import encode, encode_length
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
)
from coldnotify_schemas.wire_pb2 import Ack, Bye, ClientFrame, Hello, Ping, Register, SyncChunk, Unregister, UseNames
from coldnotify_testkit.device_frames import hello
from coldnotify_testkit.examples import examples
from coldnotify_testkit.gateway_bench import LATEST_BEAT, WireDouble, inbox_outputs
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

GATEWAY, PARTITIONS = 0xC01D, 2
LIMITS = Limits(
    frame_bytes_max=2048,
    connections_max=12,
    connections_per_address_max=8,
    unidentified_max=4,
    requests_unanswered_max=3,
    sync_chunks_max=4,
)
U64, U32 = st.integers(0, (1 << 64) - 1), st.integers(0, (1 << 32) - 1)
SMALL = st.integers(0, 6)
NAMES = st.one_of(st.sampled_from(["a", "b", "c"]), st.text(max_size=8), st.just("x" * 256))
OBJECTS = st.one_of(st.lists(NAMES, max_size=3), st.just(["a"] * 65))
PARTS = st.one_of(st.sampled_from(["animal.observer", "region-1", "client-1"]), st.text(max_size=6))
NUMBERS = st.one_of(SMALL, U64)

CLIENT_FRAMES = st.one_of(
    st.builds(
        Hello,
        protocol=st.one_of(st.just(1), U32),
        capabilities=U32,
        domain=PARTS,
        group=PARTS,
        client=PARTS,
        digest=U64,
        register=OBJECTS,
        epoch=U32,
        cursor=U64,
        keepalive_s=U32,
    ).map(lambda one: ClientFrame(hello=one)),
    st.builds(Register, request=U32, objects=OBJECTS).map(lambda one: ClientFrame(register=one)),
    st.builds(Unregister, request=U32, objects=OBJECTS).map(lambda one: ClientFrame(unregister=one)),
    st.builds(SyncChunk, index=st.one_of(SMALL, U32), last=st.booleans(), objects=OBJECTS).map(
        lambda one: ClientFrame(sync=one)
    ),
    st.builds(Ack, complete=st.one_of(st.none(), NUMBERS), page=st.one_of(SMALL, U32)).map(
        lambda one: ClientFrame(ack=one)
    ),
    st.builds(Ping, digest=st.one_of(st.none(), SMALL, U64)).map(lambda one: ClientFrame(ping=one)),
    st.just(ClientFrame(use_names=UseNames())),
    st.just(ClientFrame(bye=Bye())),
    st.just(ClientFrame()),
).map(encode)
CLIENT_BYTES = st.one_of(
    st.binary(max_size=40),
    st.lists(CLIENT_FRAMES, min_size=1, max_size=4).map(b"".join),
    st.just(b"\0" * 3000),
    st.integers(0, 1 << 36).map(encode_length),
)
NEWEST = st.builds(
    Newest,
    name=st.sampled_from(["a", "b", "c", ""]),
    version=st.one_of(st.none(), NUMBERS),
    incarnation=NUMBERS,
    offset=NUMBERS,
    behind=NUMBERS,
    payload=st.binary(max_size=10),
    deleted=st.booleans(),
    answer=st.booleans(),
)
REFUSED_CODE = st.one_of(st.sampled_from(list(CloseCode)).map(int), U32)


class Anything(RuleBasedStateMachine):
    """Clients that do whatever they like, and a matcher that is no better."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 1000.0
        self.gateway = Gateway(GATEWAY, 3, PARTITIONS, LIMITS)
        self.wires: list[WireDouble] = []
        self.failing = False
        self.overflowed = 0
        """Connections that were closed because they were full, also while another one's bytes were handled."""
        self.said_by_the_matcher: set[int] = set()
        self.numbers = [0] * PARTITIONS
        self.generations = [1] * PARTITIONS

    # --- doing outputs

    def do(self, outputs) -> None:
        for output in outputs:
            match output:
                case Send(peer, frames):
                    self.send(peer, frames)
                case SendAll(peers, frame):
                    for peer in peers:
                        self.send(peer, [frame])
                case SendUrgent(peers, urgent):
                    for peer in peers:
                        self.send(peer, [urgent.ahead, urgent.alone])
                case Produce():
                    assert output.partition < PARTITIONS
                    assert output.request.ByteSize() <= LIMITS.frame_bytes_max + 1024
                    if self.failing:
                        self.gateway.on_delivery_failed(output, self.now_s)
                case Finish(peer):
                    assert peer not in self.gateway._connections.by_peer
                    peer.finish()
                    assert isinstance(peer, WireDouble)
                    self.wires.remove(peer)

    def send(self, wire: Peer, frames: Sequence[Frame]) -> None:
        assert isinstance(wire, WireDouble)
        assert not wire.finished, "written to after its end"
        wire.send(frames)
        for frame in wire.take():
            assert frame.WhichOneof("frame"), "the gateway says nothing that has no kind"

    def wire(self, pick: int) -> WireDouble | None:
        return self.wires[pick % len(self.wires)] if self.wires else None

    def session(self, pick: int) -> Identified | None:
        sessions = self.gateway.sessions()
        return sessions[pick % len(sessions)] if sessions else None

    # --- clients

    @rule(address=st.sampled_from(["127.0.0.1", "127.0.0.2", "::1"]), greets=st.booleans())
    def connect(self, address: str, greets: bool) -> None:
        wire = WireDouble()
        self.wires.append(wire)
        self.do(self.gateway.on_connect(wire, address, self.now_s))
        if greets and not wire.finished:
            self.do(self.gateway.on_client_bytes(wire, hello(), self.now_s))

    @rule(pick=SMALL, address=st.sampled_from(["127.0.0.1", "192.0.2.1", "::1"]))
    def is_passed_on(self, pick: int, address: str) -> None:
        """A balancer says whose connection it is, at whatever time."""
        wire = self.wire(pick)
        if wire is not None:
            self.do(self.gateway.on_address(wire, address, self.now_s))

    @rule(pick=SMALL, data=CLIENT_BYTES, cut=st.integers(1, 60))
    def say(self, pick: int, data: bytes, cut: int) -> None:
        wire = self.wire(pick)
        if wire is None:
            return
        for start in range(0, len(data), cut if len(data) < 400 else len(data)):
            part = data[start : start + cut] if len(data) < 400 else data
            before = self.gateway.counters.closes.total() - self.overflowed
            self.do(self.gateway.on_client_bytes(wire, part, self.now_s))
            assert set(self.gateway.counters.closes) <= set(CloseCode) | self.said_by_the_matcher
            assert self.gateway.counters.closes.total() - self.overflowed <= before + 1

    @rule(pick=SMALL)
    def disconnect(self, pick: int) -> None:
        wire = self.wire(pick)
        if wire is not None:
            self.wires.remove(wire)
            self.do(self.gateway.on_disconnected(wire, self.now_s))

    @rule(pick=SMALL, what=st.sampled_from(["blocked", "drained", "overfull"]))
    def buffer(self, pick: int, what: str) -> None:
        wire = self.wire(pick)
        if wire is None:
            return
        if what == "blocked":
            self.gateway.on_blocked(wire, self.now_s)
        elif what == "drained":
            self.do(self.gateway.on_drained(wire, self.now_s))
        else:
            before = self.gateway.counters.closes.total()
            outputs = self.gateway.on_overfull(wire, self.now_s)
            self.overflowed += self.gateway.counters.closes.total() - before
            self.do(outputs)

    # --- the matcher, Kafka, time

    def inbox(self, partition: int, *items: Item) -> None:
        self.numbers[partition] = (self.numbers[partition] + 1) % (1 << 64)
        record = Inbox(
            format=1,
            partition=partition,
            generation=self.generations[partition],
            gateway=GATEWAY,
            number=self.numbers[partition],
            items=items,
        )
        self.do(inbox_outputs(self.gateway, record, self.now_s))

    @rule(pick=SMALL, in_sync=st.booleans(), last=st.booleans(), blocked=st.booleans())
    def answer(self, pick: int, in_sync: bool, last: bool, blocked: bool) -> None:
        """As the matcher does: so that all states are come to."""
        session = self.session(pick)
        if session is None:
            return
        number, ask = session.number, session.question.number
        self.inbox(
            session.view.partition,
            Item(opened=Opened(session=number, ask=ask, in_sync=in_sync, digest=session.claim.said)),
            Item(page=Page(session=number, ask=ask, page=session.objects.page or 1, last=last, complete=5)),
        )
        if blocked:
            self.gateway.on_blocked(session.peer, self.now_s)

    @rule(
        pick=SMALL,
        right_ask=st.booleans(),
        epoch=st.one_of(st.none(), U32),
        flags=st.tuples(st.booleans(), st.booleans()),
        number=SMALL,
        complete=st.one_of(st.none(), NUMBERS),
        newest=st.lists(NEWEST, max_size=3),
        code=REFUSED_CODE,
        kind=st.sampled_from(["opened", "page", "answered", "closed", "fan_out", "beat", "none"]),
        sessions=st.one_of(st.binary(max_size=9), st.just(b"\x01\0\0\0\x02\0\0\0\x03\0\0\0")),
    )
    def any_item(self, pick, right_ask, epoch, flags, number, complete, newest, code, kind, sessions) -> None:
        session = self.session(pick)
        of = session.number if session is not None else number
        ask = session.question.number if session is not None and right_ask else number
        page = session.objects.page if session is not None and right_ask else number
        match kind:
            case "opened":
                item = Item(opened=Opened(session=of, ask=ask, in_sync=flags[0], epoch=epoch, digest=number))
            case "page":
                item = Item(page=Page(session=of, ask=ask, page=page, newest=newest, last=flags[0], complete=complete))
            case "answered":
                item = Item(answered=Answered(session=of, request=number, unregistered=flags[0], newest=newest))
            case "closed":
                self.said_by_the_matcher = self.said_by_the_matcher | {code}
                item = Item(closed=Closed(session=of, code=code, reason="said so"))
            case "fan_out":
                item = Item(fan_out=FanOut(newest=newest[0] if newest else None, sessions=sessions, urgent=flags[0]))
            case "beat":
                serial = LATEST_BEAT if flags[1] else number
                item = Item(beat=BeatAnswer(agreed=flags[0], complete=complete, serial=serial))
            case _:
                item = Item()
        self.inbox(session.view.partition if session is not None else 0, item)

    @rule(
        fields=st.fixed_dictionaries(
            {
                "format": st.one_of(st.just(1), U32),
                "partition": st.one_of(st.integers(0, PARTITIONS), U32),
                "generation": NUMBERS,
                "gateway": st.one_of(st.sampled_from([0, GATEWAY]), U64),
                "number": NUMBERS,
            }
        )
    )
    def any_record(self, fields) -> None:
        self.do(inbox_outputs(self.gateway, Inbox(**fields), self.now_s))
        if fields["partition"] < PARTITIONS:
            view = self.gateway.views[fields["partition"]]
            self.generations[view.partition], self.numbers[view.partition] = view.generation, view.number or 0

    @rule()
    def inbox_lost(self) -> None:
        self.do(self.gateway.on_inbox_lost(self.now_s))

    @rule(failing=st.booleans())
    def kafka(self, failing: bool) -> None:
        self.failing = failing

    @rule(seconds=st.sampled_from([0.25, 1.0, 5.1, 11.0, 100.0]), at_once=st.booleans())
    def time_passes(self, seconds: float, at_once: bool) -> None:
        for _ in range(1 if at_once else 10):
            self.now_s += seconds if at_once else seconds / 10
            self.do(self.gateway.on_tick(self.now_s))

    @rule(count=st.integers(0, 3))
    def flush_or_go_away(self, count: int) -> None:
        self.do(self.gateway.flush_acks())
        if count == 3:
            self.do(self.gateway.go_away(count, self.now_s))
            self.gateway._going_away = False

    # --- what holds

    @invariant()
    def bounds(self) -> None:
        connections = self.gateway._connections
        assert set(connections.by_peer) == set(self.wires)
        assert len(connections.by_peer) <= LIMITS.connections_max
        assert connections.unidentified_count <= LIMITS.unidentified_max
        assert connections.shares.most <= LIMITS.connections_per_address_max
        assert connections.shares._counts.total() == len(connections.by_peer)
        unidentified = {peer for peer, one in connections.by_peer.items() if not isinstance(one, Identified)}
        assert set(connections._unidentified) == unidentified
        for one in connections.by_peer.values():
            assert len(one.frames) <= LIMITS.frame_bytes_max + 5
        for session in self.gateway.sessions():
            assert session.quota.unanswered <= LIMITS.requests_unanswered_max
            assert session.quota.chunks <= LIMITS.sync_chunks_max
            assert not (session.blocked and session.state is SessionState.LIVE)
        for view in self.gateway.views:
            assert all(set(acks) <= set(view.sessions) for acks in view.acks)
            assert len(view.leaves) <= LEAVES_OWED_MAX
            live = {number for number, session in view.sessions.items() if session.state is SessionState.LIVE}
            assert {number for of_one in view.live.values() for number in of_one} == live

    @invariant()
    def those_that_are_gone_are_forgotten(self) -> None:
        """What was known of a connection must not stay after its end."""
        buckets = self.gateway._timers._buckets
        assert all(bucket <= self.now_s + LOOK_AHEAD_S for bucket in buckets)
        present = set(map(id, self.gateway._connections.by_peer.values()))
        for bucket in buckets.values():
            for one in bucket:
                assert id(one) in present


TestAnything = Anything.TestCase
TestAnything.settings = settings(
    max_examples=examples(0.6), stateful_step_count=50, deadline=None, suppress_health_check=list(HealthCheck)
)


class Entered(Gateway):
    """A core that says when one of its handlers is called while another one runs."""

    def __init__(self) -> None:
        super().__init__(GATEWAY, 3, PARTITIONS, LIMITS)
        self.inside: list[str] = []

    def _guarded(self, name: str, *arguments: object, **keywords: object) -> object:
        assert not self.inside, f"{name} is called while {self.inside} runs"
        self.inside.append(name)
        try:
            found = getattr(super(), name)(*arguments, **keywords)
            assert not hasattr(found, "__next__"), f"{name} goes on to run while its outputs are done"
            return found
        finally:
            self.inside.pop()


def _guard(name: str) -> None:
    def guarded(self: Entered, *arguments: object, **keywords: object) -> object:
        return self._guarded(name, *arguments, **keywords)

    setattr(Entered, name, guarded)


for handler in [name for name in dir(Gateway) if name.startswith("on_")] + ["go_away"]:
    _guard(handler)


class Meddling(Anything):
    """Anything, and while an output is done, connections fill, are drained, overflow or go: of whichever session."""

    def __init__(self) -> None:
        super().__init__()
        self.gateway = Entered()
        self.plan: list[tuple[int, str]] = []

    @rule(
        plan=st.lists(
            st.tuples(SMALL, st.sampled_from(["blocked", "drained", "overfull", "gone", "fails"])), max_size=6
        )
    )
    def meddle(self, plan: list[tuple[int, str]]) -> None:
        self.plan = plan

    def do(self, outputs) -> None:
        for output in outputs:
            match output:
                case Send(peer, frames):
                    self._send(peer, frames)
                case SendAll(peers, frame):
                    for peer in peers:
                        self._send(peer, [frame])
                case SendUrgent(peers, urgent):
                    for peer in peers:
                        self._send(peer, [urgent.ahead, urgent.alone])
                case HighWater():
                    pass
                case Produce():
                    if self.failing:
                        self.gateway.on_delivery_failed(output, self.now_s)
                case Finish(peer):
                    assert peer not in self.gateway._connections.by_peer
                    peer.finish()
                    if peer in self.wires:
                        self.wires.remove(peer)
            self._meddle()

    def _send(self, wire, frames: Sequence[Frame]) -> None:
        # As in the shell: what was to be written to one that has gone meanwhile is lost with it.
        if not wire.finished and wire in self.wires:
            wire.send(frames)
            wire.take()

    def _meddle(self) -> None:
        if not self.plan:
            return
        (pick, what), *self.plan = self.plan
        wire = self.wire(pick)
        if wire is None:
            return
        assert isinstance(wire, WireDouble)
        if what == "fails":
            self.failing = not self.failing
        elif what == "gone":
            self.wires.remove(wire)
            self.do(self.gateway.on_disconnected(wire, self.now_s))
        else:
            self.buffer(pick, what)


TestMeddling = Meddling.TestCase
TestMeddling.settings = settings(
    max_examples=examples(0.3), stateful_step_count=50, deadline=None, suppress_health_check=list(HealthCheck)
)
