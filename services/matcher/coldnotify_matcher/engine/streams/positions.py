"""Positions: how far a session has been told each of its channels, beside the cursor that they share.

Each channel has a position of its own in a row of pages: it may have been registered long ago, or just now, from the
log's beginning. What a client registers is *pending* until the row that contains it is over, *begun* until its gateway
has taken the last page of that row, and *joined* once its messages are told as they come. Everything that changes
positions is in this file.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(slots=True, eq=False)
class Positions:
    """The positions of one session's channels, by the channels' hashes."""

    at: dict[int, int] = field(default_factory=dict)
    """While it is caught up: all of the channel up to this offset has been told."""
    told: dict[int, int] = field(default_factory=dict)
    """In the same row of pages: what its client knows of the channel, which may be less: the last message, or where it
    began."""
    pending: dict[int, int] = field(default_factory=dict)
    """The offsets where channels begin that its client has said, and that were not caught up since."""
    lost: dict[int, None] = field(default_factory=dict)
    """Channels whose client is to be told that messages of another log may be missing."""
    lost_untold: dict[int, None] = field(default_factory=dict)
    """Those that the present row of pages is still to say so of."""
    begun: dict[int, int] = field(default_factory=dict)
    """As `pending`, of the last page. Its gateway may not have taken that: then it asks again by the same number, and
    its cursor does not say where these begin."""
    lost_told: dict[int, None] = field(default_factory=dict)
    """As `lost`, of the last page."""
    joined: set[int] = field(default_factory=set)
    """Channels whose messages it is told as they come."""
    void: bool = False
    """Its Open's cursor was one of another log, and its set is not in yet. What it says to begin with the beginning is
    to be told that messages may be missing."""

    def begin(self, registered: Mapping[int, int]) -> None:
        """A row of pages begins: from where its client said, or else from these offsets."""
        pending = {**self.begun, **self.pending}
        self.at = {hash_: pending.get(hash_, offset) for hash_, offset in registered.items()}
        self.told = dict(self.at)
        self.lost_untold = {**self.lost_told, **self.lost}

    def add(self, hash_: int, begin: int, *, under_way: bool) -> None:
        """A channel is told from `begin` on: with the next page of the row that is under way, or of the next row."""
        self.pending[hash_] = begin
        if under_way:
            self.tell(hash_, begin)
            if hash_ in self.lost:
                self.lost_untold[hash_] = None

    def remove(self, hash_: int) -> bool:
        """A channel is told no more. Returns whether its messages were told as they come."""
        for by_hash in (self.at, self.told, self.pending, self.begun, self.lost, self.lost_told, self.lost_untold):
            by_hash.pop(hash_, None)
        was_joined = hash_ in self.joined
        self.joined.discard(hash_)
        return was_joined

    def lose(self, hashes: Iterable[int]) -> None:
        """Messages of another log may be missing in these."""
        self.lost.update(dict.fromkeys(hashes))

    def tell(self, hash_: int, offset: int) -> None:
        """The channel's message at this offset is in a page, or that those up to it are missing."""
        self.at[hash_] = self.told[hash_] = offset

    def tell_lost(self, hash_: int) -> None:
        """A page says that messages of another log may be missing."""
        del self.lost_untold[hash_]

    def move_on(self, hashes: Iterable[int], offset: int) -> None:
        """All up to this offset has been told of these."""
        at = self.at
        for hash_ in hashes:
            if at[hash_] < offset:
                at[hash_] = offset

    def join(self, hash_: int) -> bool:
        """The channel's messages are told as they come. Returns whether they were not."""
        if hash_ in self.joined:
            return False
        self.joined.add(hash_)
        return True

    def sent_last(self) -> None:
        """The last page leaves: what its client has said is caught up, if its gateway takes it."""
        self.at, self.told = {}, {}
        self.begun.update(self.pending)
        self.lost_told.update(self.lost)
        self.pending, self.lost = {}, {}

    def taken_last(self) -> None:
        """Its gateway has taken the last page, if there was one: it asks again, from where its client is."""
        self.begun, self.lost_told = {}, {}

    def said_anew(self) -> None:
        """Its client says where its channels are, of all that are not where its cursor is."""
        self.pending, self.begun = {}, {}

    def opened(self, *, void: bool) -> None:
        """Its client says all again. `void`: offsets of another log."""
        self.void = void
        self.said_anew()
        self.lost, self.lost_told = {}, {}

    def said_whole_set(self) -> None:
        """Its client's whole set is in."""
        self.void = False
