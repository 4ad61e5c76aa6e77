"""The ledger of the service for tests: what clients' applications have taken, by their cursors and their reports."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from coldnotify_schemas import wire_pb2 as wire
from coldnotify_schemas.interests import query_hash

from coldnotify.testing.service_state import Name, ServiceState

Reported = str | int
"""An object by its name; the others by their hash."""


@dataclass(frozen=True, slots=True)
class ReportedCallbacks:
    """A client's report that its application has not taken a registration."""

    since_ms: int
    parked: bool = False
    failures: int = 0
    error: str = ""
    members: tuple[str, ...] = ()
    """The members of the query that were not taken; empty: any may not have been."""

    def shown(self) -> dict[str, Any]:
        """Returns the JSON form that the service uses."""
        state = "parked" if self.parked else "pending"
        return {"state": state, "since_ms": self.since_ms, "failures": self.failures, "error": self.error or None}

    def __str__(self) -> str:
        if not self.failures:
            return "its callbacks have not returned"
        return f"its callbacks raised {self.failures} times{f': {self.error}' if self.error else ''}"


class ClientReports:
    """The reports of one client."""

    def __init__(self) -> None:
        self.tells = False
        """True if its library reports at all."""
        self.by_interest: dict[Reported, ReportedCallbacks] = {}

    def on_hello(self, asked: Iterable[Reported], *, says_all: bool, now_ms: int) -> None:
        """Its Hello registers for these; `says_all`: nothing else is unsettled."""
        wanted = list(asked)
        if says_all:
            self.tells = True
            self.by_interest = {one: told for one, told in self.by_interest.items() if one in wanted}
        elif wanted:
            self.tells = False
            self.by_interest.clear()
        self.on_register(wanted, now_ms)

    def on_register(self, asked: Iterable[Reported], now_ms: int) -> None:
        """It has registered for these, which its application cannot have taken yet."""
        for one in asked if self.tells else ():
            self.by_interest.setdefault(one, ReportedCallbacks(now_ms))

    def on_report(self, report: wire.Unsettled, now_ms: int) -> None:
        """It has sent this."""
        self.tells = True
        said = {entry.hash if entry.HasField("hash") else entry.name: entry for entry in report.entries}
        gone = [one for one in self.by_interest if one not in said] if report.all else []
        for one in (*gone, *report.settled, *report.settled_hashes):
            self.by_interest.pop(one, None)
        for one, entry in said.items():
            before = self.by_interest.get(one)
            since_ms = now_ms - entry.since_s * 1000 if entry.since_s or before is None else before.since_ms
            self.by_interest[one] = ReportedCallbacks(
                since_ms, entry.parked, entry.failures, entry.error, tuple(entry.members)
            )

    def keep(self, registered: Iterable[Reported]) -> None:
        """It is registered for these alone."""
        kept = set(registered)
        self.by_interest = {one: told for one, told in self.by_interest.items() if one in kept}


class ServiceLedger:
    """The ledger of one service."""

    def __init__(self, state: ServiceState) -> None:
        self._state = state
        self._reports: dict[Name, ClientReports] = {}
        self._ended: dict[Name, bool] = {}
        """The clients whose last session has ended; true: without a Bye."""

    def reports(self, name: Name) -> ClientReports:
        """Returns those of a client."""
        return self._reports.setdefault(name, ClientReports())

    def began(self, name: Name) -> None:
        """The client has a session."""
        self._ended[name] = False

    def ended(self, name: Name, *, said_bye: bool) -> None:
        """Its session has ended."""
        self._ended[name] = not said_bye

    def is_lost(self, name: Name) -> bool:
        """Returns true if the client's session has ended without a Bye, so that it comes back."""
        return self._ended.get(name, False)

    def registered(self, domain: str, group: str, object_: str) -> dict[Name, bool]:
        """Returns the clients that are registered for the object; true: by its name, false: by a query alone."""
        state, sets = self._state, self._state.partition(domain, group).sets
        found = {}
        for name in {*state.registered, *state.queries}:
            by_name = object_ in state.registered.get(name, ())
            if name[:2] == (domain, group) and (by_name or sets.of(object_, state.queries.get(name, ()))):
                found[name] = by_name
        return found

    def untaken(self, name: Name, object_: str) -> ReportedCallbacks | None:
        """Returns the client's report that its application has not taken the object, if there is one."""
        reports = self.reports(name).by_interest
        if object_ in self._state.registered.get(name, ()) or not reports:
            return reports.get(object_)
        for query in self._state.partition(name[0], name[1]).sets.of(object_, self._state.queries.get(name, ())):
            report = reports.get(query_hash(query))
            if report is not None and (not report.members or object_ in report.members):
                return report
        return None

    def lacks(self, name: Name, object_: str, offset: int) -> bool:
        """Returns true if the client, which is registered for the object, has not applied it up to this offset."""
        newest = self._state.newest(name[0], name[1], object_)
        made_it = newest is not None and newest.source == name[2]
        return self.untaken(name, object_) is not None or (
            self._state.acknowledged.get(name, -1) < offset and not made_it
        )

    def offset_of(self, domain: str, group: str, object_: str, version: int | None) -> int | None:
        """Returns the offset that a client must have reached to have this version, None: the newest, or a newer one;
        -1 if nothing was published, None if that version was not.
        """
        partition = self._state.partition(domain, group)
        newest = partition.objects.get(object_)
        if newest is None:
            return -1
        wanted = newest.version if version is None else version
        told: Mapping[int, tuple[str, str, int, int]] = partition.outcomes
        offsets = [
            offset
            for offset, (name, outcome, incarnation, taken) in told.items()
            if (name, outcome, incarnation) == (object_, "published", newest.incarnation) and taken >= wanted
        ]
        return min(offsets, default=newest.offset if wanted <= newest.version else None)
