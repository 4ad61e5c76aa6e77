"""bench-pub: publishes to a running system by a schedule, from several processes."""

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

from coldnotify_load.bench_sub import Stop
from coldnotify_load.bench_topics import BenchTopics
from coldnotify_load.latencies import Latencies
from coldnotify_load.mark_senders import MarkTarget
from coldnotify_load.open_loop import PublisherHandle, PublishPlan

_LOOK_S = 0.2


@dataclass(frozen=True)
class PubPlan:
    """The options of bench-pub."""

    target: MarkTarget
    topics: BenchTopics
    rate: float
    """Publishes a second, of all processes together."""
    seconds: float
    poisson: bool


class PubRun:
    """One run."""

    def __init__(self, plan: PubPlan, stop: Stop, say: Callable[[str], None]) -> None:
        """`say`: is told how it goes, a line each."""
        self._plan, self._stop, self._say = plan, stop, say

    def run(self) -> dict[str, Any]:
        """Returns the report. Raises PublisherError."""
        plan = self._plan
        publishers = plan.target.publishers
        with ExitStack() as stack:
            handles = [
                stack.enter_context(PublisherHandle(replace(plan.target, number=number)))
                for number in range(publishers)
            ]
            self._say(f"publishing for {plan.seconds:g} s")
            begun_s = time.monotonic()
            for number, handle in enumerate(handles):
                own = len(range(number, plan.topics.topics, publishers))
                handle.begin(
                    PublishPlan(plan.rate * own / plan.topics.topics, plan.seconds, own, 1, plan.poisson, number + 1)
                )
            waiting = list(handles)
            while waiting and not self._stop.is_set():
                waiting = [handle for handle in waiting if not handle.has_ended(0)]
                if waiting:
                    self._stop.wait(_LOOK_S)
            for handle in waiting:
                handle.cut()
            outcomes = [handle.end() for handle in handles]
        took = Latencies()
        for outcome in outcomes:
            took.merge(outcome.acknowledged_after)
        seconds = max((outcome.last_ns for outcome in outcomes), default=0) / 1e9 - begun_s
        sent = sum(outcome.sent for outcome in outcomes)
        return {
            "seconds": round(max(seconds, 0.0), 3),
            "sent": sent,
            "acknowledged": sum(outcome.acknowledged for outcome in outcomes),
            "failed": sum(outcome.failed for outcome in outcomes),
            "why": next((outcome.why for outcome in outcomes if outcome.why), ""),
            "sent_per_s": round(sent / max(seconds, 0.001), 1),
            "late_p99_ms": round(max((outcome.late_p99_ms for outcome in outcomes), default=0.0), 3),
            "acknowledged_after": took.summary(),
        }
