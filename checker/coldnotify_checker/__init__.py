"""Judges histories of publishers and clients against the promises: takes events, returns violations.

    with HistoryWriter("history.jsonl") as writer:
        writer.write(Publish(t=now_us(), publisher="canary", id=1, object="animal.observer/region-1/camera", version=1))
    verdict = judge(read_histories(["history.jsonl"]))

The events are in `coldnotify_checker.histories`, the format and the promises as they are judged in docs/histories.md.
"""

from coldnotify_checker.histories import Event, HistoryError, HistoryWriter, now_us, read_histories
from coldnotify_checker.judging import judge
from coldnotify_checker.verdict import BrokenPromise, JudgeVerdict, Statistics

__all__ = [
    "BrokenPromise",
    "Event",
    "HistoryError",
    "HistoryWriter",
    "JudgeVerdict",
    "Statistics",
    "judge",
    "now_us",
    "read_histories",
]
