"""Judges P10 for numbers of objects, clients and registrations: refuse only above a limit, and keep what is in.

A history contains what was agreed (`agreement`), which publishes `objects_max` refused (`published`), which clients
`clients_max` turned away (`turned_away`) and which registrations `registrations_max` refused (`refused`). Matchers and
nodes exchange counts within seconds, and may count a client that is gone for a while. So a refusal is wrong only if
there could not have been as many as agreed, by the highest possible count:

- each object counts that anybody published, or may have;
- each other client counts that connected and did not leave more than GONE_US before; and the client itself, if it had
  been there: its partition's new matcher may count its last session for a moment;
- each registration counts that any client has ever asked for.

Excess is not judged: how far a limit may be exceeded depends on the number of matchers.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from coldnotify_schemas.topics import TopicNames

from coldnotify_checker.histories import (
    Agreement,
    Connecting,
    Event,
    Killed,
    Refused,
    Register,
    RegisterQuery,
    Removed,
    Sleep,
    Stopped,
    Subscribe,
    TopicLost,
    TurnedAway,
)
from coldnotify_checker.publishes import CheckedPublishes, PublishCall
from coldnotify_checker.topic_contents import DumpedTopics
from coldnotify_checker.verdict import JudgeVerdict

NEWS_US = 30_000_000
"""So long an agreement may go on to count that was changed: a matcher may be stopped, or without Kafka."""
GONE_US = 150_000_000
"""So long a client that has gone may be counted: nobody may serve its partition, its gateway may be gone with it, and
then the matcher ends what no gateway announces."""
_OBJECTS, _CLIENTS, _REGISTRATIONS = "objects_max", "clients_max", "registrations_max"


@dataclass(slots=True)
class _Tenant:
    agreements: list[Agreement] = field(default_factory=list)
    gone_at: dict[str, int | None] = field(default_factory=dict)
    """By client that has connected, when it left; None: it has not."""
    came_again: set[str] = field(default_factory=set)
    """Clients that have connected more than once."""
    asked: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """By client, the names it ever registered."""

    def lowest(self, limit: str, at_us: int) -> float | None:
        """The lowest that may count at this time; None: that is agreed in none of them."""
        found = []
        for number, one in enumerate(self.agreements):
            until = self.agreements[number + 1].t if number + 1 < len(self.agreements) else at_us
            most = getattr(one, limit)
            if one.t <= at_us <= until + NEWS_US and most is not None:
                found.append(most)
        return min(found, default=None)


def judge_how_many(
    history: Iterable[Event], publishes: CheckedPublishes, topics: DumpedTopics, verdict: JudgeVerdict
) -> None:
    """All of it that a history shows. `history` in order of time. Without `agreement` lines nothing is judged."""
    history = list(history)
    if not any(isinstance(event, Agreement) for event in history):
        if any(isinstance(event, TurnedAway) for event in history):
            verdict.not_judged["P10"] = "needs `agreement` lines: what was agreed with which tenant"
        return
    judging = _Judging(verdict, topics.names)
    for event in history:
        judging.on_event(event)
    for tenant in set(judging.tenant_of.values()):
        domains = {domain for domain, name in judging.tenant_of.items() if name == tenant}
        judging.judge_objects(judging.tenants[tenant], domains, publishes, topics)


class _Judging:
    def __init__(self, verdict: JudgeVerdict, names: TopicNames) -> None:
        self._verdict = verdict
        self._names = names
        self.tenants: dict[str, _Tenant] = defaultdict(_Tenant)
        self.tenant_of: dict[str, str] = {}
        self._removed: set[str] = set()
        self._lost = False

    def on_event(self, event: Event) -> None:
        match event:
            case Agreement():
                self.tenants[event.tenant].agreements.append(event)
                self.tenant_of.update(dict.fromkeys(event.domains, event.tenant))
            case Connecting():
                tenant = self._tenant(event.client)
                if event.client in tenant.gone_at:
                    tenant.came_again.add(event.client)
                tenant.gone_at[event.client] = None
            case Stopped() | Sleep() | Killed():
                gone_at = self._tenant(event.client).gone_at
                if gone_at.get(event.client, 0) is None:
                    gone_at[event.client] = event.t
            case Register():
                self._tenant(event.client).asked[event.client].add(event.object)
            case RegisterQuery():
                self._tenant(event.client).asked[event.client].add(f"query {event.query}")
            case Subscribe():
                self._tenant(event.client).asked[event.client].add(f"channel {event.channel}")
            case Refused() if _REGISTRATIONS in event.reason:
                self._on_refused(event)
            case TurnedAway():
                self._on_turned_away(event)
            case Removed():
                self._removed.add(event.object)
            case TopicLost():
                self._lost |= event.topic == self._names.objects

    def _tenant(self, client: str) -> _Tenant:
        return self.tenants[self.tenant_of.get(client.partition("/")[0], "")]

    def _on_turned_away(self, event: TurnedAway) -> None:
        self._verdict.statistics.refused += 1
        tenant = self._tenant(event.client)
        most = tenant.lowest(_CLIENTS, event.t)
        others = [
            name
            for name, gone_at in tenant.gone_at.items()
            if (name != event.client or name in tenant.came_again) and (gone_at is None or event.t - gone_at <= GONE_US)
        ]
        if most is None:
            self._add(f"{event.client} was sent away by {_CLIENTS}, which nobody had agreed to", event)
        elif event.welcomed:
            self._add(f"{event.client} was in, and was sent away as one too many", event, tenant.agreements[-1])
        elif len(others) < most:
            words = f"{event.client} was sent away by {_CLIENTS}, and at most {len(others)} others were there"
            self._add(words, event, tenant.agreements[-1])

    def _on_refused(self, event: Refused) -> None:
        self._verdict.statistics.refused += 1
        tenant = self._tenant(event.client)
        most = tenant.lowest(_REGISTRATIONS, event.t)
        others = sum(map(len, tenant.asked.values())) - (event.object in tenant.asked[event.client])
        words = f"{event.client}'s registration of {event.object} was refused by {_REGISTRATIONS}"
        if most is None:
            self._add(f"{words}, which nobody had agreed to", event)
        elif others < most:
            self._add(f"{words}, and at most {others} others were there", event, tenant.agreements[-1])

    def judge_objects(
        self, tenant: _Tenant, domains: set[str], publishes: CheckedPublishes, topics: DumpedTopics
    ) -> None:
        """Publishes that were refused by `objects_max`. That this was agreed at all, `limits_kept` judges."""
        calls = {
            object_: [call for alike in published.by_version.values() for call in alike]
            for object_, published in publishes.objects.items()
            if object_.partition("/")[0] in domains
        }
        begun = {object_: _begun(those) for object_, those in calls.items()}
        of_others = {object_ for object_ in topics.newest if object_.partition("/")[0] in domains} - calls.keys()
        for object_, those in calls.items():
            for call in those:
                if call.answer is None or call.answer.refused != _OBJECTS:
                    continue
                answered_us = call.answer.t
                most = tenant.lowest(_OBJECTS, answered_us)
                others = len(of_others) + sum(
                    first is not None and first <= answered_us for other, first in begun.items() if other != object_
                )
                words = f"a publish of {object_} was refused by {_OBJECTS}"
                if self._was_there(object_, call, those):
                    self._add(f"{words}, and it was there", call.begun, call.answer)
                elif most is not None and others < most:
                    words = f"{words}, and at most {others} others were there"
                    self._add(words, call.begun, call.answer, tenant.agreements[-1])

    def _was_there(self, object_: str, call: PublishCall, those: list[PublishCall]) -> bool:
        """Returns true if the object surely existed before the call began: acknowledged, and neither deleted nor
        removed.
        """
        if self._lost or object_ in self._removed or any(one.begun.deleted for one in those):
            return False
        return any(
            one.acknowledged and one.begun.path != "raw" and one.answer is not None and one.answer.t < call.begun.t
            for one in those
        )

    def _add(self, words: str, *evidence: Event | None) -> None:
        self._verdict.add("P10", words, evidence)


def _begun(calls: Iterable[PublishCall]) -> int | None:
    """Returns when the first publish began that may have written it; None if all failed for certain."""
    return min((call.begun.t for call in calls if not call.failed and not call.begun.deleted), default=None)
