"""`Taking` says which of the clients that are to take a publish have not taken it yet."""

from coldnotify.testing.service import Service
from coldnotify.testing.service_state import Name


class NotTaken(TimeoutError):
    """Clients have not taken a publish in time; the message names them, and says why."""


class Taking:
    """One publish of an object, and the clients that are to take it: those that are connected, or are to come back."""

    def __init__(self, service: Service, domain: str, group: str, object_: str) -> None:
        """To be made before the publish: by it an object that is deleted leaves its queries."""
        self._service = service
        self._about = domain, group, object_
        self._version, self._offset = 0, -1
        self._names: set[Name] = set()
        self._look()

    def published(self, version: int) -> None:
        """It was published with this version."""
        newest = self._service.newest(*self._about)
        self._version = version
        # After a stale publish, the newest version counts.
        self._offset = -1 if newest is None else newest.offset
        self._look()

    def lacking(self) -> list[Name]:
        """Returns the clients that have not taken it. One that has said goodbye need not."""
        ledger, here = self._service.ledger, self._here()
        return sorted(name for name in self._names & here if ledger.lacks(name, self._about[2], self._offset))

    def words(self, timeout_s: float) -> str:
        """Returns which clients lack it, and why."""
        lacking = self.lacking()
        why = "; ".join(f"{name[2]}: {self._why(name)}" for name in lacking)
        return (
            f"{'/'.join(self._about)} version {self._version}: {len(lacking)} of {len(self._names)} clients have not "
            f"taken it after {timeout_s:g} s: {why}"
        )

    def _look(self) -> None:
        self._names |= self._here()

    def _here(self) -> set[Name]:
        service = self._service
        connected = {session.name for session in service.sessions if session.hello is not None}
        registered = self._names | service.ledger.registered(*self._about).keys()
        return {name for name in registered if name in connected or service.ledger.is_lost(name)}

    def _why(self, name: Name) -> str:
        if self._service.ledger.is_lost(name):
            return "its connection has broken"
        report = self._service.ledger.untaken(name, self._about[2])
        if report is not None:
            return str(report)
        return "it has not acknowledged it: it is being told, or its callbacks have not returned"
