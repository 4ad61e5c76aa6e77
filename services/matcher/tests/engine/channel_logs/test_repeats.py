"""Repeats: whoever follows the log finds the same ones as who reads a block of it once more."""

from random import Random

from coldnotify_matcher.engine.channel_logs.repeats import Marks, Repeats, repeats_among
from coldnotify_schemas.channels import MessageHeaders
from coldnotify_schemas.protocol import REPEATS_KNOWN_OFFSETS


def test_the_last_offset_that_counts() -> None:
    known = Repeats(0)
    said = MessageHeaders(id="i")

    assert not known.note("d/g/a", said, 0, 0)
    assert not known.note("d/g/b", said, 1, 0)
    assert known.note("d/g/a", said, REPEATS_KNOWN_OFFSETS, 0)
    assert not known.note("d/g/a", said, 2 * REPEATS_KNOWN_OFFSETS + 1, 0)
    assert REPEATS_KNOWN_OFFSETS in known


def test_blocks_find_what_was_found_live() -> None:
    random = Random(1)
    known = Repeats(0)
    log = [
        (offset * 3, f"d/g/{random.randrange(3)}", MessageHeaders(id=random.choice(["", "i", "j"])))
        for offset in range(8000)
    ]
    live = {offset for offset, key, headers in log if known.note(key, headers, offset, 0)}
    found: set[int] = set()
    before: list[Marks] = []
    for place in range(0, len(log), 500):
        more, marks = repeats_among(log[place : place + 500], before)
        found |= more
        before.append(marks)

    assert found == live
    assert all(offset in known for offset in live)


def test_of_very_many_the_older_ones_are_forgotten() -> None:
    known = Repeats(0)
    for offset in range(10):
        known.note("d/g/a", MessageHeaders(moved=b"1@1"), offset, 0)
    known.forget_older()

    assert known.known_from == 5


def test_repeats_are_freed_once_if_their_originals_are_removed() -> None:
    known = Repeats(0)
    said = [MessageHeaders(id=id_) for id_ in "ab"]
    for offset, one in enumerate([*said, *said, *said]):  # at 2 and 3 repeats of 0 and 1, at 4 and 5 of these
        known.note("d/g/c", one, offset, 0)

    assert known.take_freed(1) == [("d/g/c", 2)]
    assert known.take_freed(1) == []
    assert [offset for offset in range(6) if offset in known] == [3, 4, 5]
    assert known.take_freed(3) == [("d/g/c", 3), ("d/g/c", 4)]
    assert not known.note("d/g/c", said[0], 6, 5)
    assert known.note("d/g/c", said[1], 7, 5)


def test_a_repeat_that_was_removed_is_freed_if_its_original_was() -> None:
    """It may have been sent after the original was removed: who missed that has missed it, too."""
    known = Repeats(0)
    for offset in range(2):
        known.note("d/g/c", MessageHeaders(id="a"), offset, 0)

    assert known.take_freed(2) == [("d/g/c", 1)]
