"""A drawn log counts its messages by channel."""

from coldnotify_loadtest.drawn_log import DrawnLog

END = 10_000


def test_drawn_messages_are_counted_by_channel() -> None:
    drawn = DrawnLog(END, 100)
    some = drawn.draw_channels(7)
    wanted = [offset for offset, channel in enumerate(drawn.channel_at) if channel in some]
    assert len(set(some)) == 7
    assert drawn.above(some, -1) == len(wanted)
    assert drawn.above(some, wanted[2]) == len(wanted) - 3
    assert {50 <= drawn.draw_behind(100) <= 100 for _ in range(100)} == {True}
    assert drawn.draw_behind(10 * END) == END - 1
