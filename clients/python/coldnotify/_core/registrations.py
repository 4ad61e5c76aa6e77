"""The wanted set and the operations that are pending: what is asked for, and how far the asking has come."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from coldnotify_schemas.digest import MODULUS, object_digest
from coldnotify_schemas.protocol import OBJECTS_PER_FRAME_MAX

from coldnotify._core.journal import Journal

"""Objects in one Register, Unregister or SyncChunk, and in a Hello: so says the protocol."""


class Kind(Enum):
    """What an operation does."""

    REGISTER = "register"
    UNREGISTER = "unregister"


class Stage(Enum):
    """How far an operation has come in the present session."""

    UNSENT = "unsent"
    SENT = "sent"
    CONFIRMED = "confirmed"
    """The service has it, durably; the object's newest version is to come. Registrations only."""
    ARRIVED = "arrived"
    """The newest version came; its callbacks have not returned (or failed too often). Registrations only."""


@dataclass(slots=True, eq=False)
class Operation:
    """A registration or unregistration that is not settled. Its identity is the Python object's own."""

    kind: Kind
    revision: int
    """The document's revision it first was in; it is sent once that is durable."""
    stage: Stage = Stage.UNSENT


class Registrations:
    """The wanted set, and at most one pending operation for each object."""

    def __init__(self, journal: Journal, wanted: Iterable[str] = (), pending: Mapping[str, Kind] | None = None) -> None:
        self._journal = journal
        self.wanted = set(wanted)
        self.digest = sum(map(object_digest, self.wanted)) % MODULUS
        """Of the wanted set, so of the registrations as they are after the pending operations."""
        self.pending = {name: Operation(kind, journal.revision) for name, kind in (pending or {}).items()}
        # Two views on `pending`, kept because sets of 10,000 must not be searched at each step.
        self._unsent = dict(self.pending)
        self._stages: Counter[Stage] = Counter({Stage.UNSENT: len(self.pending)})

    # What the application asks for

    def register(self, name: str) -> bool:
        """Want this object. Whether that is a change: an object that is wanted already is not asked for again."""
        if name in self.wanted:
            return False
        self.wanted.add(name)
        self.digest = (self.digest + object_digest(name)) % MODULUS
        self._put(name, Kind.REGISTER, Stage.UNSENT, urgent=True)
        return True

    def unregister(self, name: str) -> bool:
        """Want this object no more. Whether that is a change."""
        if not self._forget(name):
            return False
        self._put(name, Kind.UNREGISTER, Stage.UNSENT, urgent=True)
        return True

    def owe(self, name: str) -> None:
        """Make a wanted object a pending registration, so that it is answered again in the next session.

        For what was received and cannot be told now. In this session nothing is sent for it.
        """
        if name in self.wanted and name not in self.pending:
            self._put(name, Kind.REGISTER, Stage.ARRIVED)

    def is_owed(self, name: str) -> bool:
        """Whether the object is a pending registration: then it need not hold the cursor."""
        operation = self.pending.get(name)
        return operation is not None and operation.kind is Kind.REGISTER

    # What a session does with it

    def begin_session(self) -> dict[str, Operation]:
        """A new session: nothing is sent yet. The operations for its Hello, as sent: all of them, or none if they are
        many."""
        for name, operation in self.pending.items():
            self._move(name, operation, Stage.UNSENT)
        if len(self.pending) > OBJECTS_PER_FRAME_MAX:
            return {}
        for name, operation in self.pending.items():
            self._move(name, operation, Stage.SENT)
        return dict(self.pending)

    def begin_sync(self) -> dict[str, Operation]:
        """The service's set is to be replaced: the whole wanted set is pending now. All operations, as sent.

        The revision that this makes has to be durable before the first chunk leaves.
        """
        revision = self._journal.changed(urgent=True)
        for name in self.wanted:
            if name not in self.pending:
                self._add(name, Operation(Kind.REGISTER, revision))
        for name, operation in self.pending.items():
            self._move(name, operation, Stage.SENT)
        return dict(self.pending)

    def next_request(self) -> tuple[Kind, dict[str, Operation]] | None:
        """Operations of one kind for the next request, as sent; None if nothing is to be sent, or not durable yet."""
        kind: Kind | None = None
        request: dict[str, Operation] = {}
        for name, operation in self._unsent.items():
            if not self._journal.is_durable(operation.revision):
                continue
            kind = kind or operation.kind
            if operation.kind is kind:
                request[name] = operation
                if len(request) == OBJECTS_PER_FRAME_MAX:
                    break
        if kind is None:
            return None
        for name, operation in request.items():
            self._move(name, operation, Stage.SENT)
        return kind, request

    def resend(self, operations: Mapping[str, Operation], stage: Stage) -> None:
        """Those of `operations` that are still pending and at `stage` are to be sent again."""
        for name, operation in operations.items():
            if self.pending.get(name) is operation and operation.stage is stage:
                self._move(name, operation, Stage.UNSENT)

    def confirm(self, operations: Mapping[str, Operation]) -> None:
        """The service has these, durably. Answers to operations that have been replaced change nothing."""
        for name, operation in operations.items():
            if self.pending.get(name) is operation and operation.stage is Stage.SENT:
                if operation.kind is Kind.REGISTER:
                    self._move(name, operation, Stage.CONFIRMED)
                else:
                    self._remove(name)
                    self._journal.changed()

    def refuse(self, name: str, operations: Mapping[str, Operation]) -> bool:
        """The service refused this one of `operations`. Whether the object has left the wanted set for it."""
        operation = operations.get(name)
        if operation is None or self.pending.get(name) is not operation or operation.kind is not Kind.REGISTER:
            return False
        self._forget(name)
        self._remove(name)
        self._journal.changed()
        return True

    def arrived(self, name: str) -> None:
        """A notification of this object came: if its registration was confirmed before, this is the answer."""
        operation = self.pending.get(name)
        if operation is not None and operation.stage is Stage.CONFIRMED:
            self._move(name, operation, Stage.ARRIVED)

    def settle(self, name: str) -> None:
        """All that came of this object is applied: if the answer to its registration was among it, that is done."""
        operation = self.pending.get(name)
        if operation is not None and operation.stage is Stage.ARRIVED:
            self._remove(name)
            self._journal.changed()

    def unanswered(self, stage: Stage) -> dict[str, Operation]:
        """The operations at this stage."""
        if not self._stages[stage]:
            return {}
        return {name: operation for name, operation in self.pending.items() if operation.stage is stage}

    @property
    def all_confirmed(self) -> bool:
        """Whether the service knows all operations: then the digest says what it should have."""
        return not (self._stages[Stage.UNSENT] or self._stages[Stage.SENT])

    @property
    def all_arrived(self) -> bool:
        """Whether every registration has been answered with the newest version."""
        return self.all_confirmed and not self._stages[Stage.CONFIRMED]

    # One object

    def _forget(self, name: str) -> bool:
        if name not in self.wanted:
            return False
        self.wanted.remove(name)
        self.digest = (self.digest - object_digest(name)) % MODULUS
        return True

    def _put(self, name: str, kind: Kind, stage: Stage, *, urgent: bool = False) -> None:
        self._remove(name)
        self._add(name, Operation(kind, self._journal.changed(urgent=urgent), stage))

    def _add(self, name: str, operation: Operation) -> None:
        self.pending[name] = operation
        self._stages[operation.stage] += 1
        if operation.stage is Stage.UNSENT:
            self._unsent[name] = operation

    def _remove(self, name: str) -> None:
        operation = self.pending.pop(name, None)
        if operation is not None:
            self._stages[operation.stage] -= 1
            self._unsent.pop(name, None)

    def _move(self, name: str, operation: Operation, stage: Stage) -> None:
        self._stages[operation.stage] -= 1
        self._stages[stage] += 1
        operation.stage = stage
        if stage is Stage.UNSENT:
            self._unsent[name] = operation
        else:
            self._unsent.pop(name, None)
