"""Interests by filter: the filters of one client whose set is kept here, because the client keeps nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from sys import intern

from coldnotify_schemas.filters import FilterTrie, fits, no_local_in, retain_handling_in
from coldnotify_schemas.interests import Interest, Kind, filter_hash
from coldnotify_schemas.matcher_state import StoredInterest, StoredMissed, UnreleasedRecord
from coldnotify_schemas.wire_pb2 import INTEREST_FILTER, LOST
from coldnotify_schemas.wire_pb2 import Interest as SaidInterest

from coldnotify_matcher.engine.interests.by_channel import NO_EPOCH

TOLD_BY_CURSOR = -1
"""The position of a filter, if the cursor alone says what the client was told."""
NOTHING_UNRELEASED: dict[int, UnreleasedRecord] = {}
"""Shared by all clients that publish nothing with QoS 2; nothing is ever put into it."""
_FEW = 8
"""Number of filters that are tried one by one in less time than a trie of them is made."""


class RegisteredFilter:
    """One filter of one client."""

    __slots__ = (
        "bucket",
        "channels_position",
        "epoch",
        "hash",
        "identifier",
        "missed",
        "options",
        "owed",
        "position",
        "text",
    )

    def __init__(self, text: str, bucket: int, options: int = 0, identifier: int = 0) -> None:
        self.text = intern(text)
        self.hash = filter_hash(text)
        self.bucket = bucket
        """Number of the bucket that contains it."""
        self.options = options
        """The byte of options as in SUBSCRIBE of MQTT 5.0."""
        self.identifier = identifier
        """Its Subscription Identifier; 0: none."""
        self.position = TOLD_BY_CURSOR
        """The client was told what it fits up to this offset of the objects, or did not ask for it."""
        self.epoch = 0
        """Epoch of the objects topic that the position belongs to."""
        self.channels_position = TOLD_BY_CURSOR
        """It begins with messages above this offset of the channels' log, in the session that registers it."""
        self.owed = False
        """True if the client has not acknowledged the answer to it."""
        self.missed: StoredMissed | None = None
        """The offsets between which its messages may be missing, until its client has acknowledged one that says so."""

    @property
    def retain_handling(self) -> int:
        """0: it is answered always; 1: if it is new; 2: never."""
        return retain_handling_in(self.options)

    @property
    def no_local(self) -> bool:
        """True if the client is not told by it what it published itself."""
        return no_local_in(self.options)

    def said(self) -> SaidInterest:
        """Returns it as it was registered."""
        return SaidInterest(kind=INTEREST_FILTER, text=self.text, options=self.options, identifier=self.identifier)

    def placed(self, position: int, epoch: int) -> None:
        """Note that the client was told, or did not ask for, what it fits up to this offset."""
        self.position, self.epoch = position, epoch

    def begin_channels(self, position: int) -> None:
        """Note that it begins with messages above this offset of the channels' log."""
        self.channels_position = position

    def settle(self, position: int, epoch: int) -> None:
        """Note that the client has acknowledged the answer to it, which told it all up to this offset."""
        self.owed = False
        self.placed(position, epoch)

    def load(self, stored: StoredInterest) -> None:
        """Take over its place and what is owed from a record."""
        self.placed(stored.position, stored.epoch)
        self.owed = stored.owed
        self.missed = stored.missed

    def owe(self) -> None:
        """Note that the client is owed an answer to it."""
        self.owed = True

    def miss(self, after: int, before: int, reason: int) -> StoredMissed:
        """Note that messages between these offsets of the channels' log may be missing. Returns what its client is to
        be told: that, and what it was to be told already, as it has not heard a message since.
        """
        known = self.missed
        if known is not None and reason != LOST:
            if known.reason == LOST:
                reason = LOST
            after, before = min(after, known.after), max(before, known.before)
        self.missed = StoredMissed(before, reason, after)
        return self.missed

    def told_missed(self) -> None:
        """Note that its client knows what is missing."""
        self.missed = None

    def asked(self, options: int, identifier: int) -> bool:
        """Take over what its client says of it now. Returns true if that is another option or identifier."""
        same = (options, identifier) == (self.options, self.identifier)
        self.options, self.identifier = options, identifier
        return not same


def spare_own(fitting: Iterable[RegisteredFilter]) -> bool:
    """Returns true if a client is not told what it published itself, because none of these filters wants it."""
    return all(one.no_local for one in fitting)


class ByFilter(dict[int, RegisteredFilter]):
    """A client's interests by filter, by their hashes; and how long they are kept."""

    __slots__ = ("_stored", "_trie", "channels_cursor", "channels_epoch", "expiry_s", "protocol", "unreleased", "whole")

    def __init__(self) -> None:
        super().__init__()
        self.protocol = ""
        """The protocol that its client speaks, for operators; empty: its record is lost."""
        self.expiry_s = 0
        """Seconds that they outlive the session; 0: they end with it; EXPIRY_NEVER: they stay."""
        self.whole = False
        """True if none of them is lost, as far as is known."""
        self._stored: int | None = None
        """The digest in the session's record, until they agree with it."""
        self.channels_epoch = NO_EPOCH
        self.channels_cursor = TOLD_BY_CURSOR
        """The acknowledged offset in the log of channels of `channels_epoch`."""
        self.unreleased: dict[int, UnreleasedRecord] = NOTHING_UNRELEASED
        """Its client's publishes of QoS 2 that are not released, by packet identifier."""
        self._trie: FilterTrie[RegisteredFilter] | None = None
        """Made while pages are filled."""

    def keep(self, protocol: str, expiry_s: int) -> None:
        """Note how long its client wants them kept."""
        self.protocol, self.expiry_s = protocol, expiry_s

    def make_whole(self) -> None:
        """Note that they are all that the client is registered for."""
        self.whole, self._stored = True, None

    def expect(self, stored: int | None, digest: int) -> None:
        """Note the digest in the session's record; `digest`: theirs. They are whole once it is the same.

        A record that is ahead of them is of requests that are handled again.
        """
        self._stored = stored
        self.look(digest)

    def lose(self) -> None:
        """Note that they are lost: they are not whole before their client has heard of it."""
        self.whole, self._stored = False, None

    def begin_anew(self) -> None:
        """Note that their client has heard that nothing was present, and registers: all that it will have is here."""
        if self._stored is None:
            self.whole = True

    def stored_digest(self, digest: int) -> int | None:
        """Returns what the session's record says: their digest, or that which they are to have."""
        return digest if self.whole else self._stored

    def look(self, digest: int) -> None:
        """Note their digest after a request: whether they are what the session's record says."""
        if digest == self._stored:
            self.make_whole()

    def hold(self, one: UnreleasedRecord) -> None:
        """Hold a PUBLISH of QoS 2, in place of one of its identifier."""
        if self.unreleased is NOTHING_UNRELEASED:
            self.unreleased = {}
        self.unreleased[one.identifier] = one

    def release(self, identifier: int) -> None:
        """Hold it no more."""
        self.unreleased.pop(identifier, None)

    def add(self, one: RegisteredFilter) -> None:
        """Add a new filter."""
        self[one.hash] = one
        self._trie = None

    def remove(self, one: RegisteredFilter) -> None:
        """Remove an existing filter."""
        del self[one.hash]
        self._trie = None

    def place_channels(self, epoch: int, cursor: int) -> None:
        """Note the acknowledged offset in the log of channels of this epoch."""
        self.channels_epoch, self.channels_cursor = epoch, cursor

    def begin_epoch(self, epoch: int) -> None:
        """Forget positions of another epoch than this one."""
        for one in self.values():
            if one.epoch != epoch:
                one.placed(TOLD_BY_CURSOR, epoch)

    def fitting(self, name: str) -> list[RegisteredFilter]:
        """Returns the filters that fit this name."""
        if len(self) <= _FEW:
            return [one for one in self.values() if fits(one.text, name)]
        if self._trie is None:
            self._trie = FilterTrie()
            for one in self.values():
                self._trie.add(one.text, one)
        return self._trie.of(name)

    def rest(self) -> None:
        """Drop what was made to fill pages."""
        self._trie = None

    def interests(self) -> Iterator[Interest]:
        """Yields all of them, as values."""
        return (Interest(Kind.FILTER, one.text) for one in self.values())
