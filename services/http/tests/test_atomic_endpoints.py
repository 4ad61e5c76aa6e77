"""Sets by HTTP: what is asked for is read, and the answer follows what was decided."""

from typing import Any

import msgspec
import pytest
from coldnotify.publisher import Published
from coldnotify_common.http.web import BadRequest
from coldnotify_http.atomic_endpoints import decided_answer, parse_request, written_set
from coldnotify_schemas.names import InvalidName
from coldnotify_schemas.records import PAYLOAD_BYTES_MAX

ABOUT = {"domain": "d", "group": "g", "id": "1"}


def test_a_set_is_read() -> None:
    body = b'{"domain":"d","group":"g","set":[{"object":"a","if_version":3},{"object":"b","payload_base64":"/w=="}]}'
    asked = parse_request(body, PAYLOAD_BYTES_MAX)
    assert (asked.domain, asked.group, len(asked.id)) == ("d", "g", 24)
    assert [(one.object, one.said.if_version) for one in asked.said.members] == [("a", 3), ("b", None)]
    assert asked.said.members[1].said.payload_bytes == b"\xff"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b"", "body"),
        (b'{"domain":"d","group":"g"}', "record"),
        (b'{"domain":"d","group":"g","set":[{"object":"a"}],"group_id":1}', "record"),
        (b'{"domain":"d","group":"g","set":{}}', "set"),
        (b'{"domain":"d","group":"g","set":[{"object":"a","group":"h"}]}', "set[0].record"),
        (b'{"domain":"d","group":"g","set":[{"object":"a"},{"object":"b","id":"1"}]}', "set[1].id"),
        (b'{"domain":"d","group":"g","set":[{"object":"a","payload":"%b"}]}' % (b"x" * 70_000), "set"),
    ],
)
def test_a_bad_set_names_its_field(body: bytes, field: str) -> None:
    with pytest.raises(BadRequest) as refused:
        parse_request(body, PAYLOAD_BYTES_MAX)
    assert refused.value.field == field


def test_a_bad_name_is_refused() -> None:
    with pytest.raises(InvalidName, match="domain: "):
        parse_request(b'{"domain":"d/e","group":"g","set":[{"object":"a"}]}', PAYLOAD_BYTES_MAX)


def test_a_set_that_its_sources_make_too_long_is_refused() -> None:
    payload = b"x" * 630
    members = b",".join(b'{"object":"a%d","payload":"%b"}' % (number, payload) for number in range(92))
    said = parse_request(b'{"domain":"d","group":"g","set":[%b]}' % members, PAYLOAD_BYTES_MAX).said
    assert written_set(said, ["tromso", *91 * [None]]).members[0].said.source == "tromso"
    with pytest.raises(BadRequest) as refused:
        written_set(said, 92 * ["tromso"])
    assert refused.value.field == "set"


def answer(item: dict[str, Any] | str) -> tuple[int, dict[str, Any]]:
    shown = decided_answer(ABOUT, Published(7, 3, 40), item)
    assert isinstance(shown.body, bytes)
    return shown.status, msgspec.json.decode(shown.body)


def member(name: str, version: int, reason: str = "") -> dict[str, Any]:
    return {"object": name, "newest": {"version": version}} | ({"reason": reason} if reason else {})


def test_a_set_that_is_published_has_its_versions() -> None:
    status, shown = answer({"outcome": "published", "members": [member("a", 6), member("b", 7)]})
    assert (status, shown["outcome"], shown["offset"]) == (200, "published", 40)
    assert shown["members"] == [{"object": "a", "version": 6}, {"object": "b", "version": 7}]


@pytest.mark.parametrize(("outcome", "said"), [("refused", "refused"), ("undecidable", "unknown")])
def test_the_objects_at_fault_are_named(outcome: str, said: str) -> None:
    members = [member("a", 6), member("b", 7, "if_version: another version is the newest")]
    status, shown = answer({"outcome": outcome, "members": members})
    assert (status, shown["outcome"], shown["field"]) == (409, said, "set[1].if_version")
    assert [one["object"] for one in shown["members"]] == ["b"]


@pytest.mark.parametrize("item", ["nobody answers", {"outcome": "unknown"}, {"outcome": "published"}])
def test_without_a_word_of_the_owner_it_may_be_published(item: dict[str, Any] | str) -> None:
    status, shown = answer(item)
    assert (status, shown["outcome"].partition(":")[0]) == (503, "unknown")


def test_a_rejected_set_is_not_published() -> None:
    status, shown = answer({"outcome": "rejected", "reason": "set: has 1 bytes"})
    assert (status, shown["outcome"]) == (503, "not published")
