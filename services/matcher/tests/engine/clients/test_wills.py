"""Wills: each is published exactly once, whoever owns the partition, and never after its client's word.

Stands for: will_records
"""

import json
from random import Random

import pytest
from coldnotify_matcher.engine.clients.wills import BACK_S, OVER_KEPT_MS
from coldnotify_matcher.engine.objects.objects import Obj
from coldnotify_matcher.engine.upkeep.upkeep import GATEWAY_SILENCE_MS_MAX
from coldnotify_schemas import internal_pb2
from coldnotify_schemas.channels import parse_message_headers
from coldnotify_schemas.close_codes import CloseCode
from coldnotify_schemas.internal_pb2 import WILL_DROP, WILL_PUBLISH, WILL_WAIT
from coldnotify_schemas.matcher_state import EXPIRY_NEVER, GENERATION_KEY
from coldnotify_testkit.channels_bench import ChannelsBench
from coldnotify_testkit.engine_bench import GATEWAY, OTHER_GATEWAY, PARTITION, PREFIX, TOPICS, EngineBench
from coldnotify_testkit.kept_device import HOUR_S, KeptDevice, KeptGateway

STATUS = "unit-1/status"
OFFLINE = b'"offline"'
SILENT_S = GATEWAY_SILENCE_MS_MAX // 1000


def will(*, delay_s: int = 0, payload: bytes = OFFLINE) -> internal_pb2.Will:
    """A retained will."""
    return internal_pb2.Will(topic=STATUS, payload=payload, retain=True, qos=1, delay_s=delay_s)


def connected(
    bench: EngineBench, *, delay_s: int = 0, expiry_s: int = HOUR_S, gateway: int = GATEWAY, clean: bool = False
) -> KeptDevice:
    """A device with a will, which has said that it is online."""
    device = KeptGateway(bench, gateway).device().connect(will=will(delay_s=delay_s), expiry_s=expiry_s, clean=clean)
    device.gateway.run()
    assert device.present is not None
    online(bench)
    return device


def online(bench: EngineBench) -> None:
    """The device says that it is there."""
    bench.publish(STATUS, b'{"version":%d,"payload":"online"}' % (bench.now_ms - 1))
    bench.settle()


def published(bench: EngineBench) -> list[int]:
    """Versions of the will's records, in the order of the log."""
    obj = f"{PREFIX}{STATUS}".encode()
    values = [one.value or b"" for one in bench.log.records[TOPICS.objects] if one.key == obj]
    return [int(one.partition(b'"version":')[2].split(b",")[0]) for one in values if b"offline" in one]


def status(bench: EngineBench) -> Obj:
    """The object that everybody ends up with."""
    found = bench.engine.state.objects.get(PREFIX + STATUS)
    assert found is not None
    return found


def newest(bench: EngineBench) -> bytes:
    """Its payload."""
    return status(bench).payload


def pass_by(bench: EngineBench, seconds: int, *beating: KeptDevice) -> None:
    """Time passes, second by second; the gateways of these devices are heard."""
    for _ in range(seconds):
        for device in beating:
            bench.beat(*device.gateway.devices, gateway=device.gateway.id)
        bench.tick(1_000)
        for device in beating:
            items = bench.items(device.gateway.id)
            device.gateway.hand_over(item for item in items if not item.HasField("beat"))


def stored(bench: EngineBench, device: KeptDevice) -> bytes | None:
    """The record of its wills."""
    return bench.latest(TOPICS.registrations).get(f"{PREFIX}{device.name}/will")


def test_a_will_is_stored_before_its_client_hears_that_it_is_connected() -> None:
    bench = EngineBench()
    device = KeptGateway(bench).device().connect(will=will())
    step = bench.step()
    assert f"{PREFIX}{device.name}/will".encode() in [write.key for write in step.state]
    assert f"{PREFIX}{device.name}".encode() in [write.key for write in step.seals]


@pytest.mark.parametrize("expiry_s", [0, HOUR_S])
def test_a_lost_connection_publishes_the_will_once(expiry_s: int) -> None:
    bench = EngineBench()
    device = connected(bench, expiry_s=expiry_s)
    device.leave(will=WILL_PUBLISH)
    bench.settle()
    pass_by(bench, 60)
    assert len(published(bench)) == 1
    assert newest(bench) == OFFLINE


@pytest.mark.parametrize("delay_s", [0, 5])
def test_a_clean_disconnect_publishes_nothing(delay_s: int) -> None:
    bench = EngineBench()
    device = connected(bench, delay_s=delay_s)
    device.leave(will=WILL_DROP)
    pass_by(bench, 60)
    bench.load()
    pass_by(bench, 60)
    assert not published(bench)


def test_a_silent_gateways_wills_are_published_once_and_its_sessions_are_not_let_in_again() -> None:
    bench = EngineBench()
    device = connected(bench)
    pass_by(bench, SILENT_S - 1)
    assert not published(bench)
    pass_by(bench, 3)
    assert len(published(bench)) == 1
    device.announce()
    device.gateway.run()
    assert device.closed is not None
    assert device.closed[0] == CloseCode.UNKNOWN_SESSION
    device.connect(will=will())
    device.gateway.run()
    assert device.present
    pass_by(bench, OVER_KEPT_MS // 1000 + 5, device)
    assert len(published(bench)) == 1
    device.leave(will=WILL_PUBLISH)
    pass_by(bench, 2)
    assert len(published(bench)) == 2


def test_a_session_that_was_only_silent_goes_on_with_its_delayed_will() -> None:
    bench = EngineBench()
    device = connected(bench, delay_s=10)
    pass_by(bench, SILENT_S + 2)
    device.announce()
    device.gateway.run()
    assert device.closed is None
    pass_by(bench, 30, device)
    assert not published(bench)
    device.leave(will=WILL_PUBLISH)
    pass_by(bench, 9)
    assert not published(bench)
    pass_by(bench, 2)
    assert len(published(bench)) == 1


def test_a_delayed_will_comes_after_its_delay_or_when_the_set_expires() -> None:
    for expiry_s, after_s in ((HOUR_S, 20), (8, 8), (EXPIRY_NEVER, 20)):
        bench = EngineBench()
        device = connected(bench, delay_s=20, expiry_s=expiry_s)
        device.leave(will=WILL_PUBLISH)
        pass_by(bench, after_s - 1)
        assert not published(bench), expiry_s
        pass_by(bench, 2)
        assert len(published(bench)) == 1, expiry_s


@pytest.mark.parametrize("connected_still", [False, True])
def test_an_operator_who_forgets_a_client_ends_the_delay_of_its_will(connected_still: bool) -> None:
    bench = EngineBench()
    device = connected(bench, delay_s=600)
    if not connected_still:
        device.leave(will=WILL_PUBLISH)
        bench.settle()
    bench.operator(device.name, forget=internal_pb2.Forget(reason="gone"))
    pass_by(bench, 2)
    assert len(published(bench)) == 1


@pytest.mark.parametrize(("delay_s", "clean", "wills"), [(0, False, 1), (9, False, 0), (9, True, 1), (0, True, 1)])
@pytest.mark.parametrize("left", [False, True])
def test_a_takeover_publishes_the_will_unless_it_is_delayed_and_the_session_goes_on(
    delay_s: int, clean: bool, wills: int, left: bool
) -> None:
    bench = EngineBench()
    device = connected(bench, delay_s=delay_s)
    if left:
        device.leave(will=WILL_PUBLISH)
    other = KeptGateway(bench, OTHER_GATEWAY).device(device.name).connect(will=will(), clean=clean)
    other.gateway.run()
    pass_by(bench, 40, other)
    assert len(published(bench)) == wills
    other.leave(will=WILL_PUBLISH)
    pass_by(bench, 2)
    assert len(published(bench)) == wills + 1


def test_a_client_that_is_back_in_time_after_its_gateway_was_stopped_has_no_will_published() -> None:
    for back_s, wills in ((BACK_S - 2, 0), (BACK_S + 2, 1)):
        bench = EngineBench()
        device = connected(bench, expiry_s=0, clean=True)
        device.leave(will=WILL_WAIT)
        pass_by(bench, back_s)
        device.connect(will=will(), clean=True, expiry_s=0)
        device.gateway.run()
        pass_by(bench, 60, device)
        assert len(published(bench)) == wills
        device.leave(will=WILL_PUBLISH)
        pass_by(bench, 2)
        assert len(published(bench)) == wills + 1


def test_a_session_without_a_will_ends_the_one_before() -> None:
    bench = EngineBench()
    device = connected(bench)
    device.leave(will=WILL_WAIT)
    device.connect()
    device.gateway.run()
    pass_by(bench, 60, device)
    assert not published(bench)
    device.leave(will=WILL_PUBLISH)
    pass_by(bench, 60)
    assert not published(bench)


def test_nothing_is_kept_of_a_will_that_is_long_over() -> None:
    bench = EngineBench()
    device = connected(bench)
    device.leave(will=WILL_PUBLISH)
    pass_by(bench, 2)
    assert stored(bench, device) is not None
    pass_by(bench, OVER_KEPT_MS // 1000 + 2)
    assert stored(bench, device) is None
    assert not len(bench.engine.state.wills)


def test_a_zero_byte_will_deletes_the_object() -> None:
    bench = EngineBench()
    device = KeptGateway(bench).device().connect(will=will(payload=b""))
    device.gateway.run()
    online(bench)
    device.leave(will=WILL_PUBLISH)
    pass_by(bench, 2)
    assert status(bench).deleted


@pytest.mark.parametrize("number", [1, 7])
def test_a_will_counts_on_where_its_object_counts(number: int) -> None:
    bench = EngineBench()
    device = KeptGateway(bench).device().connect(will=will())
    device.gateway.run()
    bench.version(STATUS, number)
    bench.settle()
    device.leave(will=WILL_PUBLISH)
    pass_by(bench, 2)
    assert published(bench) == [number + 1]


def test_a_will_follows_what_its_client_published_before() -> None:
    bench = EngineBench()
    for how in (WILL_DROP, WILL_PUBLISH):
        request = bench.request(leave=internal_pb2.Leave(will=how))
        assert bench.partition.needs_barrier(request) == (how == WILL_PUBLISH)


def test_the_claim_is_written_behind_the_decision() -> None:
    bench = EngineBench()
    device = connected(bench)
    device.leave(will=WILL_PUBLISH)
    bench.read()
    bench.engine.on_requests([(len(bench.log.requests) - 1, bench.log.requests[-1])], bench.now_ms)
    outputs = bench.partition.take_step(bench.now_ms)
    assert f"{PREFIX}{device.name}/will".encode() in [one.key for one in outputs.state]
    assert [one.key for one in outputs.seals] == [f"{PREFIX}{device.name}".encode(), GENERATION_KEY.encode()]
    assert TOPICS.objects not in [one.topic for one in (*outputs.state, *outputs.seals, *outputs.rest)]


# --- messages


def test_a_will_without_retain_is_a_message_with_an_id_that_a_successor_says_again() -> None:
    bench = ChannelsBench()
    said = internal_pb2.Will(topic=STATUS, payload=b"gone")
    bench.request(client="unit-1", open=internal_pb2.Open(ask=1, kept=internal_pb2.Kept(will=said)))
    bench.settle()
    bench.request(client="unit-1", leave=internal_pb2.Leave(will=WILL_PUBLISH))
    bench.settle()
    bench.step()
    (sent,) = bench.moved
    assert (sent.key, sent.value, sent.partition) == (f"{PREFIX}{STATUS}".encode(), b"gone", PARTITION)
    headers = parse_message_headers(sent.headers)
    assert (headers.id, headers.source) == (f"will-{GATEWAY:016x}-1", "unit-1")
    bench.tick(OVER_KEPT_MS)
    assert len(bench.moved) == 1


def test_a_message_that_was_decided_is_sent_again_with_its_id() -> None:
    bench = ChannelsBench()
    said = internal_pb2.Will(topic=STATUS, payload=b"gone")
    bench.request(client="unit-1", open=internal_pb2.Open(ask=1, kept=internal_pb2.Kept(will=said)))
    bench.settle()
    bench.request(client="unit-1", leave=internal_pb2.Leave(will=WILL_PUBLISH))
    bench.handle()
    bench.step()
    bench.step(writes_lost=slice(1, None))  # sent, and nothing said of it
    bench.take_over()
    bench.settle()
    ids = [parse_message_headers(one.headers).id for one in bench.moved]
    assert ids == [f"will-{GATEWAY:016x}-1"] * 2


def test_a_message_falls_away_where_there_is_no_topic_for_it() -> None:
    bench = EngineBench()
    said = internal_pb2.Will(topic=STATUS, payload=b"gone")
    device = KeptGateway(bench).device().connect(will=said)
    device.gateway.run()
    device.leave(will=WILL_PUBLISH)
    pass_by(bench, 2)
    assert bench.engine.state.counts["wills_not_published"] == 1
    assert stored(bench, device) is not None
    pass_by(bench, OVER_KEPT_MS // 1000 + 2)
    assert stored(bench, device) is None


@pytest.mark.parametrize("number", [0, 1])
def test_a_will_expires_so_long_after_it_was_due_also_where_it_is_sent_again(number: int) -> None:
    bench = ChannelsBench()
    said = internal_pb2.Will(topic=STATUS, payload=b"gone", delay_s=5, expiry_s=9, properties=b"\1")
    kept = internal_pb2.Kept(will=said, expiry_s=HOUR_S)
    bench.request(client="unit-1", open=internal_pb2.Open(ask=1, kept=kept))
    bench.settle()
    bench.request(client="unit-1", leave=internal_pb2.Leave(will=WILL_PUBLISH))
    due_ms = bench.now_ms + 5_000
    bench.settle()
    if number:
        bench.take_over()
    bench.tick(20_000)
    bench.settle()
    (sent,) = bench.moved
    headers = parse_message_headers(sent.headers)
    assert abs((headers.expires_at or 0) - due_ms - 9_000) <= 1_000
    assert headers.properties == b"\1"


@pytest.mark.parametrize("payload", [OFFLINE, b""])
def test_a_retained_will_expires_unless_it_deletes(payload: bytes) -> None:
    bench = EngineBench()
    said = will(payload=payload)
    said.expiry_s, said.properties = 9, b"\1"
    device = KeptGateway(bench).device().connect(will=said)
    device.gateway.run()
    online(bench)
    device.leave(will=WILL_PUBLISH)
    pass_by(bench, 2)
    key = f"{PREFIX}{STATUS}".encode()
    last = [one for one in bench.log.records[TOPICS.objects] if one.key == key][-1]
    assert (b"expires_at" in (last.value or b"")) is bool(payload)
    assert last.said.properties == b"\1"
    assert status(bench).deleted is not bool(payload)


# --- successors


def test_a_successor_publishes_what_its_predecessor_owed() -> None:
    bench = EngineBench()
    device = connected(bench, delay_s=10)
    device.leave(will=WILL_PUBLISH)
    bench.settle()
    pass_by(bench, 5)
    bench.load()
    pass_by(bench, 4)
    assert not published(bench)
    pass_by(bench, 3)
    assert len(published(bench)) == 1


@pytest.mark.parametrize("how", ["leave", "silence", "takeover"])
@pytest.mark.parametrize("committed", [False, True])
def test_a_matcher_that_dies_at_any_write_leaves_exactly_one_will(how: str, committed: bool) -> None:
    """Requests from before the session's beginning on may be handled again."""
    cuts, whole = 0, False
    while not whole:
        bench = EngineBench()
        began = bench.committed
        device = connected(bench)
        if how == "leave":
            device.leave(will=WILL_PUBLISH)
        elif how == "takeover":
            KeptGateway(bench, OTHER_GATEWAY).device(device.name).connect()
        else:
            pass_by_without_steps(bench, SILENT_S + 1)
        whole = not cut_after(bench, cuts, commits=committed)
        if not committed:
            bench.handle_again(began)
        bench.load()
        pass_by(bench, 70)
        assert len(set(published(bench))) == 1, (cuts, published(bench))
        assert newest(bench) == OFFLINE
        cuts += 1
    assert cuts > 5


def cut_after(bench: EngineBench, writes: int, *, commits: bool) -> bool:
    """Step by step, until so many records are durable. Returns false if there are no more."""
    left = writes
    while step := bench.step():
        count = len(step.state) + len(step.seals) + step.fence + len(step.tombstones)
        if left < count:
            bench.make_durable(step, count - left, len(step.inboxes))
            return True
        left -= count
        bench.make_durable(step)
        if commits:
            bench.commit()
    return False


def pass_by_without_steps(bench: EngineBench, seconds: int) -> None:
    """Time passes; nothing of the last second is durable yet."""
    pass_by(bench, seconds - 1)
    bench.later(1_000)
    bench.engine.on_tick(bench.now_ms)


@pytest.mark.parametrize("how", ["leave", "silence"])
def test_a_zombie_publishes_nothing(how: str) -> None:
    bench = EngineBench()
    device = connected(bench)
    if how == "leave":
        device.leave(will=WILL_PUBLISH)
    zombie = bench.partition
    if how == "silence":
        pass_by_without_steps(bench, SILENT_S + 1)
    else:
        bench.read()
        requests = list(enumerate(bench.log.requests))[bench._requests_read :]
        zombie.engine.on_requests(requests, bench.now_ms)
    late = zombie.engine.take_step(bench.now_ms)
    assert late.fence
    fence = zombie.claim_again()
    bench.load()
    if how == "silence":
        device.announce()
        device.gateway.run()
        assert device.closed is None
    for write in (*late.state, *late.seals, fence, *late.tombstones):
        bench.log.write(write)
    bench.settle()
    pass_by(bench, 40, *([device] if how == "silence" else []))
    assert len(published(bench)) == (how == "leave")
    bench.load()
    pass_by(bench, 5, *([device] if how == "silence" else []))
    assert len(published(bench)) == (how == "leave")
    # What it would have published comes only behind its fence.
    assert not zombie.engine.take_step(bench.now_ms).state


def test_a_matcher_that_stood_still_waits_for_gateways_before_it_publishes() -> None:
    bench = EngineBench()
    device = connected(bench)
    pass_by(bench, 3, device)
    bench.later(40_000)
    bench.tick(0)
    device.announce()
    device.gateway.run()
    pass_by(bench, 60, device)
    assert device.closed is None
    assert not published(bench)


def test_a_decided_version_is_stale_once_others_have_published() -> None:
    bench = EngineBench()
    device = connected(bench)
    device.leave(will=WILL_PUBLISH)
    step = bench.step()
    bench.make_durable(step)
    step = bench.step()
    assert [write.topic for write in step.state] == [TOPICS.objects]
    bench.later(5_000)
    bench.publish(STATUS, b'{"version":%d,"payload":"online"}' % bench.now_ms)
    bench.load()
    pass_by(bench, 5)
    assert newest(bench) == b'"online"'


# --- at random


class Schedule:
    """Sessions of a few devices at two gateways, with matchers that die at any write. Each will is a payload of its
    own, so that the log tells how often it was published."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.bench = EngineBench()
        self.gateways = [KeptGateway(self.bench), KeptGateway(self.bench, OTHER_GATEWAY)]
        self.devices = {name: [one.device(name) for one in self.gateways] for name in ("unit-1", "unit-2")}
        self.current: dict[str, KeptDevice | None] = dict.fromkeys(self.devices)
        self.wills: dict[str, list[int]] = {name: [] for name in self.devices}
        self.must: set[int] = set()
        self.must_not: set[int] = set()
        self.number = 0

    def play(self) -> None:
        """Play it to its end, and judge."""
        for _ in range(40):
            self.one_step()
        for name, device in self.current.items():
            if device is not None:
                self.leave(name, device, WILL_PUBLISH)
        self.pass_by(40)
        found = [
            int(json.loads(one.value or b"")["payload"])
            for one in self.bench.log.records[TOPICS.objects]
            if one.value and b"payload" in one.value
        ]
        # Other records may bring the same version again.
        versions = {
            (one.key, json.loads(one.value or b"")["version"]) for one in self.bench.log.records[TOPICS.objects]
        }
        assert len(versions) == len(set(found)), "one version each"
        assert self.must <= set(found), f"lost {self.must - set(found)}"
        assert not self.must_not & set(found), f"too much {self.must_not & set(found)}"

    def one_step(self) -> None:
        """One thing happens."""
        draw, name = self.random.random(), self.random.choice(list(self.devices))
        device = self.current[name]
        if draw < 0.3:
            self.connect(name, device)
        elif draw < 0.5 and device is not None:
            self.leave(name, device, self.random.choice([WILL_PUBLISH, WILL_PUBLISH, WILL_DROP]))
        elif draw < 0.65:
            self.crash()
        elif draw < 0.75:
            self.zombie()
        else:
            self.pass_by(self.random.choice([1, 3, 10]))

    def connect(self, name: str, before: KeptDevice | None) -> None:
        """A session with a will, which takes over from another one."""
        if before is not None:
            self.must.add(self.wills[name][-1])
        self.number += 1
        self.wills[name].append(self.number)
        said = internal_pb2.Will(topic=f"{name}/status", payload=b"%d" % self.number, retain=True)
        device = self.current[name] = self.random.choice(self.devices[name]).connect(will=said)
        for other in self.devices[name]:
            if other is not device:
                other.gateway.forget(other)

    def leave(self, name: str, device: KeptDevice, how: internal_pb2.WillEnd) -> None:
        """It ends."""
        device.leave(will=how)
        (self.must_not if how == WILL_DROP else self.must).add(self.wills[name][-1])
        self.current[name] = None

    def crash(self) -> None:
        """The matcher dies after some of its writes."""
        cut_after(self.bench, self.random.randrange(12), commits=self.random.random() < 0.5)
        self.bench.load()

    def zombie(self) -> None:
        """The matcher is stopped; a successor takes over; then it wakes, and takes all gateways for dead."""
        old = self.bench.partition
        steps = [self.bench.step()]
        for second in range(20):
            old.engine.on_tick(self.bench.now_ms + second * 1_000)
        steps.append(old.engine.take_step(self.bench.now_ms + 20_000))
        self.bench.load()
        for step in steps:
            fence = [old.claim_again()] if step.fence else []
            for write in (*step.state, *step.seals, *fence, *step.tombstones):
                self.bench.log.write(write)
        assert not any(one.topic == TOPICS.objects for one in steps[1].state), "nothing is published with its decision"
        self.bench.settle()

    def pass_by(self, seconds: int) -> None:
        """Time passes; sessions are announced if their matcher does not know them."""
        for _ in range(seconds):
            for gateway in self.gateways:
                self.bench.beat(*gateway.devices, gateway=gateway.id)
            self.bench.tick(1_000)
            for gateway in self.gateways:
                items = self.bench.items(gateway.id)
                doubted = any(one.HasField("beat") and not one.beat.agreed for one in items)
                gateway.hand_over(item for item in items if not item.HasField("beat"))
                if doubted:
                    for device in list(gateway.devices.values()):
                        device.announce()
        for name, current in self.current.items():
            assert current is None or current.session, f"{name} was closed: {current and current.closed}"


@pytest.mark.parametrize("seed", range(30))
def test_each_will_is_published_once_whatever_happens(seed: int) -> None:
    Schedule(seed).play()
