"""What is published is checked before it is kept: the error begins with the field."""

from typing import Any

import pytest
from coldnotify._core.publishing.outgoing import Outgoing, message_of, version_of


def test_a_version_is_as_it_was_said():
    made = version_of("d", "g", "a/b", 7, {"x": "é"}, deleted=True, expires_at=8, source="c")
    assert made == Outgoing(
        "d", "g", "a/b", False, b'{"x":"\xc3\xa9"}', 7, None, True, expires_at=8, source="c", traceparent=None
    )
    assert version_of("d", "g", "a").payload is None


def test_high_priority_is_outdone_by_high_priority_only():
    plain, high = version_of("d", "g", "a", 7), version_of("d", "g", "a", 7, priority="high")
    assert (plain.priority, high.priority) == (None, "high")
    assert (high.outdoes(plain), high.outdoes(high), plain.outdoes(plain)) == (True, True, True)
    assert not plain.outdoes(high)


def test_a_message_is_bytes_or_json():
    made = message_of("d", "g", "c", b"\xff", id="i", to={"b", "a"}, expires_at=8, time_ms=9)
    assert made == Outgoing("d", "g", "c", True, b"\xff", id="i", to=("a", "b"), expires_at=8, time_ms=9)
    assert message_of("d", "g", "c", None, id="i").payload == b"null"
    high = message_of("d", "g", "c", None, id="i", priority="high")
    assert (high.priority, made.priority) == ("high", None)


@pytest.mark.parametrize(
    ("fields", "names"),
    [
        ({"domain": "a/b"}, "domain"),
        ({"group": 1}, "group"),
        ({"name": ""}, "object"),
        ({"version": -1}, "version"),
        ({"version": True}, "version"),
        ({"deleted": 1}, "deleted"),
        ({"expires_at": 1 << 63}, "expires_at"),
        ({"source": "a b"}, "source"),
        ({"payload": float("nan")}, "payload"),
        ({"payload": object()}, "payload"),
        ({"payload": "x" * 65_535}, "payload"),
        ({"priority": "low"}, "priority"),
    ],
)
def test_a_wrong_version_is_named(fields: dict[str, Any], names: str):
    with pytest.raises(ValueError, match=f"^{names}: "):
        version_of(**({"domain": "d", "group": "g", "name": "o"} | fields))


@pytest.mark.parametrize(
    ("fields", "names"),
    [
        ({"name": ""}, "channel"),
        ({"to": "a"}, "to"),
        ({"to": ["a b"]}, "to"),
        ({"id": ""}, "id"),
        ({"id": "x" * 65}, "id"),
        ({"payload": b"x" * 70_000}, "payload"),
        ({"payload": {1, 2}}, "payload"),
        ({"priority": "low"}, "priority"),
    ],
)
def test_a_wrong_message_is_named(fields: dict[str, Any], names: str):
    with pytest.raises(ValueError, match=f"^{names}: "):
        message_of(**(dict[str, Any](domain="d", group="g", name="c", payload=1, id="i") | fields))
