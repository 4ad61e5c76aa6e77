"""Headers are anybody's: what they say is taken where it has its form, and passed over where not."""

import pytest
from coldnotify_matcher.record_headers import EndedByHeaders, Headers, HeadersReader, SaidByHeaders, read_headers
from coldnotify_schemas.matcher_state import ENDED_BY_HEADER, ended_by_header
from coldnotify_schemas.records import (
    MOVED_HEADER,
    PAYLOAD_HEADER,
    SINCE_HEADER,
    payload_header,
    since_header,
    since_of,
)
from coldnotify_schemas.removals import REMOVES_HEADER, removes_header
from coldnotify_schemas.topics import TopicNames
from coldnotify_schemas.traceparent import TRACEPARENT_HEADER

TOPICS = TopicNames()
headers_of = HeadersReader(TOPICS)

TRACE = "00-" + "a" * 32 + "-" + "b" * 16 + "-01"


@pytest.mark.parametrize(
    ("headers", "said"),
    [
        ([], SaidByHeaders()),
        ([("x", b"y"), ("", None), (MOVED_HEADER, b"3@9")], SaidByHeaders(moved=True)),
        (
            [(TRACEPARENT_HEADER, TRACE.encode()), since_header(77, 9)],
            SaidByHeaders(traceparent=TRACE, since=b"0000004d/9"),
        ),
        ([(SINCE_HEADER, None), (TRACEPARENT_HEADER, None)], SaidByHeaders()),
        ([removes_header(1, 2, 77, 9), (REMOVES_HEADER, None)], SaidByHeaders(removes=b"1/2@0000004d/9")),
        ([(SINCE_HEADER, b"a"), (SINCE_HEADER, b"b")], SaidByHeaders(since=b"b")),
        ([payload_header(), (PAYLOAD_HEADER, None)], SaidByHeaders(raw=True)),
        ([(PAYLOAD_HEADER, b"hex")], SaidByHeaders()),
        ([("mqtt-qos", b"1"), ("mqtt-qos", b"2")], SaidByHeaders(properties=b"\x01", passed_over=1)),
    ],
)
def test_what_they_say(headers: Headers, said: SaidByHeaders) -> None:
    assert read_headers(headers) == said


@pytest.mark.parametrize(
    ("value", "since"),
    [(b"0000004d/9", 9), (b"0000004d/10", None), (b"0000004e/9", None), (b"0000004d/" + b"9" * 400, None), (b"", None)],
)
def test_since_when_a_version_is_there_holds_in_its_epoch_and_for_what_lies_behind(
    value: bytes, since: int | None
) -> None:
    assert since_of(value, 77, 9) == since


@pytest.mark.parametrize(
    ("headers", "by"),
    [
        (None, 0),
        ([], 0),
        ([ended_by_header(7)], 7),
        ([ended_by_header(7), ended_by_header(8)], 8),
        ([(ENDED_BY_HEADER, None)], 0),
        ([(ENDED_BY_HEADER, b"-1")], 0),
        ([(ENDED_BY_HEADER, b"9" * 20)], 0),
    ],
)
@pytest.mark.parametrize("topic", [TOPICS.registrations, TOPICS.sessions])
def test_a_null_of_state_says_which_generation_wrote_it(topic: str, headers: Headers | None, by: int) -> None:
    assert headers_of(topic, headers) == EndedByHeaders(by)
