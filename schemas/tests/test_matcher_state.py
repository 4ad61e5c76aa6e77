"""The matcher's records: their JSON is what topics hold, so it must not change by chance."""

import msgspec
import pytest
from coldnotify_schemas.matcher_state import (
    FORMAT,
    GENERATION_KEY,
    GenerationRecord,
    RegistrationsRecord,
    SessionRecord,
    ended_by,
    ended_by_header,
)
from coldnotify_schemas.names import InvalidName, check_name


@pytest.mark.parametrize(
    ("record", "encoded"),
    [
        (
            RegistrationsRecord(FORMAT, 3, 17, ["a", "b"]),
            b'{"format":1,"generation":3,"applied":17,"objects":["a","b"]}',
        ),
        (
            SessionRecord(FORMAT, 3, 17, True, "00000000000000ff", 2, 5, 9, -1, 1000),
            b'{"format":1,"generation":3,"applied":17,"online":true,"gateway":"00000000000000ff","inbox":2,'
            b'"session":5,"epoch":9,"cursor":-1,"last_seen":1000}',
        ),
        (
            SessionRecord(FORMAT, 3, 17, True, "00000000000000ff", 2, 5, 9, -1, 1000, 0),
            b'{"format":1,"generation":3,"applied":17,"online":true,"gateway":"00000000000000ff","inbox":2,'
            b'"session":5,"epoch":9,"cursor":-1,"last_seen":1000,"digest":0}',
        ),
        (
            GenerationRecord(FORMAT, 3, "matcher-1:ab", "id", 9, 2),
            b'{"format":1,"generation":3,"owner":"matcher-1:ab","requests_topic_id":"id","epoch":9,"requests_since":2}',
        ),
    ],
)
def test_the_json_of_a_record(record: msgspec.Struct, encoded: bytes) -> None:
    assert msgspec.json.encode(record) == encoded
    assert msgspec.json.decode(encoded, type=type(record)) == record


def test_no_client_has_the_generations_key() -> None:
    with pytest.raises(InvalidName):
        check_name("client", GENERATION_KEY)


@pytest.mark.parametrize("generation", [0, 7, 10**18])
def test_a_null_carries_the_generation_that_wrote_it(generation: int) -> None:
    name, value = ended_by_header(generation)
    assert (name, value, ended_by(value)) == ("coldnotify-ended-by", str(generation).encode(), generation)


@pytest.mark.parametrize("value", [b"", b"-1", b"+1", b"1.0", b" 1", b"x", "\u0667".encode(), b"1" * 20])
def test_an_invalid_generation_is_ignored(value: bytes) -> None:
    assert ended_by(value) == 0
