"""Frames as they leave."""

from coldnotify_gateway.core import encoding
from coldnotify_schemas.digest import object_crc
from coldnotify_schemas.internal_pb2 import Answered, Newest, Opened
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
)


@given(newest)
def test_a_notification_says_all_that_the_matcher_said(one):
    (by_name,) = [frame.notification for frame in parse(encoding.notification(one, names=True))]
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
        ).SerializeToString()
    )
    (by_crc,) = [frame.notification for frame in parse(encoding.notification(one, names=False))]
    assert (by_crc.name, by_crc.crc) == ("", object_crc(one.name))
    assert by_crc.HasField("version") == one.HasField("version")


def test_complete_is_what_a_notification_that_is_no_answer_says():
    assert encoding.complete_of(Newest(offset=9, behind=2)) == 7
    assert encoding.complete_of(Newest(offset=9, answer=True)) == encoding.NONE


def test_none_is_left_out_and_zero_is_not():
    (frame,) = parse(encoding.caught_up(encoding.NONE))
    assert not frame.caught_up.HasField("complete")
    (frame,) = parse(encoding.pong(0))
    assert frame.pong.HasField("complete")
    (frame,) = parse(encoding.welcome(Opened(in_sync=True)))
    assert not frame.welcome.HasField("epoch")


def test_further_parts_of_an_answer_are_notifications_only():
    answered = Answered(request=3, refused=[Refusal(object="b", reason="full")], newest=[Newest(name="a", answer=True)])
    first, second = parse(encoding.answer(answered, names=True))
    assert (first.registered.request, first.registered.refused[0].object) == (3, "b")
    assert second.notification.name == "a"
    answered.request = 0
    (only,) = parse(encoding.answer(answered, names=True))
    assert only.HasField("notification")


def test_a_small_notification_fits_in_45_bytes():
    """What is compared with other servers: bytes on a radio link are what counts."""
    one = Newest(name="camera-config", version=1_760_000_000_000, offset=10_000_000)
    assert len(encoding.notification(one, names=False)) <= 45
