"""Records of shares as a dump has them: what was durable of a share, one state after the other."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from coldnotify_checker.histories import Record

HELD, BEGUN, DYING = 1, 2, 3


class SeenHandOut(NamedTuple):
    """A message that was handed out and is not settled, as a record has it."""

    offset: int
    number: int
    attempts: int
    state: int
    """0: nobody has it; else HELD, BEGUN or DYING."""
    member: str
    """The client's name in its group; empty: nobody has it."""
    reason: int
    """Not 0: it is a notice of what is missing."""

    @property
    def in_hand(self) -> bool:
        """Returns true if a member has it."""
        return self.state in (HELD, BEGUN)


@dataclass(frozen=True, slots=True)
class SeenShare:
    """A share's state."""

    record: Record
    epoch: int
    base: int
    firsts: tuple[int, ...]
    """The first offsets of runs of what is settled above the base."""
    lasts: tuple[int, ...]
    handed: dict[int, SeenHandOut]

    @property
    def at_us(self) -> int:
        """When it was written, as `t` of an event: nothing that follows from it left before."""
        return self.record.timestamp * 1_000

    def is_settled(self, offset: int) -> bool:
        """Returns true if the message at this offset is settled. A run may span one that is in hand."""
        if offset <= self.base or offset in self.handed:
            return offset <= self.base
        place = bisect_right(self.firsts, offset)
        return place > 0 and offset <= self.lasts[place - 1]

    @property
    def pristine(self) -> bool:
        """Returns true if nothing was handed out yet: the share begins behind its base."""
        return not self.handed and not self.firsts


class ForgottenShare(NamedTuple):
    """A null: the share was forgotten."""

    record: Record


def seen_shares(records: Iterable[Record]) -> dict[str, list[SeenShare | ForgottenShare]]:
    """Returns what counts of the records of a topic of shares, by key, in order: not what a former owner wrote late."""
    found: dict[str, list[SeenShare | ForgottenShare]] = {}
    generations: dict[str, int] = {}
    for record in sorted(records, key=lambda one: (one.partition, one.offset)):
        if record.key is None:
            continue
        if record.value is None:
            found.setdefault(record.key, []).append(ForgottenShare(record))
            continue
        state = _seen(record)
        if state is None or record.value.get("generation", 0) < generations.get(record.key, 0):
            continue
        generations[record.key] = record.value.get("generation", 0)
        found.setdefault(record.key, []).append(state)
    return found


def _seen(record: Record) -> SeenShare | None:
    """Returns a record's state; None if it is not one of a share, because foreign writers write other values, too."""
    value = record.value
    if not isinstance(value, dict) or not _are_numbers(value.get(name, 0) for name in ("generation", "epoch", "base")):
        return None
    settled, members, handed = (value.get(name, []) for name in ("settled", "members", "handed_out"))
    if not (isinstance(settled, list) and isinstance(members, list) and isinstance(handed, list)):
        return None
    if not _are_numbers(settled) or not all(isinstance(one, list) and _are_numbers(one) for one in handed):
        return None
    try:
        table = {one.offset: one for one in _handed(handed, members)}
    except (IndexError, ValueError):
        return None
    base = value.get("base", -1)
    return SeenShare(record, value.get("epoch", 0), base, tuple(settled[::2]), tuple(settled[1::2]), table)


def _handed(handed: list[list[int]], members: list[Any]) -> Iterator[SeenHandOut]:
    for offset, number, attempts, state, *more in handed:
        member = more[0] if more else -1
        name = str(members[member]) if member >= 0 else ""
        yield SeenHandOut(offset, number, attempts, state, name, more[2] if len(more) > 2 else 0)


def _are_numbers(values: Iterable[Any]) -> bool:
    return all(type(value) is int for value in values)
