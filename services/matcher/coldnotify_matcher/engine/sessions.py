"""Sessions: one connection of a client, as the matcher follows it."""

from dataclasses import dataclass, field
from enum import Enum

from coldnotify_schemas.interests import Interest

from coldnotify_matcher.engine.channel_sessions import ChannelSession, SaidChannel
from coldnotify_matcher.engine.gateways import GatewayView
from coldnotify_matcher.engine.objects import Obj

NO_CURSOR = -1
NO_ASK = 0
"""Gateways count their askings from 1: an answer to this one is stale, so a live session is announced anew."""


class SessionState(Enum):
    """Where a session is, in the matcher's eyes."""

    UNSYNCED = "unsynced"
    """The digests differ: only the client's whole set helps."""
    CATCHING = "catching"
    """Pages are on their way to it."""
    LIVE = "live"
    """In the fan-out index."""


@dataclass(slots=True, eq=False)
class Answer:
    """How far the answer to one query has come."""

    new: bool
    """The query was not registered before: it is refused, should it have too many members."""
    held: int | None = None
    """The digest of what the client holds: if it fits, no member is told. None: it does not say."""
    reached: str = ""
    """The members up to this name have been told, as of `at` or later."""
    at: int | None = None
    """The offset up to which changes are in the answer; None: it has not begun."""
    begun: bool = False
    """Part of it was told in this session."""
    names: list[str] = field(default_factory=list)
    """Those still to be told, the first one last."""


@dataclass(slots=True, eq=False)
class Session:
    """The one session of a client that counts."""

    gateway: GatewayView
    number: int
    ask: int
    state: SessionState = SessionState.CATCHING
    indexed: bool = False
    """Its number stands in the fan-out index."""
    cursor: int = NO_CURSOR
    """What the pages sent so far cover."""
    page: int = 0
    paging: int = 0
    """Names the present row of pages: its gateway may have got the first pages of an earlier one."""
    page_bytes: int = 0
    """How large its pages are to be, as its gateway says; 0: it does not say."""
    descriptions: bool = False
    """Its client is told how the members of its queries are described."""
    owed: dict[Obj, None] = field(default_factory=dict)
    """Objects whose newest version is to be told whatever the cursor says, and whoever published it."""
    answers: "dict[int, Answer]" = field(default_factory=dict)
    """By hash: queries whose members are all to be told. The first of them is being told."""
    begun: set[int] = field(default_factory=set)
    """By hash: queries of whose answers its client was told that they begin. It then forgets what it has said to have
    reached, and may have said so before it heard."""
    answered_at: dict[int, int] = field(default_factory=dict)
    """By hash: queries that were answered since the session began to be caught up, and up to which offset what changes
    in their sets has been told since."""
    says_sets: bool = False
    """What changed in one of its sets since its cursor is not known: it is to be told their digest."""
    unsaid: bool = False
    """Its client is still to hear of that before its cursor passes."""
    doubted: frozenset[int] = frozenset()
    """By hash: queries of which it has heard so, and which were not answered since."""
    complete: int = NO_CURSOR
    """What its client may believe so far: `cursor`, but for what it must be told of its sets before."""
    announced_ms: int = 0
    """When its gateway last said that it is there; 0: a predecessor knew."""
    synced_chunks: int = 0
    synced: list[str | Interest | SaidChannel] = field(default_factory=list)
    """The parts of a reg-sync that are in; `half_sets.HalfSets` changes it and what belongs to it."""
    synced_bytes: int = 0
    """What these names take in memory."""

    channels: ChannelSession | None = None
    """None: its client is registered for none."""
    channels_in_order: bool = False
    """None of them is told before others, whatever the priority."""

    @property
    def shown_state(self) -> str:
        """For those who look in. One that a predecessor left is live, though it has had no pages of this matcher."""
        return SessionState.LIVE.value if self.indexed else self.state.value

    @property
    def in_an_index(self) -> bool:
        """Whether its number stands in an index, so that it must not come back."""
        return self.indexed or (self.channels is not None and bool(self.channels.joined))

    def told_up_to(self, offset: int) -> None:
        """All that it lacks up to this offset has been told, of whichever query."""
        self.answered_at = {hash_: max(at, offset) for hash_, at in self.answered_at.items()}
