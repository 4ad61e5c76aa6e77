"""What a client claims to be registered for, and what the matcher has agreed to.

A claim is a digest and, before the first Opened, the Hello's pending operations. The matcher's digest is known once it
has answered. They may come to differ: the client says another digest in a Ping, or another matcher has taken over with
what it found of the registrations. Then the matcher is asked (CheckDigest) at the first moment that suits.

`TABLE` says how a claim stands after each event. Everything that changes a claim is in this file.
"""

from dataclasses import dataclass
from enum import IntEnum, auto
from typing import NamedTuple

from coldnotify_schemas.wire_pb2 import Interest


class Standing(IntEnum):
    """How a claim stands."""

    OPEN = auto()
    """The matcher has not said its digest."""
    AGREED = auto()
    DOUBTED = auto()
    """Another matcher has taken over since it was agreed. The client's next Ping is passed on."""
    DISPUTED = auto()
    """The client has said another digest than was agreed, and no operation came since: it is to be checked."""
    DOUBTED_AND_SAID = auto()
    """Doubted, and the client has said its digest since: it is to be checked, even if that is the same."""


class ClaimEvent(IntEnum):
    """What a claim hears of."""

    OPENED = auto()
    """In sync: the matcher says its digest."""
    ANSWERED = auto()
    """Register or Unregister: the matcher says its digest."""
    CHECKED = auto()
    """CheckDigest: both are the same."""
    OTHER_MATCHER = auto()
    SAID_SAME = auto()
    """The client said the agreed digest."""
    SAID_OTHER = auto()
    OUTDATED = auto()
    """What the client said is a thing of the past: an operation came, or it is asked for its whole set."""


TABLE: dict[Standing, dict[ClaimEvent, Standing]] = {
    Standing.OPEN: {
        ClaimEvent.OPENED: Standing.AGREED,
        ClaimEvent.ANSWERED: Standing.AGREED,
        ClaimEvent.OTHER_MATCHER: Standing.OPEN,
        ClaimEvent.OUTDATED: Standing.OPEN,
    },
    Standing.AGREED: {
        ClaimEvent.OPENED: Standing.AGREED,
        ClaimEvent.ANSWERED: Standing.AGREED,
        ClaimEvent.CHECKED: Standing.AGREED,
        ClaimEvent.OTHER_MATCHER: Standing.DOUBTED,
        ClaimEvent.SAID_SAME: Standing.AGREED,
        ClaimEvent.SAID_OTHER: Standing.DISPUTED,
        ClaimEvent.OUTDATED: Standing.AGREED,
    },
    Standing.DOUBTED: {
        ClaimEvent.OPENED: Standing.AGREED,
        ClaimEvent.ANSWERED: Standing.DOUBTED,
        ClaimEvent.CHECKED: Standing.AGREED,
        ClaimEvent.OTHER_MATCHER: Standing.DOUBTED,
        ClaimEvent.SAID_SAME: Standing.DOUBTED_AND_SAID,
        ClaimEvent.SAID_OTHER: Standing.DOUBTED_AND_SAID,
        ClaimEvent.OUTDATED: Standing.DOUBTED,
    },
    Standing.DISPUTED: {
        ClaimEvent.OPENED: Standing.DISPUTED,
        ClaimEvent.ANSWERED: Standing.DISPUTED,
        ClaimEvent.CHECKED: Standing.AGREED,
        ClaimEvent.OTHER_MATCHER: Standing.DOUBTED_AND_SAID,
        ClaimEvent.SAID_SAME: Standing.AGREED,
        ClaimEvent.SAID_OTHER: Standing.DISPUTED,
        ClaimEvent.OUTDATED: Standing.AGREED,
    },
    Standing.DOUBTED_AND_SAID: {
        ClaimEvent.OPENED: Standing.DISPUTED,
        ClaimEvent.ANSWERED: Standing.DOUBTED_AND_SAID,
        ClaimEvent.CHECKED: Standing.AGREED,
        ClaimEvent.OTHER_MATCHER: Standing.DOUBTED_AND_SAID,
        ClaimEvent.SAID_SAME: Standing.DOUBTED_AND_SAID,
        ClaimEvent.SAID_OTHER: Standing.DOUBTED_AND_SAID,
        ClaimEvent.OUTDATED: Standing.DOUBTED,
    },
}
"""What is not in here does not happen: it raises KeyError."""
_TO_CHECK = frozenset({Standing.DISPUTED, Standing.DOUBTED_AND_SAID})
_DOUBTED = frozenset({Standing.DOUBTED, Standing.DOUBTED_AND_SAID})


class PendingOperations(NamedTuple):
    """Operations that the matcher is still to be told of."""

    register: tuple[str, ...] = ()
    unregister: tuple[str, ...] = ()
    interests: tuple[Interest, ...] = ()
    unregister_interests: tuple[int, ...] = ()
    """By their hashes."""


_NO_OPERATIONS = PendingOperations()


@dataclass(slots=True)
class Claim:
    """The claim of one session."""

    said: int
    """The digest that the client said last."""
    pending: PendingOperations = _NO_OPERATIONS
    """What the Hello says, until the Opened."""
    agreed: int | None = None
    """The digest that the matcher said last."""
    standing: Standing = Standing.OPEN

    @property
    def to_check(self) -> bool:
        """The client has said a digest that the matcher is to be asked about."""
        return self.standing in _TO_CHECK

    @property
    def doubted(self) -> bool:
        """Another matcher has taken over since it was agreed."""
        return self.standing in _DOUBTED

    def digest(self, *, announced: bool) -> int:
        """The one to open the session with. An announced client may have said its own before operations came."""
        return self.said if not announced or self.to_check or self.agreed is None else self.agreed

    def say(self, digest: int) -> None:
        """The client said `digest` in a Ping. Before anything is agreed it says nothing new."""
        if self.agreed is None:
            return
        same = digest == self.agreed
        self._hear(ClaimEvent.SAID_SAME if same else ClaimEvent.SAID_OTHER)
        self.said = self.agreed if same else digest

    def review(self) -> bool:
        """Whether it is still to be checked: what was said may have been agreed to since."""
        if self.standing is Standing.DISPUTED and self.said == self.agreed:
            self._hear(ClaimEvent.SAID_SAME)
        return self.to_check

    def opened(self, digest: int) -> None:
        """The session is in sync."""
        self._hear(ClaimEvent.OPENED)
        self._agree(digest)
        self.pending = _NO_OPERATIONS

    def not_in_sync(self) -> None:
        """The client is asked for its whole set."""
        self._hear(ClaimEvent.OUTDATED)
        self.pending = _NO_OPERATIONS

    def answered(self, digest: int) -> None:
        """Register or Unregister was done. Of a doubted claim the digest is that of what another matcher has found: to
        open the session with it would be to ask that matcher whether it agrees with itself."""
        self._hear(ClaimEvent.ANSWERED)
        if not self.doubted:
            self._agree(digest)

    def checked(self, digest: int) -> None:
        """CheckDigest was answered: both are the same."""
        self._hear(ClaimEvent.CHECKED)
        self._agree(digest)

    def outdated(self) -> None:
        """An operation of the client makes the digest that it said a thing of the past; its next Ping says another."""
        self._hear(ClaimEvent.OUTDATED)

    def other_matcher(self) -> None:
        """Registrations can be lost without notice only where they are loaded."""
        self._hear(ClaimEvent.OTHER_MATCHER)

    def _agree(self, digest: int) -> None:
        # Mostly it is what the client said: one number for both is 36 bytes less a session.
        self.agreed = self.said if digest == self.said else digest

    def _hear(self, event: ClaimEvent) -> None:
        self.standing = TABLE[self.standing][event]
