"""Queries on the wire and in the document, frame by frame.

Stands for: queries, interests
"""

from random import Random

import pytest
from coldnotify._core.client import Client
from coldnotify._core.document import Document, decode, encode
from coldnotify._core.interests import Query, frames_of, prefix_of, query_of
from coldnotify._core.membership import Change, Kept, Reached
from coldnotify._core.reconnect import Address
from coldnotify._core.registrations import Kind
from coldnotify._core.session import Identity
from coldnotify._core.settings import Settings
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
