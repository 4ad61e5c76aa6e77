"""The shares of a device without a session of its own: what each Hold says, and what the answer tells."""

import pytest
from coldnotify_common.played.agent import Agent, PlayedDevice
from coldnotify_common.played.agent_shares import (
    UNANSWERED_MAX,
    LeaseName,
    SaidLease,
    WantedShare,
    offset_of,
    parse_lease,
)
from coldnotify_schemas.frames import FrameBuffer, parse_client_frame
from coldnotify_schemas.interests import by_channel, by_share
from coldnotify_schemas.share_names import HELD_MAX
from coldnotify_schemas.wire_pb2 import (
    HELD_BACK,
    HELD_BEGUN,
    HELD_DONE,
    HELD_REJECTED,
    HELD_WAITS,
    INTEREST_CHANNEL,
    INTEREST_SHARE,
    KINDS_CHANNELS,
    KINDS_NAMES,
    KINDS_SHARES,
    CaughtUp,
    ClientFrame,
    GatewayFrame,
    HeldState,
    Hold,
    Interest,
    Leases,
    LostLeases,
    Message,
    Missed,
    Refusal,
    Welcome,
)

pytestmark = pytest.mark.pure

SHARE = by_share("workers", "tasks").hash
KINDS = KINDS_NAMES | KINDS_CHANNELS | KINDS_SHARES


def held(offset: int, state: HeldState = HELD_WAITS, *, failed: bool = False, after_s: int = 0) -> SaidLease:
    return SaidLease(LeaseName(offset, 1, 30), state, after_s, failed)


class Bench:
    """An agent of one share, and a clock."""

    def __init__(self, *said: SaidLease, prefetch: int = 1, welcome: bool = True) -> None:
        interest = Interest(kind=INTEREST_SHARE, text="tasks", share="workers")
        wanted = {SHARE: WantedShare(interest, 30, prefetch, said)}
        self.agent = Agent(PlayedDevice("d", "g", "c", shares=wanted))
        self.shares = self.agent.shares
        self.now = 100.0
        self.hello = frames(self.agent.begin())[0].hello
        if welcome:
            self.say(welcome=Welcome(in_sync=True, kinds=KINDS))
            self.say(caught_up=CaughtUp(complete=1))

    def say(self, **frame: object) -> None:
        self.agent.receive([GatewayFrame(**frame)])  # type: ignore[arg-type]

    def holds(self) -> list[Hold]:
        found = []
        while frame := self.shares.next_hold(self.now):
            found.append(frames(frame)[0].hold)
        return found

    def hold(self) -> Hold:
        (hold,) = self.holds()
        return hold

    def hand(self, offset: int, hand_out: int = 1, hold: int = 1) -> None:
        said = Message(channel=SHARE, offset=offset, hand_out=hand_out, hold=hold, payload=b"1", paged=True)
        self.say(message=said)

    def grant(self, number: int, *lost: int) -> None:
        said = [LostLeases(share=SHARE, offsets=lost)] if lost else []
        self.say(leases=Leases(number=number, lost=said))

    def answered(self) -> bool:
        return self.shares.is_answered

    def closed(self) -> bool:
        return self.shares.is_closed

    @property
    def handed(self) -> list[str]:
        return [str(one.name) for one in self.shares.handed]

    @property
    def told(self) -> tuple[list[int], list[int], list[int]]:
        """What the device holds, has settled, and has lost."""
        found = (self.shares.held, self.shares.settled, self.shares.lost)
        held, settled, lost = ([one.name.offset for one in leases] for leases in found)
        return held, settled, lost


def frames(data: bytes) -> list[ClientFrame]:
    return [parse_client_frame(body) for body in FrameBuffer(1 << 20).feed(data)]


def messages(hold: Hold) -> dict[int, tuple[int, HeldState, int]]:
    (share,) = hold.shares
    return {one.offset: (one.hand_out, one.state, one.after_s) for one in share.messages}


def test_the_text_of_a_lease_comes_back_as_it_was() -> None:
    name = LeaseName((1 << 63) - 1, (1 << 32) - 1, 43_200)
    assert parse_lease(str(name)) == name
    for text in (
        "",
        "1",
        "1.1",
        "1.0.30",
        "1.1.2",
        "1.1.43201",
        "-1.1.30",
        f"{1 << 63}.1.30",
        f"1.{1 << 32}.30",
        "١.1.30",
    ):
        assert parse_lease(text) is None, text


def test_the_first_hold_says_all_and_the_last_one_closes() -> None:
    bench = Bench(held(3), held(4, HELD_DONE), prefetch=2)
    assert (bench.hello.digest, len(bench.hello.interests)) == (SHARE, 1)
    first = bench.hold()
    assert (first.number, first.all, first.shares[0].lease_s, first.shares[0].prefetch) == (1, True, 30, 2)
    assert messages(first) == {3: (1, HELD_WAITS, 0), 4: (1, HELD_DONE, 0)}
    assert not bench.answered()
    bench.grant(1)
    assert bench.answered()
    assert bench.told == ([3], [4], [])

    bench.now += 5
    bench.shares.close()
    assert not bench.closed(), "it has not said so yet"
    last = bench.hold()
    assert (last.number, last.all, last.shares[0].closed, messages(last)) == (2, False, True, {3: (1, HELD_WAITS, 0)})
    assert not bench.closed()
    bench.grant(2)
    assert bench.closed()
    assert bench.shares.held[0].ends_at == pytest.approx(105 + 28.5)
    bench.now += 100
    assert bench.holds() == [], "nothing is said behind that"


def test_a_hand_out_counts_from_the_hold_that_it_names_and_comes_once() -> None:
    bench = Bench()
    bench.hold()
    bench.now += 2
    bench.hand(7)
    bench.hand(7)
    assert bench.handed == ["7.1.30"]
    assert bench.shares.has_news
    assert bench.shares.held[0].ends_at == pytest.approx(100 + 28.5)
    bench.hand(8, hold=9)
    assert bench.handed == ["7.1.30"], "nobody said that Hold"
    bench.hand(7, hand_out=2)
    assert bench.handed == ["7.2.30"], "its former lease is lost, and the device has not heard of it"
    assert bench.told == ([7], [], [])


def test_a_copy_of_what_is_settled_is_dropped_and_a_later_hand_out_is_not() -> None:
    bench = Bench(held(7, HELD_DONE))
    bench.hold()
    bench.hand(7)
    bench.grant(1)
    bench.hand(7)
    assert (bench.handed, bench.told) == ([], ([], [7], []))
    bench.hand(7, hand_out=2)
    assert bench.handed == ["7.2.30"]


def test_a_failure_begins_first_so_that_it_is_an_attempt() -> None:
    bench = Bench(held(7, HELD_BACK, failed=True, after_s=9), held(8, HELD_BACK, after_s=4))
    first, second = bench.holds()
    assert messages(first) == {7: (1, HELD_BEGUN, 0), 8: (1, HELD_BACK, 4)}
    assert messages(second) == {7: (1, HELD_BACK, 9)}
    bench.grant(1)
    assert not bench.answered()
    bench.grant(2)
    assert (bench.answered(), bench.told) == (True, ([], [8, 7], []))


def test_a_lost_lease_is_told_unless_it_is_given_back() -> None:
    said = [held(1), held(2, HELD_BEGUN), held(3, HELD_DONE), held(4, HELD_REJECTED)]
    bench = Bench(*said, held(5, HELD_BACK, failed=True))
    assert len(bench.holds()) == 2
    bench.grant(1, 1, 2, 3, 4, 5)
    bench.grant(2)
    assert bench.told == ([], [5], [1, 2, 3, 4])
    assert bench.answered()
    assert bench.shares.has_news


def test_holds_prolong_while_the_request_waits_and_stop_without_answers() -> None:
    bench = Bench(held(1, HELD_BEGUN))
    bench.hold()
    assert bench.shares.hold_at == pytest.approx(110)
    bench.now += 9
    assert bench.holds() == []
    bench.grant(1)
    said = 1
    while bench.shares.hold_at < float("inf"):
        bench.now = bench.shares.hold_at
        assert messages(bench.hold()) == {1: (1, HELD_BEGUN, 0)}
        said += 1
    assert said == UNANSWERED_MAX + 1
    bench.shares.close()
    assert bench.hold().shares[0].closed, "the last one leaves all the same"
    bench.grant(said + 1)
    assert bench.closed()


def test_leases_of_number_0_have_all_said_again() -> None:
    bench = Bench(held(1), held(2, HELD_DONE))
    bench.hold()
    bench.say(leases=Leases())
    assert not bench.answered()
    again = bench.hold()
    assert (again.number, again.all, len(messages(again))) == (2, True, 2)
    bench.grant(2)
    assert bench.told == ([1], [2], [])
    bench.shares.close()
    bench.hold()
    bench.say(leases=Leases())
    last = bench.hold()
    assert (last.all, last.shares[0].closed) == (True, True)
    bench.grant(4)
    assert bench.closed()


def test_a_hand_out_without_room_is_given_back_and_told_nobody() -> None:
    bench = Bench(prefetch=9)
    bench.hold()
    bench.grant(1)
    bench.hand(1)
    bench.shares.decline(Message(channel=SHARE, offset=2, hand_out=1, hold=1))
    last = bench.hold()
    assert last.shares[0].closed
    assert messages(last) == {1: (1, HELD_WAITS, 0), 2: (1, HELD_BACK, 0)}
    bench.grant(2)
    assert (bench.closed(), bench.handed, bench.told) == (True, ["1.1.30"], ([1], [], []))


def test_without_prefetch_nothing_is_to_be_handed_out() -> None:
    bench = Bench(held(1, HELD_DONE), prefetch=0)
    hold = bench.hold()
    assert (hold.shares[0].closed, hold.shares[0].lease_s) == (True, 0)


def test_one_hold_names_no_more_than_it_may() -> None:
    bench = Bench(*(held(offset, HELD_DONE) for offset in range(HELD_MAX)), prefetch=1)
    bench.hold()
    bench.hand(HELD_MAX)
    bench.say(leases=Leases())
    assert len(messages(bench.hold())) == HELD_MAX
    bench.grant(2)
    assert len(bench.told[1]) == HELD_MAX


def test_a_refused_share_is_told_and_holds_nothing_back() -> None:
    bench = Bench(held(1), welcome=False)
    refusal = Refusal(interest=SHARE, reason="attributes: no")
    bench.say(welcome=Welcome(in_sync=True, kinds=KINDS, refused=[refusal]))
    assert bench.holds() == []
    assert bench.shares.refused == {SHARE: "attributes: no"}
    assert (bench.answered(), bench.closed(), bench.shares.has_news) == (True, True, True)


def test_a_service_that_knows_no_shares_says_so_before_the_whole_set_too() -> None:
    for known in ([True], [False, True]):
        bench = Bench(welcome=False)
        for in_sync in known:
            kinds = KINDS_NAMES | KINDS_CHANNELS if in_sync is known[0] else 0
            bench.say(welcome=Welcome(in_sync=in_sync, kinds=kinds))
        assert "knows none" in bench.shares.refused[SHARE]
        assert bench.holds() == []


def test_the_whole_set_has_the_shares_and_a_hello_has_room() -> None:
    bench = Bench(welcome=False)
    answer = bench.agent.receive([GatewayFrame(welcome=Welcome(in_sync=False, kinds=KINDS))])
    (chunk,) = frames(answer)
    assert [one.share for one in chunk.sync.interests] == ["workers"]
    assert bench.holds() == [], "the service has not taken it yet"
    bench.say(welcome=Welcome(in_sync=True))
    assert bench.hold().all
    assert frames(bench.agent.forget())[0].unregister.interests == [SHARE]

    channels = {by_channel(f"c-{one}").hash: Interest(kind=INTEREST_CHANNEL, text=f"c-{one}") for one in range(64)}
    full = Agent(PlayedDevice("d", "g", "c", channels=channels, shares=bench.agent.device.shares))
    (frame,) = frames(full.begin())
    assert len(frame.hello.interests) == 0
    assert frame.hello.digest != full.digest, "so it is asked for the whole set"


def test_a_notice_stands_at_the_first_offset_that_is_missing() -> None:
    assert offset_of(Missed(after=6, before=9)) == 7
    assert offset_of(Missed(before=9)) == 0
    bench = Bench()
    bench.hold()
    bench.say(missed=Missed(channel=SHARE, after=6, before=9, hand_out=1, hold=1))
    assert bench.handed == ["7.1.30"]
