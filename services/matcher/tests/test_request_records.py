"""Whatever stands in the requests topic is a request that every handler can use, or is said to be none."""

from contextlib import suppress

import pytest
from coldnotify_matcher.request_records import PAGE_MAX, REASON_CHARS_MAX, parse_request
from coldnotify_matcher.state_records import UnreadableState
from coldnotify_schemas import internal_pb2, wire_pb2
from coldnotify_schemas.internal_pb2 import (
    Acks,
    Beat,
    CatchUp,
    CheckDigest,
    Disconnect,
    Forget,
    ForgetShare,
    IsThere,
    Leave,
    Open,
    Request,
)
from coldnotify_schemas.matcher_state import generation_max
from coldnotify_schemas.protocol import OBJECTS_PER_FRAME_MAX
from coldnotify_schemas.records import LARGEST_PAYLOAD_BYTES
from coldnotify_testkit.engine_bench import DOMAIN, GROUP, INBOXES, PARTITION, PARTITIONS
from hypothesis import given
from hypothesis import strategies as st

NOW_MS = 1_800_000_000_000


def parsed(value: bytes) -> Request:
    return parse_request(value, partition=PARTITION, partitions=PARTITIONS, inboxes=INBOXES, now_ms=NOW_MS)


def request(**fields: object) -> Request:
    body = {} if fields.keys() & {one.name for one in Request.DESCRIPTOR.oneofs[0].fields} else {"open": Open(ask=1)}
    plain = {"format": 1, "gateway": 7, "session": 1, "domain": DOMAIN, "group": GROUP, "client": "c"}
    return Request(**plain | body | fields)  # type: ignore[arg-type]


def with_will(**fields: object) -> Request:
    will = internal_pb2.Will(**{"topic": "a/b", **fields})  # type: ignore[arg-type]
    return request(open=Open(ask=1, kept=internal_pb2.Kept(will=will)))


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        (with_will(topic=""), "will topic"),
        (with_will(topic="a" * 256), "will topic"),
        (with_will(payload=b"x" * (LARGEST_PAYLOAD_BYTES + 1)), "will payload"),
        (with_will(properties=b"\0\1"), "will properties"),
    ],
)
def test_a_will_that_cannot_be_published_is_no_request(wrong: Request, field: str) -> None:
    with pytest.raises(UnreadableState, match=field):
        parsed(wrong.SerializeToString())


@pytest.mark.parametrize(
    "fine",
    [
        request(),
        with_will(payload=b"x" * LARGEST_PAYLOAD_BYTES, delay_s=2**32 - 1),
        request(inbox=INBOXES - 1),
        request(open=Open(register=["a"] * OBJECTS_PER_FRAME_MAX, unregister=["x" * 255], cursor=2**64 - 1)),
        request(register=wire_pb2.Register(request=1, objects=["a"])),
        request(unregister=wire_pb2.Unregister(request=1, objects=["a"])),
        request(sync=wire_pb2.SyncChunk(index=2**32 - 1)),
        request(catch_up=CatchUp(page=PAGE_MAX, page_bytes=2**32 - 1, ask=2**32 - 1)),
        request(check_digest=CheckDigest(digest=2**64 - 1)),
        request(leave=Leave(complete=2**64 - 1)),
        request(stream_catch_up=CatchUp(page=PAGE_MAX, cursor=2**64 - 1)),
        request(is_there=IsThere(object="x" * 255, ask=2**32 - 1)),
        request(
            register=wire_pb2.Register(
                request=1,
                interests=[
                    wire_pb2.Interest(
                        kind=wire_pb2.INTEREST_CHANNEL, text="a/b", since=wire_pb2.SINCE_BEGINNING, at=2**64 - 1
                    )
                ],
            )
        ),
        request(
            acks=Acks(streams=[internal_pb2.AckedStream(sessions=[1], completes=[2**64 - 1])]), domain="", session=0
        ),
        request(acks=Acks(sessions=[1], completes=[2**64 - 1]), domain="", group="", client="", session=0),
        request(beat=Beat(generation=generation_max(NOW_MS), serial=2**64 - 1), domain="", session=0),
        request(disconnect=Disconnect(reason="x" * REASON_CHARS_MAX), gateway=0, session=0),
        request(forget=Forget(reason="by hand"), gateway=0, session=0),
        request(forget_share=ForgetShare(share="w", channel="a/b"), client="", gateway=0, session=0),
    ],
)
def test_what_gateways_and_operators_say_is_understood(fine: Request) -> None:
    assert parsed(fine.SerializeToString()) == fine


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("format", request(format=2)),
        ("client", request(forget=Forget(), client="@generation", gateway=0, session=0)),
        ("share", request(forget_share=ForgetShare(share="a/b", channel="c"), client="", gateway=0, session=0)),
        ("channel", request(forget_share=ForgetShare(share="w"), client="", gateway=0, session=0)),
        ("group", request(forget_share=ForgetShare(share="w", channel="c"), client="", group="another")),
        ("group", request(disconnect=Disconnect(), group="another", gateway=0, session=0)),
        ("reason", request(forget=Forget(reason="x" * (REASON_CHARS_MAX + 1)), gateway=0, session=0)),
        ("body", Request(format=1, gateway=7)),
        ("gateway", request(gateway=0)),
        ("inbox", request(inbox=INBOXES)),
        ("inbox", request(inbox=2**32 - 1)),
        ("session", request(session=0)),
        ("page", request(stream_catch_up=CatchUp(page=PAGE_MAX + 1))),
        ("acks", request(acks=Acks(streams=[internal_pb2.AckedStream(sessions=[1])]))),
        ("since", request(sync=wire_pb2.SyncChunk(interests=[wire_pb2.Interest(text="a", since=6)]))),  # type: ignore[arg-type]
        (
            "interests",
            request(
                open=Open(
                    interests=[wire_pb2.Interest(kind=wire_pb2.INTEREST_CHANNEL, text="a")]
                    * (OBJECTS_PER_FRAME_MAX + 1)
                )
            ),
        ),
        ("domain", request(domain="")),
        ("domain", request(domain="a/b")),
        ("group", request(group="x" * 65)),
        ("group", request(group="elsewhere")),
        ("client", request(client="@generation")),
        ("client", request(client="c/0")),
        ("register", request(open=Open(register=["x" * 900_000]))),
        ("unregister", request(open=Open(unregister=[""]))),
        ("objects", request(register=wire_pb2.Register(objects=["x" * 900_000]))),
        ("objects", request(register=wire_pb2.Register(objects=["a"] * (OBJECTS_PER_FRAME_MAX + 1)))),
        ("objects", request(unregister=wire_pb2.Unregister(objects=["x" * 256]))),
        ("objects", request(sync=wire_pb2.SyncChunk(objects=["ø" * 128], last=True))),
        ("object", request(is_there=IsThere())),
        ("page", request(catch_up=CatchUp(page=2**32 - 1))),
        ("acks", request(acks=Acks(sessions=[1, 2], completes=[1]))),
        ("generation", request(beat=Beat(generation=generation_max(NOW_MS) + 1))),
        ("generation", request(beat=Beat(generation=2**64 - 1))),
    ],
)
def test_a_field_that_no_handler_can_use_is_named(field: str, wrong: Request) -> None:
    with pytest.raises(UnreadableState, match=f"^{field}: "):
        parsed(wrong.SerializeToString())


@given(st.binary(max_size=60))
def test_garbage_is_not_understood(value: bytes) -> None:
    with suppress(UnreadableState):
        parsed(value)
