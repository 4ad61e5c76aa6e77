"""Groups of entries in a page that only go together: a page ends between two of them, and a cursor stands between them.

Each entry has a span of offsets. The versions of a set have one offset, and so one span. Pure.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Generic, NamedTuple, TypeVar

from coldnotify_schemas import internal_pb2

T = TypeVar("T")


class WholeGroup(NamedTuple, Generic[T]):
    """Entries whose spans touch, in order."""

    entries: list[T]
    begin: int
    """The lowest offset of their spans: a cursor below it lacks all of them."""
    end: int
    """The highest one: a cursor at or above it lacks none."""


def whole_groups(entries: Iterable[T], span_of: Callable[[T], tuple[int, int]]) -> Iterator[WholeGroup[T]]:
    """Yields the groups in ascending order. `span_of`: the first and the last offset of an entry's span."""
    group: WholeGroup[T] | None = None
    for (begin, end), entry in sorted(((span_of(one), one) for one in entries), key=lambda pair: pair[0]):
        if group is not None and begin <= group.end:
            group.entries.append(entry)
            group = group._replace(end=max(group.end, end))
        else:
            if group is not None:
                yield group
            group = WholeGroup([entry], begin, end)
    if group is not None:
        yield group


def say_completeness(entries: list[internal_pb2.Newest], begin: int, end: int) -> None:
    """Have each entry of a group say how far its client is with it: up to the group's end with the last one."""
    for entry in entries[:-1]:
        entry.behind, entry.more = entry.offset - (begin - 1), True
    if entries[-1].offset > end:
        entries[-1].behind = entries[-1].offset - end
