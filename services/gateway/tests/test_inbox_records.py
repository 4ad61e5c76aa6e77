"""Whatever stands in an inbox is a record that the core can use, or is said to be none."""

from contextlib import suppress

import pytest
from coldnotify_gateway.inbox_records import OFFSET_MAX, UnreadableInbox, parse_inbox
from coldnotify_schemas.internal_pb2 import (
    Answered,
    BeatAnswer,
    Closed,
    Entry,
    FanOut,
    Inbox,
    Item,
    Newest,
    Opened,
    Page,
)
from coldnotify_schemas.matcher_state import generation_max
from hypothesis import given
from hypothesis import strategies as st

NOW_MS = 1_800_000_000_000
TRACE = "00-" + "a" * 32 + "-" + "b" * 16 + "-01"
FINE = Newest(name="a", version=2**63 - 1, incarnation=3, offset=OFFSET_MAX, behind=OFFSET_MAX, payload=b"x" * 65_536)


def record(**item):
    return Inbox(format=1, generation=1, gateway=7, number=1, items=[Item(**item)])


@pytest.mark.parametrize(
    "fine",
    [
        Inbox(format=1, generation=generation_max(NOW_MS), number=2**64 - 1, partition=2**32 - 1),
        record(fan_out=FanOut(newest=FINE, sessions=b"odd", published_ms=2**64 - 1, traceparent=TRACE)),
        record(page=Page(session=1, newest=[FINE, Newest(name="a", answer=True)], complete=OFFSET_MAX)),
        record(page=Page(newest=[Newest(name="a", version=1, offset=0, behind=1)])),
        record(answered=Answered(newest=[FINE])),
        record(opened=Opened(digest=2**64 - 1)),
        record(beat=BeatAnswer(agreed=True, serial=2**64 - 1)),
        record(closed=Closed(code=127, reason="x" * 1000)),
        Inbox(format=1, items=[Item()]),
    ],
)
def test_what_matchers_say_is_understood(fine):
    assert parse_inbox(fine.SerializeToString(), NOW_MS) == fine


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("format", Inbox(format=2)),
        ("generation", Inbox(format=1, generation=generation_max(NOW_MS) + 1)),
        ("generation", Inbox(format=1, generation=2**64 - 1)),
        ("name", record(fan_out=FanOut(newest=Newest(name="")))),
        ("name", record(page=Page(newest=[Newest(name="x" * 900_000)]))),
        ("offset", record(answered=Answered(newest=[Newest(name="a", offset=2**63)]))),
        ("behind", record(fan_out=FanOut(newest=Newest(name="a", offset=3, behind=5)))),
        ("version or incarnation", record(fan_out=FanOut(newest=Newest(name="a", version=2**63)))),
        ("version or incarnation", record(fan_out=FanOut(newest=Newest(name="a", incarnation=2**64 - 1)))),
        ("payload", record(fan_out=FanOut(newest=Newest(name="a", payload=b"x" * 65_537)))),
        ("description", record(fan_out=FanOut(newest=Newest(name="a", description=b"x" * 8193)))),
        ("properties", record(fan_out=FanOut(newest=Newest(name="a", properties=b"\x01\x99")))),
        ("properties", record(stream_fan_out=FanOut(entry=Entry(properties=bytes(2049))))),
        ("traceparent", record(fan_out=FanOut(newest=Newest(name="a"), traceparent="junk"))),
        ("complete", record(page=Page(complete=2**64 - 1))),
        ("complete", record(beat=BeatAnswer(complete=2**63))),
        ("code", record(closed=Closed(code=128))),
        ("reason", record(closed=Closed(reason="x" * 1001))),
    ],
)
def test_a_field_that_nobody_can_have_written_is_named(field, wrong):
    with pytest.raises(UnreadableInbox, match=f"^{field}: "):
        parse_inbox(wrong.SerializeToString(), NOW_MS)


@given(st.binary(max_size=60))
def test_garbage_is_not_understood(value):
    with suppress(UnreadableInbox):
        parse_inbox(value, NOW_MS)
