"""Judges P8 for the logs: acknowledged messages are in the dump, or retention may have removed them.

A message is recognised by its channel and id, wherever its record is: a stray was moved, and a repeated one has two
records. The history does not say which of the three logs a channel is in. So a message is lost if none of them holds
it, and all of them reach back to the offset at which it was acknowledged.
"""

from collections.abc import Iterable

from coldnotify_schemas.partitioner import partition_of
from coldnotify_schemas.topics import TopicNames

from coldnotify_checker.histories import Event, LogTrimmed, Published, Record, Send, Topic
from coldnotify_checker.log_periods import LogPeriods
from coldnotify_checker.verdict import JudgeVerdict

NEEDS_A_DUMP = "what subscribers were told; that the logs hold it needs a dump of the channels' topics"


def judge_kept(events: Iterable[Event], verdict: JudgeVerdict, names: TopicNames) -> None:
    """Adds a violation for each lost message; notes a partial judgement if the history has sends and no dump of all
    logs.
    """
    events = list(events)
    dumped = {event.topic: event for event in events if isinstance(event, Topic) and event.topic in names.channels}
    sends = [event for event in events if isinstance(event, Send)]
    if not sends:
        return
    if dumped.keys() != set(names.channels):
        verdict.judged_in_part.setdefault("P8", NEEDS_A_DUMP)
        return
    held = {(e.key, e.headers.get("id")) for e in events if isinstance(e, Record) and e.topic in names.channels}
    answers = {
        (event.publisher, event.id): event
        for event in events
        if isinstance(event, Published) and event.outcome == "acknowledged"
    }
    begins = _begins(events, dumped.values())
    dumped_at = min(event.t for event in dumped.values())
    periods = LogPeriods(events, names)
    for send in sends:
        answer = answers.get((send.publisher, send.id))
        if answer is None or answer.offset is None or (dumped_at and answer.t >= dumped_at):
            continue
        if not periods.within(send.channel, periods.last(send.channel), send.t, answer.t):
            continue
        if (send.channel, send.message) not in held and answer.offset >= _begin(
            send, dumped[names.channels[0]], begins
        ):
            words = f"{send.message} of {send.channel} was acknowledged at {answer.offset}, and no log holds it"
            verdict.add("P8", words, (send, answer, *dumped.values()))


def _begins(events: Iterable[Event], dumped: Iterable[Topic]) -> dict[int, int]:
    """Returns, by partition, the highest offset below which retention may have removed records of any of the logs."""
    begins: dict[int, int] = {}
    for topic in dumped:
        for partition, start in enumerate(topic.starts):
            begins[partition] = max(begins.get(partition, 0), start)
    for event in events:
        if isinstance(event, LogTrimmed):
            begins[event.partition] = max(begins.get(event.partition, 0), event.offset)
    return begins


def _begin(send: Send, dumped: Topic, begins: dict[int, int]) -> int:
    """Returns the beginning for the message's own partition; a stray may have been acknowledged in any partition."""
    if send.path == "stray":
        return max(begins.values(), default=0)
    domain, group, _ = send.channel.split("/", 2)
    return begins.get(partition_of(domain, group, dumped.partitions), 0)
