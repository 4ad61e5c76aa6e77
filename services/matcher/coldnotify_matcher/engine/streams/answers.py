"""Answers: the members of queries, and objects, that a session is owed whatever its cursor says.

The answer to one query is owed, then told, over as many pages as it takes, then ended. `TABLE` says how its stages
follow each other. Beside them stands what the client is still to be told of sets whose changes since its cursor are not
known any more. Everything that changes a session's answers is in this file.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from enum import IntEnum, auto

from coldnotify_matcher.engine.objects import Obj


class AnswerStage(IntEnum):
    """The stage of the answer to one query."""

    OWED = auto()
    """Nothing of it was told in this session's row of pages."""
    TOLD = auto()
    """Part of it was."""
    ENDED = auto()
    """All of it was, or its client holds the same members, or the query is gone."""


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
    """The query was not registered before: it is refused, should it have too many members."""
    held: int | None = None
    """The digest of the members that the client holds: if it fits, none is told. None: it does not say."""
    reached: str = ""
    """The members up to this name have been told, as of `at` or later."""
    at: int | None = None
    """The offset up to which changes are in the answer; None: it has not begun."""
    stage: AnswerStage = AnswerStage.OWED
    names: list[str] = field(default_factory=list)
    """Those still to be told, the first one last."""

    @property
    def begun(self) -> bool:
        """Part of it was told."""
        return self.stage is AnswerStage.TOLD

    def knows(self, name: str, since: int) -> bool:
        """The client was told this member, which is one since this offset. Those that came since it began come behind
        it."""
        return self.begun and name <= self.reached and self.at is not None and since <= self.at

    def settle_new(self) -> None:
        """The query is not refused."""
        self.new = False

    def restart(self) -> None:
        """It begins with the first member, whatever its client says to have reached."""
        self.reached, self.at = "", None

    def date(self, offset: int) -> None:
        """Changes up to this offset are in it, unless it has begun."""
        if self.at is None:
            self.at = offset

    def doubt_held(self) -> None:
        """The members are told, whatever the client says that it holds."""
        self.held = None

    def begin(self, members: Iterable[str]) -> None:
        """Members go into a page: those above the name that was reached."""
        self._move(AnswersEvent.BEGUN)
        self.names = sorted((name for name in members if name > self.reached), reverse=True)

    def pass_on(self) -> None:
        """The next member is in the page, or is none any more."""
        self.reached = self.names.pop()

    def lose(self) -> None:
        """Pages may be lost: what was told of it is told again."""
        was_begun = self.begun
        self._move(AnswersEvent.LOST)
        if was_begun:
            self.restart()

    def end(self) -> None:
        """Nothing of it is owed any more."""
        self._move(AnswersEvent.ENDED)

    def _move(self, event: AnswersEvent) -> None:
        self.stage = TABLE[self.stage][event]


@dataclass(slots=True, eq=False)
class Answers:
    """All answers that one session is owed."""

    objects: dict[Obj, None] = field(default_factory=dict)
    """Objects whose newest version is to be told whatever the cursor says, and whoever published it."""
    owed: dict[int, Answer] = field(default_factory=dict)
    """By hash: queries whose members are all to be told. The first of them is being told."""
    begun: frozenset[int] = frozenset()
    """By hash: queries of whose answers its client was told that they begin. It then forgets what it has said to have
    reached, and may have said so before it heard."""
    answered_at: dict[int, int] = field(default_factory=dict)
    """By hash: queries that were answered since the session began to be caught up, and up to which offset what changes
    in their sets has been told since."""
    says_sets: bool = False
    """It is not known what has changed in one of its sets since its cursor: the last page says their digest."""
    unsaid: bool = False
    """Its client is still to hear of that before its cursor passes."""
    doubted: frozenset[int] = frozenset()
    """By hash: queries of which it has heard so, and which were not answered since."""

    def begin(self, objects: Iterable[Obj]) -> None:
        """A row of pages begins, with an answer for each of these objects."""
        self.says_sets = self.unsaid = False
        self.doubted = frozenset()
        if self.answered_at:
            self.answered_at = {}
        self.objects = dict.fromkeys(objects)
        for answer in self.owed.values():
            answer.lose()

    def owe(self, hash_: int, answer: Answer) -> None:
        """This query is owed this answer."""
        self.owed[hash_] = answer

    def owe_all(self, hashes: Iterable[int]) -> None:
        """The client knows nothing: all its queries are owed an answer. What it says that it holds counts."""
        for hash_ in hashes:
            if hash_ not in self.owed:
                self.owed[hash_] = Answer(new=False)

    def told(self, obj: Obj) -> None:
        """The object's newest version is in a page."""
        self.objects.pop(obj, None)

    def told_all_objects(self) -> None:
        """The last page has left: what is owed no answer any more was registered for no more."""
        self.objects = {}

    def keep(self, hashes: Collection[int]) -> None:
        """The client is registered for these alone."""
        self.begun = self.begun.intersection(hashes)

    def first(self) -> tuple[int, Answer]:
        """The one that is being told."""
        return next(iter(self.owed.items()))

    def note_begun(self, hash_: int) -> None:
        """Its client is told that this answer begins."""
        self.begun |= {hash_}

    def drop(self, hash_: int) -> None:
        """This answer ends without its members: the query is gone or refused, or its client holds the same ones."""
        self.owed.pop(hash_).end()

    def end(self, hash_: int) -> None:
        """All members were told. What has changed since the answer began is told as if the cursor stood there."""
        at = self.owed[hash_].at
        assert at is not None, "it has begun"
        self.drop(hash_)
        self.doubted -= {hash_}
        self.answered_at[hash_] = min(at, self.answered_at.get(hash_, at))

    def told_up_to(self, offset: int) -> None:
        """All that it lacks up to this offset has been told, by whichever query."""
        self.answered_at = {hash_: max(at, offset) for hash_, at in self.answered_at.items()}

    def told_changes(self) -> None:
        """All that has changed in sets since their answers is told."""
        self.answered_at.clear()

    def note_unknown(self, hashes: Collection[int]) -> None:
        """What has changed in the sets of these queries since the cursor is not known."""
        self.says_sets |= bool(hashes)
        self.unsaid = any(hash_ not in self.doubted for hash_ in hashes)

    def say_unknown(self, queries: Iterable[int]) -> None:
        """Its client is told so, of all its queries."""
        self.unsaid = False
        self.doubted = frozenset(queries)

    def known_up_to(self, hash_: int, cursor: int) -> int | None:
        """The offset up to which its client knows this query's set, while it is caught up from this cursor; None: it
        was told that nobody knows."""
        return None if hash_ in self.doubted else self.answered_at.get(hash_, cursor)
