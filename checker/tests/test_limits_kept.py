"""P10: who was refused, what he was told, and that what was refused is nowhere. Bugs are planted and found."""

from typing import Any

import pytest
from coldnotify_checker import judge
from coldnotify_checker.histories import Agreement, Event, Publish, Published, Record, Started, Told, Topic
from coldnotify_checker.verdict import JudgeVerdict
from coldnotify_schemas.topics import TopicNames

TOPICS = TopicNames()

CALM, LOUD = "calm.domain", "loud.domain"
CALM_PER_S, LOUD_PER_S, BURST_S = 10.0, 2.0, 2.0
FLOOD_PER_S = 20
SECONDS = 30

BUGS = [
    "refuses who stays within the agreement",
    "refuses a tenant without an agreement",
    "refuses by a limit that nobody agreed to",
    "refuses without saying when to come back",
    "refuses what it has written",
    "tells what it has refused",
    "says of what it refused that nobody knows",
    "names no limit",
]
"""What can be planted into the service that `play` is."""
UNJUST = {
    (CALM, "refuses who stays within the agreement"),
    ("nobodys.domain", "refuses a tenant without an agreement"),
}


def play(bug: str = "") -> list[Event]:
    """Two tenants publish by a service that holds the loud one to its agreement; and one without an agreement."""
    events: list[Event] = [
        Agreement(t=1, tenant="calm", domains=[CALM], in_per_s=CALM_PER_S, burst_s=BURST_S),
        Agreement(t=2, tenant="loud", domains=[LOUD], in_per_s=LOUD_PER_S, burst_s=BURST_S),
        Started(t=3, client=f"{LOUD}/g/c"),
    ]
    tokens, written = LOUD_PER_S * BURST_S, 0
    newest: dict[str, int] = {}
    for number in range(SECONDS * FLOOD_PER_S):
        t = 10_000_000 + number * 1_000_000 // FLOOD_PER_S
        tokens = min(LOUD_PER_S * BURST_S, tokens + LOUD_PER_S / FLOOD_PER_S)
        calls = [(LOUD, "in_per_s" if tokens < 1 else None)]
        if number % 5 == 0:
            calls += [(CALM, None), ("nobodys.domain", None)]
        planted = number == 400
        if planted:
            calls[0] = (LOUD, "in_per_s")
        for domain, refused in calls:
            if domain == LOUD and refused is None:
                tokens -= 1
            object_ = f"{domain}/g/o"
            call: dict[str, Any] = {"publisher": domain, "id": number}
            events.append(Publish(t=t, object=object_, version=number, **call))
            limit, outcome = refused, "failed"
            answer: dict[str, Any] = {"retry_after_s": 0.5}
            if planted and (domain, bug) in UNJUST:
                limit = "in_per_s"
            elif planted and domain == LOUD:
                limit, answer, outcome = _planted(bug, limit, answer, outcome)
            if limit is None:
                events.append(Published(t=t + 1000, outcome="acknowledged", **call))
                newest[object_] = max(number, newest.get(object_, 0))
                written += 1
                continue
            answer |= {"outcome": outcome, "refused": limit}
            events.append(Published(t=t + 1000, **answer, **call))
            if planted and domain == LOUD and bug == "refuses what it has written":
                newest[object_] = 10**6
                events[-2] = Publish(t=t, object=object_, version=10**6, **call)
            if planted and domain == LOUD and bug == "tells what it has refused":
                events.append(Told(t=t + 2000, client=f"{LOUD}/g/c", object=object_, version=number))
    for offset, (object_, version) in enumerate(newest.items()):
        events.append(
            Record(
                topic=TOPICS.objects, partition=0, offset=offset, key=object_, value={"version": version}, timestamp=1
            )
        )
    events.append(Topic(t=10**9, topic=TOPICS.objects, partitions=1, ends=[len(newest)]))
    return events


def _planted(bug: str, limit: str | None, more: dict[str, Any], outcome: str) -> tuple[str | None, dict[str, Any], str]:
    if bug == "refuses by a limit that nobody agreed to":
        return "out_per_s", more, outcome
    if bug == "refuses without saying when to come back":
        return limit, {}, outcome
    if bug == "says of what it refused that nobody knows":
        return limit, more, "unknown"
    if bug == "names no limit":
        return "", more, outcome
    return limit, more, outcome


def of_p10(verdict: JudgeVerdict) -> list[str]:
    return [violation.what for violation in verdict.violations if violation.promise == "P10"]


def test_a_service_that_keeps_to_agreements_is_clean_and_refusals_are_counted() -> None:
    verdict = judge(play())
    assert of_p10(verdict) == []
    assert verdict.statistics.refused > 400
    assert "P10" not in verdict.not_judged


@pytest.mark.parametrize("bug", BUGS)
def test_each_planted_bug_is_found(bug: str) -> None:
    verdict = judge(play(bug))
    assert len(of_p10(verdict)) == 1, bug
    (violation,) = (one for one in verdict.violations if one.promise == "P10")
    assert violation.evidence


def test_without_an_agreement_line_refusals_cannot_be_judged() -> None:
    history = [event for event in play() if not isinstance(event, Agreement)]
    verdict = judge(history)
    assert of_p10(verdict) == []
    assert "P10" in verdict.not_judged


def test_a_lowered_agreement_may_count_at_once() -> None:
    events = [event for event in play() if not isinstance(event, Agreement)]
    refused_at = min(event.t for event in events if isinstance(event, Published) and event.refused)
    high = Agreement(t=1, tenant="loud", domains=[LOUD], in_per_s=1000, burst_s=BURST_S)
    low = Agreement(t=refused_at + 2, tenant="loud", domains=[LOUD], in_per_s=LOUD_PER_S, burst_s=BURST_S)
    assert of_p10(judge([high, low, *events])) != []
    soon = Agreement(t=refused_at - 10_000, tenant="loud", domains=[LOUD], in_per_s=LOUD_PER_S, burst_s=BURST_S)
    assert of_p10(judge([high, soon, *events])) == []


def test_a_refused_version_may_exist_if_somebody_else_published_it() -> None:
    events = play("refuses what it has written")
    again = Publish(t=9_000_000, publisher="other", id=1, object=f"{LOUD}/g/o", version=10**6)
    answered = Published(t=9_000_001, publisher="other", id=1, outcome="unknown")
    assert of_p10(judge([*events, again, answered])) == []
