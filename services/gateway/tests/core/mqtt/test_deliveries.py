"""What was sent and is not acknowledged: the longest acknowledged beginning, pages, places, identifiers."""

from coldnotify_gateway.core.mqtt.deliveries import IN_FLIGHT_MAX, Deliveries, Due, SentRow
from coldnotify_gateway.core.mqtt.held_filters import Manner
from coldnotify_gateway.core.stream import CHANNELS, NONE, OBJECTS
from coldnotify_schemas.mqtt.packets import PACKET_ID_MAX

QOS_0, QOS_1 = Manner(0, retain=False), Manner(1, retain=False)


def a_due(complete: int, manner: Manner = QOS_1, place: int = OBJECTS) -> Due:
    return Due(place, complete, topic="a", manner=manner)


def sent(deliveries: Deliveries, *dues: Due, written: bool = True) -> list[int]:
    for due in dues:
        deliveries.wait(due)
    return [packet_id for _, packet_id in deliveries.take(written=written)]


def test_the_cursor_is_the_longest_acknowledged_beginning() -> None:
    deliveries = Deliveries()
    row = deliveries.rows[OBJECTS]
    one, two, three = sent(deliveries, a_due(4), a_due(7), a_due(9))
    assert deliveries.acknowledge(two)
    assert deliveries.acknowledge(three)
    assert row.settle() == (NONE, ()), "the first one is a gap"
    assert deliveries.acknowledge(one)
    assert row.settle() == (9, ())
    assert not deliveries.acknowledge(one), "once"
    assert deliveries.nothing_owed


def test_streams_have_rows_of_their_own() -> None:
    deliveries = Deliveries()
    one, two = sent(deliveries, a_due(4), a_due(7, place=CHANNELS))
    deliveries.acknowledge(two)
    assert deliveries.rows[CHANNELS].settle() == (7, ())
    assert deliveries.rows[OBJECTS].settle() == (NONE, ())
    assert one != two


def test_a_page_ends_when_all_before_its_end_is_acknowledged() -> None:
    deliveries = Deliveries()
    row = deliveries.rows[OBJECTS]
    (one,) = sent(deliveries, a_due(NONE), Due(OBJECTS, 12, page=3))
    assert row.settle() == (NONE, ())
    deliveries.acknowledge(one)
    assert row.settle() == (12, (3,))


def test_a_packet_without_a_place_waits_and_all_behind_it() -> None:
    deliveries = Deliveries(receive_max=2)
    one, two = sent(deliveries, a_due(1), a_due(2), a_due(3), a_due(4, QOS_0), Due(OBJECTS, 5, page=1))
    assert (deliveries.waits, deliveries.takes, deliveries.takes_again) == (True, False, False)
    deliveries.acknowledge(one)
    (three, zero) = sent(deliveries)
    assert zero == 0
    assert (deliveries.waits, deliveries.takes_again) == (False, False)
    deliveries.acknowledge(two)
    assert deliveries.takes_again, "half of its places are free"
    deliveries.acknowledge(three)
    assert deliveries.rows[OBJECTS].settle() == (5, (1,))


def test_qos_0_counts_when_the_socket_has_taken_it() -> None:
    deliveries = Deliveries()
    sent(deliveries, a_due(4, QOS_0), written=False)
    assert deliveries.rows[OBJECTS].settle() == (NONE, ())
    deliveries.drained()
    assert deliveries.rows[OBJECTS].settle() == (4, ())


def test_an_offset_is_taken_once_and_never_by_the_highest_one() -> None:
    row = SentRow()
    assert row.take_offset(11, 9)
    assert row.take_offset(10, 9), "it was held back, and follows a later one"
    assert not row.take_offset(11, 9)
    assert not row.take_offset(9, 9)


def test_members_of_a_set_have_one_offset() -> None:
    row = SentRow()
    assert row.take_offset(11, 9, "a")
    assert row.take_offset(11, 10, "b")
    assert not row.take_offset(11, 10, "a")
    assert not row.take_offset(11, 11, "c")


def test_the_offsets_remembered_are_bounded() -> None:
    row = SentRow()
    assert all(row.take_offset(offset, 0) for offset in range(1, 5000))
    assert len(row._offsets or ()) <= 1000
    assert not row.take_offset(4999, 0)
    assert row.take_offset(6000, 5000)
    assert len(row._offsets or ()) == 1


def test_identifiers_wrap_and_those_in_flight_are_left_out() -> None:
    deliveries = Deliveries()
    (kept,) = sent(deliveries, a_due(1))
    seen = set()
    for number in range(70_000):
        (packet_id,) = sent(deliveries, a_due(number))
        assert packet_id != kept
        seen.add(packet_id)
        deliveries.acknowledge(packet_id)
    assert len(seen) == PACKET_ID_MAX - 1
    assert deliveries.rows[OBJECTS].settle() == (NONE, ())
    deliveries.acknowledge(kept)
    assert deliveries.rows[OBJECTS].settle() == (69_999, ())


def test_receive_maximum_has_a_bound_here() -> None:
    assert Deliveries(65_535).receive_max == IN_FLIGHT_MAX
