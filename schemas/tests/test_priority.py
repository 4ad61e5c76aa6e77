"""Priority as publishers say it: one word, in a header, or as a field of what a service is asked to publish."""

import msgspec
import pytest
from coldnotify_schemas.priority import check_priority, priority_header
from coldnotify_schemas.records import (
    InvalidRecord,
    PublicRecord,
    encode_public_record,
    is_high,
    parse_headed_record,
    parse_public_record,
    prioritized,
)


def test_high_is_the_only_priority():
    assert check_priority("high")
    assert not check_priority(None)
    assert priority_header() == ("priority", b"high")


@pytest.mark.parametrize("priority", ["low", "HIGH", "", 1, True, b"high", ["high"]])
def test_any_other_priority_is_refused_with_the_field(priority):
    with pytest.raises(ValueError, match=r"^priority: .* is not high$"):
        check_priority(priority)
    with pytest.raises(InvalidRecord, match=r"^priority: "):
        prioritized(PublicRecord(version=1), priority)


def test_the_priority_is_not_in_the_records_value_for_older_releases():
    plain = PublicRecord(version=3, payload=msgspec.Raw(b'{"a":1}'), deleted=True)
    high = prioritized(plain, "high")
    assert (is_high(high), is_high(plain), prioritized(plain, None)) == (True, False, plain)
    assert encode_public_record(high) == encode_public_record(plain)
    assert parse_public_record(encode_public_record(high)) == plain
    with pytest.raises(InvalidRecord, match="priority"):
        parse_public_record(b'{"priority":"high"}')


def test_a_publish_to_a_service_may_have_priority_as_a_field():
    high = parse_headed_record(b'{"version":3,"priority":"high"}')
    assert is_high(high)
    assert encode_public_record(high) == b'{"version":3}'
    assert parse_headed_record(b'{"version":3}') == PublicRecord(version=3)
    assert parse_headed_record(b'{"priority":null}') == PublicRecord()
    with pytest.raises(InvalidRecord, match=r"^priority: "):
        parse_headed_record(b'{"priority":"low"}')
