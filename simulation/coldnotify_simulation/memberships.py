"""Judges P9: compares the members that applications were told with the log."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from coldnotify import Notification
from coldnotify._core.delivery.member_descriptions import parsed_description
from coldnotify._core.document.document import Document
from coldnotify._core.driver import MembersJob

from coldnotify_simulation.client import SETTINGS, SimulatedClient
from coldnotify_simulation.promises import Broken, SimulatedPromises
from coldnotify_simulation.sets import SimulatedSets
from coldnotify_simulation.truth import TrueObjects


@dataclass(slots=True)
class _Told:
    """One query of one client."""

    members: set[str] = field(default_factory=set)
    """The members that its application was told."""
    anew: bool = False
    """Registered since its process began: it may not have saved that."""
    failures: int = 0
    """Failures of its members callback, in a row and in this process."""

    @property
    def parked(self) -> bool:
        """True if its members callback has failed too often: until it is told again, the registration is pending, and
        versions of entering objects do not wait.
        """
        return self.failures >= SETTINGS.tries_max


class SimulatedMemberships:
    """Looks at each thing that happens; `at_rest` once all has come to rest."""

    def __init__(self, promises: SimulatedPromises, truth: TrueObjects, groups: SimulatedSets) -> None:
        self._promises = promises
        self._truth = truth
        self._groups = groups
        self._told: dict[str, dict[str, _Told]] = {}
        """By client and query."""
        self._doubted: dict[tuple[str, str], bool] = {}
        """(client, query): the service may have lost this registration. True: it has written it down since."""
        self._descriptions: dict[tuple[str, str], Mapping[str, Any] | None] = {}
        """By client and object: the description that its application was last told, in this process."""
        self.counts: Counter[str] = Counter()

    # ---- what clients do

    def starts(self, client: SimulatedClient, document: Document) -> None:
        """Its process begins with this document, which holds what its application was told, or is owed."""
        self._forget_descriptions(client.key)
        told = self._told.setdefault(client.key, {})
        for text in told.keys() - document.queries.keys():
            del told[text]
        for text, kept in document.queries.items():
            known = told.get(text)
            if known is not None:
                known.failures = 0
            telling = kept.telling
            again = frozenset[str]() if telling is None else telling.added | telling.removed
            if known is None or known.anew:
                before = set(kept.members) if telling is None else (kept.members - telling.added) | telling.removed
                told[text] = _Told(set(before))
            elif (wrong := (known.members ^ kept.members) - again) and not kept.followed:
                raise Broken(f"P9: {client.name} was told {known.members} of {text!r}, and starts with {wrong} other")

    def registers(self, client: SimulatedClient, text: str) -> None:
        """Its application asks for a query."""
        self._told.setdefault(client.key, {}).setdefault(text, _Told(anew=True))

    def unregisters(self, client: SimulatedClient, text: str) -> None:
        """And no more."""
        self._told.get(client.key, {}).pop(text, None)
        self._doubted.pop((client.key, text), None)

    def wiped(self, client: str) -> None:
        """It has lost its state."""
        self._told.pop(client, None)
        self._forget_descriptions(client)

    def _forget_descriptions(self, client: str) -> None:
        self._descriptions = {place: said for place, said in self._descriptions.items() if place[0] != client}

    # ---- what happens to its registrations

    def doubt(self, client: str, queries: set[str]) -> None:
        """They were lost."""
        self._doubted |= {(client, text): False for text in queries}

    def doubts(self, client: str, text: str) -> bool:
        """Returns true if the service may have lost this registration, and the client has not heard of it since."""
        return (client, text) in self._doubted

    def on_registered(self, client: str, queries: list[str]) -> None:
        """A record of them was written."""
        for text in queries:
            if (client, text) in self._doubted:
                self._doubted[client, text] = True

    # ---- what it is told

    def on_told(self, client: SimulatedClient, job: MembersJob, *, failed: bool) -> None:
        """A members callback is entered."""
        told = self._told.get(client.key, {}).get(job.query.text)
        if told is None:
            raise Broken(f"P9: {client.name} is told members of {job.query.text!r}, which it does not want")
        told.failures = told.failures + 1 if failed else 0
        if failed:
            return
        self.counts["told entered"] += len(job.added)
        self.counts["told left"] += len(job.removed)
        told.members |= job.added
        told.members -= job.removed
        self._promises.allow_repeat(client.key, *job.added)

    def on_told_description(self, client: SimulatedClient, said: Notification, *, failed: bool) -> None:
        """A callback is entered with an object's description: with another description than this process was told, the
        same version may be told again.
        """
        place = client.key, said.object_id
        # That there is none is told by a query that asks, though one that does not has told the version before.
        if said.description is None or self._descriptions.get(place) != said.description:
            self._promises.allow_repeat(client.key, said.object_id)
            self.counts["told descriptions"] += 1
        if not failed:
            self._descriptions[place] = said.description

    def on_told_version(self, client: SimulatedClient, name: str) -> None:
        """A callback for a version is entered."""
        if name in client.wanted:
            return
        if not any(name in told.members or told.parked for told in self._told.get(client.key, {}).values()):
            raise Broken(f"P9: {client.name} is told a version of {name}, and not that it is a member of a query")

    # ---- what it says

    def on_saved(self, client: SimulatedClient, document: Document, epoch: int) -> None:
        """Judges that the durable cursor is true for its queries, too."""
        if document.cursor is None or document.epoch != epoch:
            return
        group, end = client.key.rpartition("/")[0], document.cursor + 1
        for text, kept in document.queries.items():
            place = client.key, text
            if text in document.pending_queries:
                continue
            wrong = self._groups.wrong(group, text, kept.members, end)
            if not wrong and self._doubted.get(place):
                del self._doubted[place]
            if place in self._doubted:
                continue
            if wrong:
                raise Broken(
                    f"P9: {client.name} stores cursor {document.cursor} and holds {sorted(kept.members)} as "
                    f"members of {text!r}: {sorted(wrong)} wrong"
                )
            for name in kept.members & (kept.descriptions or {}).keys():
                held = parsed_description((kept.descriptions or {})[name])
                if self._groups.described_otherwise(group, name, held or {}, end):
                    raise Broken(
                        f"P9: {client.name} stores cursor {document.cursor}, and {name}, a member of {text!r}, as "
                        f"described by {held}"
                    )
            for name in kept.members - document.pending.keys():
                due = self._truth.thing(client.key_of(name)).due_at(document.cursor)
                floor = self._promises.floor_in(document, client, name)
                known = max(floor, self._promises.caused_of(client.key, name))
                if known < due and self._groups.stable(group, text, name, end):
                    raise Broken(
                        f"P2: {client.name} stores cursor {document.cursor} and knows {known} of {name}, a member of "
                        f"{text!r}, not {due}"
                    )

    def on_caught_up(self, client: SimulatedClient, since_s: float, queries: set[str], end: int) -> None:
        """A wake: `queries` were registered, and the log ended at `end`, when it began."""
        group = client.key.rpartition("/")[0]
        for text, told in self._told.get(client.key, {}).items():
            if text not in queries or (client.key, text) in self._doubted or told.parked:
                continue
            self.counts["judged"] += 1
            wrong = self._groups.wrong(group, text, told.members, end)
            if wrong:
                raise Broken(
                    f"P9: {client.name} is caught up and was told {sorted(told.members)} as members of {text!r}: "
                    f"{sorted(wrong)} wrong"
                )
            for name in told.members:
                due = self._truth.thing(client.key_of(name)).acknowledged_at(since_s)
                if self._knows(client, name) < due:
                    raise Broken(f"P2: {client.name} is caught up and was not told {due} of {name}, a member")

    def came_back(self, client: SimulatedClient, name: str, end: int) -> bool:
        """Returns true if the object may have left one of the client's queries since this end of the log, and entered
        it again.
        """
        group = client.key.rpartition("/")[0]
        return any(self._groups.changed(group, text, name, end) for text in client.queries)

    def _knows(self, client: SimulatedClient, name: str) -> tuple[int, int]:
        return max(self._promises.told(client, name), self._promises.caused_of(client.key, name))

    # ---- at rest

    def at_rest(self, online: list[SimulatedClient], left: SimulatedSets, registered: dict[str, set[str]]) -> list[str]:
        """Returns what is wrong. `left`: the state by the remaining records."""
        found = []
        for client in online:
            group = client.key.rpartition("/")[0]
            told = self._told.get(client.key, {})
            if registered.get(client.key, set()) != client.queries or told.keys() != client.queries:
                found.append(
                    f"P5: {client.name} wants {sorted(client.queries)}, and is registered for "
                    f"{sorted(registered.get(client.key, set()))}"
                )
            for text in sorted(client.queries & told.keys()):
                due = left.members(group, text)
                if told[text].members != due:
                    found.append(
                        f"P9: {client.name} was told {sorted(told[text].members)} as members of {text!r}, there are "
                        f"{sorted(due)}"
                    )
                for name in sorted(told[text].members & due):
                    version = left.objects[group][name].version
                    if self._knows(client, name) < version:
                        found.append(f"P2: {client.name} was not told {version} of {name}, a member of {text!r}")
        return found
