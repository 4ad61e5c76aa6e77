"""A session's Register and Unregister until they are answered, and the versions that must follow the answers."""

from collections.abc import Callable
from dataclasses import dataclass

from coldnotify_schemas.protocol import REQUESTS_UNANSWERED_MAX

from coldnotify._core.interests.interests import Interest
from coldnotify._core.interests.registrations import Operation, OperationStage, Registrations
from coldnotify._core.settings import ClientSettings


@dataclass(slots=True)
class _Request:
    """Operations that wait: for an answer (`stage` SENT), or for a notification after it (CONFIRMED)."""

    stage: OperationStage
    operations: dict[Interest, Operation]
    due: float


class SessionRequests:
    """The requests of a session. What is not answered in time is sent again."""

    def __init__(self, registrations: Registrations, settings: ClientSettings) -> None:
        self._registrations = registrations
        self._settings = settings
        self._sent: dict[int, _Request] = {}
        self._answered: list[_Request] = []
        self._number = 0

    @property
    def next_number(self) -> int:
        """The number of the next request of any kind; it is used by `numbered`."""
        return self._number + 1

    def numbered(self) -> int:
        """Returns the number of a request that is sent now."""
        self._number += 1
        return self._number

    @property
    def is_full(self) -> bool:
        """True if no further request may be sent before an answer."""
        return len(self._sent) >= REQUESTS_UNANSWERED_MAX

    def sent(self, number: int, operations: dict[Interest, Operation], now: float) -> None:
        """Notes that these operations were sent under this number."""
        self._sent[number] = _Request(OperationStage.SENT, operations, now + self._settings.request_timeout_s)

    def of(self, number: int) -> dict[Interest, Operation] | None:
        """Returns the operations of an unanswered request."""
        request = self._sent.get(number)
        return None if request is None else request.operations

    def take(self, number: int) -> dict[Interest, Operation] | None:
        """Handles an answer. Returns the operations; None: nothing of this number was asked."""
        request = self._sent.pop(number, None)
        return None if request is None else request.operations

    def await_versions(self, operations: dict[Interest, Operation], now: float) -> None:
        """Limits the time in which versions of these objects must come. Answers of queries may take long: CaughtUp is
        their limit.
        """
        names: dict[Interest, Operation] = {one: two for one, two in operations.items() if isinstance(one, str)}
        if names:
            due = now + self._settings.request_timeout_s
            self._answered.append(_Request(OperationStage.CONFIRMED, names, due))

    def caught_up(self) -> None:
        """Handles the end of catching up: what was confirmed before has come, or was lost."""
        self._answered.clear()

    def begin_sync(self) -> None:
        """Forgets all of them, because a reg-sync begins."""
        self._sent.clear()
        self._answered.clear()

    def tick(self, now: float, overdue: Callable[[float], float]) -> None:
        """Sends again what is overdue. `overdue` returns when a request is, by its `due`."""
        for number, request in list(self._sent.items()):
            if overdue(request.due) <= now:
                del self._sent[number]
                self._registrations.resend(request.operations, request.stage)
        while self._answered and overdue(self._answered[0].due) <= now:
            request = self._answered.pop(0)
            self._registrations.resend(request.operations, request.stage)

    @property
    def due(self) -> list[float]:
        """The times by which answers must come."""
        return [request.due for request in (*self._sent.values(), *self._answered[:1])]
