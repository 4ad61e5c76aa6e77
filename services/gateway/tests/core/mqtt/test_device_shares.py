"""What an MQTT session holds of shares, and the Holds that its gateway says for it."""

from coldnotify_gateway.core.mqtt.device_shares import ANSWER_S, HOLD_S, LEASE_S, DeviceLease, DeviceShares
from coldnotify_schemas.wire_pb2 import HELD_BEGUN, HELD_DONE, HELD_REJECTED, HELD_WAITS, Hold, Leases

SHARE = 77


def member(now_s: float = 0.0) -> DeviceShares:
    """A member whose first Hold is answered."""
    shares = DeviceShares(prefetch=4)
    shares.join([SHARE], now_s)
    hold = said(shares, now_s)
    assert (hold.number, hold.all, hold.shares[0].prefetch, hold.shares[0].lease_s) == (1, True, 4, LEASE_S)
    shares.answered(Leases(number=1))
    return shares


def said(shares: DeviceShares, now_s: float) -> Hold:
    hold = shares.hold(now_s)
    assert hold is not None
    return hold


def states(hold: Hold) -> list[tuple[int, int, int]]:
    return [(one.offset, one.hand_out, one.state) for share in hold.shares for one in share.messages]


def taken(shares: DeviceShares, offset: int, hand_out: int = 1) -> DeviceLease:
    lease = shares.take(SHARE, offset, hand_out)
    assert lease is not None
    return lease


def sent(shares: DeviceShares, offset: int, packet_id: int, hand_out: int = 1) -> DeviceLease:
    lease = taken(shares, offset, hand_out)
    shares.begin(lease, packet_id)
    return lease


def test_a_task_begins_when_it_is_sent_and_its_puback_settles_it() -> None:
    shares = member()
    sent(shares, 5, 1)
    assert states(said(shares, 1)) == [(5, 1, HELD_BEGUN)]
    shares.acknowledge(1, rejects=False)
    assert states(said(shares, 2)) == [(5, 1, HELD_DONE)]
    assert shares.hold(2) is None, "two are not answered"
    shares.answered(Leases(number=2))
    assert len(shares) == 1, "it is settled once the Hold that says so is answered"
    shares.answered(Leases(number=3))
    assert len(shares) == 0


def test_a_refusal_is_said_as_such() -> None:
    shares = member()
    sent(shares, 5, 1)
    shares.acknowledge(1, rejects=True)
    assert states(said(shares, 1)) == [(5, 1, HELD_REJECTED)]


def test_all_that_is_held_is_said_each_third_of_a_lease() -> None:
    shares = member()
    taken(shares, 5)
    sent(shares, 6, 1)
    said(shares, 1)
    shares.answered(Leases(number=2))
    assert shares.hold(HOLD_S - 1) is None
    assert shares.wake_s == HOLD_S
    hold = said(shares, HOLD_S)
    assert (states(hold), hold.all) == ([(5, 1, HELD_WAITS), (6, 1, HELD_BEGUN)], False)


def test_a_hold_that_is_not_answered_is_said_again() -> None:
    shares = member()
    sent(shares, 5, 1)
    shares.acknowledge(1, rejects=False)
    said(shares, 1)
    assert shares.wake_s == 1 + ANSWER_S
    assert shares.hold(ANSWER_S) is None
    assert states(said(shares, 1 + ANSWER_S)) == [(5, 1, HELD_DONE)]


def test_an_answer_to_a_later_hold_says_that_an_earlier_one_is_lost() -> None:
    shares = member()
    sent(shares, 5, 1)
    shares.acknowledge(1, rejects=False)
    said(shares, 1)
    sent(shares, 6, 2)
    said(shares, 1)
    shares.answered(Leases(number=3))
    assert states(said(shares, 2)) == [(5, 1, HELD_DONE)]


def test_a_possible_loss_is_asked_for_until_that_is_answered() -> None:
    shares = member()
    taken(shares, 5)
    shares.ask_all()
    hold = said(shares, 1)
    assert (hold.all, states(hold)) == (True, [(5, 1, HELD_WAITS)])
    assert said(shares, 1 + ANSWER_S).all, "no answer came"
    shares.answered(Leases(number=3))
    assert not said(shares, 1 + ANSWER_S + HOLD_S).all


def test_a_copy_is_not_taken_and_another_hand_out_is() -> None:
    shares = member()
    taken(shares, 5)
    assert shares.take(SHARE, 5, 1) is None
    assert shares.take(SHARE, 5, 2) is not None
    assert shares.take(SHARE + 1, 6, 1) is None, "no member"


def test_a_lost_lease_is_not_sent_and_its_puback_is_said_all_the_same() -> None:
    shares = member()
    waits, begun = taken(shares, 5), sent(shares, 6, 1)
    said(shares, HOLD_S)
    leases = Leases(number=2)
    leases.lost.add(share=SHARE, offsets=[5, 6])
    shares.answered(leases)
    assert not shares.may_send(waits, HOLD_S)
    assert len(shares) == 0
    shares.acknowledge(1, rejects=False)
    assert states(said(shares, HOLD_S)) == [(6, begun.hand_out, HELD_DONE)]


def test_nothing_is_sent_that_nobody_has_renewed_for_a_lease() -> None:
    shares = member()
    lease = taken(shares, 5)
    assert shares.may_send(lease, LEASE_S)
    assert not shares.may_send(lease, LEASE_S + 1)
    assert len(shares) == 0


def test_a_share_that_is_left_is_said_no_more() -> None:
    shares = member()
    sent(shares, 5, 1)
    shares.join([], 1)
    shares.acknowledge(1, rejects=False)
    assert shares.hold(2 * HOLD_S) is None


def test_a_session_that_ends_says_what_is_settled() -> None:
    shares = member()
    sent(shares, 5, 1)
    sent(shares, 6, 2)
    shares.acknowledge(1, rejects=False)
    last = shares.last_hold(1)
    assert last is not None
    assert (states(last), last.number) == ([(5, 1, HELD_DONE)], 2)
    assert member().last_hold(1) is None
