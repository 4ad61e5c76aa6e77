"""Sets of a group's channels, against what the last offsets say."""

from coldnotify_matcher.engine.channel_logs.channel_names import UNUSED_TICKS_MAX, ChannelNames
from coldnotify_matcher.engine.channel_logs.last_offsets import LastOffsets
from coldnotify_matcher.engine.interests.by_channel import channel_mark
from coldnotify_schemas.matcher_state import CHANNEL_BUCKETS


class Bench:
    """The last offsets of a log, and its sets."""

    def __init__(self) -> None:
        self.last = LastOffsets()
        self.names = ChannelNames(lambda: self.last)

    def note(self, key: str, offset: int) -> None:
        """Note a message."""
        self.last.note(key, offset)
        self.names.note(key, offset)

    def forget_below(self, offset: int) -> None:
        """Forget channels, as retention does."""
        for index in range(CHANNEL_BUCKETS):
            self.names.forget(self.last.forget_below(offset, index))


def test_a_set_has_what_was_there_and_grows_with_first_messages() -> None:
    bench = Bench()
    bench.note("d/g/a", 3)
    bench.note("d/g2/a", 4)
    found = bench.names.of_group("d/g")
    assert (list(found), found.last, found.marks) == (["d/g/a"], 3, {channel_mark("d/g/a")})

    bench.note("d/g/b", 5)
    bench.note("d/g/a", 2)
    assert (list(found.above(3)), found.last, len(found)) == (["d/g/b"], 5, 2)
    assert found.marks == {channel_mark("d/g/a"), channel_mark("d/g/b")}


def test_what_is_forgotten_still_says_up_to_where_messages_were() -> None:
    bench = Bench()
    bench.note("d/g/a", 3)
    found = bench.names.of_group("d/g")
    bench.forget_below(9)
    assert (len(found), found.known, found.last) == (0, None, 3)
    assert Bench().names.of_group("d/g").last == -1

    later = ChannelNames(lambda: bench.last).of_group("d/g")
    assert later.last == 3, "who did not see which one it was assumes that it belongs here"


def test_a_set_that_nobody_asks_for_is_dropped() -> None:
    bench = Bench()
    found = bench.names.of_group("d/g")
    for _ in range(UNUSED_TICKS_MAX):
        bench.names.on_tick()
    assert bench.names.of_group("d/g") is found
    for _ in range(2 * UNUSED_TICKS_MAX):
        bench.names.on_tick()
    assert bench.names.of_group("d/g") is not found
