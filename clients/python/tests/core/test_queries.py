"""Queries on the wire and in the document, frame by frame.

Stands for: queries, interests
"""

from dataclasses import replace
from random import Random

import pytest
from coldnotify._core.client import Client
from coldnotify._core.document import Document, decode, encode
from coldnotify._core.driver import ChannelJob
from coldnotify._core.interests import Query, frames_of, prefix_of, query_of
from coldnotify._core.membership import Change, Kept, Reached
from coldnotify._core.reconnect import Address
from coldnotify._core.registrations import Kind
from coldnotify._core.session import Identity
from coldnotify._core.settings import Settings
from coldnotify._core.slot import Job
from coldnotify._core.telling import MembersJob
from coldnotify_schemas import wire_pb2 as wire
from coldnotify_schemas.digest import digest, sets_digest
from coldnotify_schemas.frames import FrameBuffer, parse_client_frame
from coldnotify_schemas.frames import encode as encode_frame
from coldnotify_schemas.protocol import CLIENT_FRAME_BYTES_MAX, OBJECTS_PER_FRAME_MAX, QUERY_BYTES_MAX

ME = Identity("d", "g", "c")
LAMPS, ROOM = Query("lamps"), Query("room")
KINDS = wire.KINDS_NAMES | wire.KINDS_QUERIES


class Bench:
    """A client with a disk that is never late, and a gateway that says what the test says."""

    def __init__(self, document: Document | None = None) -> None:
        self.now = 1000.0
        document = Document(identity=ME) if document is None else document
        self.client = Client(document, [Address("h", 1)], Settings(retry_min_s=1.0), Random(0), self.now)
        self.sent = FrameBuffer(CLIENT_FRAME_BYTES_MAX)

    def save(self) -> Document | None:
        saved = None
        self.client.tick(self.now)
        while (save := self.client.save_due(self.now)) is not None:
            saved = decode(save.data, ME)
            self.client.saved(save, self.now)
        return saved

    def connect(self) -> wire.Hello:
        self.now += 400.0
        assert self.client.connect_due(self.now) is not None
        self.sent = FrameBuffer(CLIENT_FRAME_BYTES_MAX)
        self.client.link_up(self.now)
        (frame,) = self.out()
        return frame.hello

    def out(self) -> list[wire.ClientFrame]:
        self.save()
        frames = []
        while data := self.client.data_to_send(self.now):
            frames += [parse_client_frame(body) for body in self.sent.feed(data)]
        return frames

    def say(self, **frame: object) -> None:
        self.client.receive(encode_frame(wire.GatewayFrame(**frame)), self.now)  # type: ignore[arg-type]

    def enter(
        self, name: str, query: Query, *, version: int | None = None, offset: int = 0, answer: bool = False
    ) -> None:
        self.say(
            notification=wire.Notification(
                name=name, version=version, offset=offset, answer=answer, entered=[query.hash]
            )
        )

    def tell(self) -> list[object]:
        """Runs all callbacks: the arguments of each."""
        told: list[object] = []
        self.save()
        while (job := self.client.next_job(self.now)) is not None:
            assert not isinstance(job, ChannelJob)
            told.append(job.arguments if isinstance(job, MembersJob) else (job.notification.object_id, job.subscribers))
            self.client.job_done(job, {}, self.now)
            self.save()
        return told


def kept(*members: str, **more: object) -> Document:
    return Document(
        identity=ME,
        queries={LAMPS.text: Kept(members=frozenset(members), **more)},  # type: ignore[arg-type]
        epoch=1,
        cursor=10,
    )


def test_a_hello_with_a_query() -> None:
    bench = Bench()
    bench.client.register(LAMPS)
    bench.client.register("a")
    hello = bench.connect()
    assert hello.capabilities == wire.CAPABILITY_NAMES | wire.CAPABILITY_QUERIES
    assert hello.digest == (digest({"a"}) + LAMPS.hash) % (1 << 64)
    assert [query.text for query in hello.queries] == ["lamps"]
    assert list(hello.register) == ["a"]
    bench.client.unregister(LAMPS)
    bench.client.link_down("", bench.now)
    hello = bench.connect()
    assert (list(hello.queries), list(hello.unregister_queries)) == ([], [LAMPS.hash])
    assert hello.digest == digest({"a"})


def test_who_comes_to_ask_for_descriptions_opens_another_session() -> None:
    bench = Bench()
    bench.client.register(LAMPS)
    assert bench.connect().capabilities == wire.CAPABILITY_NAMES | wire.CAPABILITY_QUERIES
    bench.say(welcome=wire.Welcome(in_sync=True, epoch=1, kinds=3))
    bench.client.ask_descriptions(LAMPS, wanted=True)
    bench.client.tick(bench.now)
    assert not bench.client.link_wanted
    bench.client.link_down("", bench.now)
    hello = bench.connect()
    assert hello.capabilities == wire.CAPABILITY_NAMES | wire.CAPABILITY_QUERIES | wire.CAPABILITY_DESCRIPTIONS
    for _ in range(2):
        bench.say(welcome=wire.Welcome(in_sync=True, kinds=3))
    assert [type(error).__name__ for error in bench.client.take_reports()] == ["DescriptionsUnknown"]


def described(document: Document | None = None) -> Bench:
    """A client that knows version 1 of a lamp, and is told how it is described; two callbacks, one by its name."""
    known = replace(kept("a", descriptions={"a": b"{}"}), applied={"a": (0, 1)}, wanted=frozenset({"a"}))
    bench = Bench(document or known)
    bench.client.subscribe(LAMPS, 1)
    bench.client.subscribe("a", 2)
    bench.connect()
    bench.say(welcome=wire.Welcome(in_sync=True, kinds=wire.KINDS_QUERIES | wire.KINDS_DESCRIPTIONS))
    return bench


def test_a_description_that_comes_again_while_it_is_told_is_told_once() -> None:
    bench = described()
    said = wire.Notification(name="a", version=1, offset=11, description=b'{"on":true}')
    bench.say(notification=said)
    job = bench.client.next_job(bench.now)
    assert isinstance(job, Job)
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
    assert isinstance(first, Job)
    heard = [(first.subscribers, first.notification.description)]
    for offset, said in enumerate((b"{}", b'{"on":true}', b"{}"), 12):
        bench.say(notification=wire.Notification(name="a", version=1, offset=offset, description=said))
    bench.client.job_done(first, {}, bench.now)
    assert bench.client._document().cursor == 11
    while isinstance(job := bench.client.next_job(bench.now), Job):
        heard.append((job.subscribers, job.notification.description))
        bench.client.job_done(job, {}, bench.now)
    assert heard == [((1,), {"on": True}), ((1,), {})]


def test_a_version_for_some_follows_one_that_waited_for_nobody_any_more() -> None:
    """A description of an object without a version waits for a query that the object has left."""
    bench = Bench(replace(kept("a", descriptions={"a": b"{}"}), wanted=frozenset()))
    bench.client.register(ROOM)
    bench.client.subscribe(LAMPS, 1)
    bench.client.subscribe(ROOM, 2)
    bench.connect()
    bench.say(welcome=wire.Welcome(in_sync=True, kinds=wire.KINDS_QUERIES | wire.KINDS_DESCRIPTIONS))
    bench.say(notification=wire.Notification(name="a", offset=11, entered=[ROOM.hash], description=b'{"on":true}'))
    bench.say(notification=wire.Notification(name="a", offset=12, left=[LAMPS.hash]))
    bench.say(notification=wire.Notification(name="a", version=1, offset=13))
    job = bench.client.next_job(bench.now)
    assert isinstance(job, Job)
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
    assert isinstance(job, Job)
    assert (job.subscribers, job.notification.version, job.notification.description) == ((1, 2), 2, {"on": True})
    bench.client.job_done(job, {}, bench.now)
    document = bench.client._document()
    assert (document.cursor, document.queries[LAMPS.text].descriptions) == (12, {"a": b'{"on":true}'})


def test_the_description_of_before_is_told_after_one_that_only_some_callbacks_took_in() -> None:
    bench = described()
    bench.client.subscribe(LAMPS, 3)
    bench.say(notification=wire.Notification(name="a", version=1, offset=11, description=b'{"on":true}'))
    job = bench.client.next_job(bench.now)
    assert job is not None
    bench.client.job_done(job, {3: Exception()}, bench.now)
    bench.say(notification=wire.Notification(name="a", version=1, offset=12, description=b"{}"))
    bench.now += 10
    job = bench.client.next_job(bench.now)
    assert isinstance(job, Job)
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
    assert isinstance(job, Job)
    assert job.notification.description == {"on": True}
    bench = described(before)
    for offset in (12, 13):
        bench.say(notification=wire.Notification(name="a", version=1, offset=offset, description=b"{}"))
        assert bench.tell() == ([("a", (1,))] if offset == 12 else [])
    document = bench.client._document()
    assert (document.cursor, document.queries[LAMPS.text].descriptions) == (13, {"a": b"{}"})


def test_a_description_is_stored_of_each_query_once_the_last_callback_took_it_in() -> None:
    one = Kept(members=frozenset({"a"}), descriptions={"a": b"{}"})
    bench = described(replace(kept(), queries={LAMPS.text: one, ROOM.text: one}, applied={"a": (0, 1)}))
    bench.client.subscribe(ROOM, 3)
    bench.say(notification=wire.Notification(name="a", version=1, offset=11, description=b'{"on":true}'))
    for subscribers, failed in (((1, 3), {3: Exception()}), ((3,), {})):
        job = bench.client.next_job(bench.now)
        assert isinstance(job, Job)
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
        bench.say(welcome=wire.Welcome(in_sync=in_sync, kinds=wire.KINDS_QUERIES | wire.KINDS_DESCRIPTIONS))
        bench.out()
    bench.say(registered=wire.Registered(begun=[LAMPS.hash]))
    bench.say(
        notification=wire.Notification(name="a", answer=True, entered=[LAMPS.hash], description=b'{"on":true}')
    )
    bench.say(registered=wire.Registered(answered=[LAMPS.hash]))
    bench.say(caught_up=wire.CaughtUp(complete=11))
    document = bench.client._document()
    assert (document.cursor, set(document.pending_queries)) == (11, {LAMPS.text})
    bench.client.job_done(job, {}, bench.now)
    document = bench.client._document()
    assert (document.pending_queries, document.queries[LAMPS.text].descriptions) == ({}, {"a": b'{"on":true}'})
    assert bench.client.next_job(bench.now) is None


def test_a_version_that_is_told_again_to_those_it_entered_for_is_told_also_after_a_crash() -> None:
    """Another callback was told it, and it comes with a description that is new to that one's query."""
    known = kept("a", descriptions={"a": b"{}"})
    known = replace(known, applied={"a": (0, 1)}, queries={**known.queries, ROOM.text: Kept()})
    bench = described(known)
    bench.client.subscribe(ROOM, 3)
    bench.client.subscribe_members(ROOM, 4)
    said = wire.Notification(name="a", version=1, offset=11, entered=[ROOM.hash], description=b'{"on":true}')
    bench.say(notification=said)
    again = described(bench.save())
    again.client.subscribe(ROOM, 3)
    again.client.subscribe_members(ROOM, 4)
    again.say(notification=said)
    told = [one for one in again.tell() if isinstance(one, tuple)]
    assert told == [({"a"}, set()), ("a", (1, 2, 3))]


def test_descriptions_that_are_missing_are_asked_for_though_the_query_is_owed() -> None:
    """Nobody has subscribed to anything: that a member is described in another way was dropped."""
    bench = Bench(kept("a", "b", descriptions={"a": b"{}"}, dropped=True, followed=True))
    bench.connect()
    bench.say(welcome=wire.Welcome(in_sync=True, kinds=wire.KINDS_QUERIES | wire.KINDS_DESCRIPTIONS))
    bench.say(notification=wire.Notification(name="a", offset=11, description=b'{"on":true}'))
    bench.say(caught_up=wire.CaughtUp(complete=11))
    (frame,) = bench.out()
    assert [query.text for query in frame.register.queries] == [LAMPS.text]


@pytest.mark.parametrize("version", [None, 0])
def test_of_an_older_version_the_description_alone_is_told_to_those_who_ask(version: int | None) -> None:
    """The object was removed, and published again by somebody who began its versions over, or not at all."""
    bench = described()
    bench.say(notification=wire.Notification(name="a", version=version, offset=11, description=b'{"on":true}'))
    assert bench.client._document().cursor == 10
    job = bench.client.next_job(bench.now)
    assert isinstance(job, Job)
    said = job.notification
    assert (job.subscribers, said.version, said.description) == ((1,), None, {"on": True})
    bench.client.job_done(job, {}, bench.now)
    assert bench.client.next_job(bench.now) is None
    document = bench.client._document()
    assert (document.cursor, document.applied["a"]) == (11, (0, 1))


def test_the_first_query_of_a_session_asks_for_names() -> None:
    bench = Bench()
    assert bench.connect().capabilities == wire.CAPABILITY_NONE
    bench.say(welcome=wire.Welcome(in_sync=True, epoch=1))
    bench.client.register(LAMPS)
    names, register = bench.out()
    assert names.HasField("use_names")
    assert register.register.queries[0].text == "lamps"


def test_an_older_service_is_not_asked_again_and_has_no_query_in_the_digest() -> None:
    bench = Bench()
    bench.client.register(LAMPS)
    bench.client.register("a")
    bench.connect()
    bench.say(welcome=wire.Welcome(in_sync=False, epoch=1))
    (chunk,) = bench.out()
    assert (list(chunk.sync.objects), list(chunk.sync.queries)) == (["a"], [])
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
    assert [query.text for query in hello.queries] == ["lamps"]
    bench.say(welcome=wire.Welcome(in_sync=True))
    assert not bench.client.take_reports(), "once is enough"


def test_a_page_that_ends_before_the_first_member_says_nothing_of_an_answer() -> None:
    bench = Bench()
    bench.client.register(LAMPS)
    bench.client.subscribe_members(LAMPS, 1)
    bench.connect()
    bench.say(welcome=wire.Welcome(in_sync=True, epoch=1, kinds=KINDS))
    bench.say(registered=wire.Registered(begun=[LAMPS.hash]))
    bench.say(page_end=wire.PageEnd(page=1, query=LAMPS.hash, reached="", reached_at=7))
    assert decode(encode(bench.client._document()), ME).queries["lamps"].reached is None


def test_an_answer_that_is_broken_off_goes_on() -> None:
    bench = Bench()
    bench.client.register(LAMPS)
    bench.client.subscribe_members(LAMPS, 1)
    bench.client.subscribe(LAMPS, 2)
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
    again = Bench(document)
    again.client.subscribe_members(LAMPS, 1)
    again.client.subscribe(LAMPS, 2)
    (query,) = again.connect().queries
    assert (query.reached, query.reached_at) == ("a", 7)
    again.say(welcome=wire.Welcome(in_sync=True, kinds=KINDS))
    again.enter("b", LAMPS, version=1, answer=True)
    again.say(registered=wire.Registered(answered=[LAMPS.hash]))
    assert again.tell() == [({"b"}, set()), ("b", (2,))]
    assert again.client.members(LAMPS) == {"a", "b"}
    again.say(caught_up=wire.CaughtUp(complete=9))
    assert again.client.caught_up


def test_what_was_said_of_an_older_epoch_is_asked_anew() -> None:
    bench = Bench(
        Document(
            identity=ME,
            queries={"lamps": Kept(members=frozenset("a"), answer=frozenset("a"), reached=Reached("a", 7))},
            pending_queries={"lamps": Kind.REGISTER},
            epoch=1,
            cursor=10,
        )
    )
    assert bench.connect().queries[0].reached == "a"
    bench.say(welcome=wire.Welcome(in_sync=True, epoch=2, kinds=KINDS))
    (register,) = bench.out()
    assert not register.register.queries[0].reached


def test_other_sets_are_asked_for_before_the_cursor_passes() -> None:
    bench = Bench(kept("a"))
    bench.client.subscribe_members(LAMPS, 1)
    bench.connect()
    bench.say(welcome=wire.Welcome(in_sync=True, kinds=KINDS))
    bench.say(caught_up=wire.CaughtUp(complete=20, sets_digest=sets_digest([(LAMPS.hash, digest("ab"))])))
    document = decode(encode(bench.client._document()), ME)
    assert (document.cursor, document.pending_queries) == (20, {"lamps": Kind.REGISTER})
    (register,) = bench.out()
    assert register.register.queries[0].held == digest("a")
    bench.say(registered=wire.Registered(request=1, kinds=KINDS))
    bench.say(registered=wire.Registered(unchanged=[LAMPS.hash]))
    assert not decode(encode(bench.client._document()), ME).pending_queries
    bench.say(caught_up=wire.CaughtUp(complete=20, sets_digest=sets_digest([(LAMPS.hash, digest("a"))])))
    assert bench.out() == []


def test_a_version_waits_until_it_is_known_whose_member_the_object_is() -> None:
    bench = Bench(replace(kept("a"), queries={LAMPS.text: Kept(members=frozenset("a")), ROOM.text: Kept()}))
    bench.client.subscribe(LAMPS, 1)
    bench.client.subscribe(ROOM, 2)
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
    assert bench.client.members(LAMPS) == frozenset()


def test_a_digest_that_never_fits_is_not_asked_for_for_ever() -> None:
    bench = Bench(kept("a"))
    bench.connect()
    bench.say(welcome=wire.Welcome(in_sync=True, kinds=KINDS))
    said = []
    for _ in range(10):
        bench.say(caught_up=wire.CaughtUp(complete=20, sets_digest=1))
        for frame in bench.out():
            if frame.HasField("register"):
                said.append(frame.register.queries[0].HasField("held"))
                bench.say(registered=wire.Registered(request=frame.register.request, kinds=KINDS))
                bench.say(registered=wire.Registered(begun=[LAMPS.hash]))
                bench.say(registered=wire.Registered(answered=[LAMPS.hash]))
    assert said == [True, False]


def test_who_entered_before_a_crash_and_was_not_told_is_answered_again() -> None:
    bench = Bench(kept("a", entering=frozenset("a")))
    bench.client.subscribe(LAMPS, 2)
    bench.connect()
    bench.say(welcome=wire.Welcome(in_sync=True, kinds=KINDS))
    bench.say(caught_up=wire.CaughtUp(complete=20, sets_digest=sets_digest([(LAMPS.hash, digest("a"))])))
    (register,) = bench.out()
    assert not register.register.queries[0].HasField("held"), "the sets are the same, and a's version was not told"


def test_who_entered_before_a_crash_and_comes_again_is_told_once() -> None:
    bench = Bench(kept("a", entering=frozenset("a")))
    bench.client.subscribe(LAMPS, 2)
    bench.connect()
    bench.say(welcome=wire.Welcome(in_sync=True, kinds=KINDS))
    bench.enter("a", LAMPS, version=3, offset=12)
    bench.save()
    running = bench.client.next_job(bench.now)
    assert isinstance(running, Job)
    bench.say(caught_up=wire.CaughtUp(complete=20, sets_digest=sets_digest([(LAMPS.hash, digest("a"))])))
    assert bench.out() == [], "its version is being told"
    saved = decode(encode(bench.client._document()), ME)
    assert saved.queries["lamps"].entering == {"a"}, "a crash would have it come again"
    bench.client.job_done(running, {}, bench.now)
    assert bench.tell() == []
    assert decode(encode(bench.client._document()), ME).queries["lamps"] == Kept(members=frozenset("a"))


def test_a_deleted_member_is_told_as_deleted_before_it_leaves() -> None:
    bench = Bench(kept("a"))
    bench.client.subscribe_members(LAMPS, 1)
    bench.client.subscribe(LAMPS, 2)
    bench.connect()
    bench.say(welcome=wire.Welcome(in_sync=True, kinds=KINDS))
    bench.say(caught_up=wire.CaughtUp(complete=10))
    bench.enter("b", LAMPS, offset=11)
    deleted = wire.Notification(name="a", version=3, deleted=True, offset=12, left=[LAMPS.hash])
    bench.say(notification=deleted)
    assert bench.tell() == [({"b"}, set()), ("a", (2,)), (set(), {"a"})]
    assert decode(encode(bench.client._document()), ME) == Document(
        identity=ME, queries={"lamps": Kept(members=frozenset("b"))}, epoch=1, cursor=12
    )


def test_members_callbacks_wait_until_the_change_is_durable() -> None:
    bench = Bench(kept())
    bench.client.subscribe_members(LAMPS, 1)
    bench.connect()
    bench.say(welcome=wire.Welcome(in_sync=True, kinds=KINDS))
    bench.enter("a", LAMPS, offset=11)
    bench.client.tick(bench.now)
    save = bench.client.save_due(bench.now)
    assert save is not None
    assert bench.client.next_job(bench.now) is None
    document = decode(save.data, ME)
    assert document.queries["lamps"] == Kept(members=frozenset("a"), telling=Change(frozenset("a"), frozenset()))
    assert document.cursor == 10
    bench.client.saved(save, bench.now)
    assert bench.client.next_job(bench.now) is not None


def live(document: Document, *names: str) -> Bench:
    """Caught up: what the document has is registered, and these names have callback 1, the query's members 3."""
    bench = Bench(document)
    bench.client.subscribe_members(LAMPS, 3)
    for name in names:
        bench.client.subscribe(name, 1)
    bench.connect()
    bench.say(welcome=wire.Welcome(in_sync=True, kinds=KINDS))
    bench.say(caught_up=wire.CaughtUp(complete=10))
    return bench


def test_a_query_without_a_callback_misses_also_what_others_were_told() -> None:
    bench = live(replace(kept(), wanted=frozenset("a")), "a")
    bench.say(notification=wire.Notification(name="a", version=1, offset=11))
    bench.enter("a", LAMPS, version=1, offset=12)
    assert bench.tell() == [({"a"}, set()), ("a", (1,))]
    bench.out()
    bench.client.subscribe(LAMPS, 2)
    (register,) = bench.out()
    bench.say(registered=wire.Registered(request=register.register.request, kinds=KINDS))
    bench.say(registered=wire.Registered(begun=[LAMPS.hash]))
    bench.enter("a", LAMPS, version=1, answer=True)
    bench.say(registered=wire.Registered(answered=[LAMPS.hash]))
    assert bench.tell() == [("a", (2,))]


def test_a_query_that_loses_its_callback_misses_what_is_under_way_to_others() -> None:
    bench = live(replace(kept("a"), wanted=frozenset("a")), "a")
    bench.client.subscribe(LAMPS, 2)
    bench.say(notification=wire.Notification(name="a", version=1, offset=11))
    bench.client.unsubscribe(LAMPS, 2)
    assert bench.tell() == [("a", (1,))]
    bench.client.subscribe(LAMPS, 5)
    (register,) = bench.out()
    assert [query.text for query in register.register.queries] == ["lamps"]


def test_what_leaves_with_a_version_that_is_known_leaves() -> None:
    bench = live(replace(kept("a"), wanted=frozenset("a"), applied={"a": (0, 1)}), "a")
    bench.say(notification=wire.Notification(name="a", version=1, offset=11, left=[LAMPS.hash]))
    assert bench.tell() == [(set(), {"a"})]
    assert bench.client.members(LAMPS) == frozenset()


@pytest.mark.parametrize("under_way", [False, True])
def test_who_comes_back_before_its_leaving_was_told_has_its_version_told(under_way: bool) -> None:
    bench = live(replace(kept("a"), wanted=frozenset("a"), applied={"a": (0, 1)}), "a")
    bench.client.subscribe(LAMPS, 2)
    bench.enter("b", LAMPS, offset=11)
    bench.save()
    entering = bench.client.next_job(bench.now)
    assert isinstance(entering, MembersJob)
    # While members callbacks hear of b, a leaves, gets a version, and comes back.
    bench.say(notification=wire.Notification(name="a", offset=12, left=[LAMPS.hash]))
    bench.say(notification=wire.Notification(name="a", version=2, offset=13))
    bench.save()
    job = bench.client.next_job(bench.now)
    assert isinstance(job, Job)
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


def test_who_comes_back_after_a_restart_is_told_to_whom_it_was_not() -> None:
    bench = live(replace(kept("a"), wanted=frozenset("a"), applied={"a": (0, 1)}), "a")
    bench.client.subscribe(LAMPS, 2)
    bench.enter("b", LAMPS, offset=11)
    bench.save()
    assert isinstance(bench.client.next_job(bench.now), MembersJob)
    bench.say(notification=wire.Notification(name="a", offset=12, left=[LAMPS.hash]))
    bench.say(notification=wire.Notification(name="a", version=2, offset=13))
    assert bench.tell() == [("a", (1,))]
    document = decode(encode(bench.client._document()), ME)
    assert document.applied == {"a": (0, 2)}, "who was told it is not told again"
    again = Bench(document)
    again.client.subscribe_members(LAMPS, 3)
    again.client.subscribe(LAMPS, 2)
    again.client.subscribe("a", 1)
    again.connect()
    again.say(welcome=wire.Welcome(in_sync=True, kinds=KINDS))
    again.enter("a", LAMPS, version=2, offset=14)
    again.say(caught_up=wire.CaughtUp(complete=14))
    assert again.tell() == [({"b"}, set()), ("a", (2,))]


def test_who_leaves_for_good_leaves_others_their_floor() -> None:
    bench = live(replace(kept("a"), wanted=frozenset("a"), applied={"a": (0, 1)}), "a")
    bench.client.subscribe(LAMPS, 2)
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
    bench = Bench(kept("a"))
    bench.client.subscribe_members(LAMPS, 3)
    bench.connect()
    # A gateway of an older release, in front of a matcher that knows them.
    bench.say(welcome=wire.Welcome(in_sync=True))
    bench.say(caught_up=wire.CaughtUp(complete=20))
    document = decode(encode(bench.client._document()), ME)
    assert (document.cursor, document.pending_queries) == (20, {"lamps": Kind.REGISTER})
    assert bench.out() == []
    again = Bench(document)
    (query,) = again.connect().queries
    assert (query.text, query.HasField("held")) == ("lamps", False), "versions of members were passed, too"


def test_what_leaves_a_query_that_is_wanted_no_more_is_not_told_as_unknown() -> None:
    bench = live(replace(kept("a"), wanted=frozenset("a"), applied={"a": (0, 1)}), "a")
    bench.client.unregister(LAMPS)
    bench.say(notification=wire.Notification(name="a", offset=11, left=[LAMPS.hash]))
    assert bench.tell() == []


def test_the_cursor_waits_for_a_member_that_was_awaited_by_name() -> None:
    bench = live(kept("a"))
    bench.client.subscribe(LAMPS, 2)
    bench.client.register("a")
    bench.out()
    bench.say(notification=wire.Notification(name="a", version=1, offset=11))
    bench.client.unregister("a")
    assert decode(encode(bench.client._document()), ME).cursor == 10
    assert bench.tell() == [("a", (2,))]
    assert decode(encode(bench.client._document()), ME).cursor == 11


def test_a_parked_query_that_is_touched_is_tried_again_and_comes_to_rest() -> None:
    bench = live(kept())
    bench.enter("a", LAMPS, offset=11)
    for _ in range(2):
        bench.save()
        while not bench.client._delivery.idle:
            job = bench.client.next_job(bench.now)
            if job is not None:
                bench.client.job_done(job, {3: RuntimeError("no")}, bench.now)
            bench.now += 100
        assert bench.client.status(bench.now).parked == ("lamps",)
        assert bench.client.caught_up
        bench.enter("b", LAMPS, offset=12)
        assert not bench.client.caught_up
    assert bench.tell() == [({"a"}, set()), ({"b"}, set())]
    assert bench.client.caught_up


def test_members_are_those_that_members_callbacks_were_told() -> None:
    bench = Bench(kept("a", followed=True))
    assert bench.client.members(LAMPS) == {"a"}
    bench.client.subscribe_members(LAMPS, 3)
    assert bench.client.members(LAMPS) == frozenset(), "nobody was told before: it is told all of them"
    assert bench.tell() == [({"a"}, set())]
    assert bench.client.members(LAMPS) == {"a"}


def test_a_members_callback_is_told_of_no_change_that_is_none() -> None:
    bench = live(kept("a"))
    bench.client.subscribe_members(LAMPS, 4)
    bench.say(notification=wire.Notification(name="a", offset=11, left=[LAMPS.hash]))
    bench.save()
    told = []
    while (job := bench.client.next_job(bench.now)) is not None:
        told.append((job.subscribers, job.arguments))
        bench.client.job_done(job, {}, bench.now)
        bench.save()
    assert told == [((3,), (set(), {"a"}))], "who came late had not heard of a"


def test_a_members_callback_that_comes_is_told_of_a_member_before_the_version_that_waits() -> None:
    bench = Bench(kept())
    bench.client.subscribe(LAMPS, 2)
    bench.connect()
    bench.say(welcome=wire.Welcome(in_sync=True, kinds=KINDS))
    bench.say(caught_up=wire.CaughtUp(complete=10))
    bench.enter("a", LAMPS, version=1, offset=11)
    bench.client.subscribe_members(LAMPS, 3)
    assert bench.client.next_job(bench.now) is None, "what is told is stored before"
    assert bench.tell() == [({"a"}, set()), ("a", (2,))]


@pytest.mark.parametrize("tries", [1, 5], ids=["tried again", "failed too often"])
def test_who_registers_by_name_while_a_callback_fails_is_told_with_the_others(tries: int) -> None:
    bench = live(kept())
    bench.client.subscribe(LAMPS, 2)
    bench.enter("a", LAMPS, version=1, offset=11)
    bench.save()
    members = bench.client.next_job(bench.now)
    assert isinstance(members, MembersJob)
    bench.client.job_done(members, {}, bench.now)
    for _ in range(tries):
        job = bench.client.next_job(bench.now)
        assert isinstance(job, Job)
        bench.client.subscribe("a", 1)
        bench.client.register("a")
        bench.client.job_done(job, dict.fromkeys(job.subscribers, RuntimeError()), bench.now)
        bench.now += 60
    if tries > 1:
        assert bench.client.next_job(bench.now) is None
        bench.enter("a", LAMPS, version=1, offset=11, answer=True)
    assert bench.tell() == [("a", (1, 2))]
    assert decode(encode(bench.client._document()), ME).applied == {"a": (0, 1)}, "all of them know it"


def test_sets_that_never_fit_are_owed_until_the_next_session() -> None:
    bench = Bench(kept())
    bench.client.subscribe_members(LAMPS, 3)
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
    assert decode(encode(bench.client._document()), ME).pending_queries == {"lamps": Kind.REGISTER}


def test_frames_have_room_for_so_many() -> None:
    long = [Query(str(n) * (QUERY_BYTES_MAX // 2)) for n in range(9)]
    names = [f"n{n}" for n in range(OBJECTS_PER_FRAME_MAX + 1)]
    assert [len(frame) for frame in frames_of([*names, *long])] == [64, 9, 1]
    assert frames_of([]) == [[]]
    for frame in frames_of([*(name * 60 for name in names), *long]):
        chunk = wire.SyncChunk(
            objects=[one for one in frame if isinstance(one, str)],
            queries=[wire.Query(text=one.text) for one in frame if isinstance(one, Query)],
        )
        assert chunk.ByteSize() < CLIENT_FRAME_BYTES_MAX


def test_what_is_no_query() -> None:
    with pytest.raises(ValueError, match=r"^query: has 0 bytes"):
        query_of("")
    with pytest.raises(ValueError, match=r"^query: has a character"):
        query_of("\ud800")
    with pytest.raises(ValueError, match=r"^prefix: has 256 bytes"):
        prefix_of("x" * 256)
