"""A claim: the registrations that a client claims to have, and the digest that the matcher has agreed to.

A claim is a digest and, before the first Opened, the Hello's pending operations. The matcher's digest is known once it
has answered. The digests may come to differ: the client sends another digest in a Ping, or another matcher has taken
over with the registrations that it found. Then a CheckDigest is sent to the matcher at the first opportunity.

`TABLE` lists a claim's standing after each event. Everything that changes a claim is in this file.
"""

from dataclasses import dataclass
from enum import IntEnum, auto
from typing import NamedTuple

from coldnotify_schemas.wire_pb2 import Interest


class Standing(IntEnum):
    """The standings of a claim."""

    OPEN = auto()
    """The matcher has not sent its digest yet."""
    AGREED = auto()
    DOUBTED = auto()
    """Another matcher has taken over since the agreement. The digest in the client's next Ping is checked."""
    DISPUTED = auto()
    """The client has sent a digest that differs from the agreed one, and no operation since: it must be checked."""
    DOUBTED_AND_SAID = auto()
    """The claim is doubted, and the client has sent its digest since: it must be checked, even if it is the same."""


class ClaimEvent(IntEnum):
    """Events that change a claim's standing."""

    OPENED = auto()
    """An Opened in sync carries the matcher's digest."""
    ANSWERED = auto()
    """The answer to a Register or Unregister carries the matcher's digest."""
    CHECKED = auto()
    """CheckDigest found equal digests."""
    OTHER_MATCHER = auto()
    SAID_SAME = auto()
    """The client sent the agreed digest."""
    SAID_OTHER = auto()
    OUTDATED = auto()
    """The client's digest is outdated: it sent an operation, or must send its whole set."""


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
"""Any other transition raises KeyError."""
_TO_CHECK = frozenset({Standing.DISPUTED, Standing.DOUBTED_AND_SAID})
_DOUBTED = frozenset({Standing.DOUBTED, Standing.DOUBTED_AND_SAID})


class PendingOperations(NamedTuple):
    """Operations that the matcher does not know yet."""

    register: tuple[str, ...] = ()
    unregister: tuple[str, ...] = ()
    interests: tuple[Interest, ...] = ()
    unregister_interests: tuple[int, ...] = ()
    """Hashes of the interests to unregister."""


_NO_OPERATIONS = PendingOperations()


@dataclass(slots=True)
class Claim:
    """The claim of one session."""

    said: int
    """The digest that the client sent last."""
    pending: PendingOperations = _NO_OPERATIONS
    """The Hello's pending operations, until the Opened."""
    agreed: int | None = None
    """The digest that the matcher sent last."""
    standing: Standing = Standing.OPEN

    @property
    def to_check(self) -> bool:
        """Returns true if the matcher must check the client's digest."""
        return self.standing in _TO_CHECK

    @property
    def doubted(self) -> bool:
        """Returns true if another matcher has taken over since the agreement."""
        return self.standing in _DOUBTED

    def digest(self, *, announced: bool) -> int:
        """Returns the digest for an Open. For an announced session that is the agreed one, because operations may have
        outdated the client's."""
        return self.said if not announced or self.to_check or self.agreed is None else self.agreed

    def say(self, digest: int) -> None:
        """Handles the digest of a client's Ping. Before an agreement it is ignored, because it contains nothing new."""
        if self.agreed is None:
            return
        same = digest == self.agreed
        self._hear(ClaimEvent.SAID_SAME if same else ClaimEvent.SAID_OTHER)
        self.said = self.agreed if same else digest

    def review(self) -> bool:
        """Returns true if the client's digest must still be checked. The matcher may have agreed to it since."""
        if self.standing is Standing.DISPUTED and self.said == self.agreed:
            self._hear(ClaimEvent.SAID_SAME)
        return self.to_check

    def opened(self, digest: int) -> None:
        """Agrees to the digest of an Opened in sync."""
        self._hear(ClaimEvent.OPENED)
        self._agree(digest)
        self.pending = _NO_OPERATIONS

    def not_in_sync(self) -> None:
        """Discards the pending operations, because the client must send its whole set."""
        self._hear(ClaimEvent.OUTDATED)
        self.pending = _NO_OPERATIONS

    def answered(self, digest: int) -> None:
        """Agrees to the digest in the answer to a Register or Unregister. If the claim is doubted, the digest is
        ignored: another matcher computed it from the registrations that it found, and an Open with that digest would
        only ask that matcher to agree with itself."""
        self._hear(ClaimEvent.ANSWERED)
        if not self.doubted:
            self._agree(digest)

    def checked(self, digest: int) -> None:
        """Agrees to the digest, because CheckDigest found both equal."""
        self._hear(ClaimEvent.CHECKED)
        self._agree(digest)

    def outdated(self) -> None:
        """Marks the client's digest as outdated by an operation; its next Ping carries another one."""
        self._hear(ClaimEvent.OUTDATED)

    def other_matcher(self) -> None:
        """Doubts the claim, because registrations can be lost unnoticed only when another matcher loads them."""
        self._hear(ClaimEvent.OTHER_MATCHER)

    def _agree(self, digest: int) -> None:
        # Mostly it equals the client's digest: sharing one number saves 36 bytes per session.
        self.agreed = self.said if digest == self.said else digest

    def _hear(self, event: ClaimEvent) -> None:
        self.standing = TABLE[self.standing][event]
