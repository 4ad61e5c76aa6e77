"""One connection, frame by frame.

Stands for: session, phases, names_in_use, session_channels, session_requests, reg_sync
"""

from typing import Any

import pytest
from coldnotify._core.delivery.delivery import Delivery
from coldnotify._core.document.document import ClientIdentity
from coldnotify._core.interests.interests import QueryInterest
from coldnotify._core.interests.registrations import Registrations
from coldnotify._core.journal import Journal
from coldnotify._core.session.phases import Phase
from coldnotify._core.session.session import ClientSession
from coldnotify._core.settings import OUT_BYTES_MAX, ClientSettings
from coldnotify_schemas import wire_pb2 as wire
from coldnotify_schemas.digest import digest, object_crc, sets_digest
from coldnotify_schemas.frames import FrameBuffer, encode, parse_client_frame
from coldnotify_schemas.interests import query_hash
from coldnotify_schemas.protocol import CLIENT_FRAME_BYTES_MAX, WELCOME_S
from hypothesis import given
from hypothesis import strategies as st

T = 1000.0


class Bench:
    """A session with everything about it, and a clock."""

    def __init__(self, *wanted: str, settled: bool = True, epoch: int | None = 1, cursor: int | None = 10) -> None:
        self.settings = ClientSettings()
        self.journal = Journal()
        self.registrations = Registrations(self.journal, wanted if settled else ())
        for name in wanted:
            self.registrations.register(name)
        self.save()
        self.reports: list[Exception] = []
        self.delivery = Delivery(
            self.journal, self.registrations, self.settings, self.reports.append, floors={}, epoch=epoch, cursor=cursor
        )
        self.now = T
        self.sent = FrameBuffer(CLIENT_FRAME_BYTES_MAX)
        self.open()

    def open(self) -> None:
        self.session = ClientSession(
            ClientIdentity("d", "g", "c"),
            self.journal,
            self.registrations,
            self.delivery,
            self.settings,
            self.reports.append,
            self.now,
        )

    def save(self) -> None:
        self.journal.durable = self.journal.revision

    def out(self) -> list[wire.ClientFrame]:
        """The frames that the client sends now."""
        frames = []
        while data := self.session.data_to_send(self.now):
            assert len(data) < OUT_BYTES_MAX + CLIENT_FRAME_BYTES_MAX
            frames += [parse_client_frame(body) for body in self.sent.feed(data)]
        return frames

    def kinds(self) -> list[str]:
        return [str(frame.WhichOneof("frame")) for frame in self.out()]

    def say(self, **frame: Any) -> None:
        self.session.receive(encode(wire.GatewayFrame(**frame)), self.now)

    def live(self) -> None:
        self.out()
        self.say(welcome=wire.Welcome(in_sync=True))
        self.say(caught_up=wire.CaughtUp(complete=self.delivery.cursor))
        self.out()

    def tick(self, seconds: float) -> None:
        self.now += seconds
        self.session.tick(self.now)


def notification(name: str, version: int | None, offset: int = 0, **fields: Any) -> wire.Notification:
    return wire.Notification(crc=object_crc(name), version=version, offset=offset, **fields)


def test_hello():
    bench = Bench("a", "b", settled=False)
    (frame,) = bench.out()
    hello = frame.hello
    assert (hello.protocol, hello.capabilities) == (1, wire.CAPABILITY_UNSETTLED | wire.CAPABILITY_RAW)
    assert (hello.domain, hello.group, hello.client) == ("d", "g", "c")
    assert hello.digest == digest({"a", "b"})
    assert list(hello.register) == ["a", "b"]
    assert (hello.epoch, hello.cursor, hello.keepalive_s) == (1, 10, 60)


def test_a_first_hello_has_neither_epoch_nor_cursor():
    (frame,) = Bench(epoch=None, cursor=None).out()
    assert not frame.hello.HasField("epoch")
    assert not frame.hello.HasField("cursor")


def test_phases_of_a_session_that_is_in_sync():
    bench = Bench("a")
    assert bench.session.phase is Phase.OPENING
    bench.say(welcome=wire.Welcome(in_sync=True))
    assert bench.session.phase is Phase.CATCHING
    bench.say(caught_up=wire.CaughtUp(complete=12))
    assert bench.session.phase is Phase.LIVE
    assert bench.delivery.cursor == 12


def test_an_empty_partition_says_no_complete():
    bench = Bench("a", cursor=None)
    bench.say(welcome=wire.Welcome(in_sync=True))
    bench.say(caught_up=wire.CaughtUp())
    assert bench.delivery.cursor is None


def test_a_new_epoch_voids_the_cursor():
    bench = Bench("a")
    bench.say(welcome=wire.Welcome(in_sync=True, epoch=2))
    assert (bench.delivery.epoch, bench.delivery.cursor) == (2, None)


def test_before_the_welcome_nothing_counts():
    bench = Bench("a")
    bench.say(pong=wire.Pong(complete=99))
    bench.say(notification=notification("a", 1, 99))
    bench.say(caught_up=wire.CaughtUp(complete=99))
    assert bench.session.phase is Phase.OPENING
    assert (bench.delivery.cursor, bench.delivery.waiting) == (10, 0)


def test_pages_are_acknowledged_at_once():
    bench = Bench("a")
    bench.out()
    bench.say(welcome=wire.Welcome(in_sync=True))
    bench.say(page_end=wire.PageEnd(page=3))
    (frame,) = bench.out()
    assert frame.ack.page == 3
    assert not frame.ack.HasField("complete")


def test_an_answer_moves_no_cursor_another_notification_does():
    bench = Bench("a", "b")
    bench.live()
    bench.say(notification=notification("x", 1, 50, answer=True))
    assert bench.delivery.cursor == 10
    bench.say(notification=notification("x", 1, 50, behind=20))
    assert bench.delivery.cursor == 30


def test_reg_sync_waits_until_the_pending_registrations_are_durable():
    bench = Bench("a", "b")
    bench.out()
    bench.say(welcome=wire.Welcome(in_sync=False))
    assert bench.session.phase is Phase.SYNCING
    assert bench.registrations.pending.keys() == {"a", "b"}
    assert bench.out() == []
    bench.save()
    (frame,) = bench.out()
    assert (frame.sync.index, frame.sync.last, list(frame.sync.objects)) == (0, True, ["a", "b"])
    bench.say(welcome=wire.Welcome(in_sync=True))
    assert bench.session.phase is Phase.CATCHING
    assert bench.registrations.all_confirmed


def test_reg_sync_of_many_objects_is_cut_into_chunks_and_never_fills_the_buffer():
    names = [f"{i:05}-{'x' * 240}" for i in range(1000)]
    bench = Bench(*names)
    bench.out()
    bench.say(welcome=wire.Welcome(in_sync=False))
    bench.save()
    assert len(bench.session.data_to_send(T)) < OUT_BYTES_MAX + CLIENT_FRAME_BYTES_MAX
    bench = Bench(*names)
    bench.out()
    bench.say(welcome=wire.Welcome(in_sync=False))
    bench.save()
    chunks = [frame.sync for frame in bench.out()]
    assert [chunk.index for chunk in chunks] == list(range(16))
    assert [chunk.last for chunk in chunks] == [False] * 15 + [True]
    assert {name for chunk in chunks for name in chunk.objects} == set(names)


def test_reg_sync_of_an_empty_set_is_one_empty_chunk():
    bench = Bench()
    bench.out()
    bench.say(welcome=wire.Welcome(in_sync=False))
    bench.save()
    (frame,) = bench.out()
    assert frame.sync.last
    assert not frame.sync.objects


def test_not_in_sync_in_the_middle_begins_again_at_0():
    bench = Bench("a")
    bench.out()
    for _ in range(2):
        bench.say(welcome=wire.Welcome(in_sync=False))
        bench.save()
        assert [frame.sync.index for frame in bench.out()] == [0]


def test_requests_during_a_reg_sync_wait_until_it_is_over():
    bench = Bench("a")
    bench.out()
    bench.say(welcome=wire.Welcome(in_sync=False))
    bench.registrations.register("b")
    bench.save()
    assert bench.kinds() == ["sync"]
    bench.say(welcome=wire.Welcome(in_sync=True))
    (frame,) = bench.out()
    assert list(frame.register.objects) == ["b"]


def test_in_sync_as_of_an_earlier_set_while_another_is_about_to_leave_says_the_rest_by_requests():
    """The answer comes late, when the set is being said anew. The gateway takes no chunks from here on."""
    bench = Bench("a")
    bench.out()
    bench.say(welcome=wire.Welcome(in_sync=False))
    bench.save()
    assert bench.kinds() == ["sync"]
    bench.registrations.register("b")
    bench.registrations.unregister("a")
    bench.tick(bench.settings.request_timeout_s)
    bench.out()
    bench.say(welcome=wire.Welcome(in_sync=True))
    assert bench.session.phase is Phase.CATCHING
    assert not bench.registrations.all_confirmed
    bench.save()
    said = {frame.WhichOneof("frame"): frame for frame in bench.out()}
    assert said.keys() == {"register", "unregister"}
    assert list(said["register"].register.objects) == ["b"]
    assert list(said["unregister"].unregister.objects) == ["a"]


def test_requests_and_their_answers():
    bench = Bench("a")
    bench.live()
    bench.registrations.register("b")
    bench.save()
    (frame,) = bench.out()
    assert (frame.register.request, list(frame.register.objects)) == (1, ["b"])
    assert not bench.registrations.all_confirmed
    bench.say(registered=wire.Registered(request=1))
    assert bench.registrations.all_confirmed
    assert not bench.registrations.all_arrived
    bench.say(notification=notification("b", None, answer=True))
    assert bench.registrations.all_arrived
    bench.registrations.unregister("a")
    bench.save()
    (frame,) = bench.out()
    assert (frame.unregister.request, list(frame.unregister.objects)) == (2, ["a"])
    bench.say(unregistered=wire.Unregistered(request=2))
    assert "a" not in bench.registrations.pending


def test_requests_wait_until_they_are_durable():
    bench = Bench()
    bench.live()
    bench.registrations.register("b")
    assert bench.out() == []
    bench.save()
    assert bench.kinds() == ["register"]


def test_at_most_four_requests_are_unanswered():
    bench = Bench()
    bench.live()
    for i in range(400):
        bench.registrations.register(f"o{i}")
    bench.save()
    assert bench.kinds() == ["register"] * 4
    bench.say(registered=wire.Registered(request=1))
    assert bench.kinds() == ["register"]


def test_a_request_without_an_answer_is_sent_again_but_not_while_wait_holds():
    bench = Bench()
    bench.live()
    bench.registrations.register("a")
    bench.save()
    bench.out()
    bench.say(wait=wire.Wait(seconds=45))
    bench.tick(31)
    assert bench.kinds() == []
    bench.tick(15)
    (frame,) = bench.out()
    assert (frame.register.request, list(frame.register.objects)) == (2, ["a"])
    bench.say(registered=wire.Registered(request=1))
    assert not bench.registrations.all_confirmed, "the first asking is forgotten"


def test_a_confirmed_registration_whose_notification_is_lost_is_asked_for_again():
    bench = Bench("a", settled=False)
    bench.out()
    bench.say(welcome=wire.Welcome(in_sync=True))
    assert bench.out() == []
    bench.say(caught_up=wire.CaughtUp(complete=1))
    assert [list(frame.register.objects) for frame in bench.out()] == [["a"]]
    # Live, no CaughtUp need come: time is the limit.
    bench.say(registered=wire.Registered(request=1))
    bench.tick(31)
    assert [list(frame.register.objects) for frame in bench.out()] == [["a"]]


def test_more_than_64_operations_are_sent_after_the_welcome():
    names = [f"o{i}" for i in range(65)]
    bench = Bench(*names, settled=False)
    (frame,) = bench.out()
    assert not frame.hello.register
    bench.say(welcome=wire.Welcome(in_sync=True))
    asked = [name for frame in bench.out() for name in frame.register.objects]
    assert sorted(asked) == sorted(names)


def test_a_refused_object_is_reported():
    bench = Bench("a", "b", settled=False)
    bench.out()
    refusal = wire.Refusal(object="a", reason="too many")
    bench.say(welcome=wire.Welcome(in_sync=True, refused=[refusal]))
    assert bench.registrations.wanted == {"b"}
    assert [str(report) for report in bench.reports] == ["registration for 'a' refused: too many"]


def test_acks_are_delayed_merged_and_only_of_what_is_durable():
    bench = Bench("a")
    bench.live()
    bench.session.acknowledge(bench.session.objects, 10, bench.now)
    assert bench.session.deadline() > bench.now + 2, "10 was said in the Hello"
    bench.session.acknowledge(bench.session.objects, 11, bench.now)
    bench.tick(0.5)
    bench.session.acknowledge(bench.session.objects, 12, bench.now)
    assert bench.out() == []
    bench.tick(0.5)
    (frame,) = bench.out()
    assert frame.ack.complete == 12
    bench.tick(5)
    assert bench.out() == []


def test_bye_acknowledges_first():
    bench = Bench("a")
    bench.live()
    bench.session.acknowledge(bench.session.objects, 12, bench.now)
    bench.session.bye(bench.now)
    ack, bye = bench.out()
    assert ack.ack.complete == 12
    assert bye.WhichOneof("frame") == "bye"


def test_a_ping_is_sent_after_a_keepalive_of_silence_and_carries_the_digest():
    bench = Bench("a")
    bench.live()
    bench.tick(59)
    assert bench.out() == []
    bench.tick(1)
    (frame,) = bench.out()
    assert frame.ping.digest == digest({"a"})
    bench.say(pong=wire.Pong(complete=44))
    assert bench.delivery.cursor == 44


def test_a_ping_has_no_digest_while_an_operation_is_unanswered():
    bench = Bench("a")
    bench.live()
    bench.registrations.register("b")
    bench.tick(60)
    (frame,) = bench.out()
    assert not frame.ping.HasField("digest")


def test_a_ping_that_finds_the_sets_differ_begins_a_reg_sync():
    bench = Bench("a")
    bench.live()
    bench.say(welcome=wire.Welcome(in_sync=False))
    bench.save()
    assert bench.kinds() == ["sync"]


def test_a_gateway_that_is_silent_after_a_ping_is_given_up():
    bench = Bench("a")
    bench.live()
    bench.tick(60)
    bench.tick(60)
    bench.tick(39)
    assert bench.session.ended is None
    bench.tick(1)
    assert bench.session.ended.code is None
    assert "nothing heard for 100 s" in bench.session.ended.reason


def test_after_a_standstill_a_ping_asks_and_its_pong_ends_the_doubt():
    bench = Bench("a")
    bench.live()
    bench.now += 200
    bench.session.doubt(bench.now, 200)
    assert bench.session.in_doubt
    assert bench.kinds() == ["ping"]
    bench.say(pong=wire.Pong())
    assert not bench.session.in_doubt
    bench.tick(59)
    assert bench.session.ended is None


def test_bytes_from_before_the_standstill_prove_nothing():
    bench = Bench("a")
    bench.live()
    bench.tick(60)
    assert bench.kinds() == ["ping"]
    bench.now += 200
    bench.session.doubt(bench.now, 200)
    # What lay in the socket: a version, and the answer to the Ping of before.
    bench.say(notification=wire.Notification(crc=object_crc("a"), version=1, offset=20))
    bench.say(pong=wire.Pong(complete=20))
    assert bench.session.in_doubt
    bench.say(pong=wire.Pong(complete=20))
    assert not bench.session.in_doubt


def test_a_connection_that_does_not_answer_after_a_standstill_is_given_up_within_the_grace():
    bench = Bench("a")
    bench.live()
    bench.tick(60)  # a Ping that nobody answers any more
    bench.now += 200
    bench.session.doubt(bench.now, 200)
    bench.session.tick(bench.now)
    assert bench.session.ended is None
    assert bench.session.deadline() == bench.now + bench.settings.silence_grace_s
    bench.tick(bench.settings.silence_grace_s)
    assert bench.session.ended.code is None
    assert "stood still" in bench.session.ended.reason


def test_one_that_is_awake_for_moments_gives_up_a_dead_connection_too():
    bench = Bench("a")
    bench.live()
    slept = 0
    while bench.session.ended is None:
        slept += 1
        bench.now += 100
        bench.session.doubt(bench.now, 100)
        bench.tick(4)
    assert slept == 3


def test_a_pong_before_the_welcome_moves_no_cursor_and_is_counted():
    bench = Bench("a")
    bench.out()
    bench.session.doubt(bench.now, 30)
    bench.say(pong=wire.Pong(complete=99))
    assert bench.delivery.cursor == 10
    assert not bench.session.in_doubt


def test_a_gateway_that_answers_nothing_is_given_up_although_requests_are_sent_again_and_again():
    bench = Bench("a")
    bench.live()
    bench.registrations.register("b")
    bench.save()
    for _ in range(160):
        bench.tick(1)
        bench.out()
    assert bench.session.ended is not None
    assert "nothing heard" in bench.session.ended.reason


def test_any_word_of_the_gateway_ends_its_silence():
    bench = Bench("a")
    bench.live()
    bench.tick(60)
    bench.session.receive(b"\0", bench.now + 90)
    bench.tick(100)
    assert bench.session.ended is None


def test_without_a_welcome_the_session_is_given_up_unless_it_is_told_to_wait():
    bench = Bench("a")
    bench.tick(WELCOME_S - 1)
    bench.say(wait=wire.Wait(seconds=100))
    bench.tick(100)
    assert bench.session.ended is None
    bench.tick(WELCOME_S)
    assert "no Welcome" in bench.session.ended.reason


def test_close():
    bench = Bench("a")
    bench.say(close=wire.Close(code=4, reason="full"))
    assert (bench.session.ended.code, bench.session.ended.reason) == (4, "full")


def test_names_instead_of_crcs():
    # These two share a CRC-32.
    bench = Bench("plumless")
    bench.live()
    bench.registrations.register("buckeroo")
    bench.save()
    assert bench.kinds() == ["use_names", "register"]
    bench.say(notification=notification("plumless", 1, 11))
    job = bench.delivery
    assert job.waiting == 1
    bench.say(notification=wire.Notification(name="buckeroo", version=2, offset=12))
    assert bench.delivery.waiting == 2
    # In the next session they are asked for from the start.
    bench.save()
    bench.open()
    (frame,) = bench.out()
    assert frame.hello.capabilities == wire.CAPABILITY_NAMES | wire.CAPABILITY_UNSETTLED | wire.CAPABILITY_RAW


def test_a_crc_that_was_not_used_is_ignored_but_its_complete_counts():
    bench = Bench("a")
    bench.live()
    bench.say(notification=notification("stranger", 1, 20))
    assert (bench.delivery.waiting, bench.delivery.cursor) == (0, 20)


def test_a_name_that_was_unregistered_still_owns_its_crc():
    bench = Bench("plumless")
    bench.live()
    bench.registrations.unregister("plumless")
    bench.save()
    bench.out()
    bench.say(unregistered=wire.Unregistered(request=1))
    bench.registrations.register("buckeroo")
    bench.save()
    assert bench.kinds() == ["use_names", "register"]


def test_unknown_frames_and_empty_frames_are_skipped():
    bench = Bench("a")
    bench.session.receive(b"\0" + b"\x04\xfa\x3e\x01\x00", bench.now)
    assert bench.session.ended is None


@pytest.mark.parametrize("data", [b"\xff\xff\xff\xff\xff\xff", b"\xff\xff\xff\x7f", b"\x02\x0a\x7f"])
def test_an_invalid_frame_ends_the_session(data):
    bench = Bench("a")
    bench.session.receive(data, bench.now)
    assert "no frame" in bench.session.ended.reason


@given(st.lists(st.binary(max_size=40), max_size=20))
def test_no_bytes_make_it_fall_over(pieces):
    bench = Bench("a", settled=False)
    for data in pieces:
        bench.session.receive(data, bench.now)
        bench.session.tick(bench.now)
        bench.session.data_to_send(bench.now)


def subscribed() -> Bench:
    bench = Bench("a", "b")
    for name in ("a", "b"):
        bench.delivery.subscribe(name, 1)
    bench.live()
    return bench


def test_members_of_a_set_are_told_together():
    bench = subscribed()
    bench.say(notification=notification("a", 5, 12, behind=1, more=True))
    assert (bench.delivery.next_job(), bench.delivery.cursor) == (None, 10)
    bench.say(notification=notification("b", 7, 12))
    jobs = [bench.delivery.next_job(), bench.delivery.next_job()]
    assert [job and job.notification.object_id for job in jobs] == ["a", "b"]


def test_members_of_a_set_wait_until_it_is_complete():
    bench = subscribed()
    bench.say(notification=notification("a", 5, 12, behind=1, more=True))
    assert bench.delivery.next_job() is None
    bench.say(pong=wire.Pong(complete=12))
    assert bench.delivery.next_job() is not None


def test_members_of_a_set_are_told_once_the_client_is_caught_up():
    bench = Bench("a")
    bench.delivery.subscribe("a", 1)
    bench.say(welcome=wire.Welcome(in_sync=True))
    bench.say(notification=notification("a", 5, 12, behind=1, more=True))
    assert bench.delivery.next_job() is None
    bench.say(caught_up=wire.CaughtUp(complete=12))
    assert bench.delivery.next_job() is not None


def test_a_query_is_not_asked_for_again_because_its_new_member_waits_for_its_set():
    bench = Bench()
    query = QueryInterest("all")
    bench.registrations.register(query)
    bench.delivery.wants(query)
    bench.delivery.subscribe(query, 1)
    bench.save()
    bench.live()
    bench.say(registered=wire.Registered(request=1, kinds=3, begun=[query_hash("all")]))
    bench.say(registered=wire.Registered(answered=[query_hash("all")]))
    bench.out()
    entered = wire.Notification(name="a", version=5, offset=12, behind=1, more=True, entered=[query_hash("all")])
    bench.say(notification=entered)
    bench.say(caught_up=wire.CaughtUp(complete=12, sets_digest=sets_digest([(query_hash("all"), digest(["a"]))])))
    bench.save()
    assert "register" not in bench.kinds()
