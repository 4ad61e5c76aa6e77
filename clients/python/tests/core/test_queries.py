"""Queries on the wire and in the document, frame by frame.

Stands for: queries, interests
"""

from dataclasses import replace

import pytest
from coldnotify._core.delivery.membership import KeptQuery, MembersChange, Reached
from coldnotify._core.delivery.slot import CallbackJob
from coldnotify._core.delivery.telling import MembersJob
from coldnotify._core.document.document import Document, decode, encode
from coldnotify._core.interests.interests import QueryInterest, frames_of, prefix_of, query_of
from coldnotify._core.interests.registrations import OperationKind
from coldnotify_schemas import wire_pb2 as wire
from coldnotify_schemas.digest import digest, sets_digest
from coldnotify_schemas.protocol import CLIENT_FRAME_BYTES_MAX, OBJECTS_PER_FRAME_MAX, QUERY_BYTES_MAX
from coldnotify_testkit.client_bench import LAMPS, ME, ROOM, ClientBench, kept

KINDS = wire.KINDS_NAMES | wire.KINDS_QUERIES
ALWAYS = wire.CAPABILITY_UNSETTLED | wire.CAPABILITY_RAW


def test_a_hello_with_a_query() -> None:
    bench = ClientBench()
    bench.client.application.register(LAMPS)
    bench.client.application.register("a")
    hello = bench.connect()
    assert hello.capabilities == wire.CAPABILITY_NAMES | wire.CAPABILITY_QUERIES | ALWAYS
    assert hello.digest == (digest({"a"}) + LAMPS.hash) % (1 << 64)
    assert [(query.kind, query.text) for query in hello.interests] == [(wire.INTEREST_QUERY, "lamps")]
    assert list(hello.register) == ["a"]
    bench.client.application.unregister(LAMPS)
    bench.client.link_down("", bench.now)
    hello = bench.connect()
    assert (list(hello.interests), list(hello.unregister_interests)) == ([], [LAMPS.hash])
    assert hello.digest == digest({"a"})


def test_the_first_query_of_a_session_asks_for_names() -> None:
    bench = ClientBench()
    assert bench.connect().capabilities == ALWAYS
    bench.say(welcome=wire.Welcome(in_sync=True, epoch=1))
    bench.client.application.register(LAMPS)
    names, register = bench.out()
    assert names.HasField("use_names")
    assert register.register.interests[0].text == "lamps"


def test_an_older_service_is_not_asked_again_and_has_no_query_in_the_digest() -> None:
    bench = ClientBench()
    bench.client.application.register(LAMPS)
    bench.client.application.register("a")
    bench.connect()
    bench.say(welcome=wire.Welcome(in_sync=False, epoch=1))
    (chunk,) = bench.out()
    assert (list(chunk.sync.objects), list(chunk.sync.interests)) == (["a"], [])
    bench.say(welcome=wire.Welcome(in_sync=True))
    bench.say(notification=wire.Notification(name="a", version=1, answer=True))
    bench.say(caught_up=wire.CaughtUp(complete=5))
    assert bench.out() == []
    bench.now += 61
    bench.client.tick(bench.now)
    (ping,) = [frame for frame in bench.out() if frame.HasField("ping")]
    assert ping.ping.digest == digest({"a"})
    assert [type(error).__name__ for error in bench.client.take_reports()] == ["QueriesUnknown"]
    bench.client.link_down("", bench.now)
    hello = bench.connect()
    assert hello.digest == digest({"a"}), "as the last Welcome said"
    assert [query.text for query in hello.interests] == ["lamps"]
    bench.say(welcome=wire.Welcome(in_sync=True))
    assert not bench.client.take_reports(), "once is enough"


def test_a_page_that_ends_before_the_first_member_says_nothing_of_an_answer() -> None:
    bench = ClientBench()
    bench.client.application.register(LAMPS)
    bench.client.application.subscribe_members(LAMPS, 1)
    bench.connect()
    bench.say(welcome=wire.Welcome(in_sync=True, epoch=1, kinds=KINDS))
    bench.say(registered=wire.Registered(begun=[LAMPS.hash]))
    bench.say(page_end=wire.PageEnd(page=1, query=LAMPS.hash, reached="", reached_at=7))
    assert decode(encode(bench.client._document()), ME).queries["lamps"].reached is None


def test_an_answer_that_is_broken_off_goes_on() -> None:
    bench = ClientBench()
    bench.client.application.register(LAMPS)
    bench.client.application.subscribe_members(LAMPS, 1)
    bench.client.application.subscribe(LAMPS, 2)
    bench.connect()
    bench.say(welcome=wire.Welcome(in_sync=True, epoch=1, kinds=KINDS))
    bench.say(registered=wire.Registered(begun=[LAMPS.hash]))
    bench.enter("a", LAMPS, version=1, answer=True)
    bench.say(page_end=wire.PageEnd(page=1, query=LAMPS.hash, reached="a", reached_at=7))
    document = bench.save()
    assert document is None or document.queries["lamps"].reached is None, "a has not been told"
    assert bench.tell() == [({"a"}, set()), ("a", (2,))]
    bench.now += 1
    document = decode(encode(bench.client._document()), ME)
    assert document.queries["lamps"].reached == Reached("a", 7)
    again = ClientBench(document)
    again.client.application.subscribe_members(LAMPS, 1)
    again.client.application.subscribe(LAMPS, 2)
    (query,) = again.connect().interests
    assert (query.reached, query.reached_at) == ("a", 7)
    again.say(welcome=wire.Welcome(in_sync=True, kinds=KINDS))
    again.enter("b", LAMPS, version=1, answer=True)
    again.say(registered=wire.Registered(answered=[LAMPS.hash]))
    assert again.tell() == [({"b"}, set()), ("b", (2,))]
    assert again.client.application.members(LAMPS) == {"a", "b"}
    again.say(caught_up=wire.CaughtUp(complete=9))
    assert again.client.caught_up(again.now)


def test_answers_of_an_older_epoch_are_asked_for_again() -> None:
    bench = ClientBench(
        Document(
            identity=ME,
            queries={"lamps": KeptQuery(members=frozenset("a"), answer=frozenset("a"), reached=Reached("a", 7))},
            pending_queries={"lamps": OperationKind.REGISTER},
            epoch=1,
            cursor=10,
        )
    )
    assert bench.connect().interests[0].reached == "a"
    bench.say(welcome=wire.Welcome(in_sync=True, epoch=2, kinds=KINDS))
    (register,) = bench.out()
    assert not register.register.interests[0].reached


def test_other_sets_are_asked_for_before_the_cursor_passes() -> None:
    bench = ClientBench(kept("a"))
    bench.client.application.subscribe_members(LAMPS, 1)
    bench.connect()
    bench.say(welcome=wire.Welcome(in_sync=True, kinds=KINDS))
    bench.say(caught_up=wire.CaughtUp(complete=20, sets_digest=sets_digest([(LAMPS.hash, digest("ab"))])))
    document = decode(encode(bench.client._document()), ME)
    assert (document.cursor, document.pending_queries) == (20, {"lamps": OperationKind.REGISTER})
    (register,) = bench.out()
    assert register.register.interests[0].held == digest("a")
    bench.say(registered=wire.Registered(request=1, kinds=KINDS))
    bench.say(registered=wire.Registered(unchanged=[LAMPS.hash]))
    assert not decode(encode(bench.client._document()), ME).pending_queries
    bench.say(caught_up=wire.CaughtUp(complete=20, sets_digest=sets_digest([(LAMPS.hash, digest("a"))])))
    assert bench.out() == []


def test_a_version_waits_until_it_is_known_whose_member_the_object_is() -> None:
    bench = ClientBench(
        replace(kept("a"), queries={LAMPS.text: KeptQuery(members=frozenset("a")), ROOM.text: KeptQuery()})
    )
    bench.client.application.subscribe(LAMPS, 1)
    bench.client.application.subscribe(ROOM, 2)
    bench.connect()
    bench.say(welcome=wire.Welcome(in_sync=True, kinds=KINDS))
    bench.say(
        caught_up=wire.CaughtUp(
            complete=20, sets_digest=sets_digest([(LAMPS.hash, digest("")), (ROOM.hash, digest("a"))])
        )
    )
    bench.out()
    bench.say(notification=wire.Notification(name="a", version=7, offset=21))
    assert bench.tell() == []
    bench.say(registered=wire.Registered(request=1, kinds=KINDS))
    for query, members in ((ROOM, "a"), (LAMPS, "")):
        bench.say(registered=wire.Registered(begun=[query.hash]))
        for name in members:
            bench.enter(name, query, version=7, offset=21, answer=True)
        bench.say(registered=wire.Registered(answered=[query.hash]))
    assert bench.tell() == [("a", (2,))]
    assert bench.client.application.members(LAMPS) == frozenset()


def test_a_digest_that_never_fits_is_not_asked_for_for_ever() -> None:
    bench = ClientBench(kept("a"))
    bench.connect()
    bench.say(welcome=wire.Welcome(in_sync=True, kinds=KINDS))
    said = []
    for _ in range(10):
        bench.say(caught_up=wire.CaughtUp(complete=20, sets_digest=1))
        for frame in bench.out():
            if frame.HasField("register"):
                said.append(frame.register.interests[0].HasField("held"))
                bench.say(registered=wire.Registered(request=frame.register.request, kinds=KINDS))
                bench.say(registered=wire.Registered(begun=[LAMPS.hash]))
                bench.say(registered=wire.Registered(answered=[LAMPS.hash]))
    assert said == [True, False]


def test_an_entry_not_delivered_before_a_crash_is_answered_again() -> None:
    bench = ClientBench(kept("a", entering=frozenset("a")))
    bench.client.application.subscribe(LAMPS, 2)
    bench.connect()
    bench.say(welcome=wire.Welcome(in_sync=True, kinds=KINDS))
    bench.say(caught_up=wire.CaughtUp(complete=20, sets_digest=sets_digest([(LAMPS.hash, digest("a"))])))
    (register,) = bench.out()
    assert not register.register.interests[0].HasField("held"), "the sets are the same, and a's version was not told"


def test_an_entry_repeated_after_a_crash_is_delivered_once() -> None:
    bench = ClientBench(kept("a", entering=frozenset("a")))
    bench.client.application.subscribe(LAMPS, 2)
    bench.connect()
    bench.say(welcome=wire.Welcome(in_sync=True, kinds=KINDS))
    bench.enter("a", LAMPS, version=3, offset=12)
    bench.save()
    running = bench.client.next_job(bench.now)
    assert isinstance(running, CallbackJob)
    bench.say(caught_up=wire.CaughtUp(complete=20, sets_digest=sets_digest([(LAMPS.hash, digest("a"))])))
    assert bench.out() == [], "its version is being told"
    saved = decode(encode(bench.client._document()), ME)
    assert saved.queries["lamps"].entering == {"a"}, "a crash would have it come again"
    bench.client.job_done(running, {}, bench.now)
    assert bench.tell() == []
    assert decode(encode(bench.client._document()), ME).queries["lamps"] == KeptQuery(members=frozenset("a"))


def test_a_deleted_member_is_told_as_deleted_before_it_leaves() -> None:
    bench = ClientBench(kept("a"))
    bench.client.application.subscribe_members(LAMPS, 1)
    bench.client.application.subscribe(LAMPS, 2)
    bench.connect()
    bench.say(welcome=wire.Welcome(in_sync=True, kinds=KINDS))
    bench.say(caught_up=wire.CaughtUp(complete=10))
    bench.enter("b", LAMPS, offset=11)
    deleted = wire.Notification(name="a", version=3, deleted=True, offset=12, left=[LAMPS.hash])
    bench.say(notification=deleted)
    assert bench.tell() == [({"b"}, set()), ("a", (2,)), (set(), {"a"})]
    assert decode(encode(bench.client._document()), ME) == Document(
        identity=ME, queries={"lamps": KeptQuery(members=frozenset("b"))}, epoch=1, cursor=12, settled=True
    )


def test_a_leaving_that_comes_later_holds_the_cursor_from_its_place_on() -> None:
    bench = ClientBench(kept("a", "b"))
    bench.client.application.subscribe_members(LAMPS, 1)
    bench.client.application.subscribe(LAMPS, 2)
    bench.connect()
    bench.say(welcome=wire.Welcome(in_sync=True, kinds=KINDS))
    bench.say(caught_up=wire.CaughtUp(complete=10))
    bench.say(notification=wire.Notification(name="b", offset=11, left=[LAMPS.hash]))
    bench.say(notification=wire.Notification(name="a", version=3, deleted=True, offset=12, left=[LAMPS.hash]))
    bench.save()
    jobs = [bench.client.next_job(bench.now), bench.client.next_job(bench.now)]
    for job in sorted(jobs, key=lambda one: isinstance(one, MembersJob)):
        assert job is not None
        bench.client.job_done(job, {}, bench.now)
    assert decode(encode(bench.client._document()), ME).cursor == 10, "that a has left is not told"
    assert bench.tell() == [(set(), {"a"})]
    assert decode(encode(bench.client._document()), ME).cursor == 12


def test_members_callbacks_wait_until_the_change_is_durable() -> None:
    bench = ClientBench(kept())
    bench.client.application.subscribe_members(LAMPS, 1)
    bench.connect()
    bench.say(welcome=wire.Welcome(in_sync=True, kinds=KINDS))
    bench.enter("a", LAMPS, offset=11)
    bench.client.tick(bench.now)
    save = bench.client.save_due(bench.now)
    assert save is not None
    assert bench.client.next_job(bench.now) is None
    document = decode(save.data, ME)
    assert document.queries["lamps"] == KeptQuery(
        members=frozenset("a"), telling=MembersChange(frozenset("a"), frozenset())
    )
    assert document.cursor == 10
    bench.client.saved(save, bench.now)
    assert bench.client.next_job(bench.now) is not None


def live(document: Document, *names: str) -> ClientBench:
    """Caught up: what the document has is registered, and these names have callback 1, the query's members 3."""
    bench = ClientBench(document)
    bench.client.application.subscribe_members(LAMPS, 3)
    for name in names:
        bench.client.application.subscribe(name, 1)
    bench.connect()
    bench.say(welcome=wire.Welcome(in_sync=True, kinds=KINDS))
    bench.say(caught_up=wire.CaughtUp(complete=10))
    return bench


def test_a_version_delivered_by_name_stays_known_when_the_query_that_matched_it_goes() -> None:
    bench = live(replace(kept(), wanted=frozenset("a"), applied={"a": (0, 3)}), "a")
    bench.client.application.subscribe(LAMPS, 2)
    bench.enter("a", LAMPS, version=3, offset=12)
    saved = bench.save()
    assert saved is not None
    assert not saved.applied
    assert saved.queries["lamps"].entering == {"a"}, "a crash would have it come again"
    bench.client.application.unregister(LAMPS)
    saved = bench.save()
    assert saved is not None
    assert saved.applied == {"a": (0, 3)}, "nothing would have it come again"
    assert bench.tell() == []


def test_a_query_without_a_callback_misses_also_what_others_were_told() -> None:
    bench = live(replace(kept(), wanted=frozenset("a")), "a")
    bench.say(notification=wire.Notification(name="a", version=1, offset=11))
    bench.enter("a", LAMPS, version=1, offset=12)
    assert bench.tell() == [({"a"}, set()), ("a", (1,))]
    bench.out()
    bench.client.application.subscribe(LAMPS, 2)
    (register,) = bench.out()
    bench.say(registered=wire.Registered(request=register.register.request, kinds=KINDS))
    bench.say(registered=wire.Registered(begun=[LAMPS.hash]))
    bench.enter("a", LAMPS, version=1, answer=True)
    bench.say(registered=wire.Registered(answered=[LAMPS.hash]))
    assert bench.tell() == [("a", (2,))]


def test_a_query_that_loses_its_callback_misses_what_is_under_way_to_others() -> None:
    bench = live(replace(kept("a"), wanted=frozenset("a")), "a")
    bench.client.application.subscribe(LAMPS, 2)
    bench.say(notification=wire.Notification(name="a", version=1, offset=11))
    bench.client.application.unsubscribe(LAMPS, 2)
    assert bench.tell() == [("a", (1,))]
    bench.client.application.subscribe(LAMPS, 5)
    (register,) = bench.out()
    assert [query.text for query in register.register.interests] == ["lamps"]


def test_a_member_that_leaves_with_a_known_version_leaves() -> None:
    bench = live(replace(kept("a"), wanted=frozenset("a"), applied={"a": (0, 1)}), "a")
    bench.say(notification=wire.Notification(name="a", version=1, offset=11, left=[LAMPS.hash]))
    assert bench.tell() == [(set(), {"a"})]
    assert bench.client.application.members(LAMPS) == frozenset()


@pytest.mark.parametrize("under_way", [False, True])
def test_a_member_that_returns_before_its_leaving_was_delivered_has_its_version_delivered(under_way: bool) -> None:
    bench = live(replace(kept("a"), wanted=frozenset("a"), applied={"a": (0, 1)}), "a")
    bench.client.application.subscribe(LAMPS, 2)
    bench.enter("b", LAMPS, offset=11)
    bench.save()
    entering = bench.client.next_job(bench.now)
    assert isinstance(entering, MembersJob)
    # While members callbacks hear of b, a leaves, gets a version, and comes back.
    bench.say(notification=wire.Notification(name="a", offset=12, left=[LAMPS.hash]))
    bench.say(notification=wire.Notification(name="a", version=2, offset=13))
    bench.save()
    job = bench.client.next_job(bench.now)
    assert isinstance(job, CallbackJob)
    assert job.subscribers == (1,)
    if not under_way:
        bench.client.job_done(job, {}, bench.now)
    bench.enter("a", LAMPS, version=2, offset=14)
    if under_way:
        bench.client.job_done(job, {}, bench.now)
    bench.client.job_done(entering, {}, bench.now)
    assert bench.tell() == [("a", (2,))]
    document = decode(encode(bench.client._document()), ME)
    assert (document.applied, document.cursor) == ({"a": (0, 2)}, 14)


def test_a_member_that_returns_after_a_restart_is_delivered_to_those_who_lack_it() -> None:
    bench = live(replace(kept("a"), wanted=frozenset("a"), applied={"a": (0, 1)}), "a")
    bench.client.application.subscribe(LAMPS, 2)
    bench.enter("b", LAMPS, offset=11)
    bench.save()
    assert isinstance(bench.client.next_job(bench.now), MembersJob)
    bench.say(notification=wire.Notification(name="a", offset=12, left=[LAMPS.hash]))
    bench.say(notification=wire.Notification(name="a", version=2, offset=13))
    assert bench.tell() == [("a", (1,))]
    document = decode(encode(bench.client._document()), ME)
    assert document.applied == {"a": (0, 2)}, "who was told it is not told again"
    again = ClientBench(document)
    again.client.application.subscribe_members(LAMPS, 3)
    again.client.application.subscribe(LAMPS, 2)
    again.client.application.subscribe("a", 1)
    again.connect()
    again.say(welcome=wire.Welcome(in_sync=True, kinds=KINDS))
    again.enter("a", LAMPS, version=2, offset=14)
    again.say(caught_up=wire.CaughtUp(complete=14))
    assert again.tell() == [({"b"}, set()), ("a", (2,))]


def test_a_member_that_leaves_keeps_the_floor_of_its_registration_by_name() -> None:
    bench = live(replace(kept("a"), wanted=frozenset("a"), applied={"a": (0, 1)}), "a")
    bench.client.application.subscribe(LAMPS, 2)
    bench.enter("b", LAMPS, offset=11)
    bench.save()
    entering = bench.client.next_job(bench.now)
    assert isinstance(entering, MembersJob)
    bench.say(notification=wire.Notification(name="a", offset=12, left=[LAMPS.hash]))
    bench.say(notification=wire.Notification(name="a", version=2, offset=13))
    assert bench.tell() == [("a", (1,))]
    bench.client.job_done(entering, {}, bench.now)
    assert bench.tell() == [(set(), {"a"})]
    assert decode(encode(bench.client._document()), ME).applied == {"a": (0, 2)}


def test_a_service_that_knows_no_queries_is_passed_by_none_of_them() -> None:
    bench = ClientBench(kept("a"))
    bench.client.application.subscribe_members(LAMPS, 3)
    bench.connect()
    # A gateway of an older release, in front of a matcher that knows them.
    bench.say(welcome=wire.Welcome(in_sync=True))
    bench.say(caught_up=wire.CaughtUp(complete=20))
    document = decode(encode(bench.client._document()), ME)
    assert (document.cursor, document.pending_queries) == (20, {"lamps": OperationKind.REGISTER})
    assert bench.out() == []
    again = ClientBench(document)
    (query,) = again.connect().interests
    assert (query.text, query.HasField("held")) == ("lamps", False), "versions of members were passed, too"


def test_a_member_of_an_unwanted_query_is_not_delivered_as_unknown_when_it_leaves() -> None:
    bench = live(replace(kept("a"), wanted=frozenset("a"), applied={"a": (0, 1)}), "a")
    bench.client.application.unregister(LAMPS)
    bench.say(notification=wire.Notification(name="a", offset=11, left=[LAMPS.hash]))
    assert bench.tell() == []


def test_the_cursor_waits_for_a_member_that_was_awaited_by_name() -> None:
    bench = live(kept("a"))
    bench.client.application.subscribe(LAMPS, 2)
    bench.client.application.register("a")
    bench.out()
    bench.say(notification=wire.Notification(name="a", version=1, offset=11))
    bench.client.application.unregister("a")
    assert decode(encode(bench.client._document()), ME).cursor == 10
    assert bench.tell() == [("a", (2,))]
    assert decode(encode(bench.client._document()), ME).cursor == 11


def test_a_parked_query_that_is_touched_is_tried_again_and_comes_to_rest() -> None:
    bench = live(kept())
    bench.enter("a", LAMPS, offset=11)
    for _ in range(2):
        bench.save()
        while not bench.client._delivery.turns.idle:
            job = bench.client.next_job(bench.now)
            if job is not None:
                bench.client.job_done(job, {3: RuntimeError("no")}, bench.now)
            bench.now += 100
            bench.answer_pings()
        assert bench.client.status(bench.now).parked == ("lamps",)
        assert bench.client.caught_up(bench.now)
        bench.enter("b", LAMPS, offset=12)
        assert not bench.client.caught_up(bench.now)
    assert bench.tell() == [({"a"}, set()), ({"b"}, set())]
    assert bench.client.caught_up(bench.now)


def test_a_member_that_left_is_delivered_once_the_failing_members_callback_is_parked() -> None:
    bench = live(replace(kept(), wanted=frozenset("a")), "a")
    bench.client.application.subscribe(LAMPS, 2)
    bench.enter("a", LAMPS, version=3, offset=11)
    told = []
    for turn in range(40):
        bench.save()
        job = bench.client.next_job(bench.now)
        if isinstance(job, MembersJob):
            bench.client.job_done(job, {3: RuntimeError("no")}, bench.now)
        elif isinstance(job, CallbackJob):
            told.append((job.notification.object_id, job.subscribers))
            bench.client.job_done(job, {}, bench.now)
        if not turn:
            bench.say(notification=wire.Notification(name="a", offset=12, left=[LAMPS.hash]))
        bench.now += 1
    assert told == [("a", (1, 2))]


def test_members_are_those_that_members_callbacks_were_told() -> None:
    bench = ClientBench(kept("a", followed=True))
    assert bench.client.application.members(LAMPS) == {"a"}
    bench.client.application.subscribe_members(LAMPS, 3)
    assert bench.client.application.members(LAMPS) == frozenset(), "nobody was told before: it is told all of them"
    assert bench.tell() == [({"a"}, set())]
    assert bench.client.application.members(LAMPS) == {"a"}


def test_a_members_callback_is_told_of_no_change_that_is_none() -> None:
    bench = live(kept("a"))
    bench.client.application.subscribe_members(LAMPS, 4)
    bench.say(notification=wire.Notification(name="a", offset=11, left=[LAMPS.hash]))
    bench.save()
    told = []
    while (job := bench.client.next_job(bench.now)) is not None:
        told.append((job.subscribers, job.arguments))
        bench.client.job_done(job, {}, bench.now)
        bench.save()
    assert told == [((3,), (set(), {"a"}))], "who came late had not heard of a"


def test_a_members_callback_that_comes_is_told_of_a_member_before_the_version_that_waits() -> None:
    bench = ClientBench(kept())
    bench.client.application.subscribe(LAMPS, 2)
    bench.connect()
    bench.say(welcome=wire.Welcome(in_sync=True, kinds=KINDS))
    bench.say(caught_up=wire.CaughtUp(complete=10))
    bench.enter("a", LAMPS, version=1, offset=11)
    bench.client.application.subscribe_members(LAMPS, 3)
    assert bench.client.next_job(bench.now) is None, "what is told is stored before"
    assert bench.tell() == [({"a"}, set()), ("a", (2,))]


@pytest.mark.parametrize("tries", [1, 5], ids=["tried again", "failed too often"])
def test_a_registration_by_name_during_a_failing_callback_is_delivered_with_the_others(tries: int) -> None:
    bench = live(kept())
    bench.client.application.subscribe(LAMPS, 2)
    bench.enter("a", LAMPS, version=1, offset=11)
    bench.save()
    members = bench.client.next_job(bench.now)
    assert isinstance(members, MembersJob)
    bench.client.job_done(members, {}, bench.now)
    for _ in range(tries):
        job = bench.client.next_job(bench.now)
        assert isinstance(job, CallbackJob)
        bench.client.application.subscribe("a", 1)
        bench.client.application.register("a")
        bench.client.job_done(job, dict.fromkeys(job.subscribers, RuntimeError()), bench.now)
        bench.now += 60
    if tries > 1:
        assert bench.client.next_job(bench.now) is None
        bench.enter("a", LAMPS, version=1, offset=11, answer=True)
    assert bench.tell() == [("a", (1, 2))]
    assert decode(encode(bench.client._document()), ME).applied == {"a": (0, 1)}, "all of them know it"


def test_sets_that_never_fit_are_owed_until_the_next_session() -> None:
    bench = ClientBench(kept())
    bench.client.application.subscribe_members(LAMPS, 3)
    bench.connect()
    bench.say(welcome=wire.Welcome(in_sync=True, kinds=KINDS))
    for _ in range(3):
        bench.say(caught_up=wire.CaughtUp(complete=20, sets_digest=1))
        for frame in bench.out():
            bench.say(registered=wire.Registered(request=frame.register.request, kinds=KINDS))
            bench.say(registered=wire.Registered(begun=[LAMPS.hash], answered=[LAMPS.hash]))
    bench.say(caught_up=wire.CaughtUp(complete=21))
    bench.enter("a", LAMPS, offset=22)
    assert bench.tell() == [({"a"}, set())]
    assert decode(encode(bench.client._document()), ME).pending_queries == {"lamps": OperationKind.REGISTER}


def test_frames_have_room_for_so_many() -> None:
    long = [QueryInterest(str(n) * (QUERY_BYTES_MAX // 2)) for n in range(9)]
    names = [f"n{n}" for n in range(OBJECTS_PER_FRAME_MAX + 1)]
    assert [len(frame) for frame in frames_of([*names, *long])] == [64, 9, 1]
    assert frames_of([]) == [[]]
    for frame in frames_of([*(name * 60 for name in names), *long]):
        chunk = wire.SyncChunk(
            objects=[one for one in frame if isinstance(one, str)],
            interests=[
                wire.Interest(kind=wire.INTEREST_QUERY, text=one.text)
                for one in frame
                if isinstance(one, QueryInterest)
            ],
        )
        assert chunk.ByteSize() < CLIENT_FRAME_BYTES_MAX


def test_invalid_queries_raise() -> None:
    with pytest.raises(ValueError, match=r"^query: has 0 bytes"):
        query_of("")
    with pytest.raises(ValueError, match=r"^query: has a character"):
        query_of("\ud800")
    with pytest.raises(ValueError, match=r"^prefix: has 256 bytes"):
        prefix_of("x" * 256)
