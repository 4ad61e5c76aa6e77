"""Frames as they leave."""

import pytest
from coldnotify_gateway.core import CRC, JSON, NAMES, RAW_CRC, RAW_NAMES, encoding, joined
from coldnotify_schemas.digest import object_crc
from coldnotify_schemas.internal_pb2 import Answered, Newest, Opened, Page
from coldnotify_schemas.wire_pb2 import Notification, Refusal
from coldnotify_testkit.device_frames import parse
from hypothesis import given
from hypothesis import strategies as st

newest = st.builds(
    Newest,
    name=st.text(min_size=1, max_size=20),
    version=st.none() | st.integers(0, 2**63 - 1),
    incarnation=st.integers(0, 2**31),
    offset=st.integers(0, 2**63),
    behind=st.integers(0, 1000),
    payload=st.binary(max_size=50),
    deleted=st.booleans(),
    answer=st.booleans(),
    raw=st.booleans(),
    more=st.booleans(),
)


@given(newest)
def test_a_notification_says_all_that_the_matcher_said(one):
    (by_name,) = [frame.notification for frame in parse(encoding.notification(one, RAW_NAMES).data)]
    assert by_name == Notification.FromString(
        Notification(
            name=one.name,
            version=one.version if one.HasField("version") else None,
            incarnation=one.incarnation,
            offset=one.offset,
            behind=one.behind,
            payload=one.payload,
            deleted=one.deleted,
            answer=one.answer,
            raw=one.raw,
            more=one.more,
        ).SerializeToString()
    )
    (by_crc,) = [frame.notification for frame in parse(encoding.notification(one, CRC).data)]
    assert (by_crc.name, by_crc.crc) == ("", object_crc(one.name))
    assert by_crc.HasField("version") == one.HasField("version")


def test_a_payload_of_any_bytes_is_only_told_to_who_wants_them():
    raw = Newest(name="a", version=3, offset=9, payload=b"\xff", raw=True)
    for dialect, told in ((CRC, False), (NAMES, False), (RAW_CRC, True), (RAW_NAMES, True), (JSON, True)):
        (frame,) = parse(encoding.notification(raw, dialect).data)
        said = frame.notification
        assert (said.payload, said.raw) == ((b"\xff", True) if told else (b"", False)), dialect.name
        assert (said.version, said.offset) == (3, 9)


def test_complete_is_what_a_notification_that_is_no_answer_says():
    assert encoding.complete_of(Newest(offset=9, behind=2)) == 7
    assert encoding.complete_of(Newest(offset=9, answer=True)) == encoding.NONE


def test_none_is_left_out_and_zero_is_not():
    (frame,) = parse(joined(encoding.page(Page(last=True), CRC)))
    assert not frame.caught_up.HasField("complete")
    assert not frame.caught_up.HasField("sets_digest")
    (frame,) = parse(encoding.pong(0, CRC.encode).data)
    assert frame.pong.HasField("complete")
    (frame,) = parse(encoding.welcome(Opened(in_sync=True, kinds=3), CRC.encode, kinds_wanted=False).data)
    assert not frame.welcome.HasField("epoch")
    assert frame.welcome.kinds == 0


def test_whoever_asks_is_told_which_kinds_the_service_knows():
    for refused in ([], [Refusal(interest=7, reason="line 1, column 1: expected a condition")]):
        (frame,) = parse(
            encoding.welcome(Opened(in_sync=True, kinds=3, refused=refused), CRC.encode, kinds_wanted=True).data
        )
        assert frame.welcome.kinds == 3
        assert list(frame.welcome.refused) == refused


def test_what_enters_and_leaves_is_said_by_its_name():
    (frame,) = parse(encoding.notification(Newest(name="a", offset=3, entered=[7], left=[8, 9]), CRC).data)
    assert (frame.notification.name, frame.notification.crc) == ("a", 0)
    assert (list(frame.notification.entered), list(frame.notification.left)) == ([7], [8, 9])
    assert not frame.notification.HasField("version")


@pytest.mark.parametrize("description", [b"", b'{"Room":410}'])
def test_how_an_object_is_described_is_said_by_its_name_where_the_matcher_says_it(description):
    (frame,) = parse(encoding.notification(Newest(name="a", offset=3, description=description), CRC).data)
    assert (frame.notification.name, frame.notification.description) == ("a", description)
    assert frame.notification.HasField("description")
    (frame,) = parse(encoding.notification(Newest(name="a", offset=3, entered=[7]), NAMES).data)
    assert not frame.notification.HasField("description")


def test_a_page_says_what_it_answers_and_how_far_an_answer_has_come():
    page = Page(page=2, newest=[Newest(name="a", answer=True, entered=[7])], answered=[7], query=8, reached="a")
    first, second, third = parse(joined(encoding.page(page, NAMES)))
    assert list(first.notification.entered) == [7]
    assert (second.registered.request, list(second.registered.answered)) == (0, [7])
    assert (third.page_end.page, third.page_end.query, third.page_end.reached) == (2, 8, "a")
    (last,) = parse(joined(encoding.page(Page(page=3, last=True, complete=5, sets_digest=6), NAMES)))
    assert (last.caught_up.complete, last.caught_up.sets_digest) == (5, 6)


def test_an_answer_is_whole_before_anything_moves_the_cursor():
    """A client that saves its cursor with each frame would lack who entered before, and not ask for them."""
    answer, change = Newest(name="a", answer=True, entered=[7]), Newest(name="b", offset=3, entered=[7])
    page = Page(page=1, newest=[answer, change], begun=[7], answered=[7], last=True, complete=3)
    begun, told, answered, changed, caught_up = parse(joined(encoding.page(page, NAMES)))
    assert list(begun.registered.begun) == list(answered.registered.answered) == [7]
    assert (told.notification.name, changed.notification.name) == ("a", "b")
    assert caught_up.HasField("caught_up")


def test_further_parts_of_an_answer_are_notifications_only():
    answered = Answered(request=3, refused=[Refusal(object="b", reason="full")], newest=[Newest(name="a", answer=True)])
    first, second = parse(joined(encoding.answer(answered, NAMES)))
    assert (first.registered.request, first.registered.refused[0].object) == (3, "b")
    assert second.notification.name == "a"
    answered.request = 0
    (only,) = parse(joined(encoding.answer(answered, NAMES)))
    assert only.HasField("notification")


def test_a_small_notification_fits_in_45_bytes():
    """What is compared with other servers: bytes on a radio link are what counts."""
    one = Newest(name="camera-config", version=1_760_000_000_000, offset=10_000_000)
    assert len(encoding.notification(one, CRC).data) <= 45
