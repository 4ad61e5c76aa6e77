"""How members are described, frame by frame: what is told to whom, and what is stored.

Stands for: member_descriptions, asked_descriptions
"""

from dataclasses import replace

import pytest
from coldnotify._core.delivery.membership import KeptQuery
from coldnotify._core.delivery.slot import CallbackJob
from coldnotify._core.document.document import Document
from coldnotify._core.interests.interests import QueryInterest
from coldnotify_schemas import wire_pb2 as wire
from coldnotify_testkit.client_bench import LAMPS, ROOM, ClientBench, kept

KINDS = wire.KINDS_QUERIES | wire.KINDS_DESCRIPTIONS


def test_beginning_to_ask_for_descriptions_opens_another_session() -> None:
    bench = ClientBench()
    bench.client.application.register(LAMPS)
    always = wire.CAPABILITY_NAMES | wire.CAPABILITY_QUERIES | wire.CAPABILITY_UNSETTLED | wire.CAPABILITY_RAW
    assert bench.connect().capabilities == always
    bench.say(welcome=wire.Welcome(in_sync=True, epoch=1, kinds=3))
    bench.client.application.ask_descriptions(LAMPS, wanted=True)
    bench.client.tick(bench.now)
    assert not bench.client.link_wanted
    bench.client.link_down("", bench.now)
    hello = bench.connect()
    assert hello.capabilities == always | wire.CAPABILITY_DESCRIPTIONS
    for _ in range(2):
        bench.say(welcome=wire.Welcome(in_sync=True, kinds=3))
    assert [type(error).__name__ for error in bench.client.take_reports()] == ["DescriptionsUnknown"]


def described(document: Document | None = None) -> ClientBench:
    """A client that knows version 1 of a lamp, and is told how it is described; two callbacks, one by its name."""
    known = replace(kept("a", descriptions={"a": b"{}"}), applied={"a": (0, 1)}, wanted=frozenset({"a"}))
    bench = ClientBench(document or known)
    bench.client.application.subscribe(LAMPS, 1)
    bench.client.application.subscribe("a", 2)
    bench.connect()
    bench.say(welcome=wire.Welcome(in_sync=True, kinds=KINDS))
    return bench


def test_a_description_that_comes_again_while_it_is_told_is_told_once() -> None:
    bench = described()
    said = wire.Notification(name="a", version=1, offset=11, description=b'{"on":true}')
    bench.say(notification=said)
    job = bench.client.next_job(bench.now)
    assert isinstance(job, CallbackJob)
    assert (job.subscribers, job.notification.description) == ((1,), {"on": True})
    bench.say(notification=said)
    bench.client.job_done(job, {}, bench.now)
    assert bench.client._document().queries[LAMPS.text].descriptions == {"a": b'{"on":true}'}
    assert bench.client.next_job(bench.now) is None


def test_the_description_of_before_is_told_after_another_one_that_is_being_told() -> None:
    """And who wants the object by its name hears nothing of either."""
    bench = described()
    bench.say(notification=wire.Notification(name="a", version=1, offset=11, description=b'{"on":true}'))
    first = bench.client.next_job(bench.now)
    assert isinstance(first, CallbackJob)
    heard = [(first.subscribers, first.notification.description)]
    for offset, said in enumerate((b"{}", b'{"on":true}', b"{}"), 12):
        bench.say(notification=wire.Notification(name="a", version=1, offset=offset, description=said))
    bench.client.job_done(first, {}, bench.now)
    assert bench.client._document().cursor == 11
    while isinstance(job := bench.client.next_job(bench.now), CallbackJob):
        heard.append((job.subscribers, job.notification.description))
        bench.client.job_done(job, {}, bench.now)
    assert heard == [((1,), {"on": True}), ((1,), {})]


def test_a_version_for_some_follows_one_that_waited_for_nobody_any_more() -> None:
    """A description of an object without a version waits for a query that the object has left."""
    bench = ClientBench(replace(kept("a", descriptions={"a": b"{}"}), wanted=frozenset()))
    bench.client.application.register(ROOM)
    bench.client.application.subscribe(LAMPS, 1)
    bench.client.application.subscribe(ROOM, 2)
    bench.connect()
    bench.say(welcome=wire.Welcome(in_sync=True, kinds=KINDS))
    bench.say(notification=wire.Notification(name="a", offset=11, entered=[ROOM.hash], description=b'{"on":true}'))
    bench.say(notification=wire.Notification(name="a", offset=12, left=[LAMPS.hash]))
    bench.say(notification=wire.Notification(name="a", version=1, offset=13))
    job = bench.client.next_job(bench.now)
    assert isinstance(job, CallbackJob)
    assert (job.subscribers, job.notification.version) == ((2,), 1)


def test_a_description_that_was_being_told_when_all_were_forgotten_stays_forgotten() -> None:
    """It was being told when another service took over, which tells none: the cursor may pass what it becomes."""
    bench = described()
    bench.say(notification=wire.Notification(name="a", version=1, offset=11, description=b'{"on":true}'))
    job = bench.client.next_job(bench.now)
    assert job is not None
    bench.client.link_down("", bench.now)
    bench.connect()
    bench.say(welcome=wire.Welcome(in_sync=True, kinds=wire.KINDS_QUERIES))
    bench.client.job_done(job, {}, bench.now)
    assert bench.client._document().queries[LAMPS.text].descriptions == {}


def test_a_description_of_an_older_version_is_told_with_the_one_that_waits_for_others() -> None:
    bench = described()
    bench.say(notification=wire.Notification(name="a", version=2, offset=11))
    job = bench.client.next_job(bench.now)
    assert job is not None
    bench.client.job_done(job, {2: Exception()}, bench.now)
    bench.say(notification=wire.Notification(name="a", version=1, offset=12, description=b'{"on":true}'))
    bench.now += 10
    job = bench.client.next_job(bench.now)
    assert isinstance(job, CallbackJob)
    assert (job.subscribers, job.notification.version, job.notification.description) == ((1, 2), 2, {"on": True})
    bench.client.job_done(job, {}, bench.now)
    document = bench.client._document()
    assert (document.cursor, document.queries[LAMPS.text].descriptions) == (12, {"a": b'{"on":true}'})


def test_the_description_of_before_is_told_after_one_that_only_some_callbacks_took_in() -> None:
    bench = described()
    bench.client.application.subscribe(LAMPS, 3)
    bench.say(notification=wire.Notification(name="a", version=1, offset=11, description=b'{"on":true}'))
    job = bench.client.next_job(bench.now)
    assert job is not None
    bench.client.job_done(job, {3: Exception()}, bench.now)
    bench.say(notification=wire.Notification(name="a", version=1, offset=12, description=b"{}"))
    bench.now += 10
    job = bench.client.next_job(bench.now)
    assert isinstance(job, CallbackJob)
    assert (job.subscribers, job.notification.description) == ((1, 3), {})
    bench.client.job_done(job, {}, bench.now)
    bench.say(notification=wire.Notification(name="a", version=1, offset=13, description=b"{}"))
    assert (bench.client.next_job(bench.now), bench.client._document().cursor) == (None, 13)


def test_the_description_of_before_is_told_after_one_that_was_told_before_a_crash() -> None:
    """And once only."""
    bench = described()
    before = bench.client._document()
    bench.say(notification=wire.Notification(name="a", version=1, offset=11, description=b'{"on":true}'))
    job = bench.client.next_job(bench.now)
    assert isinstance(job, CallbackJob)
    assert job.notification.description == {"on": True}
    bench = described(before)
    for offset in (12, 13):
        bench.say(notification=wire.Notification(name="a", version=1, offset=offset, description=b"{}"))
        assert bench.tell() == ([("a", (1,))] if offset == 12 else [])
    document = bench.client._document()
    assert (document.cursor, document.queries[LAMPS.text].descriptions) == (13, {"a": b"{}"})


def test_a_description_is_stored_of_each_query_once_the_last_callback_took_it_in() -> None:
    one = KeptQuery(members=frozenset({"a"}), descriptions={"a": b"{}"})
    bench = described(replace(kept(), queries={LAMPS.text: one, ROOM.text: one}, applied={"a": (0, 1)}))
    bench.client.application.subscribe(ROOM, 3)
    bench.say(notification=wire.Notification(name="a", version=1, offset=11, description=b'{"on":true}'))
    for subscribers, failed in (((1, 3), {3: Exception()}), ((3,), {})):
        job = bench.client.next_job(bench.now)
        assert isinstance(job, CallbackJob)
        assert job.subscribers == subscribers
        bench.client.job_done(job, failed, bench.now)
        bench.now += 10
    document = bench.client._document()
    assert document.cursor == 11
    assert [of.descriptions for of in document.queries.values()] == [{"a": b'{"on":true}'}] * 2


def test_a_registration_is_not_settled_while_the_description_that_its_answer_repeats_is_being_told() -> None:
    bench = described(kept("a", descriptions={"a": b"{}"}))
    bench.say(notification=wire.Notification(name="a", offset=11, description=b'{"on":true}'))
    job = bench.client.next_job(bench.now)
    assert job is not None
    bench.client.link_down("", bench.now)
    bench.connect()
    for in_sync in (False, True):  # the service has forgotten the client
        bench.say(welcome=wire.Welcome(in_sync=in_sync, kinds=KINDS))
        bench.out()
    bench.say(registered=wire.Registered(begun=[LAMPS.hash]))
    bench.say(notification=wire.Notification(name="a", answer=True, entered=[LAMPS.hash], description=b'{"on":true}'))
    bench.say(registered=wire.Registered(answered=[LAMPS.hash]))
    bench.say(caught_up=wire.CaughtUp(complete=11))
    document = bench.client._document()
    assert (document.cursor, set(document.pending_queries)) == (11, {LAMPS.text})
    bench.client.job_done(job, {}, bench.now)
    document = bench.client._document()
    assert (document.pending_queries, document.queries[LAMPS.text].descriptions) == ({}, {"a": b'{"on":true}'})
    assert bench.client.next_job(bench.now) is None


def test_a_query_does_not_wait_for_an_unpublished_member_whose_description_nobody_asks_for_any_more() -> None:
    lamps, rooms = KeptQuery(members=frozenset("a")), KeptQuery(members=frozenset("a"), descriptions={"a": b"{}"})
    bench = ClientBench(replace(kept("a"), queries={LAMPS.text: lamps, ROOM.text: rooms}))
    for number, query in enumerate((LAMPS, ROOM), 1):
        bench.client.application.subscribe(query, number)
    bench.connect()
    bench.say(welcome=wire.Welcome(in_sync=True, kinds=KINDS))
    bench.say(caught_up=wire.CaughtUp(complete=10, sets_digest=1))  # the service holds others
    bench.out()
    hashes = [LAMPS.hash, ROOM.hash]
    bench.say(registered=wire.Registered(request=1, kinds=KINDS))
    bench.say(registered=wire.Registered(begun=hashes))
    bench.say(notification=wire.Notification(name="a", answer=True, entered=hashes[:1], description=b'{"on":true}'))
    bench.say(registered=wire.Registered(answered=hashes))
    bench.say(caught_up=wire.CaughtUp(complete=11))
    bench.client.tick(bench.now)
    assert bench.client.next_job(bench.now) is None
    assert bench.client._document().pending_queries == {}


def test_a_version_that_is_told_again_to_those_it_entered_for_is_told_also_after_a_crash() -> None:
    """Another callback was told it, and it comes with a description that is new to that one's query."""
    known = kept("a", descriptions={"a": b"{}"})
    known = replace(known, applied={"a": (0, 1)}, queries={**known.queries, ROOM.text: KeptQuery()})
    bench = described(known)
    bench.client.application.subscribe(ROOM, 3)
    bench.client.application.subscribe_members(ROOM, 4)
    said = wire.Notification(name="a", version=1, offset=11, entered=[ROOM.hash], description=b'{"on":true}')
    bench.say(notification=said)
    again = described(bench.save())
    again.client.application.subscribe(ROOM, 3)
    again.client.application.subscribe_members(ROOM, 4)
    again.say(notification=said)
    told = [one for one in again.tell() if isinstance(one, tuple)]
    assert told == [({"a"}, set()), ("a", (1, 2, 3))]


def test_a_known_version_is_not_delivered_again_when_two_descriptions_follow_its_entry() -> None:
    known = kept("a", descriptions={"a": b"{}"})
    known = replace(
        known, queries={LAMPS.text: KeptQuery(descriptions={})}, applied={"a": (0, 1)}, wanted=frozenset({"a"})
    )
    bench = described(known)
    bench.say(notification=wire.Notification(name="a", version=1, offset=11, entered=[LAMPS.hash], description=b"{}"))
    first = bench.client.next_job(bench.now)
    assert isinstance(first, CallbackJob)
    for offset, said in ((12, b'{"on":true}'), (13, b"{}")):
        bench.say(notification=wire.Notification(name="a", version=1, offset=offset, description=said))
    bench.client.job_done(first, {}, bench.now)
    assert (first.subscribers, bench.tell()) == ((1,), [])
    document = bench.client._document()
    assert (document.cursor, document.applied, document.queries[LAMPS.text].descriptions) == (
        13,
        {"a": (0, 1)},
        {"a": b"{}"},
    )


def test_descriptions_that_are_missing_are_asked_for_though_the_query_is_owed() -> None:
    """Nobody has subscribed to anything: that a member is described in another way was dropped."""
    bench = ClientBench(kept("a", "b", descriptions={"a": b"{}"}, dropped=True, followed=True))
    bench.connect()
    bench.say(welcome=wire.Welcome(in_sync=True, kinds=KINDS))
    bench.say(notification=wire.Notification(name="a", offset=11, description=b'{"on":true}'))
    bench.say(caught_up=wire.CaughtUp(complete=11))
    (frame,) = bench.out()
    assert [query.text for query in frame.register.interests] == [LAMPS.text]


@pytest.mark.parametrize("version", [None, 0])
def test_an_older_version_delivers_its_description_alone(version: int | None) -> None:
    """The object was removed, and published again by somebody who began its versions over, or not at all."""
    bench = described()
    bench.say(notification=wire.Notification(name="a", version=version, offset=11, description=b'{"on":true}'))
    assert bench.client._document().cursor == 10
    job = bench.client.next_job(bench.now)
    assert isinstance(job, CallbackJob)
    said = job.notification
    assert (job.subscribers, said.version, said.description) == ((1,), None, {"on": True})
    bench.client.job_done(job, {}, bench.now)
    assert bench.client.next_job(bench.now) is None
    document = bench.client._document()
    assert (document.cursor, document.applied["a"]) == (11, (0, 1))


def test_an_unpublished_member_that_leaves_all_its_queries_is_told_to_none() -> None:
    """Two queries wait for the version that does not exist; a third one asks for its description."""
    heaters = QueryInterest("heaters")
    bench = ClientBench(
        replace(
            kept(),
            queries={LAMPS.text: KeptQuery(), heaters.text: KeptQuery(), ROOM.text: KeptQuery(descriptions={})},
        )
    )
    for number, query in enumerate((LAMPS, heaters, ROOM), 1):
        bench.client.application.subscribe(query, number)
    bench.client.application.subscribe_members(ROOM, 4)
    bench.connect()
    bench.say(welcome=wire.Welcome(in_sync=True, kinds=KINDS))
    bench.say(caught_up=wire.CaughtUp(complete=10))
    deferring = [LAMPS.hash, heaters.hash]
    bench.say(notification=wire.Notification(name="a", offset=11, entered=deferring, description=b'{"on":true}'))
    assert bench.tell() == []
    bench.say(notification=wire.Notification(name="a", offset=12, entered=[ROOM.hash], description=b""))
    bench.say(notification=wire.Notification(name="a", offset=13, left=[*deferring, ROOM.hash]))
    assert bench.tell() == []
    assert bench.client.status(bench.now).waiting == 0
