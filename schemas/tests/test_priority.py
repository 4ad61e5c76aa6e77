"""Priority as publishers say it: one word, in a header, or as a field of what a service is asked to publish."""

import msgspec
import pytest
from coldnotify_schemas.priority import check_priority, priority_header
from coldnotify_schemas.records import (
    InvalidRecord,
    PublicRecord,
    encode_public_record,
    is_high,
    parse_prioritized_record,
    parse_public_record,
    prioritized,
)


def test_high_is_the_only_priority():
    assert check_priority("high")
    assert not check_priority(None)
    assert priority_header() == ("priority", b"high")


@pytest.mark.parametrize("priority", ["low", "HIGH", "", 1, True, b"high", ["high"]])
def test_any_other_is_refused_by_the_fields_name(priority):
    with pytest.raises(ValueError, match=r"^priority: .* is not high$"):
        check_priority(priority)
    with pytest.raises(InvalidRecord, match=r"^priority: "):
        prioritized(PublicRecord(version=1), priority)


def test_the_records_value_does_not_say_it_so_that_older_releases_understand_it():
    plain = PublicRecord(version=3, payload=msgspec.Raw(b'{"a":1}'), deleted=True)
    high = prioritized(plain, "high")
    assert (is_high(high), is_high(plain), prioritized(plain, None)) == (True, False, plain)
    assert encode_public_record(high) == encode_public_record(plain)
    assert parse_public_record(encode_public_record(high)) == plain
    with pytest.raises(InvalidRecord, match="priority"):
        parse_public_record(b'{"priority":"high"}')


def test_what_a_service_is_asked_to_publish_may_say_it_as_a_field():
    high = parse_prioritized_record(b'{"version":3,"priority":"high"}')
    assert is_high(high)
    assert encode_public_record(high) == b'{"version":3}'
    assert parse_prioritized_record(b'{"version":3}') == PublicRecord(version=3)
    assert parse_prioritized_record(b'{"priority":null}') == PublicRecord()
    with pytest.raises(InvalidRecord, match=r"^priority: "):
        parse_prioritized_record(b'{"priority":"low"}')
