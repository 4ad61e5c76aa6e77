"""Blocks that were read once more: what a summary says has nothing of somebody's channels is skipped, turn by turn."""

from coldnotify_matcher.engine.channel_logs.kept_blocks import Blocks, Summary, channels_of
from coldnotify_matcher.engine.interests.by_channel import channel_mark
from coldnotify_streams.core.partition_turns import never
from coldnotify_testkit.counted_turns import turn_of

MINE = frozenset(map(channel_mark, ("d/g/mine", "d/g/also")))


def blocks(*channels: str) -> Blocks:
    """Ten offsets each, with messages of one channel."""
    found = Blocks(1 << 20, 1 << 20)
    for number, channel in enumerate(channels):
        found.add(Summary(10 * number, 10 * number + 10, channels_of([f"d/g/{channel}"])), None)
    return found


def test_all_that_has_nothing_is_skipped_at_once() -> None:
    assert blocks("a", "b", "c", "mine", "d").nothing_of(MINE, 3, never) == 30
    assert blocks("mine", "a").nothing_of(MINE, 3, never) == 3
    assert blocks("a", "b").nothing_of(MINE, 0, never) == 20, "of what is behind them nothing is known"
    assert blocks().nothing_of(MINE, 7, never) == 7


def test_a_turn_that_is_over_comes_further_by_one() -> None:
    found, at, turns = blocks(*"abcdefgh", "also"), 0, 0
    while (following := found.nothing_of(MINE, at, turn_of(0))) != at:
        at, turns = following, turns + 1
    assert (at, turns) == (80, 8)
