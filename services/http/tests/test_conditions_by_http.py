"""Conditions by HTTP: headers become fields, and the answer follows what was decided."""

from typing import Any

import msgspec
import pytest
from coldnotify.publisher import Published
from coldnotify_common.http.web import BadRequest
from coldnotify_http.bodies import parse_one
from coldnotify_http.conditions_by_http import decided_answer, with_headers
from coldnotify_schemas.records import ConditionalRecord, PublicRecord, parse_public_record

ABOUT = {"domain": "d", "group": "g", "object": "o"}


@pytest.mark.parametrize(
    ("headers", "body", "said"),
    [
        ({}, b'{"if_version":0}', (0, False)),
        ({"If-Match": '"41"'}, b"", (41, False)),
        ({"If-Match": "41"}, b'{"payload":1,"id":"a"}', (41, False)),
        ({"If-Match": "41"}, b'{"if_version": 41}', (41, False)),
        ({"If-None-Match": "*"}, b'{"if_absent":true}', (None, True)),
    ],
)
def test_a_condition_is_read(headers: dict[str, str], body: bytes, said: tuple[int | None, bool]) -> None:
    record = parse_one(with_headers(body, headers))
    assert isinstance(record, ConditionalRecord)
    assert (record.if_version, record.if_absent) == said


@pytest.mark.parametrize(
    ("headers", "body", "field"),
    [
        ({"If-Match": "41"}, b'{"if_version":42}', "if_version"),
        ({"If-Match": "41"}, b'{"if_changed":true}', "if_changed"),
        ({"If-Match": "*"}, b"", "If-Match"),
        ({"If-Match": '"-1"'}, b"", "If-Match"),
        ({"If-None-Match": '"41"'}, b"", "If-None-Match"),
        ({"If-Match": "41", "If-None-Match": "*"}, b"", "If-None-Match"),
        ({"If-Match": "41"}, b"[", "record"),
        ({"If-Match": "41"}, b'{"incarnation":3}', "incarnation"),
        ({}, b'{"id":"a"}', "id"),
        ({}, b'{"if_absent":true,"if_version":1}', "if_absent"),
    ],
)
def test_a_bad_condition_names_its_field(headers: dict[str, str], body: bytes, field: str) -> None:
    with pytest.raises(BadRequest) as refused:
        parse_one(with_headers(body, headers))
    assert refused.value.field == field


def test_a_record_without_a_condition_is_a_plain_one() -> None:
    assert type(parse_one(with_headers(b'{"version":1,"if_absent":false}', {}))) is PublicRecord


def test_release_0_1_0_refuses_the_value() -> None:
    with pytest.raises(ValueError, match="unknown field `if_version`"):
        parse_public_record(b'{"if_version":1}')


@pytest.mark.parametrize(
    ("item", "status", "said"),
    [
        ({"outcome": "published", "newest": {"version": 6}}, 200, {"version": 6, "outcome": "published"}),
        ({"outcome": "repeated", "newest": {"version": 5}}, 200, {"version": 5, "outcome": "repeated"}),
        (
            {"outcome": "refused", "reason": "if_version: another", "newest": {"version": 7}},
            409,
            {"outcome": "refused", "field": "if_version", "newest": {"version": 7}},
        ),
        (
            {"outcome": "undecidable", "reason": "if_version: perhaps", "newest": None},
            409,
            {"outcome": "unknown", "newest": None},
        ),
        ({"outcome": "rejected", "reason": "record: unknown"}, 503, {"outcome": "not published"}),
        ({"outcome": "unknown", "reason": "forgotten"}, 503, {}),
        ({"outcome": "published", "object": "other", "newest": {"version": 6}}, 503, {}),
        ("no answer", 503, {}),
    ],
)
def test_the_answer_follows_what_was_decided(item: Any, status: int, said: dict[str, object]) -> None:
    record = parse_one(b'{"if_version":5}')
    assert isinstance(record, ConditionalRecord)
    answer = decided_answer(ABOUT, record, Published(1, 3, 40), item)
    assert isinstance(answer.body, bytes)
    body = msgspec.json.decode(answer.body)
    assert answer.status == status
    assert {name: body[name] for name in said} == said
    if not said:
        assert body["outcome"].startswith("unknown")
