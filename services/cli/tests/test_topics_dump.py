"""What a dump makes of values that strangers wrote: lines that can be read, and what the checker makes of these."""

import pytest
from coldnotify_checker.histories import LINE_BYTES_MAX, Record, encode_event, parse_event
from coldnotify_checker.topic_contents import merge
from coldnotify_cli.topics_dump import _text, _value, of_channels, of_clients
from coldnotify_schemas.topics import TopicNames
from coldnotify_testkit.hostile_records.batch_kinds import AS_DRAWN
from coldnotify_testkit.hostile_records.generator import Generator
from coldnotify_testkit.hostile_records.records import KnownToAttacker

TOPICS = TopicNames()

KNOWN = KnownToAttacker(4, 16, ("g0", "g1"), ("ou-1",), ("config",), 1_800_000_000_000)
CHANNEL = TOPICS.channels[0]


def line_of(topic: str, key: bytes | None, value: bytes | None) -> bytes:
    said = _value(value, of_channel=topic in TOPICS.channels)
    return encode_event(Record(topic=topic, partition=0, offset=0, timestamp=0, key=_text(key), value=said))


@pytest.mark.parametrize("topic", [TOPICS.registrations, CHANNEL])
@pytest.mark.parametrize(
    "value",
    [
        b'{"objects": ["\\ud800"]}',
        b'"\\udc00\\ud800"',
        b"NaN",
        b"[" * 100_000,
        b"1" * 5_000,
        b"\0" * (64 << 20),
        b"\xff\xfe",
    ],
    ids=["half a character", "two halves", "no number", "deep", "long number", "unpacked zeros", "no text"],
)
def test_a_record_of_a_stranger_is_dumped_as_a_readable_line(topic: str, value: bytes) -> None:
    line = line_of(topic, b"d/g/c/0", value)
    assert len(line) < LINE_BYTES_MAX
    read = parse_event(line)
    assert isinstance(read, Record)
    assert read.value is not None, "else it would be a null"


def test_the_checker_reads_a_dump_of_hostile_records() -> None:
    generator = Generator(1, (*of_clients(TOPICS), *of_channels(TOPICS)), kinds=[AS_DRAWN])
    events = []
    for _ in range(6_000):
        drawn = generator.record(KNOWN)
        for record in drawn.batch.records:
            event = parse_event(line_of(drawn.topic, record.key, record.value))
            assert event is not None
            events.append(event)
    topics = merge(events, TOPICS)
    assert topics.newest
    assert topics.registered
