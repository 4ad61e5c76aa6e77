"""Random interleavings of everything: devices, publishes, losses, takeovers, full connections, time.

Raw devices, which follow docs/protocol.md, must never be made to believe that they are complete when they are not; once
faults stop, each knows the newest version of all that it wants.
"""

from collections import deque
from collections.abc import Collection, Sequence
from unittest.mock import Mock

from coldnotify_gateway.core import (
    Finish,
    Frame,
    Gateway,
    Identified,
    Limits,
    Output,
    Peer,
    Produce,
    Send,
    SendAll,
    SendUrgent,
    SessionState,
    Urgent,
    WaitingFrames,
)
from coldnotify_schemas.close_codes import CloseCode, may_come_back
from coldnotify_schemas.internal_pb2 import Inbox
from coldnotify_testkit.examples import examples
from coldnotify_testkit.gateway_bench import inbox_outputs
from coldnotify_testkit.matcher_double import MatcherDouble
from coldnotify_testkit.raw_device.device import Names, RawDevice, Timing
from coldnotify_testkit.raw_device.operations import REGISTER
from coldnotify_testkit.raw_device.state import object_ as interest_in
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

OBJECTS = ["a", "b", "c", "plumless", "buckeroo"]
"""The last two share a CRC-32, so a device that wants both uses names."""
DEVICES = ["device-1", "device-2", "device-3"]
SYNC_OBJECTS = 2
"""The number of objects in a frame, so that a set has several chunks."""
SETTLED_WITHIN_S = 600
"""Of simulated time: asking again, announcing and keepalives have had several turns by then."""


class Wire:
    """A connection's gateway end, and the bytes under way on it."""

    def __init__(self, device: str) -> None:
        self.device = device
        self.to_device = b""
        self._waiting = WaitingFrames()
        self.stalled = False
        self.blocked = False
        self.finished = False

    def send(self, frames: Sequence[Frame], /) -> None:
        assert not self.finished, "written to after its end"
        self._waiting.add(*frames)

    def send_urgent(self, urgent: Urgent, /) -> None:
        assert not self.finished, "written to after its end"
        self._waiting.add_urgent(urgent)

    def overtake(self, channels: Collection[int], repeats: Sequence[Frame], /) -> None:
        assert not self.finished, "written to after its end"
        self._waiting.overtake(channels, repeats)

    def flow(self) -> bool:
        """What waits is under way. Whether anything is."""
        self.to_device += self._waiting.take(self._waiting.size_bytes)
        return bool(self.to_device)

    def finish(self) -> None:
        self.finished = True


def device_of(name: str) -> RawDevice:
    """Returns a device whose disk and application are never asked."""
    names = Names("animal.observer", "region-1", name)
    disk = Mock()
    disk.read.return_value = None
    return RawDevice(names, disk, Mock(), Timing(ack_delay_s=0.0), saves_each_frame=False, in_frame_max=SYNC_OBJECTS)


def wire_of(peer: Peer) -> Wire:
    assert isinstance(peer, Wire)
    return peer


class World(RuleBasedStateMachine):
    @initialize(
        wanted=st.lists(st.sets(st.sampled_from(OBJECTS)), min_size=len(DEVICES), max_size=len(DEVICES)),
        page_objects=st.integers(1, 3),
        parts=st.sampled_from([1, 1000]),
        record_items=st.sampled_from([1, 1000]),
    )
    def begin(self, wanted: list[set[str]], page_objects: int, parts: int, record_items: int) -> None:
        """Devices are connected and at rest: from there faults lead further than from nothing."""
        self.now_s = 1000.0
        self.gateway = Gateway(0xC01D, 3, 1, Limits())
        self.matcher = MatcherDouble(page_objects=page_objects, fan_out_sessions=parts, record_items=record_items)
        self.devices = {name: device_of(name) for name in DEVICES}
        self.wires: dict[str, Wire] = {}
        self.requests: deque[Produce] = deque()
        self.inbox: deque[Inbox] = deque()
        self.kafka_away = False
        self.uncommitted = False
        self.versions = 0
        self.lost: set[str] = set()
        """Devices whose registrations the service lost and that have not found out yet."""
        for (name, device), objects in zip(self.devices.items(), wanted, strict=True):
            for object_ in sorted(objects):
                device.register(object_)
            self.connect(name, unnoticed=False)
        for object_ in OBJECTS[:3]:
            self.publish(object_)
        self.flow()
        self.time_passes(6.0)
        self.flow()

    # --- doing outputs

    def do(self, outputs) -> None:
        for output in outputs:
            self.do_one(output)

    def do_one(self, output: Output) -> None:
        match output:
            case Send():
                self.send(wire_of(output.peer), output.frames)
            case SendAll():
                for peer in output.peers:
                    session = self.gateway._connections.by_peer[peer]
                    assert isinstance(session, Identified)
                    assert session.state is SessionState.LIVE, "a live notification for a session that is not live"
                    self.send(wire_of(peer), [output.frame])
            case SendUrgent():
                for peer in output.peers:
                    wire = wire_of(peer)
                    assert not wire.finished, "written to after its end"
                    wire.send_urgent(output.urgent)
                    self.look_whether_full(wire)
            case Produce():
                if self.kafka_away:
                    self.gateway.on_delivery_failed(output, self.now_s)
                else:
                    self.requests.append(output)
            case Finish():
                output.peer.finish()

    def send(self, wire: Wire, frames: Sequence[Frame]) -> None:
        wire.send(frames)
        self.look_whether_full(wire)

    def look_whether_full(self, wire: Wire) -> None:
        if wire.stalled and not wire.blocked:
            wire.blocked = True
            self.gateway.on_blocked(wire, self.now_s)

    # --- rules

    @rule(name=st.sampled_from(DEVICES), unnoticed=st.booleans())
    def connect(self, name: str, unnoticed: bool) -> None:
        """The device connects (once more); the gateway may not have noticed the end of its last connection."""
        old = self.wires.get(name)
        if old is not None and not unnoticed:
            self.do(self.gateway.on_disconnected(old, self.now_s))
        device = self.devices[name]
        device.connect(self.now_s)
        wire = self.wires[name] = Wire(name)
        self.do(self.gateway.on_connect(wire, "127.0.0.1", self.now_s))

    @rule(name=st.sampled_from(DEVICES), bytes_max=st.sampled_from([1, 7, 10_000]))
    def device_sends(self, name: str, bytes_max: int) -> None:
        self.say(name, bytes_max)

    def say(self, name: str, bytes_max: int) -> bool:
        """The device sends, if it has anything to send. Returns true if it had."""
        wire = self.wires.get(name)
        if wire is None:
            return False
        data = self.devices[name].bytes_to_send(self.now_s)
        for i in range(0, len(data), bytes_max):
            self.do(self.gateway.on_client_bytes(wire, data[i : i + bytes_max], self.now_s))
        return bool(data)

    @rule(name=st.sampled_from(DEVICES), size=st.sampled_from([1, 50, 100_000]))
    def device_receives(self, name: str, size: int) -> None:
        wire = self.wires.get(name)
        if wire is None or wire.stalled:
            return
        wire.flow()
        data, wire.to_device = wire.to_device[:size], wire.to_device[size:]
        device = self.devices[name]
        device.receive(data, self.now_s)
        if device.syncing:
            self.lost.discard(name)
        self.check_cursor(name)
        self.look_whether_over(name)

    def look_whether_over(self, name: str) -> None:
        """A device whose session is over, by a Close or because it gave up, closes its connection."""
        device = self.devices[name]
        if device.over is None or name not in self.wires:
            return
        assert device.code is not None or device.over in ("no Welcome", "silence"), device.over
        assert device.code is None or (device.code != CloseCode.TOO_SLOW and may_come_back(device.code))
        device.disconnect()
        self.do(self.gateway.on_disconnected(self.wires.pop(name), self.now_s))

    @rule(name=st.sampled_from(DEVICES), stalled=st.booleans())
    def stall(self, name: str, stalled: bool) -> None:
        wire = self.wires.get(name)
        if wire is None:
            return
        wire.stalled = stalled
        if not stalled and wire.blocked:
            wire.blocked = False
            self.do(self.gateway.on_drained(wire, self.now_s))

    @rule()
    def flow(self) -> None:
        """All that is under way arrives."""
        for _ in range(100):
            said = False
            for name in DEVICES:
                said |= self.say(name, 10_000)
                self.device_receives(name, 100_000)
            self.matcher_reads(1000)
            self.gateway_reads(1000)
            under_way = any(not wire.stalled and wire.flow() for wire in self.wires.values())
            if not (said or self.requests or self.inbox or under_way):
                return
        raise AssertionError("it does not come to rest")

    @rule(object_=st.sampled_from(OBJECTS))
    def publish_and_flow(self, object_: str) -> None:
        self.publish(object_)
        self.flow()

    @rule()
    def beats_flow(self) -> None:
        """Time for a Beat, and its answer arrives."""
        self.flow()
        self.time_passes(5.1)
        self.flow()

    @rule(name=st.sampled_from(DEVICES), object_=st.sampled_from(OBJECTS))
    def want(self, name: str, object_: str) -> None:
        self.devices[name].register(object_)

    @rule(name=st.sampled_from(DEVICES), object_=st.sampled_from(OBJECTS))
    def do_not_want(self, name: str, object_: str) -> None:
        self.devices[name].unregister(object_)

    @rule(name=st.sampled_from(DEVICES))
    def device_looks_at_the_time(self, name: str) -> None:
        """It pings, asks again or gives up, if that is due."""
        self.devices[name].tick(self.now_s)
        self.look_whether_over(name)

    @rule(object_=st.sampled_from(OBJECTS), urgent=st.booleans())
    def publish(self, object_: str, urgent: bool = False) -> None:
        self.versions += 1
        self.matcher.publish(object_, self.versions, urgent=urgent)
        self.take_records()

    @rule(count=st.sampled_from([1, 2, 1000]))
    def matcher_reads(self, count: int) -> None:
        for _ in range(min(count, len(self.requests))):
            self.matcher.on_request(self.requests.popleft().request)
            self.take_records()

    @rule(count=st.sampled_from([1, 2, 1000]))
    def gateway_reads(self, count: int) -> None:
        for _ in range(min(count, len(self.inbox))):
            record = self.inbox.popleft()
            view = self.gateway.views[0]
            begins = record.generation > view.generation
            gap = record.gateway and record.generation >= view.generation
            last = 0 if begins else view.number
            gap = gap and last is not None and record.number != last + 1
            outputs = inbox_outputs(self.gateway, record, self.now_s)
            if gap:
                # Whatever else is in the record, every session is asked for anew, or will be once drained.
                asks = {session.number: session.question.number for session in self.gateway.sessions()}
                slow = {s.number for s in self.gateway.sessions() if s.state is SessionState.SLOW}
                self.do(outputs)
                for session in self.gateway.sessions():
                    assert session.question.number > asks[session.number] or session.number in slow
            else:
                self.do(outputs)

    @precondition(lambda self: self.inbox)
    @rule()
    def inbox_record_lost(self) -> None:
        """Kafka did not take it: the matcher will find out, and give the partition up without a commit."""
        self.inbox.popleft()
        self.uncommitted = True

    @rule(away=st.booleans())
    def kafka_goes_or_comes(self, away: bool) -> None:
        """While it is away, requests expire."""
        self.kafka_away = away

    @rule(repeat=st.integers(0, 4), forgetful=st.booleans())
    def take_over(self, repeat: int, forgetful: bool) -> None:
        if forgetful:  # the old one had taken the gateway for dead, or had stored nothing of the sessions
            self.matcher.sessions.clear()
        self.matcher.take_over(len(self.matcher.log) if self.uncommitted else repeat)
        self.uncommitted = False
        self.take_records()

    @rule()
    def matcher_forgets_gateways(self) -> None:
        self.matcher.forget_gateways()

    @rule()
    def matcher_loses_its_state(self) -> None:
        self.lost = {name for name, device in self.devices.items() if device.state.objects}
        self.matcher.registrations.clear()
        self.matcher.forget_gateways()

    @rule()
    def inbox_restarts(self) -> None:
        """The inbox's records were removed before they were read."""
        self.inbox.clear()
        self.do(self.gateway.on_inbox_lost(self.now_s))

    @rule(seconds=st.sampled_from([0.3, 1.1, 4.0, 12.0, 40.0]))
    def time_passes(self, seconds: float) -> None:
        self.now_s += seconds
        self.do(self.gateway.on_tick(self.now_s))

    def take_records(self) -> None:
        self.inbox.extend(record for _, record in self.matcher.take_records())

    # --- what holds

    def check_cursor(self, name: str) -> None:
        """What the device believes is true: what it lacks are objects whose newest version lies above its cursor."""
        device = self.devices[name]
        state = device.state
        if name in self.lost or state.cursor is None:
            return
        assert state.cursor < len(self.matcher.log)
        for object_ in state.objects:
            newest = self.matcher.newest(object_)
            is_pending = state.pending.get(interest_in(object_)) == REGISTER
            if not is_pending and newest is not None and newest.offset <= state.cursor:
                assert state.floors.get(object_) == (0, newest.version), (object_, state.cursor)

    @invariant()
    def live_sessions_are_the_ones_that_fan_outs_reach(self) -> None:
        if not hasattr(self, "gateway"):
            return
        view = self.gateway.views[0]
        sessions = self.gateway.sessions()
        assert view.sessions == {session.number: session for session in sessions}
        assert view.checksum == sum(session.number for session in sessions)
        live = {session.number for session in sessions if session.state is SessionState.LIVE}
        assert {number for of_one in view.live.values() for number in of_one} == live
        for session in sessions:
            assert not (session.blocked and session.state is SessionState.LIVE)
            assert session.number in view.live[session.dialect] or session.number not in live
            assert session.wake_s <= max(session.deadline_s(), self.now_s), "nobody would look at it in time"
        assert view.position < len(self.matcher.log)

    def teardown(self) -> None:
        """Faults stop: everybody learns the newest of everything."""
        if not hasattr(self, "gateway"):
            return
        self.kafka_away = False
        for name in DEVICES:
            self.stall(name, stalled=False)
        end_s = self.now_s + SETTLED_WITHIN_S
        while self.now_s < end_s:
            for name in DEVICES:
                if name not in self.wires:
                    self.connect(name, unnoticed=True)
                self.device_looks_at_the_time(name)
            self.flow()
            self.time_passes(1.0)
            self.live_sessions_are_the_ones_that_fan_outs_reach()
            if not self.unsettled():
                return
        raise AssertionError(self.unsettled())

    def unsettled(self) -> list[str]:
        """What is not yet as it should be."""
        found = []
        for name, device in self.devices.items():
            wire = self.wires.get(name)
            session = wire and self.gateway._connections.by_peer.get(wire)
            if not isinstance(session, Identified) or session.state is not SessionState.LIVE or not device.caught_up:
                found.append(f"{name} is not live: {session}")
                continue
            state = device.state
            if state.pending:
                found.append(f"{name} waits: {state.pending}")
            if state.cursor != len(self.matcher.log) - 1:
                found.append(f"{name} is at {state.cursor}")
            registered = self.matcher.registrations.get(f"animal.observer/region-1/{name}", set())
            if state.objects != registered:
                found.append(f"{name} wants {state.objects} and is registered for {registered}")
            for object_ in state.objects:
                newest = self.matcher.newest(object_)
                if newest is not None and state.floors.get(object_) != (0, newest.version):
                    found.append(f"{name} has {state.floors.get(object_)} of {object_}, not {newest.version}")
        if not len(self.gateway.sessions()) == len(DEVICES) == len(self.matcher.sessions):
            found.append(f"{len(self.gateway.sessions())} sessions here, {len(self.matcher.sessions)} there")
        return found


TestWorld = World.TestCase
TestWorld.settings = settings(
    max_examples=examples(0.6), stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
