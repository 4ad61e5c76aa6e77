"""Whatever stands in a state topic is understood, or said to be unreadable; nothing else is ever raised."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial

import msgspec
import pytest
from coldnotify_matcher.state_records import (
    CLOCKS_APART_MS_MAX,
    UnreadableState,
    check_bucket_key,
    check_channels_key,
    check_client_key,
    check_share_key,
    generation_of,
    is_generation_key,
    parse_channels,
    parse_generation,
    parse_registrations,
    parse_session,
    parse_share,
    parse_wills,
)
from coldnotify_schemas.interests import Kind
from coldnotify_schemas.matcher_state import (
    ChannelsRecord,
    GenerationRecord,
    RegistrationsRecord,
    SessionRecord,
    StoredInterest,
    StoredMissed,
    StoredWill,
    UnsettledRecord,
    WillRecord,
    is_wills_key,
)
from coldnotify_schemas.records import LARGEST_PAYLOAD_BYTES
from coldnotify_schemas.share_state import NOBODY, SHARE_FORMAT, HandOutState, ShareRecord, StoredHandOut
from coldnotify_schemas.wire_pb2 import RETENTION
from coldnotify_streams.errors import NewerFormat
from hypothesis import given
from hypothesis import strategies as st

NOW_MS = 1_800_000_000_000
VALUE_PARSERS = (
    partial(generation_of, now_ms=NOW_MS),
    partial(parse_generation, now_ms=NOW_MS),
    partial(parse_registrations, now_ms=NOW_MS),
    partial(parse_session, now_ms=NOW_MS, inboxes=4),
    partial(parse_wills, now_ms=NOW_MS),
    partial(parse_channels, now_ms=NOW_MS),
    partial(parse_share, now_ms=NOW_MS),
)
_NEXT = {VALUE_PARSERS[2]: 5, VALUE_PARSERS[3]: 4, VALUE_PARSERS[4]: 4}
"""By parser, the first format that it does not know; 2 for all others."""
PARSERS = (*VALUE_PARSERS, check_bucket_key, check_client_key, check_channels_key, check_share_key)


@given(st.one_of(st.binary(), st.text().map(str.encode)), st.sampled_from(PARSERS))
def test_garbage_is_unreadable(data: bytes, parse: Callable[[bytes], object]) -> None:
    # By chance, or by a constant of ours that Hypothesis tries, it may look like a record of a later release.
    with suppress(UnreadableState, NewerFormat):
        parse(data)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
fields = st.sampled_from(
    [
        *GenerationRecord.__struct_fields__,
        *RegistrationsRecord.__struct_fields__,
        *SessionRecord.__struct_fields__,
        *ShareRecord.__struct_fields__,
    ]
)


@given(st.dictionaries(fields, json_values | st.integers(0, 2)), st.sampled_from(PARSERS))
def test_json_of_another_shape_is_unreadable(value: object, parse: Callable[[bytes], object]) -> None:
    try:
        encoded = msgspec.json.encode(value)
    except (msgspec.MsgspecError, UnicodeEncodeError, OverflowError):
        return
    with suppress(UnreadableState, NewerFormat):
        parse(encoded)


@pytest.mark.parametrize(
    ("parse", "record"),
    [
        (VALUE_PARSERS[1], GenerationRecord(1, 2, "owner", "id", 3)),
        (VALUE_PARSERS[2], RegistrationsRecord(1, 2, -1, ["a", "a/b", "ø"])),
        (VALUE_PARSERS[3], SessionRecord(1, 2, -1, True, "00000000000000a1", 3, 4, 5, -1, 6)),
    ],
)
def test_round_trips(parse: Callable[[bytes], object], record: object) -> None:
    encoded = msgspec.json.encode(record)

    assert parse(encoded) == record
    assert generation_of(encoded, NOW_MS) == 2


def test_a_later_format_is_no_garbage() -> None:
    for parse in VALUE_PARSERS:
        with pytest.raises(NewerFormat):
            parse(b'{"format":%d,"generation":1}' % _NEXT.get(parse, 2))


def test_a_bucket_with_filters_and_a_kept_session_are_of_the_latest_format() -> None:
    one = StoredInterest(Kind.FILTER, "a/#", 5, 9, 0x10, 3, True, StoredMissed(9, RETENTION, 4))
    bucket = RegistrationsRecord(3, 2, -1, [], [one])
    assert parse_registrations(msgspec.json.encode(bucket), NOW_MS) == bucket
    session = SessionRecord(3, 2, -1, False, "0" * 16, 0, 0, 5, -1, 6, kept="mqtt 5.0", expiry_s=(1 << 32) - 1)
    assert parse_session(msgspec.json.encode(session), NOW_MS, inboxes=4) == session


@pytest.mark.parametrize(
    "one",
    [
        StoredInterest(Kind.FILTER, "a#"),
        StoredInterest(Kind.FILTER, "a", options=256),
        StoredInterest(Kind.FILTER, "a", identifier=1 << 32),
        StoredInterest(Kind.FILTER, "a", missed=StoredMissed(-1, RETENTION)),
        StoredInterest(Kind.FILTER, "a", missed=StoredMissed(1, RETENTION, -2)),
        StoredInterest(Kind.FILTER, "a", missed=StoredMissed(1, 0)),
    ],
)
def test_a_filter_that_none_could_have_registered_is_unreadable(one: StoredInterest) -> None:
    with pytest.raises(UnreadableState):
        parse_registrations(msgspec.json.encode(RegistrationsRecord(3, 2, -1, [], [one])), NOW_MS)


def test_a_bucket_with_queries_is_of_a_later_format() -> None:
    record = RegistrationsRecord(2, 2, -1, ["a"], [StoredInterest(Kind.QUERY, "Room = 410")])

    assert VALUE_PARSERS[2](msgspec.json.encode(record)) == record
    with pytest.raises(UnreadableState, match="objects or interests: query: "):
        VALUE_PARSERS[2](msgspec.json.encode(RegistrationsRecord(2, 2, -1, [], [StoredInterest(Kind.QUERY, "")])))


CHANNELS = ChannelsRecord(1, 2, 77, 10, -1, {"d/g/c": 9})


@pytest.mark.parametrize(
    ("field", "wrong"),
    [("epoch", 1 << 32), ("through", -1), ("forgotten", -2), ("last", {"d/g/c": -1}), ("last", {"d/g/c": 1 << 63})],
)
def test_the_last_offsets_of_channels_have_bounds(field: str, wrong: object) -> None:
    said = msgspec.to_builtins(CHANNELS)
    assert parse_channels(msgspec.json.encode(said), NOW_MS) == CHANNELS
    with pytest.raises(UnreadableState, match=field):
        parse_channels(msgspec.json.encode(said | {field: wrong}), NOW_MS)


@pytest.mark.parametrize(
    ("channel", "words"),
    [
        (StoredInterest(Kind.CHANNEL, "a\0y\0x", 1, 77), "sorted attributes"),
        (StoredInterest(Kind.CHANNEL, "", 1, 77), "interests: "),
        (StoredInterest(Kind.CHANNEL, "a", -2, 77), "position"),
        (StoredInterest(Kind.CHANNEL, "a", 1, 1 << 32), "epoch"),
    ],
)
def test_a_bucket_with_channels_says_what_they_are(channel: StoredInterest, words: str) -> None:
    good = RegistrationsRecord(2, 2, -1, ["a"], [StoredInterest(Kind.CHANNEL, "a\0x\0y", -1, 77)])
    assert VALUE_PARSERS[2](msgspec.json.encode(good)) == good
    with pytest.raises(UnreadableState, match=words):
        VALUE_PARSERS[2](msgspec.json.encode(RegistrationsRecord(2, 2, -1, [], [channel])))


@pytest.mark.parametrize("key", ["1d/1024", "1d/017", "1d", "2d/1", "1d/-1", "1d/x", "1d/1/1", "1d/\u0661"])
def test_what_is_no_bucket_of_channels(key: str) -> None:
    assert check_channels_key(b"30d/1023") == "30d/1023"
    with pytest.raises(UnreadableState, match="key"):
        check_channels_key(key.encode())


def test_a_since_ahead_of_all_clocks_costs_no_registration() -> None:
    """A matcher with a wrong clock wrote it."""
    ahead_ms = NOW_MS + CLOCKS_APART_MS_MAX + 1
    unsettled = [UnsettledRecord(name="a", since=ahead_ms, failures=2), UnsettledRecord(name="b", since=5)]
    record = RegistrationsRecord(format=1, generation=1, applied=7, objects=["a", "b"], unsettled=unsettled)
    found = parse_registrations(msgspec.json.encode(record), NOW_MS)
    assert found.objects == ["a", "b"]
    assert [(one.since, one.failures) for one in found.unsettled or ()] == [(NOW_MS, 2), (5, 0)]


STORED_WILL = StoredWill("0123456789abcdef", 1, 5, "a/b")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("gateway", "x"),
        ("session", -1),
        ("begun", -1),
        ("topic", ""),
        ("topic", "a" * 256),
        ("payload", b"x" * (LARGEST_PAYLOAD_BYTES + 1)),
        ("delay_s", -1),
        ("expiry_s", -1),
        ("properties", b"\0\1"),
        ("due", 1 << 63),
        ("version", -2),
        ("incarnation", -1),
    ],
)
def test_wills_that_no_matcher_wrote_are_unreadable(field: str, value: object) -> None:
    wrong = msgspec.structs.replace(STORED_WILL, **{field: value})
    for record in (WillRecord(3, 1, 7, wrong), WillRecord(3, 1, 7, STORED_WILL, [wrong])):
        with pytest.raises(UnreadableState, match=field):
            parse_wills(msgspec.json.encode(record), NOW_MS)


def test_wills_are_read_as_they_were_written() -> None:
    record = WillRecord(3, 1, 7, STORED_WILL, [msgspec.structs.replace(STORED_WILL, payload=b"\xff", version=9)])
    assert parse_wills(msgspec.json.encode(record), NOW_MS) == record
    assert check_bucket_key(b"d/g/c/will") == "d/g/c/will"
    assert is_wills_key("d/g/c/will")
    assert not is_wills_key("d/g/will/0")
    with pytest.raises(UnreadableState):
        check_bucket_key(b"d/g/will")


HELD = StoredHandOut(11, 2, 1, HandOutState.HELD, 0, 30)
WAITS = StoredHandOut(14, 1, 0, HandOutState.WAITS, NOBODY, 60)
SHARE = ShareRecord(SHARE_FORMAT, 1, 7, 9, 10, [12, 13, 15, 15], ["worker"], [HELD, WAITS], attributes=["camera"])


def test_a_share_is_read_as_it_was_written() -> None:
    assert parse_share(msgspec.json.encode(SHARE), NOW_MS) == SHARE
    assert check_share_key(b"d/g/workers/tasks/north") == "d/g/workers/tasks/north"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("applied", -2),
        ("epoch", 1 << 32),
        ("base", 11),
        ("since", 6),
        ("empty_since", NOW_MS + CLOCKS_APART_MS_MAX + 1),
        ("settled", [12]),
        ("settled", [13, 12]),
        ("settled", [12, 14, 14, 15]),
        ("members", ["a/b"]),
        ("attributes", ["a/b"]),
        ("handed_out", [WAITS, HELD]),
        ("handed_out", [HELD, HELD]),
        ("record's bytes", None),
    ],
)
def test_a_share_that_no_matcher_wrote_is_unreadable(field: str, value: object) -> None:
    wrong = msgspec.structs.replace(SHARE, **({"members": ["w" * 60] * 1_100} if value is None else {field: value}))
    with pytest.raises(UnreadableState, match="settled|handed_out" if field == "base" else field):
        parse_share(msgspec.json.encode(wrong), NOW_MS)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("number", 0),
        ("attempts", 3),
        ("member", 1),
        ("member", NOBODY),
        ("seconds", 0),
        ("reason", 9),
        ("through", 12),
    ],
)
def test_a_hand_out_that_no_matcher_wrote_is_unreadable(field: str, value: int) -> None:
    wrong = msgspec.structs.replace(SHARE, handed_out=[msgspec.structs.replace(HELD, **{field: value})])
    with pytest.raises(UnreadableState, match=field):
        parse_share(msgspec.json.encode(wrong), NOW_MS)


@pytest.mark.parametrize("key", ["d/g/workers", "d/g/a b/tasks", "d/g//tasks", "d/g/workers/", f"d/g/{'s' * 45}/tasks"])
def test_a_key_of_a_share_names_all_four(key: str) -> None:
    with pytest.raises(UnreadableState, match="key"):
        check_share_key(key.encode())


def test_a_share_of_a_later_release_is_not_read() -> None:
    with pytest.raises(NewerFormat):
        parse_share(msgspec.json.encode(msgspec.structs.replace(SHARE, format=SHARE_FORMAT + 1)), NOW_MS)


def test_keys() -> None:
    assert check_client_key(b"d/g/c") == "d/g/c"
    assert check_bucket_key(b"d/g/c/12") == "d/g/c/12"
    assert is_generation_key(b"@generation")
    with pytest.raises(UnreadableState):
        check_client_key(b"@generation")
