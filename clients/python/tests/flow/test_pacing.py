"""Pacing: rule by rule, and against a simulated token bucket in virtual time."""

import heapq

import pytest
from coldnotify.flow.pacing import INTERVAL_MAX_S, Pacing


def test_nothing_is_paced_at_first() -> None:
    pacing = Pacing()
    for _ in range(5):
        assert pacing.wait_s(1.0) == 0
        pacing.sent(1.0)


def test_a_refusal_doubles_the_interval_there_was_and_the_next_waits_as_long_as_it_says() -> None:
    pacing = Pacing()
    for number in range(11):
        pacing.sent(number * 0.1)
    pacing.refuse(1.0, 1.0, 0.7)
    assert pacing.interval_s == pytest.approx(0.2)
    assert pacing.wait_s(1.0) == pytest.approx(0.7)
    assert pacing.wait_s(1.7) == 0
    pacing.sent(1.7)
    assert pacing.wait_s(1.7) == pytest.approx(0.2)
    pacing.refuse(1.7, 1.7, 0.0)
    assert pacing.interval_s == pytest.approx(0.4)
    assert pacing.refused == 2


def test_refusals_of_publishes_sent_before_the_interval_doubled_do_not_double_it_again() -> None:
    pacing = Pacing()
    for number in range(11):
        pacing.sent(number * 0.1)
    for _ in range(10):
        pacing.refuse(1.1, 1.0, 0.5)
    assert pacing.interval_s == pytest.approx(0.2)


def test_after_each_second_without_a_refusal_it_shrinks_by_a_tenth_until_there_is_none() -> None:
    pacing = Pacing()
    for number in range(11):
        pacing.sent(number * 0.1)
    pacing.refuse(10.0, 10.0, 0.0)
    for at_s, interval_s in ((10.9, 0.2), (11.0, 0.18), (11.5, 0.18), (13.1, 0.2 * 0.9**3)):
        pacing.wait_s(at_s)
        assert pacing.interval_s == pytest.approx(interval_s)
    pacing.wait_s(200.0)
    assert pacing.interval_s == 0


def test_the_interval_has_a_bound() -> None:
    pacing = Pacing()
    for number in range(100):
        pacing.refuse(float(number), float(number), 0.0)
    assert pacing.interval_s == INTERVAL_MAX_S


def test_several_together_are_as_many_intervals() -> None:
    pacing = Pacing()
    pacing.refuse(0.0, 0.0, 0.0)
    pacing.sent(0.5, 10)
    assert pacing.wait_s(0.5) == pytest.approx(10 * pacing.interval_s)


class Bucket:
    """An agreement: so many a second, and bursts of two seconds."""

    def __init__(self, per_s: float) -> None:
        self._per_s, self._tokens, self._at_s = per_s, 2 * per_s, 0.0

    def take(self, now_s: float) -> float:
        """0, or in how many seconds there will be a token."""
        self._tokens = min(2 * self._per_s, self._tokens + (now_s - self._at_s) * self._per_s)
        self._at_s = now_s
        if self._tokens < 1:
            return (1 - self._tokens) / self._per_s
        self._tokens -= 1
        return 0.0


def played(per_s: float, threads: int, took_s: float, *, whole_seconds: bool) -> tuple[float, float]:
    """Rate by the agreement, and share refused, from the 60th second on to the 360th; a closed loop of `threads`."""
    pacing, bucket = Pacing(), Bucket(per_s)
    accepted = refused = 0
    events = [(0.0, thread, -1.0) for thread in range(threads)]  # when, who, when it was sent (-1: it wants to send)
    while events:
        now_s, thread, sent_s = heapq.heappop(events)
        if now_s > 360:
            break
        if sent_s < 0:
            if (wait_s := pacing.wait_s(now_s)) > 0:
                heapq.heappush(events, (now_s + wait_s + 1e-9 * (1 + thread), thread, -1.0))
            else:
                pacing.sent(now_s)
                heapq.heappush(events, (now_s + took_s, thread, now_s))
            continue
        if retry_s := bucket.take(now_s):
            pacing.refuse(now_s, sent_s, max(1.0, retry_s) if whole_seconds else retry_s)
            refused += now_s > 60
        else:
            accepted += now_s > 60
        heapq.heappush(events, (now_s, thread, -1.0))
    return accepted / 300 / per_s, refused / (accepted + refused)


@pytest.mark.parametrize("whole_seconds", [True, False])
@pytest.mark.parametrize("threads", [1, 8])
@pytest.mark.parametrize("per_s", [20.0, 100.0, 400.0])
def test_it_settles_at_the_agreement_with_less_than_one_in_a_hundred_refused(
    per_s: float, threads: int, whole_seconds: bool
) -> None:
    share, refused = played(per_s, threads, 0.002, whole_seconds=whole_seconds)
    assert 0.95 <= share <= 1 + 2 / 300  # what the bucket held at the beginning is used, too
    assert refused < 0.01
