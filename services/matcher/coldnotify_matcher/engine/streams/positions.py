"""Positions: a session's progress in each of its channels, beside the cursor that they share.

Each channel has its own position in a row of pages: it may have been registered long ago, or just now, from the log's
beginning. A registration is *pending* until the row that contains it is over, *begun* until its gateway has taken the
last page of that row, and *joined* once its messages are sent as they come. Everything that changes positions is in
this file.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(slots=True, eq=False)
class Positions:
    """The positions of one session's channels, by the channels' hashes."""

    at: dict[int, int] = field(default_factory=dict)
    """While it is caught up: all of the channel up to this offset has been sent."""
    told: dict[int, int] = field(default_factory=dict)
    """In the same row of pages: the place in the channel that its client knows, which may be lower: the last message,
    or its beginning."""
    pending: dict[int, int] = field(default_factory=dict)
    """The offsets at which channels begin, as its client said, and that were not caught up since."""
    lost: dict[int, None] = field(default_factory=dict)
    """Channels whose client has to hear that messages of another log may be missing."""
    lost_untold: dict[int, None] = field(default_factory=dict)
    """Lost channels that the present row of pages has still to report."""
    begun: dict[int, int] = field(default_factory=dict)
    """The `pending` of the last page. Its gateway may not have taken that: then it asks again by the same number, and
    its cursor does not show where these begin."""
    lost_told: dict[int, None] = field(default_factory=dict)
    """The `lost` of the last page."""
    joined: set[int] = field(default_factory=set)
    """Channels whose messages are sent as they come."""
    void: bool = False
    """True if its Open's cursor belonged to another log, and its set has not come yet. For channels in it that begin
    with the beginning, its client has to hear that messages may be missing."""

    def begin(self, registered: Mapping[int, int]) -> None:
        """Begin a row of pages: from the places that its client named, or else from these offsets."""
        pending = {**self.begun, **self.pending}
        self.at = {hash_: pending.get(hash_, offset) for hash_, offset in registered.items()}
        self.told = dict(self.at)
        self.lost_untold = {**self.lost_told, **self.lost}

    def add(self, hash_: int, begin: int, *, under_way: bool) -> None:
        """Add a channel from `begin` on: with the next page of the current row, or of the next row."""
        self.pending[hash_] = begin
        if under_way:
            self.tell(hash_, begin)
            if hash_ in self.lost:
                self.lost_untold[hash_] = None

    def remove(self, hash_: int) -> bool:
        """Remove a channel. Returns true if its messages were sent as they come."""
        for by_hash in (self.at, self.told, self.pending, self.begun, self.lost, self.lost_told, self.lost_untold):
            by_hash.pop(hash_, None)
        was_joined = hash_ in self.joined
        self.joined.discard(hash_)
        return was_joined

    def lose(self, hashes: Iterable[int]) -> None:
        """Note that messages of another log may be missing in these."""
        self.lost.update(dict.fromkeys(hashes))

    def tell(self, hash_: int, offset: int) -> None:
        """Note that a page contains the channel's message at this offset, or the notice that those up to it are
        missing."""
        self.at[hash_] = self.told[hash_] = offset

    def tell_lost(self, hash_: int) -> None:
        """Note that a page says that messages of another log may be missing."""
        del self.lost_untold[hash_]

    def move_on(self, hashes: Iterable[int], offset: int) -> None:
        """Note that all up to this offset has been sent for these."""
        at = self.at
        for hash_ in hashes:
            if at[hash_] < offset:
                at[hash_] = offset

    def join(self, hash_: int) -> bool:
        """Send the channel's messages as they come. Returns true if they were not sent so before."""
        if hash_ in self.joined:
            return False
        self.joined.add(hash_)
        return True

    def sent_last(self) -> None:
        """Note that the last page leaves: all that its client has said is caught up, if its gateway takes it."""
        self.at, self.told = {}, {}
        self.begun.update(self.pending)
        self.lost_told.update(self.lost)
        self.pending, self.lost = {}, {}

    def taken_last(self) -> None:
        """Note that its gateway has taken the last page, if there was one: it asks again, from its client's place."""
        self.begun, self.lost_told = {}, {}

    def said_anew(self) -> None:
        """Forget positions, because its client names them for all channels that are not at its cursor."""
        self.pending, self.begun = {}, {}

    def opened(self, *, void: bool) -> None:
        """Forget everything, because its client says all again. `void`: its offsets are those of another log."""
        self.void = void
        self.said_anew()
        self.lost, self.lost_told = {}, {}

    def said_whole_set(self) -> None:
        """Note that its client's whole set has come."""
        self.void = False
