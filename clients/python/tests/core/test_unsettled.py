"""What a client says of what its application has not taken: what differs from what the service holds, and no more."""

from itertools import pairwise
from typing import Any

import pytest
from coldnotify._core.delivery.membership import KeptQuery
from coldnotify._core.delivery.slot import CallbackJob
from coldnotify._core.delivery.unsettled import IN_VAIN_S_MAX, SAID_AGAIN_S
from coldnotify._core.document.document import Document
from coldnotify._core.interests.registrations import OperationKind
from coldnotify_schemas import wire_pb2 as wire
from coldnotify_schemas.frames import FrameBuffer, parse_client_frame
from coldnotify_schemas.protocol import (
    ACK_DELAY_S,
    CLIENT_FRAME_BYTES_MAX,
    OBJECTS_PER_FRAME_MAX,
    UNSETTLED_ERROR_BYTES_MAX,
)
from coldnotify_testkit.client_bench import LAMPS, ME, ClientBench

pytestmark = pytest.mark.pure


def bench(**more: Any) -> ClientBench:
    """Of a client that wants `a`, which is settled; the service knows that."""
    return ClientBench(Document(identity=ME, wanted=frozenset("a"), epoch=1, cursor=10, settled=True, **more))


def live(one: ClientBench) -> wire.Hello:
    hello = one.connect()
    one.say(welcome=wire.Welcome(in_sync=True, kinds=wire.KINDS_NAMES | wire.KINDS_QUERIES))
    return hello


def says_all(hello: wire.Hello) -> bool:
    return bool(hello.capabilities & wire.CAPABILITY_UNSETTLED)


def told(one: ClientBench, *names: str, error: BaseException | None = None) -> None:
    """All callbacks return, or raise this."""
    one.save()
    while (job := one.client.next_job(one.now)) is not None:
        failed = dict.fromkeys(job.subscribers, error) if error is not None else {}
        one.client.job_done(job, failed, one.now)  # type: ignore[arg-type]
        assert not isinstance(job, CallbackJob) or not names or job.notification.object_id in names
        one.save()
    one.client.tick(one.now)


def sent(one: ClientBench) -> list[wire.ClientFrame]:
    """What leaves, and nothing becomes durable before."""
    frames: list[wire.ClientFrame] = []
    while data := one.client.data_to_send(one.now):
        frames += [parse_client_frame(body) for body in FrameBuffer(CLIENT_FRAME_BYTES_MAX).feed(data)]
    return frames


def said(one: ClientBench, after_s: float) -> list[wire.Unsettled]:
    one.now += after_s
    return [frame.unsettled for frame in (*one.out(), *one.out()) if frame.HasField("unsettled")]


def answer(one: ClientBench, name: str, version: int | None = 1) -> None:
    one.say(notification=wire.Notification(name=name, version=version, answer=True))


def registered(one: ClientBench, name: str) -> None:
    """In the middle of a session, up to its answer."""
    one.client.application.register(name)
    one.client.application.subscribe(name, 1)
    (frame,) = [frame.register for frame in one.out() if frame.HasField("register")]
    one.say(registered=wire.Registered(request=frame.request))
    answer(one, name)


def test_an_unchanged_wake_says_nothing() -> None:
    one = bench()
    assert not says_all(live(one))
    one.say(caught_up=wire.CaughtUp(complete=10))
    assert said(one, 60) == []
    assert one.save() is None


def test_a_document_of_release_0_1_0_says_all_once() -> None:
    one = ClientBench(Document(identity=ME, wanted=frozenset("a"), epoch=1, cursor=10))
    assert says_all(live(one))
    saved = one.save()
    assert saved is not None
    assert saved.settled
    one.client.link_down("", one.now)
    assert not says_all(live(one))


def test_a_registration_is_settled_when_its_callback_has_returned() -> None:
    one = bench()
    live(one)
    one.say(caught_up=wire.CaughtUp(complete=10))
    registered(one, "b")
    assert said(one, SAID_AGAIN_S) == [], "the service holds it for unsettled since it was asked for"
    told(one, "b")
    assert said(one, 0) == [], "it may be said along with others"
    (frame,) = said(one, ACK_DELAY_S)
    assert (frame.all, list(frame.entries), list(frame.settled)) == (True, [], [])
    assert one.client._document().settled is False
    one.say(registered=wire.Registered(request=frame.request))
    assert one.client._document().settled is True
    one.client.link_down("", one.now)
    assert not says_all(live(one))


def test_an_unanswered_report_is_repeated_by_the_next_hello() -> None:
    one = bench()
    live(one)
    registered(one, "b")
    told(one, "b")
    assert len(said(one, SAID_AGAIN_S)) == 1
    one.client.link_down("", one.now)
    hello = live(one)
    assert (says_all(hello), list(hello.register)) == (True, [])
    assert one.client._document().settled is True


@pytest.mark.parametrize("by_an_earlier_process", [False, True])
def test_once_a_hello_with_registrations_was_not_answered_each_further_one_says_all(
    by_an_earlier_process: bool,
) -> None:
    """The service may take it in behind all that the next session says."""
    more = {"pending": {"b": OperationKind.REGISTER}} if by_an_earlier_process else {}
    one = bench(**more)
    one.client.application.register("b")
    one.client.application.subscribe("b", 1)
    if not by_an_earlier_process:
        assert says_all(one.connect())
        one.client.link_down("", one.now)
    assert says_all(live(one))
    answer(one, "b")
    told(one, "b")
    (frame,) = said(one, ACK_DELAY_S)
    one.say(registered=wire.Registered(request=frame.request))
    assert one.client._document().settled is True
    for _ in range(2):
        one.client.link_down("", one.now)
        hello = live(one)
        assert (says_all(hello), list(hello.register)) == (True, [])


def test_an_unanswered_report_is_repeated_ever_more_rarely() -> None:
    one = bench()
    live(one)
    registered(one, "b")
    told(one, "b")
    times: list[float] = []
    began = one.now
    while one.now - began < 10 * IN_VAIN_S_MAX:
        if said(one, 1):
            times.append(one.now - began)
        one.say(pong=wire.Pong())
    pauses = [later - earlier for earlier, later in pairwise(times)]
    assert pauses == sorted(pauses)
    assert pauses[-1] >= IN_VAIN_S_MAX


def test_callbacks_that_raise_are_told_with_the_first_line_of_what_they_raised() -> None:
    one = bench()
    live(one)
    one.say(caught_up=wire.CaughtUp(complete=10))
    one.client.application.subscribe("a", 1)
    one.say(notification=wire.Notification(name="a", version=2, offset=11))
    told(one, error=ValueError("no\x1b lens\nand more"))
    (frame,) = said(one, SAID_AGAIN_S)
    (entry,) = frame.entries
    assert (entry.name, entry.parked, entry.failures, entry.error) == ("a", False, 1, "ValueError: no  lens")
    assert entry.since_s == SAID_AGAIN_S
    one.say(registered=wire.Registered(request=frame.request))
    for _ in range(4):
        one.now += 10
        told(one, error=ValueError("ä" * 500))
    (frame,) = said(one, SAID_AGAIN_S)
    (entry,) = frame.entries
    assert (entry.parked, entry.failures, len(entry.error.encode())) == (True, 5, UNSETTLED_ERROR_BYTES_MAX)
    assert one.client._document().settled is False, "before it leaves"


def with_something_to_say() -> ClientBench:
    """A session that is live; a callback has raised, and it is time to say so."""
    one = bench()
    live(one)
    one.say(caught_up=wire.CaughtUp(complete=10))
    one.client.application.subscribe("a", 1)
    one.say(notification=wire.Notification(name="a", version=2, offset=11))
    told(one, error=ValueError())
    one.now += SAID_AGAIN_S
    one.client.tick(one.now)
    return one


def test_nothing_leaves_before_the_document_says_that_it_may() -> None:
    one = with_something_to_say()
    assert one.client.data_to_send(one.now) == b""
    saved = one.save()
    assert saved is not None
    assert not saved.settled
    assert len(said(one, 1)) == 1


def test_no_hello_says_that_nothing_else_is_unsettled_while_the_document_may_forget_what_is() -> None:
    one = bench()
    live(one)
    one.say(caught_up=wire.CaughtUp(complete=10))
    one.say(notification=wire.Notification(name="a", version=2, offset=11))
    one.client.link_down("", one.now)
    assert one.client.status(one.now).pending == 1, "nobody has subscribed to it"
    one.now += 400
    assert one.client.connect_due(one.now) is not None
    one.client.link_up(one.now)
    (hello,) = sent(one)
    assert (list(hello.hello.register), says_all(hello.hello)) == (["a"], False)
    one.say(welcome=wire.Welcome(in_sync=True))
    one.say(caught_up=wire.CaughtUp(complete=11))
    one.now += SAID_AGAIN_S
    one.client.tick(one.now)
    assert sent(one) == [], "a crash would leave a document that knows nothing of it"
    (frame,) = said(one, 0)
    assert (frame.all, [entry.name for entry in frame.entries]) == (True, ["a"])


def test_a_pending_write_wakes_nobody() -> None:
    one = with_something_to_say()
    assert sent(one) == []
    save = one.client.save_due(one.now)
    assert save is not None, "which takes a while"
    for _ in range(3):
        one.client.tick(one.now)
        assert one.client.deadline() > one.now + 10
        one.now += 1
    one.client.saved(save, one.now)
    assert one.client.deadline() <= one.now
    assert len(sent(one)) == 1


def test_a_page_that_is_acknowledged_while_something_is_unsettled_wakes_nobody() -> None:
    one = bench()
    live(one)
    registered(one, "b")
    one.out()
    one.say(page_end=wire.PageEnd(page=1))
    assert [frame.ack.page for frame in one.out()] == [1]
    assert one.client.deadline() >= one.now + ACK_DELAY_S


def test_before_bye_what_has_changed_is_said_at_once() -> None:
    one = bench()
    live(one)
    registered(one, "b")
    told(one, "b")
    one.client.stop()
    kinds = [frame.WhichOneof("frame") for frame in (*one.out(), *one.out())]
    assert kinds[-2:] == ["unsettled", "bye"]


def test_a_registration_is_not_said_to_be_settled_before_it_is_asked_for_again() -> None:
    """Its request, and a report, may have arrived without an answer in time. Behind Bye it is asked for no more."""
    one = bench()
    live(one)
    registered(one, "b")
    told(one, "b")
    one.client.application.register("c")
    assert len(said(one, SAID_AGAIN_S)) == 1
    one.now += 100
    one.client.tick(one.now)
    one.client.stop()
    *_, report, bye = (*one.out(), *one.out())
    assert bye.HasField("bye")
    assert (report.unsettled.all, [entry.name for entry in report.unsettled.entries]) == (True, ["c"])


def test_members_that_were_not_taken_are_named() -> None:
    one = bench(queries={LAMPS.text: KeptQuery(members=frozenset(["l1", "l2"]))})
    one.client.application.subscribe(LAMPS, 1)
    live(one)
    one.say(caught_up=wire.CaughtUp(complete=10))
    one.say(notification=wire.Notification(name="l1", version=2, offset=11))
    told(one, error=ValueError("no"))
    (frame,) = said(one, SAID_AGAIN_S)
    (entry,) = frame.entries
    assert (entry.hash, entry.failures, list(entry.members)) == (LAMPS.hash, 1, ["l1"])
    one.say(registered=wire.Registered(request=frame.request))
    one.now += 1
    told(one)
    (frame,) = said(one, SAID_AGAIN_S)
    assert (frame.all, list(frame.entries)) == (True, [])


def test_unaccepted_members_are_not_reported_before_the_answer() -> None:
    one = ClientBench(
        Document(
            identity=ME,
            queries={LAMPS.text: KeptQuery(members=frozenset(["l1", "l2"]))},
            pending_queries={LAMPS.text: OperationKind.REGISTER},
            epoch=1,
            cursor=10,
        )
    )
    one.client.application.subscribe(LAMPS, 1)
    assert says_all(live(one))
    one.say(notification=wire.Notification(name="l1", version=2, offset=11))
    told(one, error=ValueError("no"))
    (frame,) = said(one, SAID_AGAIN_S)
    (entry,) = frame.entries
    assert (entry.hash, list(entry.members)) == (LAMPS.hash, []), "l2 was not told either"


def test_reports_fit_in_frames_whatever_the_length_of_names_and_errors() -> None:
    names = [f"{number:03}{'n' * 252}" for number in range(130)]
    one = ClientBench(Document(identity=ME, wanted=frozenset(names), epoch=1, cursor=10, settled=True))
    live(one)
    one.say(caught_up=wire.CaughtUp(complete=10))
    for name in names:
        one.client.application.subscribe(name, 1)
        one.say(notification=wire.Notification(name=name, version=2, offset=11))
    told(one, error=ValueError("e" * 1000))
    frames = said(one, SAID_AGAIN_S)
    assert sum(len(frame.entries) for frame in frames) == len(names)
    for frame in frames:
        one.say(registered=wire.Registered(request=frame.request))
    for name in names[:100]:
        one.client.application.unregister(name)
    for name in names[100:]:
        one.say(notification=wire.Notification(name=name, version=3, offset=12))
    one.now += 1
    told(one, error=TypeError("e" * 1000))
    for frame in said(one, SAID_AGAIN_S):
        assert len(frame.entries) + len(frame.settled) <= OBJECTS_PER_FRAME_MAX


def test_only_the_changed_registrations_are_reported() -> None:
    names = [f"n{i:03}" for i in range(200)]
    one = ClientBench(Document(identity=ME, epoch=1, cursor=10, settled=True))
    live(one)
    one.say(caught_up=wire.CaughtUp(complete=10))
    for name in names:
        one.client.application.register(name)
        one.client.application.subscribe(name, 1)
    while asked := [frame.register for frame in one.out() if frame.HasField("register")]:
        for frame in asked:
            one.say(registered=wire.Registered(request=frame.request))
    for name in names[:10]:
        answer(one, name)
    told(one)
    (few,) = said(one, SAID_AGAIN_S)
    assert (sorted(few.settled), few.all, list(few.entries)) == (names[:10], False, [])
    one.say(registered=wire.Registered(request=few.request))
    for name in names[10:]:
        answer(one, name)
    told(one)
    (rest,) = said(one, SAID_AGAIN_S)
    assert (rest.all, list(rest.settled), list(rest.entries)) == (True, [], [])


def test_a_registration_by_name_is_answered_before_a_query_hears_that_it_left() -> None:
    lamps = KeptQuery(members=frozenset("b"))
    one = bench(queries={LAMPS.text: lamps}, applied={"b": (0, 1)})
    live(one)
    one.say(caught_up=wire.CaughtUp(complete=10))
    one.client.application.subscribe_members(LAMPS, 2)
    one.say(notification=wire.Notification(name="b", left=[LAMPS.hash], offset=11))
    one.client.application.subscribe("b", 1)
    one.client.application.register("b")
    (frame,) = [frame.register for frame in one.out() if frame.HasField("register")]
    one.say(registered=wire.Registered(request=frame.request))
    answer(one, "b")
    jobs = []
    one.save()
    while (job := one.client.next_job(one.now)) is not None:
        jobs.append(job)
        one.client.job_done(job, {}, one.now)
        one.save()
    assert [job.notification.version for job in jobs if isinstance(job, CallbackJob)] == [1]
