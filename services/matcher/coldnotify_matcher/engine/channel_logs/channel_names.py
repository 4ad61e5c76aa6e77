"""Sets of a group's channels, by the offsets of their last messages: what filters and patterns of channels ask.

A set is made from the log's last offsets when it is first asked for, and grows with the first message of each channel:
then each pattern of the group is tried once. All that ask for the same share it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from coldnotify_schemas.interests import pattern_name
from coldnotify_schemas.protocol import PATTERN_NAMES_MAX

from coldnotify_matcher.engine.channel_logs.last_offsets import NONE, LastOffsets
from coldnotify_matcher.engine.interests.by_channel import channel_mark, key_of
from coldnotify_matcher.engine.interests.by_query.expressions import InvalidExpression, check_expression, finder_of
from coldnotify_matcher.engine.objects.offset_order import OffsetOrder

UNUSED_TICKS_MAX = 60
"""A set that nobody has asked for in so many ticks is dropped."""
STEPS_MAX = 2_000
"""Maximum of a pattern, as RE2 counts: as a query's."""
GROUP_STEPS_MAX = 200_000
"""Maximum of all patterns of a group that clients ask for: some 4,000 of 20 letters. The first message of a channel
tries them all, which takes 0.1 s at worst for a name of 40 letters."""


class ChannelSet:
    """Some channels of one group, by their keys."""

    __slots__ = ("_marks", "_order", "forgotten", "used")

    def __init__(self, found: Iterable[tuple[str, int]], forgotten: int) -> None:
        """`found`: keys of channels, and the offsets of their last messages."""
        self._order = OffsetOrder(found)
        self._marks: set[int] | None = None
        self.forgotten = forgotten
        """Channels that are not in it any more may have had messages up to this offset."""
        self.used = True

    def __len__(self) -> int:
        return len(self._order)

    def __contains__(self, key: str) -> bool:
        return key in self._order

    def __iter__(self) -> Iterator[str]:
        """Yields the keys."""
        return iter(self._order)

    @property
    def known(self) -> int | None:
        """The offset of the last message that is known; None: there is none."""
        return self._order.last

    @property
    def last(self) -> int:
        """The offset above which none of its channels has a message; -1: none ever had one."""
        known = self._order.last
        return self.forgotten if known is None else max(known, self.forgotten)

    @property
    def marks(self) -> set[int]:
        """The marks of its channels in summaries of blocks."""
        if self._marks is None:
            self._marks = set(map(channel_mark, self._order))
        return self._marks

    def ask(self) -> ChannelSet:
        """Note that it is used, and return it."""
        self.used = True
        return self

    def rest(self) -> None:
        """Note that nobody has used it since now."""
        self.used = False

    def above(self, offset: int) -> Iterator[str]:
        """Yields the keys of channels with messages above this offset. Nothing may be changed meanwhile."""
        return (key for key, _ in self._order.above(offset))

    def above_with_offsets(self, offset: int) -> Iterator[tuple[str, int]]:
        """Yields the same keys, each with the offset of its last message."""
        return self._order.above(offset)

    def put(self, key: str, offset: int) -> None:
        """Note that a channel that belongs to it has a message at this offset."""
        if offset <= self._order.offset_of(key, NONE):
            return
        if self._marks is not None and key not in self._order:
            self._marks.add(channel_mark(key))
        self._order.put(key, offset)

    def forget(self, key: str, offset: int) -> None:
        """Note that the log has no message of this channel any more, whose last one was at this offset."""
        if key in self._order:
            self._order.remove(key)
            self.forgotten = max(self.forgotten, offset)


class _Group:
    """The sets of one group."""

    __slots__ = ("by_expression", "everything", "finders", "of_key", "steps")

    def __init__(self, everything: ChannelSet) -> None:
        self.everything = everything
        """All channels of the group."""
        self.by_expression: dict[str, ChannelSet] = {}
        """By the expressions of patterns: channels whose names they are found in."""
        self.finders: dict[str, Callable[[str], bool]] = {}
        """By expression: says whether it is found in a name."""
        self.of_key: dict[str, tuple[str, ...]] = {}
        """By the key of each channel that patterns fit: their expressions."""
        self.steps = 0
        """The steps of all expressions together, as RE2 counts."""

    def add(self, expression: str, at: int) -> ChannelSet:
        """Make the set of a pattern. `at`: where names begin in keys."""
        try:
            finder, steps = finder_of(expression), check_expression(expression)
        except InvalidExpression:
            finder, steps = _fits_nothing, 0
        everything = self.everything
        fitting = (one for one in everything.above_with_offsets(NONE) if finder(one[0][at:]))
        found = ChannelSet(fitting, everything.forgotten)
        self.finders[expression], self.by_expression[expression] = finder, found
        self.steps += steps
        for key in found:
            self.of_key[key] = (*self.of_key.get(key, ()), expression)
        return found

    def put(self, key: str, offset: int, at: int) -> None:
        """Note that the channel of this key has a message at this offset."""
        if key not in self.everything and self.finders:
            name = key[at:]
            if fitting := tuple(one for one, finder in self.finders.items() if finder(name)):
                self.of_key[key] = fitting
        self.everything.put(key, offset)
        for expression in self.of_key.get(key, ()):
            self.by_expression[expression].put(key, offset)

    def forget(self, key: str, offset: int) -> None:
        """Note that the log has no message of this channel any more."""
        self.everything.forget(key, offset)
        for expression in self.of_key.pop(key, ()):
            self.by_expression[expression].forget(key, offset)

    def drop(self, expressions: Iterable[str]) -> None:
        """Drop the sets of these patterns."""
        for expression in expressions:
            found = self.by_expression.pop(expression)
            if self.finders.pop(expression) is not _fits_nothing:
                self.steps -= check_expression(expression)
            for key in found:
                if left := tuple(one for one in self.of_key[key] if one != expression):
                    self.of_key[key] = left
                else:
                    del self.of_key[key]


class ChannelNames:
    """The sets of one log."""

    def __init__(self, last: Callable[[], LastOffsets]) -> None:
        """`last`: returns the log's last offsets."""
        self._last = last
        self._groups: dict[str, _Group] = {}
        """By domain/group."""
        self._ticks = 0

    def of_group(self, group: str) -> ChannelSet:
        """Returns all channels of a group (domain/group)."""
        return self._group(group).everything.ask()

    def of_pattern(self, group: str, expression: str) -> ChannelSet:
        """Returns the channels of a group that a pattern fits; none, if RE2 does not understand the expression."""
        there = self._group(group)
        found = there.by_expression.get(expression)
        if found is None:
            found = there.add(expression, len(group) + 1)
        return found.ask()

    def why_not(self, group: str, expression: str) -> str:
        """Returns the reason why a client of the group cannot be newly registered for a pattern; "": it can."""
        try:
            steps = check_expression(expression)
        except InvalidExpression as error:
            return f"pattern: expected a regular expression as RE2 has it: {error}"
        if steps > STEPS_MAX:
            return f"pattern: takes {steps} steps (at most {STEPS_MAX} are allowed)"
        there = self._group(group)
        if expression not in there.by_expression and there.steps + steps > GROUP_STEPS_MAX:
            return (
                f"pattern: takes {steps} steps, other patterns of its group {there.steps} "
                f"(at most {GROUP_STEPS_MAX} are allowed)"
            )
        names = len(self.of_pattern(group, expression))
        return f"pattern: fits {names} channels (at most {PATTERN_NAMES_MAX} are allowed)" * (names > PATTERN_NAMES_MAX)

    def patterns_of(self, key: str) -> list[str]:
        """Returns the keys of the patterns that fit the channel of this key, as far as their sets are there."""
        if not self._groups:
            return []
        group = _group_of(key)
        there = self._groups.get(group)
        return [] if there is None else [key_of(group, pattern_name(one)) for one in there.of_key.get(key, ())]

    def note(self, key: str, offset: int) -> None:
        """Note that the channel of this key has a message at this offset."""
        if self._groups:
            group = _group_of(key)
            if (there := self._groups.get(group)) is not None:
                there.put(key, offset, len(group) + 1)

    def forget(self, gone: Iterable[tuple[str, int]]) -> None:
        """Note that the log has no message any more of these channels, whose last ones were at these offsets."""
        if self._groups:
            for key, offset in gone:
                if (there := self._groups.get(_group_of(key))) is not None:
                    there.forget(key, offset)

    def reload(self) -> None:
        """Make all sets again, because all last offsets are forgotten."""
        before, self._groups = self._groups, {}
        for group, there in before.items():
            for expression in there.by_expression:
                self.of_pattern(group, expression)

    def on_tick(self, heard: Callable[[str], bool]) -> None:
        """Drop sets that nobody asks for, as time passes. `heard`: says whether a pattern with this key has live
        sessions, which need its set."""
        self._ticks += 1
        if self._ticks % UNUSED_TICKS_MAX:
            return
        for group, there in list(self._groups.items()):
            sets = there.by_expression.items()
            there.drop([one for one, found in sets if not found.used and not heard(key_of(group, pattern_name(one)))])
            if not (there.by_expression or there.everything.used):
                del self._groups[group]
            for found in (there.everything, *there.by_expression.values()):
                found.rest()

    def _group(self, group: str) -> _Group:
        there = self._groups.get(group)
        if there is None:
            last = self._last()
            there = self._groups[group] = _Group(ChannelSet(last.offsets(f"{group}/"), last.forgotten))
        return there


def _fits_nothing(_: str) -> bool:
    return False


def _group_of(key: str) -> str:
    return key[: key.index("/", key.index("/") + 1)]
