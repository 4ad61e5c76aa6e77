"""For tests: what an attack by records left behind: reasons in coldnotify.rejected, tracebacks, deaths."""

import re
import time
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from coldnotify_common.kafka.kafka_clients import READING_BOUNDS
from coldnotify_common.kafka.message_headers import headers_of
from coldnotify_common.kafka.record_consumer import Gap, RecordConsumer
from coldnotify_schemas.records import PLACE_HEADER, REASON_HEADER
from coldnotify_schemas.topics import TopicNames
from confluent_kafka import Message, TopicPartition

TOPICS = TopicNames()

_BATCH = 500
_LOOK_S = 30
_READ_S = 120
_WORDS_CHARS = 300
_RAISED = "handling it raised"
_DIED = re.compile(r"died, is started again.*")
_TRACEBACK_LINES_MAX = 80
_SHOWN_LINES = 25


class HostileFinding(NamedTuple):
    """A finding: its words with each number replaced by N, how often it occurred, and an example."""

    words: str
    times: int
    example: str


def raised(kafka: str) -> list[HostileFinding]:
    """Records that a handler of a matcher raised over: they are contained, and faults of ours all the same."""
    times = Counter[str]()
    examples: dict[str, str] = {}
    config = {"bootstrap.servers": kafka, "group.id": "hostile-findings", "enable.partition.eof": True, "log_level": 0}
    consumer = RecordConsumer({**READING_BOUNDS, **config, "auto.offset.reset": "error"})
    try:
        numbers = consumer.list_topics(TOPICS.rejected, _LOOK_S).topics[TOPICS.rejected].partitions
        ends = {
            number: consumer.get_watermark_offsets(TopicPartition(TOPICS.rejected, number), _LOOK_S)[1]
            for number in numbers
        }
        consumer.assign([TopicPartition(TOPICS.rejected, number, 0) for number in ends])
        left = {number for number, end in ends.items() if end}
        until_s = time.monotonic() + _READ_S
        while left and time.monotonic() < until_s:
            for one in consumer.read(1, _BATCH):
                if isinstance(one, Gap):
                    number, next_ = one.partition, one.next
                else:
                    number, next_ = one.partition() or 0, (one.offset() or 0) + 1
                    if one.error() is None:
                        _note(one, times, examples)
                    else:
                        next_ -= 1
                if next_ >= ends[number]:
                    left.discard(number)
    finally:
        consumer.close()
    return [HostileFinding(words, count, examples[words]) for words, count in times.most_common()]


def tracebacks(lines: Sequence[str]) -> list[HostileFinding]:
    """Those of all parts' logs, each once."""
    times = Counter[str]()
    examples: dict[str, str] = {}
    for begin, line in enumerate(lines):
        if "Traceback (most recent call last)" not in line:
            continue
        behind = range(begin + 1, min(begin + _TRACEBACK_LINES_MAX, len(lines)))
        ends = (at for at in behind if re.match(r"\S*(Error|Exception|Failure)\b", lines[at].lstrip("| ")))
        end = next(ends, begin)
        words = _without_numbers(lines[end])
        times[words] += 1
        examples.setdefault(words, "\n".join(lines[max(begin - 1, 0) : end + 1][-_SHOWN_LINES:]))
    return [HostileFinding(words, count, examples[words]) for words, count in times.most_common()]


def deaths(lines: Sequence[str]) -> list[str]:
    """Returns the supervisor's messages about parts that died: which part, and how."""
    return [found.group() for line in lines if (found := _DIED.search(line))]


def _note(message: Message, times: Counter[str], examples: dict[str, str]) -> None:
    headers = dict(headers_of(message) or [])
    reason = _text(headers.get(REASON_HEADER))
    if reason.startswith(_RAISED):
        words = _without_numbers(reason)
        times[words] += 1
        shown = f"{message.key()!r} {(message.value() or b'')[:_WORDS_CHARS]!r}"
        examples.setdefault(words, f"{_text(headers.get(PLACE_HEADER))} {shown}")


def _without_numbers(words: str) -> str:
    return re.sub(r"\d+", "N", words)[:_WORDS_CHARS]


def _text(value: str | bytes | None) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value or ""
