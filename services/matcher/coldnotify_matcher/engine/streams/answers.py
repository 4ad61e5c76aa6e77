"""Answers: the members of queries, and objects, that a session is owed whatever its cursor.

The answer to one query is owed, then sent, over as many pages as it takes, then ended. `TABLE` contains the transitions
of its stages. Beside them this file keeps the notices about sets whose changes since the cursor are not known any more.
Everything that changes a session's answers is in this file.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from enum import IntEnum, auto

from coldnotify_matcher.engine.objects.objects import Obj


class AnswerStage(IntEnum):
    """The stage of the answer to one query."""

    OWED = auto()
    """No part of it was sent in this session's row of pages."""
    TOLD = auto()
    """A part of it was sent."""
    ENDED = auto()
    """The whole answer was sent, or its client holds the same members, or the query is gone."""


class AnswersEvent(IntEnum):
    """An event that moves one stage to another."""

    BEGUN = auto()
    """Members go into a page."""
    LOST = auto()
    """Pages may be lost: a row begins."""
    ENDED = auto()


TABLE: dict[AnswerStage, dict[AnswersEvent, AnswerStage]] = {
    AnswerStage.OWED: {
        AnswersEvent.BEGUN: AnswerStage.TOLD,
        AnswersEvent.LOST: AnswerStage.OWED,
        AnswersEvent.ENDED: AnswerStage.ENDED,
    },
    AnswerStage.TOLD: {AnswersEvent.LOST: AnswerStage.OWED, AnswersEvent.ENDED: AnswerStage.ENDED},
    AnswerStage.ENDED: {},
}
"""Any other transition raises KeyError."""


@dataclass(slots=True, eq=False)
class Answer:
    """The answer to one query."""

    new: bool
    """True if the query was not registered before: it is refused if it has too many members."""
    held: int | None = None
    """The digest of the members that the client holds: if it is the set's, none is sent. None: it does not say."""
    reached: str = ""
    """The members up to this name have been sent, as of `at` or later."""
    at: int | None = None
    """The offset up to which the answer contains changes; None: it has not begun."""
    stage: AnswerStage = AnswerStage.OWED
    names: list[str] = field(default_factory=list)
    """The names that are still to be sent, the first one last."""

    @property
    def begun(self) -> bool:
        """True if a part of it was sent."""
        return self.stage is AnswerStage.TOLD

    def knows(self, name: str, since: int) -> bool:
        """Returns true if the client was sent this member, which entered at `since`. Later members come after the
        answer."""
        return self.begun and name <= self.reached and self.at is not None and since <= self.at

    def settle_new(self) -> None:
        """Note that the query is not refused."""
        self.new = False

    def restart(self) -> None:
        """Begin with the first member, whatever part its client says to have reached."""
        self.reached, self.at = "", None

    def date(self, offset: int) -> None:
        """Note that it contains changes up to this offset, unless it has begun."""
        if self.at is None:
            self.at = offset

    def doubt_held(self) -> None:
        """Send the members, whatever digest the client holds."""
        self.held = None

    def begin(self, members: Iterable[str]) -> None:
        """Begin to put members into a page: those above the reached name."""
        self._move(AnswersEvent.BEGUN)
        self.names = sorted((name for name in members if name > self.reached), reverse=True)

    def pass_on(self) -> None:
        """Go on after a member that is in the page, or not a member any more."""
        self.reached = self.names.pop()

    def lose(self) -> None:
        """Send again what was sent of it, because pages may be lost."""
        was_begun = self.begun
        self._move(AnswersEvent.LOST)
        if was_begun:
            self.restart()

    def end(self) -> None:
        """End it: no part of it is owed any more."""
        self._move(AnswersEvent.ENDED)

    def _move(self, event: AnswersEvent) -> None:
        self.stage = TABLE[self.stage][event]


@dataclass(slots=True, eq=False)
class Answers:
    """All answers that one session is owed."""

    objects: dict[Obj, None] = field(default_factory=dict)
    """Objects whose newest version is owed whatever the cursor, and whoever published it."""
    owed: dict[int, Answer] = field(default_factory=dict)
    """By hash: queries whose members are all owed. The first of them is being sent."""
    begun: frozenset[int] = frozenset()
    """By hash: queries whose client has heard that their answer begins. It then forgets the part that it reported as
    reached, and may have reported it before it heard."""
    answered_at: dict[int, int] = field(default_factory=dict)
    """By hash: queries that were answered since the session began to be caught up, and the offset up to which changes
    of their sets have been sent since."""
    says_sets: bool = False
    """True if the changes of one of its sets since its cursor are not known: the last page contains their digest."""
    unsaid: bool = False
    """True if its client has still to hear of that before its cursor passes."""
    doubted: frozenset[int] = frozenset()
    """By hash: queries whose client has heard so, and which were not answered since."""

    def begin(self, objects: Iterable[Obj]) -> None:
        """Begin a row of pages, with an answer for each of these objects."""
        self.says_sets = self.unsaid = False
        self.doubted = frozenset()
        if self.answered_at:
            self.answered_at = {}
        self.objects = dict.fromkeys(objects)
        for answer in self.owed.values():
            answer.lose()

    def owe(self, hash_: int, answer: Answer) -> None:
        """Owe this query this answer."""
        self.owed[hash_] = answer

    def owe_all(self, hashes: Iterable[int]) -> None:
        """Owe all queries an answer, because the client knows nothing. The digests that it holds count."""
        for hash_ in hashes:
            if hash_ not in self.owed:
                self.owed[hash_] = Answer(new=False)

    def told(self, obj: Obj) -> None:
        """Note that the object's newest version is in a page."""
        self.objects.pop(obj, None)

    def told_all_objects(self) -> None:
        """Forget owed objects after the last page: those left over are not registered any more."""
        self.objects = {}

    def keep(self, hashes: Collection[int]) -> None:
        """Keep only queries that the client is registered for."""
        self.begun = self.begun.intersection(hashes)

    def first(self) -> tuple[int, Answer]:
        """Returns the answer that is being sent."""
        return next(iter(self.owed.items()))

    def note_begun(self, hash_: int) -> None:
        """Note that its client hears that this answer begins."""
        self.begun |= {hash_}

    def drop(self, hash_: int) -> None:
        """End this answer without its members: the query is gone or refused, or its client holds the same ones."""
        self.owed.pop(hash_).end()

    def end(self, hash_: int) -> None:
        """End an answer whose members were all sent. Changes since it began are sent as if the cursor was there."""
        at = self.owed[hash_].at
        assert at is not None, "it has begun"
        self.drop(hash_)
        self.doubted -= {hash_}
        self.answered_at[hash_] = min(at, self.answered_at.get(hash_, at))

    def told_up_to(self, offset: int) -> None:
        """Note that all missing entries up to this offset have been sent, by whichever query."""
        self.answered_at = {hash_: max(at, offset) for hash_, at in self.answered_at.items()}

    def told_changes(self) -> None:
        """Note that all changes of sets since their answers have been sent."""
        self.answered_at.clear()

    def note_unknown(self, hashes: Collection[int]) -> None:
        """Note that the changes of these queries' sets since the cursor are not known."""
        self.says_sets |= bool(hashes)
        self.unsaid = any(hash_ not in self.doubted for hash_ in hashes)

    def say_unknown(self, queries: Iterable[int]) -> None:
        """Note that its client hears so, for all its queries."""
        self.unsaid = False
        self.doubted = frozenset(queries)

    def known_up_to(self, hash_: int, cursor: int) -> int | None:
        """Returns the offset up to which its client knows this query's set, while it is caught up from this cursor;
        None: it has heard that the changes are not known."""
        return None if hash_ in self.doubted else self.answered_at.get(hash_, cursor)
