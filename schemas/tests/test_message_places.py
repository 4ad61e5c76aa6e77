"""Places of messages in headers."""

import pytest
from coldnotify_schemas.channels import Retention
from coldnotify_schemas.message_places import MESSAGE_HEADER, MessagePlace, message_header, message_place


def test_a_place_comes_back_from_its_header() -> None:
    for log in Retention:
        ((name, value),) = message_header(MessagePlace(log, 4711))
        assert (name, message_place(value)) == (MESSAGE_HEADER, MessagePlace(log, 4711))
    assert message_header(None) == ()


@pytest.mark.parametrize("value", [None, b"", b"1h", b"1h/", b"2h/1", b"1h/-1", b"1h/1/2", b"\xff/1", "1h/\u0663"])
def test_a_value_that_is_no_place_says_nothing(value: str | bytes | None) -> None:
    assert message_place(value) is None
