"""Judges P10 for rates: who was refused because of an agreement, how, and whether refused records exist nevertheless.

A run's history contains what was agreed (`agreement`), and publishers record which limit refused which of their calls
(`published` with `refused`). From that follows, without knowledge of how limits are enforced:

- a refusal names a limit that was agreed with the tenant of the domain, and says when to come back;
- a tenant that used at most half of its agreement, in every span of time that could matter, is not refused. Half,
  because several nodes share an agreement, and learn within seconds how it is divided;
- a version that was refused in all calls that published it is not in the topic, and nobody was told it.

P1 judges that acknowledged records exist, whoever published them, and P2 that their clients learn them.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from coldnotify_checker.histories import Agreement, Event, Publish, Published, Told
from coldnotify_checker.publishes import CheckedPublishes, PublishCall
from coldnotify_checker.topic_contents import DumpedTopics
from coldnotify_checker.verdict import JudgeVerdict

WITHIN = 0.5
"""A tenant that used at most this part of its agreement is within it, however it is divided between nodes."""
SPANS_S = (10.0, 60.0)
"""Looked at besides the agreement's own burst_s."""
NEWS_US = 5_000_000
"""So long before it counts surely, an agreement may count already or not yet: nodes read it, and buckets fill."""
_RATES = ("in_per_s", "out_per_s")
"""Limits whose refusals can be judged by counting publishes. The history does not contain bytes."""


@dataclass(slots=True)
class _Tenant:
    agreements: list[Agreement] = field(default_factory=list)
    calls_us: list[int] = field(default_factory=list)
    """The beginnings of its publishers' calls."""


def judge_agreements(
    history: Iterable[Event], publishes: CheckedPublishes, topics: DumpedTopics, verdict: JudgeVerdict
) -> None:
    """All of P10 that a history shows. `history` in order of time."""
    judging = _Judging(verdict)
    for event in history:
        if isinstance(event, Agreement):
            judging.on_agreement(event)
        elif isinstance(event, Told):
            judging.told[event.object].append(event)
    for object_, published in publishes.objects.items():
        for calls in published.by_version.values():
            for call in calls:
                judging.on_call(object_, call)
    if verdict.statistics.refused and not judging.tenants:
        verdict.not_judged["P10"] = "needs `agreement` lines: what was agreed with which tenant"
        return
    judging.judge_refusals()
    for object_, published in publishes.objects.items():
        for calls in published.by_version.values():
            judging.judge_written(object_, calls, topics)


def refused_by(call: PublishCall) -> str | None:
    """The limit by which it was refused; None: it was not."""
    return call.answer.refused if call.answer is not None else None


class _Judging:
    def __init__(self, verdict: JudgeVerdict) -> None:
        self._verdict = verdict
        self.tenants: dict[str, _Tenant] = {}
        self.told: dict[str, list[Told]] = defaultdict(list)
        self._tenant_of: dict[str, str] = {}
        self._refused: list[tuple[_Tenant | None, Publish, Published]] = []

    def on_agreement(self, event: Agreement) -> None:
        self.tenants.setdefault(event.tenant, _Tenant()).agreements.append(event)
        self._tenant_of.update(dict.fromkeys(event.domains, event.tenant))

    def on_call(self, object_: str, call: PublishCall) -> None:
        tenant = self.tenants.get(self._tenant_of.get(object_.partition("/")[0], ""))
        if tenant is not None:
            tenant.calls_us.append(call.begun.t)
        if call.answer is not None and call.answer.refused is not None:
            self._verdict.statistics.refused += 1
            self._refused.append((tenant, call.begun, call.answer))

    def judge_refusals(self) -> None:
        for one in self.tenants.values():
            one.calls_us.sort()
        for tenant, call, answer in sorted(self._refused, key=lambda one: one[1].t):
            limit = answer.refused or ""
            if answer.retry_after_s is None or answer.retry_after_s <= 0:
                self._add(f"a publish of {call.object} was refused without saying when to come back", call, answer)
            if answer.outcome != "failed":
                self._add(f"a publish of {call.object} was refused, and is said to be {answer.outcome}", call, answer)
            standing = _standing(tenant, call.t, answer.t) if tenant is not None else []
            if not any(getattr(agreement, limit, None) for agreement in standing):
                words = f"a publish of {call.object} was refused by {limit or 'no limit'}, which nobody had agreed to"
                self._add(words, call, answer, *standing[-1:])
            elif tenant is not None and limit == "in_per_s" and (span_s := _within(tenant, standing, call.t)):
                words = (
                    f"a publish of {call.object} was refused by {limit}, and its tenant had asked for less than "
                    f"{WITHIN:g} of that in the {span_s:g} s before, and in every shorter span"
                )
                self._add(words, call, answer, standing[-1])

    def judge_written(self, object_: str, calls: list[PublishCall], topics: DumpedTopics) -> None:
        """Judges that a version that was refused in all calls is in no topic."""
        by_key: dict[tuple[int, int], list[PublishCall]] = defaultdict(list)
        for call in calls:
            if call.key is not None:
                by_key[call.key].append(call)
        for key, alike in by_key.items():
            if not all(refused_by(call) for call in alike):
                continue
            call = alike[0]
            held = topics.newest.get(object_)
            if topics.names.objects in topics.dumped and held is not None and held.key == key:
                words = f"version {key[1]} of {object_} was refused, and is in {topics.names.objects}"
                self._add(words, call.begun, call.answer, held.record)
            for told in self.told[object_]:
                if (told.incarnation or key[0], told.version) == key:
                    words = f"version {key[1]} of {object_} was refused, and {told.client} was told it"
                    self._add(words, call.begun, call.answer, told)
                    break

    def _add(self, words: str, *evidence: Event | None) -> None:
        self._verdict.add("P10", words, evidence)


def _standing(tenant: _Tenant, from_us: int, to_us: int) -> list[Agreement]:
    """Those that may have counted in this time."""
    times = [one.t for one in tenant.agreements]
    last = bisect_right(times, to_us)
    first = max(0, bisect_right(times, from_us - NEWS_US) - 1)
    return tenant.agreements[first:last]


def _within(tenant: _Tenant, standing: list[Agreement], at_us: int) -> float | None:
    """The longest span before then in which, as in every shorter one, little was asked for; None: it was not little."""
    rates = [one.in_per_s for one in standing if one.in_per_s]
    if not rates:
        return None
    rate = min(rates)
    spans_s = sorted({*(one.burst_s for one in standing), *SPANS_S})
    end = bisect_right(tenant.calls_us, at_us)
    for span_s in spans_s:
        begin = bisect_left(tenant.calls_us, at_us - round(span_s * 1e6))
        # One call is always let in, whatever the rate.
        if end - begin > max(1.0, WITHIN * rate * span_s):
            return None
    return spans_s[-1]
