"""Leases of a member, on the wire and by a clock that tests move: what each Hold says, and what becomes of it.

Stands for: lease, said_holds, session_shares, stored_shares
"""

from collections.abc import Mapping
from typing import Any

import pytest
from coldnotify._core.document.document import Document, decode, encode
from coldnotify._core.interests.interests import ShareInterest, share_by, share_from
from coldnotify._core.interests.registrations import OperationKind
from coldnotify._core.interests.since import NOW, OLDEST
from coldnotify._core.shares.lease import LeaseState
from coldnotify._core.shares.said_holds import HOLDS_KEPT, SaidHold, SaidHolds
from coldnotify._core.shares.share_member import UNANSWERED_MAX, KeptShare, ShareJob
from coldnotify.errors import (
    ChannelCallbackFailed,
    LeaseLost,
    MessagesMissed,
    RegistrationRefused,
    SharesUnknown,
    StateDamaged,
)
from coldnotify.handed_message import HandedMessage
from coldnotify.message import Missed, MissedReason
from coldnotify_schemas import wire_pb2 as wire
from coldnotify_testkit.client_bench import ME, ClientBench

SHARE = ShareInterest("tasks", "workers", ())
KINDS = wire.KINDS_NAMES | wire.KINDS_CHANNELS | wire.KINDS_SHARES
CALLBACK, ON_MISSED, ON_LOST = 1, 101, 201
WAITS, BEGUN, DONE, BACK, REJECTED = (
    LeaseState.WAITS, LeaseState.BEGUN, LeaseState.DONE, LeaseState.BACK, LeaseState.REJECTED
)  # fmt: skip


class MemberBench(ClientBench):
    """A member of the share, with leases of 30 s, whose frames are written as soon as they are made."""

    def __init__(self, lease_s: int = 30, prefetch: int = 1, *, hears: bool = True) -> None:
        kept = KeptShare(lease_s=lease_s, prefetch=prefetch)
        super().__init__(Document(identity=ME, epoch=1, cursor=10, shares={SHARE: kept}))
        self.holds: list[wire.Hold] = []
        if hears:
            self.client.application.subscribe(SHARE, CALLBACK)

    def begin(self) -> None:
        """Begins a session."""
        self.connect()
        self.say(welcome=wire.Welcome(in_sync=True, kinds=KINDS))
        self.say(caught_up=wire.CaughtUp(complete=10))

    def hold(self) -> wire.Hold:
        """Returns the one Hold that the client says now."""
        (hold,) = self.holds_now()
        return hold

    def holds_now(self) -> list[wire.Hold]:
        """Returns the Holds that the client says now. They are written."""
        said = [frame.hold for frame in self.out() if frame.HasField("hold")]
        self.client.sent(0)
        return said

    def hand(self, offset: int, hand_out: int = 1, hold: int = 1, **more: Any) -> None:
        """The owner hands out a message."""
        said = wire.Message(channel=SHARE.hash, offset=offset, hand_out=hand_out, hold=hold, payload=b"1", **more)
        self.say(message=said)

    def grant(self, number: int, *lost: int) -> None:
        """The owner answers a Hold."""
        said = [wire.LostLeases(share=SHARE.hash, offsets=lost)] if lost else []
        self.say(leases=wire.Leases(number=number, lost=said))

    def job(self) -> ShareJob | None:
        """Returns the callbacks that run now."""
        job = self.client.next_job(self.now)
        assert job is None or isinstance(job, ShareJob)
        return job

    def running(self, offset: int = 5) -> ShareJob:
        """Returns the job of a message that was handed out just now, whose begin is said by Hold 2."""
        self.hold()
        self.grant(1)
        self.hand(offset)
        assert said(self.hold()) == {offset: (1, BEGUN, 0)}
        job = self.job()
        assert job is not None
        return job

    def done(self, job: ShareJob, *, fails: bool = False) -> None:
        """The job's callbacks end."""
        failed = {number: RuntimeError("no") for number in job.subscribers} if fails else {}
        self.client.job_done(job, failed, self.now)

    def link_lost(self) -> None:
        """The connection breaks."""
        self.client.link_down("gone", self.now)

    def later(self, seconds: float) -> None:
        """Time passes."""
        self.now += seconds
        self.client.tick(self.now)

    def lost(self) -> list[int]:
        """Returns the offsets of messages whose leases are said to be lost."""
        found = []
        while (job := self.client.next_lost()) is not None:
            found.append(job.lease.key.offset)
        return found


def said(hold: wire.Hold) -> dict[int, tuple[int, LeaseState, int]]:
    """Returns the hand-out, the state and the delay of each message, by offset."""
    (share,) = hold.shares
    return {one.offset: (one.hand_out, LeaseState(one.state), one.after_s) for one in share.messages}


@pytest.fixture
def bench() -> MemberBench:
    member = MemberBench()
    member.begin()
    return member


def reports(bench: ClientBench) -> list[str]:
    return [type(one).__name__ for one in bench.client.take_reports()]


def test_the_first_hold_says_all_and_names_lease_and_prefetch(bench: MemberBench) -> None:
    hold = bench.hold()
    assert (hold.number, hold.all) == (1, True)
    assert [(one.share, one.lease_s, one.prefetch) for one in hold.shares] == [(SHARE.hash, 30, 1)]
    assert said(hold) == {}
    assert bench.holds_now() == []


def test_a_hold_leaves_each_third_of_the_lease_also_with_nothing_in_hand(bench: MemberBench) -> None:
    bench.hold()
    assert bench.client.deadline() <= bench.now + 10
    for number in range(2, 5):
        bench.later(9.9)
        assert bench.holds_now() == []
        bench.later(0.1)
        hold = bench.hold()
        assert (hold.number, hold.all, hold.shares[0].lease_s) == (number, False, 30)


def test_nothing_is_held_without_a_callback() -> None:
    bench = MemberBench(hears=False)
    bench.begin()
    assert bench.holds_now() == []
    bench.client.application.subscribe(SHARE, CALLBACK)
    assert bench.hold().all
    bench.client.application.unsubscribe(SHARE, CALLBACK)
    assert [(one.closed, one.prefetch) for one in bench.hold().shares] == [(True, 0)]
    bench.later(100)
    assert bench.holds_now() == []
    bench.client.application.subscribe(SHARE, CALLBACK)
    assert [(one.closed, one.prefetch) for one in bench.hold().shares] == [(False, 1)]


def test_a_callback_begins_only_once_that_is_written(bench: MemberBench) -> None:
    bench.hold()
    bench.grant(1)
    bench.hand(5)
    assert bench.job() is None
    (frame,) = bench.out()
    assert said(frame.hold) == {5: (1, BEGUN, 0)}
    assert bench.job() is None
    bench.client.sent(0)
    job = bench.job()
    assert job is not None
    assert isinstance(job.message, HandedMessage)
    assert (job.message.offset, job.message.payload, job.message.share, job.subscribers) == (5, 1, "workers", (1,))


def test_bytes_that_were_written_before_do_not_stand_for_a_hold(bench: MemberBench) -> None:
    bench.hold()
    bench.hand(5)
    bench.later(10)  # a full Hold is made, and waits for the bytes before it
    bench.client.sent(0)
    assert bench.job() is None
    bench.hold()
    assert bench.job() is not None


def test_a_hold_that_says_that_a_message_waits_does_not_let_its_callback_begin(bench: MemberBench) -> None:
    first = bench.running(5)
    bench.hand(6)
    bench.later(10)
    (frame,) = bench.out()  # it is being written, and says that 6 waits
    assert said(frame.hold)[6] == (1, WAITS, 0)
    bench.done(first)
    bench.later(10)  # the next one says that 6 begins, and waits for the bytes before it
    bench.client.sent(0)
    assert bench.job() is None
    bench.holds_now()
    job = bench.job()
    assert job is not None
    assert job.lease.key.offset == 6


def test_returning_settles_and_is_said_until_it_is_answered(bench: MemberBench) -> None:
    bench.done(bench.running())
    assert said(bench.hold()) == {5: (1, DONE, 0)}
    bench.later(10)
    assert said(bench.hold()) == {5: (1, DONE, 0)}
    bench.grant(4)
    bench.later(10)
    assert said(bench.hold()) == {}
    assert bench.lost() == []


def test_raising_gives_back_for_longer_with_each_attempt(bench: MemberBench) -> None:
    for attempts, after_s in ((0, 1), (1, 2), (3, 8), (9, 60)):
        bench.hold() if not attempts else None
        bench.hand(5, hand_out=attempts + 1, attempts=attempts)
        bench.hold()
        job = bench.job()
        assert job is not None
        bench.done(job, fails=True)
        hold = bench.hold()
        assert said(hold) == {5: (attempts + 1, BACK, after_s)}
        bench.grant(hold.number)
    (error, *_) = bench.client.take_reports()
    assert isinstance(error, ChannelCallbackFailed)


@pytest.mark.parametrize("fails", [False, True])
def test_a_retry_gives_back_for_its_time_and_a_reject_makes_a_dead_letter(fails: bool) -> None:
    for verdict, expected in ((lambda m: m.retry(2.5), (1, BACK, 3)), (lambda m: m.reject(), (1, REJECTED, 0))):
        bench = MemberBench()
        bench.begin()
        job = bench.running()
        verdict(job.message)
        bench.done(job, fails=fails)
        assert said(bench.hold()) == {5: expected}


@pytest.mark.parametrize("after_s", [-1, 86_401, "1", True, float("nan")])
def test_an_impossible_delay_names_its_parameter(bench: MemberBench, after_s: Any) -> None:
    message = bench.running().message
    assert isinstance(message, HandedMessage)
    with pytest.raises(ValueError, match=r"^after_s: "):
        message.retry(after_s)


def test_one_callback_runs_and_the_others_are_held(bench: MemberBench) -> None:
    first = bench.running(5)
    bench.hand(6)
    bench.hand(7)
    assert bench.holds_now() == []
    bench.later(10)
    assert said(bench.hold()) == {5: (1, BEGUN, 0), 6: (1, WAITS, 0), 7: (1, WAITS, 0)}
    bench.done(first)
    assert said(bench.hold()) == {5: (1, DONE, 0), 6: (1, BEGUN, 0)}
    job = bench.job()
    assert job is not None
    assert job.lease.key.offset == 6


def test_a_lease_counts_from_the_sending_of_the_hold_that_it_names(bench: MemberBench) -> None:
    job = bench.running()
    bench.later(10)
    bench.hold()  # 3
    bench.later(10)
    bench.hold()  # 4
    bench.grant(3)
    bench.later(18.4)  # 28.4 s after 3
    assert bench.lost() == []
    bench.later(0.2)
    bench.client.application.subscribe_lost(SHARE, ON_LOST)
    assert job.lease.is_lost
    assert bench.lost() == []  # it was noticed before anybody wanted to hear of it
    assert reports(bench) == ["LeaseLost"]


def test_without_a_grant_a_lease_ends_early_and_once(bench: MemberBench) -> None:
    bench.client.application.subscribe_lost(SHARE, ON_LOST)
    job = bench.running()
    bench.link_lost()
    bench.later(28.4)
    assert bench.lost() == []
    assert bench.client.deadline() <= bench.now + 0.1
    bench.later(0.2)
    assert bench.lost() == [5]
    assert isinstance(job.message, HandedMessage)
    assert job.message.is_lost
    bench.later(100)
    assert bench.lost() == []


def test_a_lost_message_is_still_settled_if_nobody_else_had_it(bench: MemberBench) -> None:
    job = bench.running()
    bench.later(29)
    assert bench.lost() == []
    assert reports(bench) == ["LeaseLost"]
    assert said(bench.hold()) == {}  # who has it is for the owner to say
    bench.done(job)
    hold = bench.hold()
    assert said(hold) == {5: (1, DONE, 0)}
    bench.grant(hold.number)
    assert job.lease.is_over
    assert not job.lease.is_lost


def test_a_lost_message_that_fails_is_forgotten(bench: MemberBench) -> None:
    job = bench.running()
    bench.later(29)
    bench.hold()
    bench.done(job, fails=True)
    assert bench.holds_now() == []
    bench.later(10)
    assert said(bench.hold()) == {}


def test_a_message_whose_lease_ends_in_the_queue_is_dropped_without_a_word(bench: MemberBench) -> None:
    first = bench.running(5)
    bench.hand(6)
    bench.later(29)
    assert bench.lost() == []
    assert reports(bench) == ["LeaseLost"]  # of the one that had begun
    bench.hold()
    bench.done(first)
    assert said(bench.hold()) == {5: (1, DONE, 0)}
    assert bench.job() is None


def test_a_message_that_begun_and_whose_lease_ends_is_not_called(bench: MemberBench) -> None:
    bench.hold()
    bench.hand(5)
    bench.hold()
    bench.now += 28.6  # the callback thread comes first
    assert bench.job() is None
    bench.later(0)
    assert (bench.lost(), reports(bench)) == ([], [])


def test_a_lease_that_is_lost_by_its_owner_is_told_and_over(bench: MemberBench) -> None:
    bench.client.application.subscribe_lost(SHARE, ON_LOST)
    job = bench.running()
    bench.grant(2, 5)
    assert bench.lost() == [5]
    bench.done(job)
    assert bench.holds_now() == []


def test_a_settlement_that_is_lost_is_told(bench: MemberBench) -> None:
    bench.client.application.subscribe_lost(SHARE, ON_LOST)
    bench.done(bench.running())
    hold = bench.hold()
    bench.grant(hold.number, 5)
    assert bench.lost() == [5]


def test_a_later_hand_out_is_not_lost_by_the_answer_about_an_earlier_one(bench: MemberBench) -> None:
    bench.running()
    bench.hand(5, hand_out=2, hold=2)
    assert reports(bench) == []
    bench.grant(2, 5)
    bench.later(10)
    assert 5 in said(bench.hold())


def test_done_is_told_once_the_answer_is_there(bench: MemberBench) -> None:
    job = bench.running()
    told: list[str] = []
    bench.client.application.settle(job.lease, lambda: told.append("over"))
    hold = bench.hold()
    assert said(hold) == {5: (1, DONE, 0)}
    assert told == []
    bench.grant(hold.number)
    assert told == ["over"]
    assert not job.lease.is_lost
    bench.done(job)
    assert bench.holds_now() == []
    bench.client.application.settle(job.lease, lambda: told.append("again"))
    assert told == ["over", "again"]


def test_a_copy_of_what_is_settled_is_dropped(bench: MemberBench) -> None:
    bench.done(bench.running())
    bench.hand(5)  # before the answer
    hold = bench.hold()
    bench.grant(hold.number)
    bench.hand(5, hold=hold.number)
    assert bench.holds_now() == []
    bench.hand(5, hand_out=2, hold=hold.number)  # given back by its owner's word
    assert said(bench.hold()) == {5: (2, BEGUN, 0)}


def test_a_copy_of_what_is_held_prolongs_it(bench: MemberBench) -> None:
    job = bench.running()
    bench.later(10)
    bench.hold()  # 3
    bench.hand(5, hold=3)
    bench.later(28)
    assert not job.lease.is_lost


def test_hand_outs_that_name_no_known_hold_are_dropped(bench: MemberBench) -> None:
    bench.hold()
    bench.hand(5, hold=0)
    bench.hand(6, hold=9)
    bench.say(message=wire.Message(channel=77, offset=7, hand_out=1, hold=1))
    assert bench.holds_now() == []
    bench.later(29)
    bench.hold()
    bench.hand(8, hold=1)  # its lease is over already
    assert bench.holds_now() == []


def test_a_new_session_says_all_that_is_held_and_what_became_of_it(bench: MemberBench) -> None:
    first = bench.running(5)
    bench.hand(6)
    bench.done(first)
    bench.link_lost()
    bench.now -= 395  # connecting takes 400 s on this bench
    bench.begin()
    hold = bench.hold()
    assert (hold.number, hold.all) == (1, True)
    assert said(hold) == {5: (1, DONE, 0), 6: (1, BEGUN, 0)}
    bench.grant(1)
    job = bench.job()
    assert job is not None
    assert job.lease.key.offset == 6


def test_a_running_callback_stays_in_hand_across_sessions(bench: MemberBench) -> None:
    job = bench.running()
    bench.link_lost()
    bench.now -= 380
    bench.begin()  # 20 s later
    bench.hold()
    bench.grant(1)
    bench.later(28)
    assert not job.lease.is_lost
    bench.hold()
    bench.done(job)
    assert said(bench.hold()) == {5: (1, DONE, 0)}


def test_leases_of_number_0_ask_for_all(bench: MemberBench) -> None:
    bench.running()
    bench.say(leases=wire.Leases())
    hold = bench.hold()
    assert (hold.number, hold.all) == (3, True)
    assert said(hold) == {5: (1, BEGUN, 0)}
    assert bench.holds_now() == []


def test_holds_that_are_not_answered_leave_only_by_time(bench: MemberBench) -> None:
    bench.hold()
    for offset in range(UNANSWERED_MAX + 10):
        bench.hand(offset)
        bench.holds_now()
        job = bench.job()
        if job is None:
            break
        bench.done(job)
    assert offset < UNANSWERED_MAX
    bench.later(10)
    hold = bench.hold()
    assert len(said(hold)) == offset + 1
    bench.grant(hold.number)
    assert bench.job() is not None


def test_bye_gives_back_what_waits_and_says_what_is_done(bench: MemberBench) -> None:
    first = bench.running(5)
    bench.hand(6)
    bench.client.stop()
    bench.hand(7)
    (hold,) = bench.holds_now()
    assert said(hold) == {6: (1, BACK, 0), 7: (1, BACK, 0)}
    assert hold.shares[0].closed  # else the owner would hand out the same again and again
    bench.done(first)
    bench.later(0)
    frames = bench.out()
    assert [frame.WhichOneof("frame") for frame in frames] == ["hold", "bye"]
    assert said(frames[0].hold) == {5: (1, DONE, 0), 6: (1, BACK, 0), 7: (1, BACK, 0)}


def test_bye_keeps_what_an_abandoned_callback_works_at(bench: MemberBench) -> None:
    bench.running()
    bench.client.stop(abandon=True)
    bench.later(0)
    assert [frame.WhichOneof("frame") for frame in bench.out()] == ["bye"]


def test_while_it_stops_a_running_callback_keeps_its_lease(bench: MemberBench) -> None:
    bench.running()
    bench.client.stop()
    bench.later(10)
    assert said(bench.hold()) == {5: (1, BEGUN, 0)}


def test_a_notice_is_told_and_settled(bench: MemberBench) -> None:
    bench.client.application.subscribe_missed(SHARE, ON_MISSED)
    bench.hold()
    bench.say(missed=wire.Missed(channel=SHARE.hash, after=4, before=8, reason=wire.EXPIRED, hand_out=1, hold=1))
    assert said(bench.hold()) == {5: (1, BEGUN, 0)}
    job = bench.job()
    assert job is not None
    assert job.message == Missed("tasks", 4, 8, MissedReason.EXPIRED)
    assert job.subscribers == (ON_MISSED,)
    bench.done(job)
    assert said(bench.hold()) == {5: (1, DONE, 0)}


def test_a_notice_for_nobody_is_reported_and_settled(bench: MemberBench) -> None:
    bench.hold()
    bench.say(missed=wire.Missed(channel=SHARE.hash, before=8, reason=wire.RETENTION, hand_out=1, hold=1))
    assert said(bench.hold()) == {0: (1, DONE, 0)}
    (report,) = bench.client.take_reports()
    assert isinstance(report, MessagesMissed)


def test_a_hand_out_without_a_callback_is_given_back(bench: MemberBench) -> None:
    bench.hold()
    bench.client.application.unsubscribe(SHARE, CALLBACK)
    bench.hand(5)
    assert said(bench.hold()) == {5: (1, BACK, 0)}


def test_the_last_callback_that_goes_gives_back_what_waits(bench: MemberBench) -> None:
    job = bench.running(5)
    bench.hand(6)
    bench.client.application.unsubscribe(SHARE, CALLBACK)
    assert said(bench.hold()) == {6: (1, BACK, 0)}
    bench.done(job)
    assert said(bench.hold()) == {5: (1, DONE, 0)}


def test_another_lease_and_prefetch_are_said_at_once(bench: MemberBench) -> None:
    bench.hold()
    bench.client.application.register_share(SHARE, KeptShare(lease_s=60, prefetch=4))
    (share,) = bench.hold().shares
    assert (share.lease_s, share.prefetch) == (60, 4)
    bench.client.application.register_share(SHARE, KeptShare(lease_s=60, prefetch=4))
    assert bench.holds_now() == []


def test_a_share_is_registered_with_its_beginning_and_held_once_confirmed() -> None:
    bench = ClientBench()
    bench.connect()
    bench.say(welcome=wire.Welcome(in_sync=True, epoch=1, kinds=KINDS))
    bench.say(caught_up=wire.CaughtUp(complete=10))
    share = share_by("workers", "tasks", ["b", "a"])
    bench.client.application.register_share(share, KeptShare(since=OLDEST, lease_s=9))
    bench.client.application.subscribe(share, CALLBACK)
    (frame,) = bench.out()
    (interest,) = frame.register.interests
    assert (interest.kind, interest.text, interest.share) == (wire.INTEREST_SHARE, "tasks", "workers")
    assert (list(interest.attributes), interest.since) == (["a", "b"], wire.SINCE_OLDEST)
    assert not bench.client.caught_up(bench.now)
    bench.say(registered=wire.Registered(request=1, kinds=KINDS))
    holds = [frame.hold for frame in bench.out() if frame.HasField("hold")]
    assert [(one.share, one.lease_s) for one in holds[0].shares] == [(share.hash, 9)]
    assert bench.client.status(bench.now).pending == 0
    assert bench.client.caught_up(bench.now)


def test_a_service_without_shares_is_reported_once_and_asked_again_later() -> None:
    bench = ClientBench()
    bench.client.application.register_share(SHARE, KeptShare())
    hello = bench.connect()
    assert [one.kind for one in hello.interests] == [wire.INTEREST_SHARE]
    bench.say(welcome=wire.Welcome(in_sync=True, epoch=1, kinds=wire.KINDS_NAMES))
    (report,) = bench.client.take_reports()
    assert isinstance(report, SharesUnknown)
    bench.client.link_down("gone", bench.now)
    bench.connect()
    bench.say(welcome=wire.Welcome(in_sync=True, kinds=KINDS))
    assert bench.client.status(bench.now).pending == 0


def test_a_share_that_is_refused_is_reported_with_both_names() -> None:
    bench = ClientBench()
    bench.client.application.register_share(SHARE, KeptShare())
    bench.connect()
    refusal = wire.Refusal(interest=SHARE.hash, reason="attributes: are others")
    bench.say(welcome=wire.Welcome(in_sync=True, epoch=1, kinds=KINDS, refused=[refusal]))
    (report,) = bench.client.take_reports()
    assert isinstance(report, RegistrationRefused)
    assert (report.channel, report.share) == ("tasks", "workers")
    assert str(report) == "registration for share 'workers' of channel 'tasks' refused: attributes: are others"


def test_a_set_that_is_sent_again_has_its_shares(bench: MemberBench) -> None:
    bench.hold()
    bench.say(welcome=wire.Welcome(in_sync=False))
    (chunk,) = [frame.sync for frame in bench.out() if frame.HasField("sync")]
    assert [(one.kind, one.text, one.share) for one in chunk.interests] == [(wire.INTEREST_SHARE, "tasks", "workers")]
    assert bench.holds_now() == []
    bench.say(welcome=wire.Welcome(in_sync=True, kinds=KINDS))
    assert bench.hold().all


def test_with_other_attributes_it_is_another_registration(bench: MemberBench) -> None:
    bench.hold()
    other = share_by("workers", "tasks", ["a"])
    bench.client.application.register_share(other, KeptShare())
    frames = bench.out()
    assert [frame.WhichOneof("frame") for frame in frames] == ["unregister", "register"]
    assert list(frames[0].unregister.interests) == [SHARE.hash]
    bench.say(unregistered=wire.Unregistered(request=1))
    bench.say(registered=wire.Registered(request=2, kinds=KINDS))
    assert [one.share for one in bench.hold().shares] == [other.hash]


@pytest.mark.parametrize(
    ("count", "prefetch", "words"),
    [(65, 1, "^share: the client would have 65"), (2, 600, "^prefetch: .*1200 together")],
)
def test_more_than_a_hold_has_room_for_is_refused(count: int, prefetch: int, words: str) -> None:
    bench = ClientBench()
    kept = KeptShare(prefetch=prefetch)
    for number in range(count - 1):
        bench.client.application.register_share(share_by(f"s{number}", "tasks"), kept)
    with pytest.raises(ValueError, match=words):
        bench.client.application.register_share(share_by("last", "tasks"), kept)


def test_shares_survive_in_the_document() -> None:
    other = share_by("workers", "alarms", ["a"])
    shares = {SHARE: KeptShare(since=NOW, lease_s=60, prefetch=16), other: KeptShare(since=OLDEST)}
    document = Document(identity=ME, shares=shares, pending_shares={other: OperationKind.REGISTER})
    assert decode(encode(document), ME) == document
    assert b'"format":6' in encode(document)
    assert share_from(other.text) == other


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("1", "an entry that is not an object"),
        ('{"since":"now","prefetch":1}', "lease_s is not"),
        ('{"since":"now","lease_s":2,"prefetch":1}', "lease_s is not a number from 3"),
        ('{"since":"now","lease_s":30,"prefetch":0}', "prefetch is not"),
        ('{"since":"then","lease_s":30,"prefetch":1}', "since"),
    ],
)
def test_a_damaged_share_is_found(entry: str, words: str) -> None:
    document = Document(identity=ME, shares={SHARE: KeptShare()})
    good = b'{"since":"now","lease_s":30,"prefetch":1}'
    assert good in encode(document)
    damaged = encode(document).replace(good, entry.encode())
    before, _, _ = damaged.rpartition(b',"check"')
    with pytest.raises(StateDamaged, match=words):
        decode(before + b"}", ME)


def test_only_the_last_holds_are_remembered() -> None:
    holds = SaidHolds()
    nothing: Mapping[Any, Any] = {}
    numbers = [holds.say(SaidHold(float(at), {}, nothing)) for at in range(HOLDS_KEPT + 1)]
    assert holds.of(numbers[0]) is None
    assert holds.answered(numbers[0]) is None
    found = holds.answered(numbers[-1])
    assert found is not None
    assert found.at == HOLDS_KEPT
    assert holds.unanswered == 0
    assert holds.answered(numbers[-1]) is None
    assert holds.answered(numbers[-1] + 1) is None


def test_lost_leases_are_errors_that_name_their_message() -> None:
    error = LeaseLost("tasks", 5)
    assert "'tasks'" in str(error)
    assert "5" in str(error)
