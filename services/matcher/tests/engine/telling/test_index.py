"""Fan-out: one item for each gateway concerned, and who is in it."""

import pytest
from coldnotify_matcher.engine.gateways.gateways import GatewayView
from coldnotify_matcher.engine.objects.objects import GONE_KEPT_MAX, UNKNOWN
from coldnotify_matcher.record_headers import HeadedObjectRecord
from coldnotify_schemas import internal_pb2
from coldnotify_schemas.records import (
    INCARNATION_MAX,
)
from coldnotify_testkit.engine_bench import PREFIX, EngineBench, fan_outs, versions


def newest(bench: EngineBench, name: str = "o") -> tuple[int, int] | None:
    """(incarnation, version) of an object, as the engine has it."""
    obj = bench.engine.state.objects.get(PREFIX + name)
    return None if obj is None or obj.version == UNKNOWN else (obj.incarnation, obj.version)


def test_a_publish_is_one_item_for_each_gateway_concerned() -> None:
    bench = EngineBench()
    for session in (1, 2, 3):
        bench.opened("o", session=session, client=f"client-{session}")
    bench.opened("other", session=4, client="client-4")
    bench.publish("o", b'{"version":5,"payload":{"x":1}}')

    (item,) = bench.items()

    assert fan_outs([item]) == [("o", 5, 0, [1, 2, 3])]
    assert item.fan_out.newest.payload == b'{"x":1}'
    assert item.fan_out.newest.behind == 0
    assert not item.fan_out.newest.answer


def test_the_source_is_spared_the_live_notification_and_is_told_where_it_has_no_cursor() -> None:
    bench = EngineBench()
    bench.opened("o", session=1, client="client-1")
    bench.opened("o", session=2, client="client-2")
    bench.publish("o", b'{"version":5,"source":"client-1"}')
    assert fan_outs(bench.items()) == [("o", 5, 0, [2])]

    bench.catch_up(None, ask=9)

    (item,) = bench.items()
    assert versions(item.page.newest) == [("o", 5)]


def test_an_expired_payload_is_not_fanned_out() -> None:
    bench = EngineBench()
    bench.opened("o")
    bench.publish("o", b'{"version":5,"payload":1,"expires_at":%d}' % bench.now_ms)

    (item,) = bench.items()

    assert item.fan_out.newest.version == 5
    assert item.fan_out.newest.payload == b""


def test_deleted_is_a_version_like_any_other() -> None:
    bench = EngineBench()
    bench.opened("o")
    bench.publish("o", b'{"version":6,"deleted":true}')

    (item,) = bench.items()

    assert (item.fan_out.newest.version, item.fan_out.newest.deleted) == (6, True)


def test_sessions_that_come_and_go_do_not_pile_up_in_an_object_that_is_never_published() -> None:
    bench = EngineBench()
    for session in range(1, 5 * GONE_KEPT_MAX):
        bench.opened("o", session=session)
        bench.leave(session=session)
        bench.settle()

    (subscribers,) = bench.engine.state.objects[f"{PREFIX}o"].subscribers.values()
    assert len(subscribers.numbers) <= 2 * GONE_KEPT_MAX


def test_a_fan_out_is_never_larger_than_the_room_that_is_kept_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = EngineBench()
    name = "\N{GRINNING FACE}" * 63
    bench.opened(name)
    key = f"{PREFIX}{name}".encode()
    value = b'{"version":%d,"incarnation":%d,"deleted":true,"payload":"%s"}' % (
        2**63 - 1,
        INCARNATION_MAX,
        b"x" * 4000,
    )
    trace = "00-" + "a" * 32 + "-" + "b" * 16 + "-01"
    room: list[int] = []

    new_item = GatewayView.new_item

    def noted(gateway: GatewayView, bytes_max: int) -> internal_pb2.Item:
        room.append(bytes_max)
        return new_item(gateway, bytes_max)

    monkeypatch.setattr(GatewayView, "new_item", noted)
    offset = 2**62
    record = HeadedObjectRecord(key, value, offset, timestamp_ms=2**62, moved=False, traceparent=trace, since=b"")
    bench.engine.on_object(record, bench.now_ms)
    ((_, told),) = bench.engine.take_step(bench.now_ms).inboxes

    (item,) = told.items
    assert item.fan_out.newest.offset == offset
    assert item.ByteSize() + 6 <= room[0]
