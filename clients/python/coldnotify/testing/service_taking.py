"""`Taking` says which of the clients that were connected at a publish have not taken it yet."""

from coldnotify.testing.service import Service
from coldnotify.testing.service_session import Session
from coldnotify.testing.service_state import Name


class NotTaken(TimeoutError):
    """Clients that are connected have not taken a publish in time; the message names them, and says why."""


class Taking:
    """One publish of an object, and the clients that are to take it."""

    def __init__(self, service: Service, domain: str, group: str, object_: str) -> None:
        """To be made before the publish: by it an object that is deleted leaves its queries."""
        self._service = service
        self._about = domain, group, object_
        self._version, self._offset = 0, -1
        self._clients: dict[Name, Session] = {}
        self._look()

    def published(self, version: int) -> None:
        """It was published with this version."""
        newest = self._service.newest(*self._about)
        self._version = version
        # The newest version of a stale publish is told already, or is about to be.
        self._offset = -1 if newest is None else newest.offset
        self._look()

    def lacking(self) -> dict[Name, Session]:
        """Returns the clients that have not taken it. One that has said goodbye need not."""
        return {
            name: session
            for name, session in self._clients.items()
            if not session.said_bye and self._service.ledger.lacks(name, self._about[2], self._offset)
        }

    def words(self, timeout_s: float) -> str:
        """Returns which clients lack it, and why."""
        lacking = self.lacking()
        why = "; ".join(f"{name[2]}: {self._why(name, session)}" for name, session in sorted(lacking.items()))
        return (
            f"{'/'.join(self._about)} version {self._version}: {len(lacking)} of {len(self._clients)} connected "
            f"clients have not taken it after {timeout_s:g} s: {why}"
        )

    def _look(self) -> None:
        registered = self._service.ledger.registered(*self._about)
        for session in self._service.sessions:
            if session.hello is not None and session.name in registered:
                self._clients[session.name] = session

    def _why(self, name: Name, session: Session) -> str:
        report = self._service.ledger.untaken(name, self._about[2])
        if report is not None:
            return str(report)
        if session.closed:
            return "its connection has broken"
        return "it has not acknowledged it: it is being told, or its callbacks have not returned"
