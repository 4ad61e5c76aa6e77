"""Described objects, and the device that registers for them by queries.

Stands for: described, queries
"""

from dataclasses import replace

import pytest
from coldnotify_loadtest.described import LOADS, DescribedLoad, a_group_each
from coldnotify_loadtest.devices.queries import QueryDevice
from coldnotify_loadtest.experiments.described_load import series, summary
from coldnotify_matcher.engine.interests.by_query.query import query_of
from coldnotify_schemas.descriptions import check_description
from coldnotify_schemas.digest import digest, sets_digest
from coldnotify_schemas.frames import CLIENT_FRAME_BYTES_MAX, FrameBuffer, encode, parse_client_frame
from coldnotify_schemas.interests import query_hash
from coldnotify_schemas.partitioner import partition_of
from coldnotify_schemas.wire_pb2 import ClientFrame, GatewayFrame, Notification, Registered

FEW = DescribedLoad(fan_out=4, queries_each=2, distinct=4, fit=0.25)
ONE = DescribedLoad(fan_out=1, registrations=1)
(TEXT,) = ONE.queries(0)
QUERY = query_hash(TEXT)


def said(data: bytes) -> list[ClientFrame]:
    return [parse_client_frame(body) for body in FrameBuffer(CLIENT_FRAME_BYTES_MAX).feed(data)]


def notification(name: str, **more: object) -> bytes:
    return encode(GatewayFrame(notification=Notification(name=name, **more)))  # type: ignore[arg-type]


def registered(**more: object) -> bytes:
    return encode(GatewayFrame(registered=Registered(**more)))  # type: ignore[arg-type]


def frame(kind: str, **more: object) -> bytes:
    made = GatewayFrame()
    part = getattr(made, kind)
    part.SetInParent()
    for name, value in more.items():
        setattr(part, name, value)
    return encode(made)


def test_devices_have_the_next_queries_in_turn_and_new_ones_that_nobody_had() -> None:
    assert [FEW.query_numbers(device) for device in range(3)] == [[0, 1], [2, 3], [0, 1]]
    texts = {FEW.text(number) for number in range(4)} | {FEW.new_query(d, n) for d in range(4) for n in range(3)}
    assert len(texts) == 4 + 12
    same_objects = DescribedLoad(distinct=1000)
    assert len({same_objects.text(number) for number in range(1000)}) == 1000
    groups = a_group_each("a", 8)
    assert [partition_of("a", group, 8) for group in groups] == list(range(8))


@pytest.mark.parametrize("few", [FEW, replace(FEW, by_level=True)], ids=["range", "level"])
def test_expected_loads_equal_the_service_evaluation(few: DescribedLoad) -> None:
    turns = dict.fromkeys(range(200), 3)
    loads = few.loads(turns)
    for device in range(2):
        sets = []
        for number, text in zip(few.query_numbers(device), few.queries(device), strict=True):
            query = query_of(text)
            names = [
                few.object(0, n)
                for n in turns
                if query.matches(few.object(0, n), check_description(few.description(n, 2)))
            ]
            assert 0.1 < len(names) / len(turns) < 0.4, number
            sets.append((query_hash(text), digest(names)))
        assert few.held(device, loads) == sets_digest(sets)
    assert max(loads.values()) < LOADS


def a_device_that_is_ready() -> QueryDevice:
    device = QueryDevice(ONE, 0)
    (first,) = said(device.hello())
    assert (list(first.hello.register), first.hello.interests[0].text) == (["thing-0-0"], TEXT)
    assert first.hello.digest == (digest(["thing-0-0"]) + QUERY) % 2**64
    device.receive(frame("welcome", in_sync=True, epoch=7))
    device.receive(registered(begun=[QUERY]))
    device.receive(notification("a", answer=True, entered=[QUERY]) + registered(answered=[QUERY]))
    device.receive(frame("caught_up", complete=90))
    assert device.ready
    return device


def held(*names: str) -> int:
    return sets_digest([(QUERY, digest(names))])


def test_a_device_keeps_its_members_and_stamps_differences_with_their_offset() -> None:
    device = a_device_that_is_ready()
    assert device.held().digest == held("a")
    assert device.receive(notification("b", offset=100, payload=b"5", entered=[QUERY])) == (b"", (-101,))
    assert device.receive(notification("b", offset=101, payload=b"6")) == (b"", (6,))
    other = a_device_that_is_ready()
    assert other.receive(notification("b", offset=100, payload=b"5", entered=[QUERY])) == (b"", (-101,))
    assert other.held().digest == held("a", "b"), "what is remembered of these bytes is done, too"
    assert device.receive(notification("a", offset=102, left=[QUERY]))[1] == (-103,)
    assert device.held().digest == held("b")
    (again,) = said(device.hello())
    assert not again.hello.interests
    assert (again.hello.epoch, again.hello.cursor) == (7, 102)


def test_a_device_asks_only_if_its_sets_are_others() -> None:
    device = a_device_that_is_ready()
    device.hello()
    device.receive(frame("welcome", in_sync=True))
    assert device.receive(frame("caught_up", complete=91, sets_digest=held("a"))) == (b"", ())
    assert device.held().asked == 0
    device.hello()
    device.receive(frame("welcome", in_sync=True))
    (asked,) = said(device.receive(frame("caught_up", complete=92, sets_digest=held("b")))[0])
    assert (asked.register.interests[0].text, asked.register.interests[0].held) == (TEXT, digest(["a"]))
    device.receive(registered(request=asked.register.request) + registered(begun=[QUERY]))
    device.receive(notification("b", answer=True, entered=[QUERY]) + registered(answered=[QUERY]))
    device.receive(frame("caught_up", complete=93))
    assert device.ready
    assert (device.held().digest, device.held().asked, device.held().again) == (held("b"), 1, 0)


def test_a_device_replaces_its_oldest_query() -> None:
    device = a_device_that_is_ready()
    gone, new = said(device.change(1))
    assert list(gone.unregister.interests) == [QUERY]
    assert new.register.interests[0].text == ONE.new_query(0, 0)
    device.receive(frame("unregistered", request=gone.unregister.request))
    device.receive(registered(request=new.register.request))
    (lost,) = said(device.receive(frame("caught_up", complete=95))[0])
    assert list(lost.register.interests) == list(new.register.interests), "its answer has not come"
    device.receive(registered(request=lost.register.request, refused=[{"interest": query_hash(ONE.new_query(0, 0))}]))
    assert (device.held().queries, device.held().refused, device.held().again) == (0, 1, 1)


def test_more_than_fit_into_a_hello_are_refused() -> None:
    with pytest.raises(ValueError, match="more than 64"):
        QueryDevice(DescribedLoad(queries_each=65, distinct=65), 0)


def test_latencies_are_those_of_changes_that_are_known() -> None:
    found = summary([(1, 3_000_000), (1, 5_000_000), (9, 7)], {1: 1_000_000})
    assert (found["told"], found["count"], round(found["mean_ms"])) == (3, 2, 3)


def test_a_series_has_a_point_for_each_half_second_in_which_something_came() -> None:
    stamps = {1: 1_000_000_000, 2: 1_500_000_000, 3: 2_600_000_000}
    told = [(1, 1_002_000_000), (1, 1_003_000_000), (2, 1_501_000_000), (3, 2_604_000_000), (9, 7)]
    points = [(at_s, round(p95_ms), count) for at_s, p95_ms, count in series(told, stamps, 1_000_000_000)]
    assert points == [(0.0, 3, 2), (0.5, 1, 1), (1.5, 4, 1)]
