"""Judges P11: a client that says it is fresh as of a time has been told what was acknowledged before that time.

It is held to that as at a wake which began at that time, for each registration that was settled by then. That a
registration is settled follows from the client's own words: no operation of its is pending.
"""

from bisect import bisect_right
from collections.abc import Iterable

from coldnotify_schemas.topics import TopicNames

from coldnotify_checker.clients import CheckedClient, Clients, version_words
from coldnotify_checker.histories import Deposed, End, Event, Fresh, Register, Started, TopicLost, parked_name
from coldnotify_checker.memberships import CheckedMemberships
from coldnotify_checker.messages import ANEW_US, CheckedMessages
from coldnotify_checker.publishes import CheckedPublishes
from coldnotify_checker.verdict import JudgeVerdict

DEPOSED_US = 15_000_000
"""While a node of Kafka may answer that leads no longer, what is acknowledged counts so much later."""
USUAL_US = 12_000_000
"""With nothing wrong, a client is fresh as of a keepalive and this before, at most."""


class FreshClaims:
    """Follows event by event how fresh clients say that they are."""

    def __init__(
        self,
        events: Iterable[Event],
        clients: Clients,
        memberships: CheckedMemberships,
        messages: CheckedMessages,
        publishes: CheckedPublishes,
        verdict: JudgeVerdict,
        names: TopicNames,
        skew_us: int,
    ) -> None:
        self._clients = clients
        self._memberships = memberships
        self._messages = messages
        self._publishes = publishes
        self._verdict = verdict
        self._skew_us = skew_us
        states = {names.objects, names.registrations, names.sessions}
        self._lost = _Spans(event for event in events if isinstance(event, TopicLost) and event.topic in states)
        self._deposed = _Spans(event for event in events if isinstance(event, Deposed))
        self._settled: dict[str, dict[int, int]] = {}
        """By client and identity of the event that registered: since when the registration is known to be settled."""
        self._last: dict[str, Fresh] = {}

    def on_event(self, event: Event) -> None:
        """Takes the next event of the history, after all other judges."""
        match event:
            case Started():
                self._settled.pop(event.client, None)
                self._last.pop(event.client, None)
            case Fresh():
                self._on_fresh(event)
            case End():
                self._at_end(event)
            case _:
                pass

    def _on_fresh(self, event: Fresh) -> None:
        self._verdict.statistics.fresh += 1
        client = self._clients.of(event.client)
        self._last[event.client] = event
        settled = self._settle(client, event)
        self._judge_words(client, event)
        as_of = event.as_of
        if as_of is None or self._lost.around(as_of, ANEW_US):
            return
        by = as_of - self._skew_us - (DEPOSED_US if self._deposed.around(as_of, DEPOSED_US) else 0)
        parked = frozenset(event.parked)
        self._judge_versions(client, event, by, settled, parked)
        self._memberships.judge_fresh(event, by, lambda held: self._is_settled(settled, held.register, by, parked))
        self._messages.judge_fresh(event, by, lambda one: self._is_settled(settled, one.begun, by, parked))

    def _settle(self, client: CheckedClient, event: Fresh) -> dict[int, int]:
        """Returns since when each of its registrations is settled. While any operation is pending, none is known to be:
        the service may have lost those that were."""
        if event.pending or event.as_of is None:
            self._settled.pop(event.client, None)
            return {}
        before = self._settled.get(event.client, {})
        now = [*client.wanted.values(), *self._memberships.registered(event.client)]
        now += self._messages.subscribed(event.client)
        settled = {id(register): before.get(id(register), event.t) for register in now}
        self._settled[event.client] = settled
        self._messages.settled(event)
        return settled

    def _is_settled(self, settled: dict[int, int], register: Event, by: int, parked: frozenset[str]) -> bool:
        since = settled.get(id(register))
        return since is not None and since <= by and parked_name(register) not in parked

    def _judge_words(self, client: CheckedClient, event: Fresh) -> None:
        """Judges what follows from its words alone."""
        as_of = event.as_of
        if as_of is not None and as_of > event.t:
            self._add(f"{event.client} said that it was fresh as of a time to come", event)
        if not event.caught_up:
            return
        if as_of is None:
            self._add(f"{event.client} said that it was caught up, and nothing proved that", event)
        elif event.fresh_s is not None and event.asked - as_of > event.fresh_s * 1e6:
            old_s = (event.asked - as_of) / 1e6
            self._add(f"{event.client} said that it was caught up, and was fresh as of {old_s:.1f} s before", event)
        if not client.connected:
            self._add(f"{event.client} said that it was caught up, and was not connected", client.left, event)

    def _judge_versions(
        self, client: CheckedClient, event: Fresh, by: int, settled: dict[int, int], parked: frozenset[str]
    ) -> None:
        by_told = {id(told): register for register, told in self._memberships.told_by(event.client)}
        wanted: dict[str, Event] = {}
        for object_, told in self._clients.wanted(client):
            register = told if isinstance(told, Register) else by_told[id(told)]
            if self._is_settled(settled, register, by, parked) and (register is told or told.t <= by):
                wanted[object_] = told
        for object_ in self._clients.lacking(client, event.t):
            if object_ not in wanted or object_.split("/", 2)[2] in parked:
                continue
            owed = self._publishes.newest(object_, by, in_place=True)
            if (
                owed is None
                or client.caused(self._publishes, object_, owed.sure_key, event.t, self._skew_us)
                or self._publishes.period_of(object_, by) != self._publishes.period_of(object_, event.t + self._skew_us)
            ):
                continue
            known = client.knows(object_)
            if known is None or known < owed.sure_key:
                words = (
                    f"{event.client} said that it was fresh, without {version_words(owed.sure_key)} of {object_}, "
                    f"acknowledged before; it knew {version_words(known)}"
                )
                self._add(words, owed.begun, owed.answer, wanted[object_], client.told[object_].last, event)

    def _at_end(self, end: End) -> None:
        """Nothing has been wrong for long enough: who is connected is as fresh as it should be."""
        for name in end.connected:
            last = self._last.get(name)
            if last is None or last.keepalive_s is None:
                continue
            limit_us = last.keepalive_s * 1e6 + USUAL_US
            if last.as_of is None or last.asked - last.as_of > limit_us:
                self._add(f"{name} is connected and was not fresh as of {limit_us / 1e6:g} s before", last, end)

    def _add(self, words: str, *evidence: Event | None) -> None:
        self._verdict.add("P11", words, evidence)


class _Spans:
    """Spans of time, each from where something began to where it was noted."""

    def __init__(self, events: Iterable[TopicLost | Deposed]) -> None:
        self._spans = sorted((event.t if event.begun is None else event.begun, event.t) for event in events)
        self._begun = [begun for begun, _ in self._spans]

    def around(self, t: int, later_us: int) -> bool:
        """Returns true if one of them, with so much time behind it, has this time."""
        return any(t <= ended + later_us for _, ended in self._spans[: bisect_right(self._begun, t)])
