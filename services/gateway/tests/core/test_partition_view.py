"""What the gateway knows of a partition: its matcher's generation, the numbers of its records, the position."""

from coldnotify_schemas.internal_pb2 import Inbox
from coldnotify_testkit.device_frames import hello, ping
from coldnotify_testkit.gateway_bench import beat_answer, fan_out, inbox_outputs


def test_a_number_that_begins_anew_is_a_loss(bench):
    """The matcher had not heard of this gateway for so long that it forgot its numbers."""
    bench.live(hello("a"))
    bench.inbox()
    bench.inbox(number=1)
    bench.take_requests("open")


def test_an_old_matcher_is_not_listened_to(bench):
    wire = bench.live()
    bench.new_matcher()
    bench.generation -= 1
    bench.inbox(fan_out("a", 1, 1, 1), number=2)
    assert wire.kinds() == []
    assert bench.gateway.counters.stale_records == 1


def test_a_new_matcher_begins_its_numbers_at_1(bench):
    wire = bench.live()
    bench.generation, bench.number = bench.generation + 1, 0
    bench.inbox(fan_out("a", 1, 1, 1))
    assert wire.kinds() == ["notification"]
    assert bench.gateway.counters.gaps == 0
    bench.generation += 1
    bench.inbox(fan_out("a", 2, 2, 1), number=2)
    assert wire.kinds() == []
    assert bench.gateway.counters.gaps == 1


def test_records_of_others_are_skipped_and_odd_ones_counted(bench):
    wire = bench.live()
    other = Inbox(format=1, generation=99, gateway=4711, number=1, items=[fan_out("a", 1, 1, 1)])
    bench.do(inbox_outputs(bench.gateway, other, bench.now_s))
    for odd in (Inbox(format=2, gateway=bench.GATEWAY), Inbox(format=1, partition=9, gateway=bench.GATEWAY)):
        bench.do(inbox_outputs(bench.gateway, odd, bench.now_s))
    assert wire.kinds() == []
    assert (bench.gateway.counters.foreign_records, bench.gateway.counters.malformed_records) == (1, 2)


def test_what_a_lower_generation_said_in_vain_is_asked_for_when_a_higher_one_begins(bench):
    """The sessions topic was lost, and with it the claims: the matcher speaks, commits, hears of it and claims anew."""
    wire = bench.live(complete=4)
    bench.take_requests()
    in_vain = Inbox(
        format=1,
        generation=bench.generation - 1,
        gateway=bench.GATEWAY,
        number=1,
        items=[fan_out("a", 1, 5, 1)],
    )
    bench.do(inbox_outputs(bench.gateway, in_vain, bench.now_s))
    assert bench.take_requests() == []
    bench.new_matcher()
    (request,) = bench.take_requests("open")
    assert (request.open.cursor, request.open.again) == (4, True)
    assert wire.kinds() == []
    bench.new_matcher()
    assert bench.take_requests() == []


# --- position


def test_the_position_is_what_all_live_sessions_are_complete_to(bench):
    first, second = bench.live(hello("a")), bench.live(hello("b"))
    bench.inbox(beat_answer(4))
    bench.inbox(fan_out("x", 1, 6, 1, behind=1))
    bench.say(second, ping())
    assert second.take()[0].pong.complete == 4
    # Only when something later comes it is certain that no further part of the first one does.
    bench.inbox(fan_out("x", 2, 9, 1))
    bench.say(second, ping())
    assert second.take()[0].pong.complete == 5
    bench.inbox(beat_answer(9))
    bench.say(second, ping())
    assert second.take()[0].pong.complete == 9
    assert first.kinds() == ["notification", "notification"]


def test_a_later_part_of_a_fan_out_is_not_believed_to_be_there(bench):
    """A fan-out in two parts; between them a session of the second part is full, and later asks from where it stood."""
    bench.live(hello("a"))
    second = bench.live(hello("b"))
    bench.inbox(beat_answer(4))
    bench.inbox(fan_out("x", 1, 6, 1))
    bench.gateway.on_blocked(second, bench.now_s)
    bench.inbox(fan_out("x", 1, 6, 2))
    bench.do(bench.gateway.on_drained(second, bench.now_s))
    (request,) = bench.take_requests("catch_up")
    assert request.catch_up.cursor == 4


def test_a_matcher_that_does_not_know_our_sessions_moves_no_position(bench):
    wire = bench.live(complete=1)
    bench.live(hello("b"))
    bench.inbox(beat_answer(4))
    bench.new_matcher()
    bench.inbox(fan_out("x", 1, 7, 2), fan_out("x", 2, 8, 2), beat_answer(8, agreed=False))
    bench.say(wire, ping())
    assert wire.take()[0].pong.complete == 4
    bench.inbox(beat_answer(8))
    bench.say(wire, ping())
    assert wire.take()[0].pong.complete == 8


def test_a_matcher_that_has_lost_sight_of_sessions_moves_no_position(bench):
    wire = bench.live(complete=1)
    bench.live(hello("b"))
    bench.inbox(beat_answer(4))
    bench.inbox(beat_answer(5, agreed=False))
    bench.inbox(fan_out("x", 1, 7, 2), fan_out("x", 2, 8, 2))
    bench.say(wire, ping())
    assert wire.take()[0].pong.complete == 4


def test_a_position_ends_with_its_generation(bench):
    """The objects topic was made anew: the new matcher's offsets begin over, and so do its sessions'."""
    first = bench.live(hello("a", keepalive_s=3600), complete=1)
    bench.inbox(beat_answer(9))
    bench.new_matcher()
    second = bench.live(hello("b", keepalive_s=3600), complete=2)
    bench.say(first, ping())
    bench.say(second, ping())
    assert first.take()[0].pong.complete == 9
    assert second.take()[0].pong.complete == 2


def test_a_new_matcher_is_sent_a_beat_at_once(bench):
    bench.live()
    bench.later(1)
    bench.take_requests()
    bench.new_matcher()
    bench.later(0.5)
    bench.take_requests("beat")


def test_an_answer_to_a_beat_of_before_the_takeover_moves_no_position(bench):
    """A replayed Beat can be of a time when the gateway had other sessions: just those that the new matcher knows."""
    wire = bench.live(complete=1)
    bench.take_requests()
    bench.later(5.5)
    *_, before = bench.take_requests()
    bench.new_matcher()
    bench.later(0.5)
    (since,) = bench.take_requests("beat")
    assert since.beat.serial == before.beat.serial + 1
    bench.inbox(beat_answer(8, serial=before.beat.serial))
    bench.say(wire, ping())
    assert wire.take()[0].pong.complete == 1
    bench.inbox(beat_answer(9, serial=since.beat.serial))
    bench.say(wire, ping())
    assert wire.take()[0].pong.complete == 9


def test_an_answer_from_before_the_gateway_stood_still_moves_no_position(bench):
    """Meanwhile it was taken for dead: the matcher may tell later sessions what it does not tell these."""
    wire = bench.live(complete=1)
    bench.take_requests()
    bench.later(5.5)
    *_, before = bench.take_requests()
    bench.stand_still(bench.gateway.limits.unheard_s + 1)
    bench.inbox(beat_answer(8, serial=before.beat.serial))
    bench.say(wire, ping())
    assert wire.take()[0].pong.complete == 1


def test_a_slow_matcher_is_believed_once_it_answers(bench):
    """Its answers come later than the gateway likes, one after the other; none of them was sent before anything."""
    wire = bench.live(complete=1)
    bench.later(18)
    first, *_ = bench.take_requests()
    bench.inbox(beat_answer(8, serial=first.beat.serial))
    bench.say(wire, ping())
    assert wire.take()[0].pong.complete == 8
