"""A dumped record whose payload is bytes is a version exactly if a matcher takes it for one.

Stands for: topic_contents
"""

import base64
import json

import pytest
from coldnotify_checker.histories import Event, Record, Topic
from coldnotify_checker.topic_contents import merge
from coldnotify_schemas.records import InvalidRecord, parse_public_record
from coldnotify_schemas.topics import TopicNames
from hypothesis import example, given
from hypothesis import strategies as st

TOPICS = TopicNames()
KEY = "d/g/o"


def is_version(value: dict[str, object], *, raw: bool, payload_bytes_max: int = 4096) -> bool:
    """Returns true if the checker takes a dumped record for a version."""
    events: list[Event] = [
        Record(topic=TOPICS.objects, partition=0, offset=0, timestamp=1, key=KEY, value=value, raw=raw),
        Topic(topic=TOPICS.objects, partitions=1, ends=[1], payload_bytes_max=payload_bytes_max),
    ]
    return KEY in merge(events, TOPICS).newest


def is_taken(value: dict[str, object], *, raw: bool, payload_bytes_max: int = 4096) -> bool:
    """Returns true if a matcher does."""
    try:
        parse_public_record(json.dumps(value).encode(), raw=raw, payload_bytes_max=payload_bytes_max)
    except InvalidRecord:
        return False
    return True


@given(st.binary(max_size=5).map(lambda data: base64.b64encode(data).decode()) | st.text("AB9+/=-_ \n", max_size=9))
@example("AA==")
@example("AB==")
@example("9+99==")
@example("====")
@example("AABA====")
def test_base64_is_what_matchers_take_for_it(text: str) -> None:
    assert is_version({"version": 1, "payload": text}, raw=True) == is_taken({"version": 1, "payload": text}, raw=True)


@pytest.mark.parametrize("payload", [1, None, [], {"base64": "AA=="}, True])
def test_the_header_stands_before_a_text_only(payload: object) -> None:
    said: dict[str, object] = {"version": 1, "payload": payload}
    assert is_version(said, raw=False)
    assert is_version(said, raw=True) == is_taken(said, raw=True)


@pytest.mark.parametrize("payload_bytes_max", [4096, 5000, 65_536])
@pytest.mark.parametrize("more", [0, 1])
def test_the_limit_counts_bytes_and_is_the_services(payload_bytes_max: int, more: int) -> None:
    size = payload_bytes_max + more
    in_base64: dict[str, object] = {"version": 1, "payload": base64.b64encode(bytes(size)).decode()}
    in_json: dict[str, object] = {"version": 1, "payload": "x" * (size - 2)}
    for said, raw in ((in_base64, True), (in_json, False)):
        assert is_version(said, raw=raw, payload_bytes_max=payload_bytes_max) is not bool(more)
        assert is_taken(said, raw=raw, payload_bytes_max=payload_bytes_max) is not bool(more)


def test_a_record_of_wills_is_no_bucket_of_registrations() -> None:
    bucket = {"format": 3, "generation": 1, "applied": 7, "objects": ["o"]}
    will = {"format": 3, "generation": 1, "applied": 9, "owed": [], "objects": ["p"]}
    events: list[Event] = [
        Record(topic=TOPICS.registrations, partition=0, offset=offset, timestamp=1, key=f"d/g/c/{number}", value=value)
        for offset, (number, value) in enumerate([("0", bucket), ("will", will), ("will", None)])
    ]
    merged = merge(events, TOPICS)
    assert merged.registered == {"d/g/c": {"d/g/o"}}
    assert [record.key for record in merged.written_for["d/g/c"]] == ["d/g/c/0"], "what P6 counts"
