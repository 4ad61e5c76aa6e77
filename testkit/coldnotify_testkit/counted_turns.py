"""For tests: turns that are over by the number of askings, so that no test depends on speed."""

from collections.abc import Iterator
from itertools import chain, repeat

from coldnotify_streams.core.partition_turns import Spent


def turn_of(items: int) -> Spent:
    """A turn that is over once it was asked for so many times whether it is."""
    answers: Iterator[bool] = chain(repeat(False, items), repeat(True))
    return answers.__next__
