"""The wanted set and the pending operations, each with its progress."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from coldnotify_schemas.digest import MODULUS

from coldnotify._core.interests.interests import (
    ChannelInterest,
    FrameRoom,
    Interest,
    QueryInterest,
    ShareInterest,
    fit_in_frame,
    hash_of,
)
from coldnotify._core.journal import Journal


class OperationKind(Enum):
    """The kinds of operations."""

    REGISTER = "register"
    UNREGISTER = "unregister"


class OperationStage(Enum):
    """The progress of an operation in the present session."""

    UNSENT = "unsent"
    WITHHELD = "withheld"
    """The service does not know its kind: it waits for one that does. Queries and channels only."""
    SENT = "sent"
    CONFIRMED = "confirmed"
    """The service has it, durably; the object's newest version is to come. Registrations only."""
    ARRIVED = "arrived"
    """The newest version came; its callbacks have not returned (or failed too often). Registrations only."""


@dataclass(slots=True, eq=False)
class Operation:
    """A registration or unregistration that is not settled. Its identity is the Python object's own."""

    kind: OperationKind
    revision: int
    """The document's revision it first was in; it is sent once that is durable."""
    stage: OperationStage = OperationStage.UNSENT
    may_be_known: bool = True
    """False: the service surely has not been asked for it, in whatever session."""


class Registrations:
    """The wanted set, and at most one pending operation for each interest."""

    def __init__(
        self,
        journal: Journal,
        wanted: Iterable[str] = (),
        pending: Mapping[Interest, OperationKind] | Mapping[str, OperationKind] | None = None,
        queries: Iterable[QueryInterest] = (),
        channels: Iterable[ChannelInterest] = (),
        shares: Iterable[ShareInterest] = (),
    ) -> None:
        self._journal = journal
        self.wanted = set(wanted)
        """Names."""
        self.queries = set(queries)
        self.channels = set(channels)
        self.shares = set(shares)
        self._digests: dict[type, int] = {
            str: sum(map(hash_of, self.wanted)) % MODULUS,
            QueryInterest: sum(map(hash_of, self.queries)) % MODULUS,
            ChannelInterest: sum(map(hash_of, self.channels)) % MODULUS,
            ShareInterest: sum(map(hash_of, self.shares)) % MODULUS,
        }
        self._unknown: set[type] = set()
        """Kinds that the service does not know, by its last report: Query, Channel, Share."""
        self._withheld: set[type] = set()
        """Those of which it has reported so in this session."""
        self.pending: dict[Interest, Operation] = {
            interest: Operation(kind, journal.revision) for interest, kind in (pending or {}).items()
        }
        # Two views on `pending`, kept because sets of 10,000 must not be searched at each step.
        self._unsent = dict(self.pending)
        self._stages: Counter[OperationStage] = Counter({OperationStage.UNSENT: len(self.pending)})
        self._registers = sum(operation.kind is OperationKind.REGISTER for operation in self.pending.values())
        self.changes = 0
        """How often something has become pending, or is no longer."""

    @property
    def digest(self) -> int:
        """The digest of the wanted set, that is of the registrations after the pending operations; without queries, or
        channels, while the service knows none.
        """
        return sum(one for kind, one in self._digests.items() if kind not in self._unknown) % MODULUS

    def wants(self, interest: Interest) -> bool:
        """Returns true if it is in the wanted set."""
        if isinstance(interest, str):
            return interest in self.wanted
        if isinstance(interest, ShareInterest):
            return interest in self.shares
        return interest in (self.queries if isinstance(interest, QueryInterest) else self.channels)

    def knows(self, kind: type) -> bool:
        """Returns true if the service knows this kind, Query or Channel, by its last report."""
        return kind not in self._unknown

    # What the application asks for

    def register(self, interest: Interest) -> bool:
        """Registers an interest. Returns true if that is a change: what is wanted already is not requested again."""
        if self.wants(interest):
            return False
        if isinstance(interest, str):
            self.wanted.add(interest)
        elif isinstance(interest, QueryInterest):
            self.queries.add(interest)
        elif isinstance(interest, ShareInterest):
            self.shares.add(interest)
        else:
            self.channels.add(interest)
        self._digests[_kind(interest)] += hash_of(interest)
        may_be_known = interest in self.pending
        self._put(interest, OperationKind.REGISTER, self._first(interest), urgent=True)
        self.pending[interest].may_be_known = may_be_known
        return True

    def unregister(self, interest: Interest) -> bool:
        """Want this no more. Whether that is a change."""
        if not self._forget(interest):
            return False
        self._put(interest, OperationKind.UNREGISTER, self._first(interest), urgent=True)
        return True

    def owe(self, interest: Interest) -> None:
        """Makes a wanted interest a pending registration, so that it is answered again in the next session.

        For what was received and cannot be told now. In this session nothing is sent for it.
        """
        if self.wants(interest) and interest not in self.pending:
            self._put(interest, OperationKind.REGISTER, OperationStage.ARRIVED)

    def ask_again(self, interest: Interest) -> None:
        """Register for this again, as soon as that is durable."""
        if self.wants(interest):
            self._put(interest, OperationKind.REGISTER, self._first(interest), urgent=True)

    def expect(self, interest: QueryInterest | ChannelInterest) -> None:
        """The service is going to answer this without being asked."""
        if self.wants(interest) and interest not in self.pending:
            self._put(interest, OperationKind.REGISTER, OperationStage.CONFIRMED)

    def is_owed(self, interest: Interest) -> bool:
        """Returns true if it is a pending registration: then it need not hold the cursor."""
        operation = self.pending.get(interest)
        return operation is not None and operation.kind is OperationKind.REGISTER

    @property
    def owes(self) -> bool:
        """True if a registration is pending."""
        return self._registers > 0

    def is_awaited(self, name: str) -> bool:
        """Returns true if the object's registration is confirmed, and its answer is still to come."""
        return self.stage(name) is OperationStage.CONFIRMED

    def stage(self, interest: Interest) -> OperationStage | None:
        """Returns the stage of its pending operation."""
        operation = self.pending.get(interest)
        return None if operation is None else operation.stage

    @property
    def has_queries(self) -> bool:
        """True if a query is wanted, or to be unregistered."""
        return bool(self.queries) or any(isinstance(interest, QueryInterest) for interest in self.pending)

    @property
    def has_channels(self) -> bool:
        """True if a channel is wanted, or to be unregistered."""
        return bool(self.channels) or any(isinstance(interest, ChannelInterest) for interest in self.pending)

    @property
    def has_shares(self) -> bool:
        """True if a share is wanted, or to be unregistered."""
        return bool(self.shares) or any(isinstance(interest, ShareInterest) for interest in self.pending)

    @property
    def asks_for_kinds(self) -> bool:
        """True if a Hello without operations has to ask for the kinds that the service knows."""
        return self.has_queries or bool(self.pending and (self.has_channels or self.has_shares))

    # What a session does with it

    def begin_session(self, *, in_hello: bool = True) -> dict[Interest, Operation]:
        """A new session: nothing is sent yet. The operations for its Hello, as sent: all of them, or none if they are
        many, or not to be `in_hello`."""
        self._withheld.clear()
        for interest, operation in self.pending.items():
            self._move(interest, operation, OperationStage.UNSENT)
        if not in_hello or not fit_in_frame(self.pending):
            return {}
        for interest, operation in self.pending.items():
            self._move(interest, operation, OperationStage.SENT)
        return dict(self.pending)

    def know(self, kind: type, *, known: bool) -> None:
        """Notes whether the service knows this kind. If not, its operations wait for a service that does. So do all
        queries, even settled ones, because the cursor passes what this service does not tell. The cursor of channels
        stays where it is.
        """
        for kinds in (self._unknown, self._withheld):
            (kinds.discard if known else kinds.add)(kind)
        if kind is QueryInterest and not known:
            for query in sorted(self.queries - self.pending.keys()):
                self._put(query, OperationKind.REGISTER, OperationStage.WITHHELD)
        for interest, operation in self.pending.items():
            if isinstance(interest, kind):
                if not known:
                    self._move(interest, operation, OperationStage.WITHHELD)
                elif operation.stage is OperationStage.WITHHELD:
                    self._move(interest, operation, OperationStage.UNSENT)

    def begin_sync(self) -> dict[Interest, Operation]:
        """The service's set is to be replaced: the whole wanted set is pending now. All operations, as sent.

        The revision that this makes has to be durable before the first chunk leaves.
        """
        revision = self._journal.changed(urgent=True)
        # In one order, here and wherever a set is gone through: a run can be played again, whatever its hashes.
        others: tuple[Interest, ...] = (*sorted(self.queries), *sorted(self.channels), *sorted(self.shares))
        everything: tuple[Interest, ...] = (*sorted(self.wanted), *others)
        for interest in everything:
            if interest not in self.pending:
                self._add(interest, Operation(OperationKind.REGISTER, revision))
        for interest, operation in self.pending.items():
            self._move(
                interest, operation, OperationStage.SENT if self.knows(_kind(interest)) else OperationStage.WITHHELD
            )
        return {interest: one for interest, one in self.pending.items() if one.stage is OperationStage.SENT}

    def next_request(self) -> tuple[OperationKind, dict[Interest, Operation]] | None:
        """Operations of one kind for the next request, as sent; None if nothing is to be sent, or not durable yet."""
        kind: OperationKind | None = None
        request: dict[Interest, Operation] = {}
        room = FrameRoom()
        for interest, operation in self._unsent.items():
            if not self._journal.is_durable(operation.revision):
                continue
            kind = kind or operation.kind
            if operation.kind is kind:
                if not room.take(interest):
                    break
                request[interest] = operation
        if kind is None:
            return None
        for interest, operation in request.items():
            self._move(interest, operation, OperationStage.SENT)
        return kind, request

    def resend(self, operations: Mapping[Interest, Operation], stage: OperationStage) -> None:
        """Those of `operations` that are still pending and at `stage` are to be sent again."""
        for interest, operation in operations.items():
            if self.pending.get(interest) is operation and operation.stage is stage:
                self._move(interest, operation, OperationStage.UNSENT)

    def confirm(self, operations: Mapping[Interest, Operation]) -> list[Interest]:
        """The service has these, durably. Answers to operations that have been replaced change nothing.

        Those whose answers are to come now.
        """
        confirmed: list[Interest] = []
        for interest, operation in operations.items():
            if self.pending.get(interest) is operation and operation.stage is OperationStage.SENT:
                if operation.kind is OperationKind.REGISTER:
                    self._move(interest, operation, OperationStage.CONFIRMED)
                    confirmed.append(interest)
                else:
                    self._remove(interest)
                    self._journal.changed()
        return confirmed

    def refuse(self, interest: Interest, operations: Mapping[Interest, Operation]) -> bool:
        """The service refused this one of `operations`. Whether it has left the wanted set for that."""
        operation = operations.get(interest)
        if (
            operation is None
            or self.pending.get(interest) is not operation
            or operation.kind is not OperationKind.REGISTER
        ):
            return False
        self._forget(interest)
        self._remove(interest)
        self._journal.changed()
        return True

    def refuse_later(self, query: QueryInterest) -> bool:
        """The service refused this query after it had taken its registration. Whether it has left the wanted set: one
        that was sent since is answered by itself."""
        if query not in self.queries or self.stage(query) in (OperationStage.UNSENT, OperationStage.SENT):
            return False
        self._forget(query)
        self._remove(query)
        self._journal.changed()
        return True

    def arrived(self, interest: Interest) -> None:
        """A notification of this object came, or a query's whole answer: if the registration was confirmed before,
        this is what answers it."""
        operation = self.pending.get(interest)
        if operation is not None and operation.stage is OperationStage.CONFIRMED:
            self._move(interest, operation, OperationStage.ARRIVED)

    def settle(self, interest: Interest) -> None:
        """All that came of it is applied: if the answer to its registration was among it, that is done."""
        operation = self.pending.get(interest)
        if operation is not None and operation.stage is OperationStage.ARRIVED:
            self._remove(interest)
            self._journal.changed()

    def unanswered(self, stage: OperationStage) -> dict[Interest, Operation]:
        """The operations at this stage."""
        if not self._stages[stage]:
            return {}
        return {interest: operation for interest, operation in self.pending.items() if operation.stage is stage}

    @property
    def all_confirmed(self) -> bool:
        """True if the service knows all operations: then the digest is the one it should have."""
        return not (self._stages[OperationStage.UNSENT] or self._stages[OperationStage.SENT])

    @property
    def all_arrived(self) -> bool:
        """True if every registration has been answered."""
        return self.all_confirmed and not (
            self._stages[OperationStage.CONFIRMED] or self._stages[OperationStage.WITHHELD]
        )

    # One interest

    def _forget(self, interest: Interest) -> bool:
        if not self.wants(interest):
            return False
        if isinstance(interest, str):
            self.wanted.remove(interest)
        elif isinstance(interest, QueryInterest):
            self.queries.remove(interest)
        elif isinstance(interest, ShareInterest):
            self.shares.remove(interest)
        else:
            self.channels.remove(interest)
        self._digests[_kind(interest)] -= hash_of(interest)
        return True

    def _first(self, interest: Interest) -> OperationStage:
        return OperationStage.WITHHELD if _kind(interest) in self._withheld else OperationStage.UNSENT

    def _put(self, interest: Interest, kind: OperationKind, stage: OperationStage, *, urgent: bool = False) -> None:
        self._remove(interest)
        self._add(interest, Operation(kind, self._journal.changed(urgent=urgent), stage))

    def _add(self, interest: Interest, operation: Operation) -> None:
        self.pending[interest] = operation
        self._stages[operation.stage] += 1
        self._registers += operation.kind is OperationKind.REGISTER
        self.changes += 1
        if operation.stage is OperationStage.UNSENT:
            self._unsent[interest] = operation

    def _remove(self, interest: Interest) -> None:
        operation = self.pending.pop(interest, None)
        if operation is not None:
            self._stages[operation.stage] -= 1
            self._registers -= operation.kind is OperationKind.REGISTER
            self.changes += 1
            self._unsent.pop(interest, None)

    def _move(self, interest: Interest, operation: Operation, stage: OperationStage) -> None:
        self._stages[operation.stage] -= 1
        self._stages[stage] += 1
        operation.stage = stage
        operation.may_be_known |= stage is OperationStage.SENT
        if stage is OperationStage.UNSENT:
            self._unsent[interest] = operation
        else:
            self._unsent.pop(interest, None)


def _kind(interest: Interest) -> type:
    return str if isinstance(interest, str) else type(interest)
