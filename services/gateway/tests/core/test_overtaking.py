"""What of high priority overtakes, and what it does not: whole frames, in their order, and no cursor moves by it.

Stands for: outputs
"""

from random import Random

import pytest
from coldnotify_gateway.core import State, Urgent, Waiting, part_bytes
from coldnotify_gateway.core.overtaking import urgent_frames
from coldnotify_schemas.frames import encode
from coldnotify_schemas.internal_pb2 import Item, Newest, Opened, Page
from coldnotify_schemas.wire_pb2 import GatewayFrame, Notification
from coldnotify_testkit.device_frames import ack, hello, parse, use_names
from coldnotify_testkit.gateway_bench import WireDouble, fan_out


def frame(number: int, payload_bytes: int = 0) -> bytes:
    return encode(GatewayFrame(notification=Notification(name=f"o{number}", payload=b"x" * payload_bytes)))


def urgent(number: int) -> Urgent:
    return Urgent(frame(1000 + number), frame(number))


def names(data: bytes) -> list[str]:
    return [one.notification.name for one in parse(data)]


def everything(waiting: Waiting) -> list[str]:
    return names(waiting.take(waiting.size_bytes))


# --- what waits


def test_an_urgent_frame_goes_in_front_of_what_waits_and_comes_again_at_its_place():
    waiting = Waiting()
    waiting.add(frame(1) + frame(2))
    waiting.add_urgent(urgent(3))
    waiting.add(frame(4))
    assert everything(waiting) == ["o1003", "o1", "o2", "o3", "o4"]
    assert (waiting.size_bytes, waiting.take(100)) == (0, b"")


def test_urgent_frames_keep_their_own_order():
    waiting = Waiting()
    waiting.add(frame(1))
    for number in (2, 3):
        waiting.add_urgent(urgent(number))
    assert everything(waiting) == ["o1002", "o1003", "o1", "o2", "o3"]


def test_where_nothing_waits_there_is_nothing_to_overtake():
    waiting = Waiting()
    waiting.add_urgent(urgent(1))
    assert everything(waiting) == ["o1"]
    waiting.add_urgent(urgent(2)._replace(at_its_place=b""))
    assert everything(waiting) == ["o1002"], "its place is in a page to come"


def test_what_is_taken_is_whole_frames_so_that_something_may_come_between_any_two():
    waiting = Waiting()
    page = b"".join(frame(number, 90) for number in range(10))
    waiting.add(page)
    part = waiting.take(len(page) // 4)
    assert names(part) == ["o0", "o1"]
    waiting.add_urgent(urgent(77))
    assert everything(waiting) == ["o1077", *(f"o{number}" for number in range(2, 10)), "o77"]


def test_one_frame_is_taken_however_long_it_is():
    waiting = Waiting()
    waiting.add(frame(1, 5000) + frame(2))
    assert names(waiting.take(10)) == ["o1"]
    assert names(waiting.take(10)) == ["o2"]
    waiting.add(frame(1))
    waiting.add_urgent(Urgent(frame(1002, 5000), b""))
    assert names(waiting.take(10)) == ["o1002"]
    assert names(waiting.take(10)) == ["o1"]


def test_what_nobody_will_take_is_forgotten():
    waiting = Waiting()
    waiting.add(frame(1))
    waiting.add_urgent(urgent(2))
    waiting.clear()
    assert (waiting.size_bytes, waiting.take(100)) == (0, b"")


@pytest.mark.parametrize("seed", range(20))
def test_whatever_is_added_and_taken_nothing_is_lost_and_what_is_in_turn_stays_in_turn(seed):
    random, waiting = Random(seed), Waiting()
    in_turn, ahead, taken, size = [], [], [], 0
    for number in range(300):
        if random.random() < 0.2:
            one = urgent(number)
            if waiting.size_bytes:
                ahead.append(f"o{1000 + number}")
            waiting.add_urgent(one)
            in_turn.append(f"o{number}")
        else:
            waiting.add(frame(number, random.choice([0, 1, 200])))
            in_turn.append(f"o{number}")
        if random.random() < 0.6:
            size = waiting.size_bytes
            part = waiting.take(random.choice([1, 50, 300]))
            assert waiting.size_bytes == size - len(part)
            taken += names(part)
    taken += everything(waiting)
    assert [name for name in taken if name in set(in_turn)] == in_turn
    assert [name for name in taken if name in set(ahead)] == ahead
    assert len(taken) == len(in_turn) + len(ahead)


def test_a_transport_is_handed_a_quarter_of_what_may_wait_and_never_next_to_nothing():
    assert (part_bytes(64 * 1024), part_bytes(12_500), part_bytes(0)) == (16 * 1024, 3125, 1024)


# --- what it says


def test_an_urgent_frame_is_an_answer_and_the_one_at_its_place_says_what_it_always_said():
    newest = Newest(name="o", version=3, offset=9, behind=2, payload=b"1")
    found = urgent_frames(newest, names=True, live=True)
    (ahead,), (at_its_place,) = parse(found.ahead), parse(found.at_its_place)
    assert ahead.notification.answer
    assert (at_its_place.notification.answer, at_its_place.notification.behind) == (False, 2)
    assert (ahead.notification.version, ahead.notification.payload) == (3, b"1")
    assert not newest.answer
    assert urgent_frames(newest, names=True, live=False) == Urgent(found.ahead, b"")


# --- whom it is told to


def high(name: str, version: int, offset: int, *sessions: int) -> Item:
    item = fan_out(name, version, offset, *sessions)
    item.fan_out.urgent = True
    return item


def told(wire: WireDouble) -> list[tuple[str, int, bool]]:
    return [
        (one.notification.name, one.notification.version, one.notification.answer)
        for one in wire.take()
        if one.HasField("notification")
    ]


def test_a_live_session_for_which_nothing_waits_gets_the_version_once_and_its_cursor_moves(bench):
    wire = bench.live(hello("a"), use_names())
    bench.inbox(high("o", 5, 9, 1))
    assert told(wire) == [("o", 5, False)]
    counters = bench.gateway.counters
    assert (counters.urgent, counters.deliveries, counters.live_dropped) == (1, 1, 0)


def test_what_waits_for_a_live_session_is_overtaken(bench):
    wire = bench.live(hello("a"), use_names())
    wire.stuck = True
    bench.inbox(fan_out("p", 1, 7, 1), fan_out("q", 1, 8, 1), high("o", 5, 9, 1), fan_out("r", 1, 10, 1))
    wire.go_on()
    assert told(wire) == [("o", 5, True), ("p", 1, False), ("q", 1, False), ("o", 5, False), ("r", 1, False)]


def test_a_session_that_is_sent_pages_is_told_at_once_and_stands_where_it_stood(bench):
    wire = bench.opening(hello("a"), use_names())
    (opened,) = bench.take_requests("open")
    ask = opened.open.ask
    bench.inbox(
        Item(opened=Opened(session=1, ask=ask, in_sync=True)),
        Item(page=Page(session=1, ask=ask, page=1, complete=3, newest=[Newest(name="p", version=1, offset=3)])),
    )
    wire.take()
    bench.inbox(high("o", 5, 9, 1))
    assert told(wire) == [("o", 5, True)]
    assert (bench.session(1).state, bench.session(1).complete) == (State.CATCHING, 3)
    bench.say(wire, ack(page=1))
    (catch_up,) = bench.take_requests("catch_up")
    assert catch_up.catch_up.cursor == 3, "the page to come has what was overtaken, and the version once more"


def test_a_slow_session_is_told_in_front_of_what_waits_and_is_caught_up_from_where_it_stood(bench):
    wire = bench.live(hello("a"), use_names(), complete=3)
    wire.stuck = True
    bench.inbox(fan_out("p", 1, 7, 1))
    bench.gateway.on_blocked(wire, bench.now_s)
    bench.inbox(fan_out("q", 1, 8, 1), high("o", 5, 9, 1))
    wire.go_on()
    assert told(wire) == [("o", 5, True), ("p", 1, False)]
    bench.do(bench.gateway.on_drained(wire, bench.now_s))
    (catch_up,) = bench.take_requests("catch_up")
    assert catch_up.catch_up.cursor < 8


def test_who_has_no_welcome_is_told_nothing(bench):
    wire = bench.opening(hello("a"))
    bench.inbox(high("o", 5, 9, 1, 99))
    assert wire.take() == []
    assert (bench.gateway.counters.urgent, bench.gateway.counters.live_dropped) == (0, 2)


def test_what_the_matcher_says_to_one_that_it_sends_pages_moves_no_cursor_of_one_that_is_live_here(bench):
    wire = bench.live(hello("a"), use_names(), complete=3)
    item = high("o", 5, 9, 1)
    item.fan_out.newest.answer = True
    bench.inbox(item)
    assert told(wire) == [("o", 5, True)]
    bench.inbox(fan_out("p", 1, 10, 99))
    assert bench.session(1).complete_now == 3


def test_sessions_with_and_without_names_each_get_theirs(bench):
    by_crc, by_name = bench.live(hello("a")), bench.live(hello("b"), use_names())
    bench.inbox(high("o", 5, 9, 1, 2))
    assert [one.notification.name for one in (*by_crc.take(), *by_name.take())] == ["", "o"]
