"""Publishes in a separate process, by a schedule: a late answer does not slow the next publish (open loop)."""

import contextlib
import multiprocessing
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection as Pipe
from types import TracebackType
from typing import Self

from coldnotify_load.bench_topics import BenchTopics
from coldnotify_load.latencies import Latencies
from coldnotify_load.loaders import unstopped
from coldnotify_load.senders import StampingSender, Target, TimedSender

_LATE_NS = 1_000_000
"""A publish that comes later than this counts from when it was due: else a publisher that lags would hide it."""
_SPIN_NS = 200_000
"""Sleeping takes about 0.1 ms longer than asked for; the rest is waited for awake."""
_LOOK_NS = 50_000_000
"""The time between two looks whether the plan is cut short."""
_ANSWERS_NS = 1_000_000
"""The same for answers, of a TimedSender."""
_CUT = "cut"
_ANSWER_S = 60.0


class PublisherError(Exception):
    """The publisher's process could not do what it was told."""


@dataclass(frozen=True)
class PublishPlan:
    """The schedule of publishes."""

    per_s: float
    seconds: float
    blocks: int = 1
    """Objects number 0 of blocks 0 to blocks - 1, one after the other."""
    numbers: int = 1
    """Number of objects of each block, in turn."""
    poisson: bool = True
    """Arrivals as of many independent publishers; False: evenly spaced."""
    seed: int = 1
    gap_ms: tuple[float, float] = (0.0, 0.0)
    """If not 0: instead of by `per_s`, one after each gap between these, all gaps alike."""
    count: int = 0
    """At most so many; 0: as many as there is time for."""

    def arrivals_s(self) -> Iterator[float]:
        """Seconds from the beginning."""
        chance = random.Random(self.seed)
        count = 0
        at_s = self._gap_s(chance) if self.poisson else 0.0
        while at_s < self.seconds and not 0 < self.count <= count:
            yield at_s
            count += 1
            at_s = at_s + self._gap_s(chance) if self.poisson else count / self.per_s

    def _gap_s(self, chance: random.Random) -> float:
        return chance.uniform(*self.gap_ms) / 1000 if any(self.gap_ms) else chance.expovariate(self.per_s)


@dataclass(frozen=True)
class PlanOutcome:
    """The result of a plan."""

    sent: int
    acknowledged: int
    failed: int
    first_ns: int
    last_ns: int
    late_p99_ms: float
    """How much later than planned publishes were made."""
    stamps: dict[int, int] = field(default_factory=dict)
    """For descriptions: the time of writing, by the offset of each record."""
    acknowledged_after: bytes = b""
    """Latencies from publish to acknowledgement, encoded, as a TimedSender says them."""
    why: str = ""
    """Why a publish has failed, the last time, as a TimedSender says it."""


class PublisherHandle:
    """A handle of the process."""

    def __init__(self, target: Target) -> None:
        """Connects. Raises PublisherError."""
        context = multiprocessing.get_context("spawn")
        self._pipe, there = context.Pipe()
        self._process = context.Process(target=_run, args=(target, there), daemon=True)
        self._process.start()
        there.close()
        self._answer(_ANSWER_S)

    def begin(self, plan: PublishPlan) -> None:
        """Start publishing; `end` waits for it."""
        self._pipe.send(plan)
        self._seconds = plan.seconds

    def cut(self) -> None:
        """Let the plan end now; `end` has what was published until then."""
        self._pipe.send(_CUT)

    def has_ended(self, timeout_s: float) -> bool:
        """Returns true if `end` would not wait, once it does not, or after so long."""
        return self._pipe.poll(timeout_s)

    def end(self) -> PlanOutcome:
        """Wait until all is published and acknowledged. Raises PublisherError."""
        answer = self._answer(self._seconds * 3 + 2 * _ANSWER_S)
        assert isinstance(answer, PlanOutcome)
        return answer

    def publish(self, plan: PublishPlan) -> PlanOutcome:
        """Both."""
        self.begin(plan)
        return self.end()

    def once(self, blocks: int = 1) -> PlanOutcome:
        """Each block's first object, at once."""
        return self.publish(PublishPlan(per_s=1e6, seconds=blocks / 1e6, blocks=blocks, poisson=False))

    def stop(self) -> None:
        """End the process."""
        with contextlib.suppress(OSError):
            self._pipe.send(None)
        self._process.join(10)
        if self._process.is_alive():
            self._process.kill()
            self._process.join(10)
        self._pipe.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self.stop()

    def _answer(self, timeout_s: float) -> object:
        if not self._pipe.poll(timeout_s):
            raise PublisherError(f"the publisher has not answered for {timeout_s:g} s")
        try:
            answer = self._pipe.recv()
        except EOFError:
            raise PublisherError("the publisher has ended; its error is above") from None
        if isinstance(answer, str):
            raise PublisherError(answer)
        return answer


def _run(target: Target, pipe: Pipe) -> None:
    unstopped(bench=isinstance(target.population, BenchTopics))
    try:
        sender = target.sender(target)
    except Exception as error:
        pipe.send(f"{target.kind} at {target.host}:{target.port}: {error}")
        return
    pipe.send(None)
    is_timed = isinstance(sender, TimedSender)
    pause_ns = _ANSWERS_NS if is_timed else _LOOK_NS
    try:
        while (plan := pipe.recv()) is not None:
            if plan == _CUT:
                continue  # the plan had ended already
            before = sender.acknowledged, sender.failed
            late_ns: list[int] = []
            first_ns = begin_ns = time.monotonic_ns()
            sent, is_cut, look_ns = 0, False, begin_ns + _LOOK_NS
            for at_s in plan.arrivals_s():
                due_ns = begin_ns + int(at_s * 1e9)
                while (left_ns := due_ns - time.monotonic_ns()) > 0 and not is_cut:
                    if left_ns > _SPIN_NS:
                        time.sleep(min(left_ns - _SPIN_NS, pause_ns) / 1e9)
                    if is_timed:
                        sender.poll()
                    if left_ns > _LOOK_NS:
                        is_cut = pipe.poll()
                now_ns = time.monotonic_ns()
                if now_ns >= look_ns:
                    look_ns, is_cut = now_ns + _LOOK_NS, is_cut or pipe.poll()
                if is_cut:
                    pipe.recv()
                    break
                late_ns.append(now_ns - due_ns)
                stamp_ns = now_ns if now_ns - due_ns < _LATE_NS else due_ns
                sender.send(sent % plan.blocks, sent // plan.blocks % plan.numbers, stamp_ns)
                sender.poll()
                sent += 1
            last_ns = time.monotonic_ns()
            sender.flush()
            late = Latencies()
            late.add_ns(late_ns)
            done, failed = sender.acknowledged - before[0], sender.failed - before[1]
            p99_ms = late.percentile_ms(99) if sent else 0.0
            stamps = sender.take_stamps() if isinstance(sender, StampingSender) else {}
            took = sender.take_latencies() if isinstance(sender, TimedSender) else b""
            why = sender.why if isinstance(sender, TimedSender) else ""
            pipe.send(PlanOutcome(sent, done, failed, first_ns, last_ns, p99_ms, stamps, took, why))
    except EOFError:
        pass
    finally:
        sender.close()
