"""One query's members: as the application was told, as the service reported, and as an unfinished answer lists them.

Pure bookkeeping. The consequences of a change (who is told, what waits for it) are in `queries` and `telling`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from coldnotify_schemas.digest import digest

from coldnotify._core.delivery.floors import Floor
from coldnotify._core.delivery.member_descriptions import MemberDescriptions
from coldnotify._core.interests.interests import QueryInterest
from coldnotify._core.streams.frontier import Hold


class Reached(NamedTuple):
    """The progress of an answer: all members up to this name, as of this offset."""

    name: str
    offset: int


class MembersChange(NamedTuple):
    """Names that entered and left, for members callbacks."""

    added: frozenset[str]
    removed: frozenset[str]


@dataclass(frozen=True, kw_only=True, slots=True)
class KeptQuery:
    """The state of a query in the document."""

    members: frozenset[str] = frozenset()
    """The members that the application was told, once it is told `telling`."""
    telling: MembersChange | None = None
    """A change that members callbacks may have been told, and are told again."""
    followed: bool = False
    """True if no members callback has been told of any member, because there was none."""
    dropped: bool = False
    """Versions of members have been dropped, as nobody had subscribed to them."""
    entering: frozenset[str] = frozenset()
    """Members whose version at their entry may not have been told."""
    answer: frozenset[str] | None = None
    """The members of an answer that is not whole yet. Never there without `reached`."""
    reached: Reached | None = None
    """The part of an answer that need not be repeated."""
    descriptions: Mapping[str, bytes] | None = None
    """Members' descriptions that the application was told; None: it did not ask for them."""


@dataclass(slots=True, eq=False)
class Telling:
    """A change that members callbacks are told. It stays unchanged until all of them know it, or fail too often."""

    change: MembersChange
    revision: int
    """Revision of the document that first contained it; the callbacks wait until that is durable."""
    spared: set[int] = field(default_factory=set)
    """Subscribers that know it, or are told everything instead."""
    hold: Hold | None = None


class Membership:
    """The members of one query. Nothing here waits for anything."""

    __slots__ = (
        "answer",
        "answering",
        "candidate",
        "deferred",
        "descriptions",
        "doubtful",
        "dropped",
        "entering",
        "failures",
        "followed",
        "fresh",
        "given_up",
        "held",
        "hold",
        "in_question",
        "members",
        "missed",
        "parked",
        "query",
        "reached",
        "received",
        "registered",
        "resuming",
        "retry_at",
        "running",
        "said_held",
        "telling",
        "touched",
        "untold",
        "whole",
    )

    def __init__(self, query: QueryInterest, kept: KeptQuery, *, registered: bool) -> None:
        self.query = query
        # As in the document
        self.members = set(kept.members)
        self.telling = None if kept.telling is None else Telling(kept.telling, 0)
        self.followed = kept.followed
        self.dropped = kept.dropped
        self.answer = None if kept.answer is None else set(kept.answer)
        self.reached = kept.reached
        self.descriptions = None if kept.descriptions is None else MemberDescriptions(kept.descriptions)
        """None: the application does not ask for them."""
        # What the service said
        self.received = self.members | (self.answer or set())
        self.registered = registered
        """Frames speak of this registration. Before it is confirmed, they may speak of an earlier one."""
        self.answering = False
        """An answer is under way."""
        self.whole = False
        """No version of it was dropped."""
        self.resuming: Reached | None = None
        """The progress that the service was told in this session, until its answer begins."""
        self.held = False
        """True if only differences are requested: the digest of the present members is sent."""
        self.said_held = False
        self.given_up = False
        """The sets never fit in this session: the registration is not settled before the next one."""
        self.in_question = False
        """True if the service holds other sets, and must send them: until then it is not known why versions of members
        are told.
        """
        # What is to be told
        self.touched = set(self.received - self.members)
        """Names that may differ between `received` and `members`."""
        self.deferred: dict[str, Floor] = {}
        """Members that have left: that is told once this version of theirs is."""
        self.entering: set[str] = set()
        """Members whose version at their entry is still to be told. It may be older than the cursor: it comes because
        they entered, not because of its offset.
        """
        self.doubtful = set(kept.entering)
        """The value of `entering` before a restart, until they come again. A service that does not know who entered
        does not send them again, although it has the same members.
        """
        self.missed: set[str] = set()
        """Members that have left, which is still to be told, and got versions since that only others were told."""
        self.untold: set[str] = set()
        """Members with a version that must be told before the registration is settled."""
        self.candidate: tuple[Reached, set[str]] | None = None
        """Becomes `reached` once versions of these members are told."""
        self.hold: Hold | None = None
        """The cursor's hold for what is touched."""
        self.fresh: set[int] = set()
        """Members subscribers that came later: they are told all members first."""
        self.running = False
        self.failures = 0
        self.retry_at: float | None = None
        self.parked = False

    @property
    def kept(self) -> KeptQuery:
        """For the document."""
        resumable = self.reached is not None and self.answer is not None
        return KeptQuery(
            members=frozenset(self.members),
            telling=None if self.telling is None else self.telling.change,
            followed=self.followed,
            dropped=self.dropped,
            entering=frozenset(self.entering | self.doubtful | self.missed),
            answer=frozenset(self.answer) if resumable and self.answer is not None else None,
            reached=self.reached if resumable else None,
            descriptions=None if self.descriptions is None else dict(self.descriptions.told),
        )

    @property
    def undescribed(self) -> bool:
        """True if descriptions are requested, and one of a member never came."""
        return self.descriptions is not None and self.descriptions.lack(self.received)

    @property
    def digest(self) -> int:
        """The digest of the members, as the service reported them."""
        return digest(self.received)

    def concerns(self, name: str) -> bool:
        """Returns true if the object's versions are told because of this query."""
        return name in self.received or name in self.deferred

    def is_entering(self, name: str) -> bool:
        """Returns true if a members callback must still be told that the object has entered."""
        if self.telling is not None and name in self.telling.change.added:
            return True
        return name not in self.members and name in self.received

    # What the service says

    def enter(self, name: str, *, answer: bool) -> bool:
        """The object is a member. Whether the application has not heard of it as one."""
        if answer and self.resuming is not None:
            self.resume_answer()
        if self.answer is not None:
            self.answer.add(name)
        self.deferred.pop(name, None)
        self.received.add(name)
        if name in self.members:
            is_new = name in self.missed or name in self.doubtful or (answer and self.dropped)
            self.missed.discard(name)
            return is_new
        self.touched.add(name)
        return True

    def leave(self, name: str, newest: Floor | None) -> bool:
        """The object is not a member any more. `newest`: a version of it that must be told before. Returns true if it
        was a member.
        """
        if self.answer is not None:
            self.answer.discard(name)
        if name not in self.received:
            return False
        self.received.remove(name)
        self.entering.discard(name)
        self.doubtful.discard(name)
        if name in self.members:
            self.touched.add(name)
            if newest is not None:
                self.deferred[name] = newest
        return True

    def begin_answer(self) -> None:
        """An answer begins, whatever came of one before."""
        self.answering = self.whole = True
        self.answer = set()
        self.resuming = self.candidate = self.reached = None

    def resume_answer(self) -> None:
        """An answer continues after what was reached."""
        self.answering = self.whole = True
        self.resuming = None

    def end_answer(self) -> set[str]:
        """The answer is complete. Returns the members that it does not contain."""
        gone = self.received - (self.received if self.answer is None else self.answer)
        self.forget_answer()
        self.held = False
        return gone

    def forget_answer(self) -> None:
        """No answer is under way."""
        self.answering = self.said_held = False
        self.resuming = self.candidate = self.answer = self.reached = None

    def begin_session(self) -> None:
        """Begins a session: answers in progress are repeated, after what was reached."""
        self.answering = self.said_held = self.given_up = False
        self.resuming = self.candidate = None
        if self.reached is None:
            self.answer = None

    # What is told

    def next_change(self) -> tuple[MembersChange, set[str]]:
        """Returns the next change for members callbacks, which `members` includes from here on; and the objects that
        left.
        """
        if not self.followed:
            return self._catch_up()
        # Nobody has been told anything.
        _, gone = self._catch_up()
        self.followed = False
        return MembersChange(frozenset(self.members), frozenset()), gone

    def follow(self) -> set[str]:
        """Follows the members without a callback. Returns the objects that left."""
        change, _ = self._catch_up()
        self.followed = True
        return set(change.removed)

    def _catch_up(self) -> tuple[MembersChange, set[str]]:
        added = {name for name in self.touched if name in self.received and name not in self.members}
        removed = {name for name in self.touched if name in self.members and not self.concerns(name)}
        self.members |= added
        self.members -= removed
        self.missed -= removed
        self.touched = set(self.deferred)
        return MembersChange(frozenset(added), frozenset(removed)), removed
