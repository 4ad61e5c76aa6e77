"""Channels' records: retentions as an operator says them, headers as publishers write them."""

import pytest
from coldnotify_schemas.channels import (
    NO_HEADERS,
    MessageHeaders,
    Retention,
    check_message,
    message_headers,
    parse_message_headers,
    parse_retentions,
)
from coldnotify_schemas.interests import by_channel, by_name, by_query, channel_of, digest_of
from coldnotify_schemas.names import InvalidName
from coldnotify_schemas.records import InvalidRecord
from coldnotify_schemas.topics import TopicNames

TOPICS = TopicNames()


def test_retentions_are_the_domains() -> None:
    retentions = parse_retentions("animal.observer=30d, lamps=1h")
    assert retentions.of("animal.observer").topic(TOPICS) == TOPICS.channels_30d
    assert retentions.of("lamps") is Retention.HOUR
    assert retentions.of("any.other") is Retention.DAY
    assert retentions.used == [Retention.HOUR, Retention.DAY, Retention.MONTH]
    assert parse_retentions("*=1h").used == [Retention.HOUR]


@pytest.mark.parametrize("text", ["lamps", "lamps=2d", "lamps=1h,lamps=1d", "la/mps=1h"])
def test_a_wrong_retention_is_named(text: str) -> None:
    with pytest.raises(ValueError, match=text.partition("=")[0]):
        parse_retentions(text)


def test_headers_are_parsed_back() -> None:
    said = MessageHeaders("id-1", 17, ("camera", "solar"), True, "observer-1", 18, b"3@41")
    assert parse_message_headers(message_headers(said)) == said
    assert parse_message_headers([]) == parse_message_headers([("other", b"x")]) == NO_HEADERS


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("id", b"x" * 65), ("id", b"\xff"), ("expires_at", b"soon"), ("expires_at", b"9" * 19), ("to", b"a b"),
        ("to", b",".join(b"%d" % n for n in range(17))), ("priority", b"low"), ("source", b""), ("time", b"-1"),
    ],
)  # fmt: skip
def test_a_wrong_header_is_named(header: str, value: bytes) -> None:
    with pytest.raises(InvalidRecord, match=f"^{header}: "):
        parse_message_headers([(header, value)])


def test_the_size_of_a_message_is_limited() -> None:
    assert check_message(b"x" * 65536)
    with pytest.raises(InvalidRecord, match="payload: has 65537"):
        check_message(b"x" * 65537)


def test_a_channel_is_its_name_and_attributes() -> None:
    one = by_channel("tasks", ["solar", "camera", "solar"])
    assert one == by_channel("tasks", ["camera", "solar"])
    assert channel_of(one.text) == ("tasks", ["camera", "solar"])
    assert len({by_channel("tasks").hash, one.hash, by_name("tasks").hash, by_query("tasks").hash}) == 4
    assert digest_of([one, by_name("tasks")]) == (one.hash + by_name("tasks").hash) % 2**64


@pytest.mark.parametrize(
    ("name", "attributes"), [("", []), ("a\x00b", []), ("a", ["b c"]), ("a", list("abcdefghijklmnopq"))]
)
def test_a_wrong_channel_is_named(name: str, attributes: list[str]) -> None:
    with pytest.raises(InvalidName):
        by_channel(name, attributes)


def test_properties_for_mqtt_devices_are_kept_and_bad_ones_passed_over() -> None:
    kept = [("mqtt-qos", b"0"), ("mqtt-user-b", b"2"), ("mqtt-user-a", b"1")]
    found = parse_message_headers([("id", b"1"), *kept, ("mqtt-qos", b"9")])
    assert (found.id, found.passed_over) == ("1", 1)
    assert message_headers(found) == [("id", b"1"), *kept]


def test_a_key_comes_back_and_has_at_most_64_bytes() -> None:
    said = MessageHeaders(id="i", key="k" * 64)
    assert parse_message_headers(message_headers(said)) == said
    with pytest.raises(InvalidRecord, match="key: has 65 bytes"):
        parse_message_headers([("key", b"k" * 65)])


@pytest.mark.parametrize(
    ("headers", "letter"),
    [
        ([("id", b"s/7"), ("offset", b"7"), ("why", b"attempts")], True),
        ([("id", b"s/8"), ("offset", b"7"), ("why", b"attempts")], False),
        ([("id", b"s/7"), ("offset", b"7")], False),
        ([("id", b"s/x"), ("offset", b"x"), ("why", b"attempts")], False),
    ],
)
def test_a_dead_letter_says_its_offset_in_its_id(headers: list[tuple[str, bytes | None]], letter: bool) -> None:
    assert parse_message_headers(headers).letter is letter
