"""Sets of a group's channels, against what the last offsets say."""

import re

import pytest
from coldnotify_matcher.engine.channel_logs.channel_names import UNUSED_TICKS_MAX, ChannelNames
from coldnotify_matcher.engine.channel_logs.last_offsets import LastOffsets
from coldnotify_matcher.engine.interests.by_channel import channel_mark, key_of
from coldnotify_schemas.interests import pattern_name
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


def test_a_set_grows_with_first_messages() -> None:
    bench = Bench()
    bench.note("d/g/a", 3)
    bench.note("d/g2/a", 4)
    found = bench.names.of_group("d/g")
    assert (list(found), found.last, found.marks) == (["d/g/a"], 3, {channel_mark("d/g/a")})

    bench.note("d/g/b", 5)
    bench.note("d/g/a", 2)
    assert (list(found.above(3)), found.last, len(found)) == (["d/g/b"], 5, 2)
    assert found.marks == {channel_mark("d/g/a"), channel_mark("d/g/b")}


def test_forgotten_channels_still_bound_the_last_message() -> None:
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
    alarms, tasks = bench.names.of_pattern("d/g", "^alarms/"), bench.names.of_pattern("d/g", "^tasks/")
    for _ in range(UNUSED_TICKS_MAX):
        bench.names.on_tick(_nobody)
    assert bench.names.of_group("d/g") is found
    alarms_key = key_of("d/g", pattern_name("^alarms/"))
    for _ in range(2 * UNUSED_TICKS_MAX):
        bench.names.on_tick(alarms_key.__eq__)
    bench.note("d/g/alarms/a", 7)
    bench.note("d/g/tasks/a", 8)
    assert (alarms.last, tasks.last) == (7, -1), "who hears it live needs it"
    assert bench.names.of_pattern("d/g", "^tasks/").last == 8
    for _ in range(2 * UNUSED_TICKS_MAX):
        bench.names.on_tick(_nobody)
    assert bench.names.of_group("d/g") is not found


def test_patterns_share_their_sets() -> None:
    bench = Bench()
    for offset, name in enumerate(("alarms/a/high", "alarms/a/low", "alarms/a/b/high", "tasks")):
        bench.note(f"d/g/{name}", offset)
    high = bench.names.of_pattern("d/g", "^alarms/[^/]*/high$")
    alarms = bench.names.of_pattern("d/g", "^alarms/")
    assert bench.names.of_pattern("d/g", "^alarms/") is alarms
    assert (list(high), high.last, len(alarms), alarms.last) == (["d/g/alarms/a/high"], 0, 3, 2)
    bench.note("d/g/alarms/new/high", 9)
    bench.note("d/g/alarms/a/high", 10)
    assert (list(high.above(0)), high.last) == (["d/g/alarms/new/high", "d/g/alarms/a/high"], 10)
    keys = [key_of("d/g", pattern_name(one)) for one in ("^alarms/[^/]*/high$", "^alarms/")]
    assert bench.names.patterns_of("d/g/alarms/new/high") == keys
    assert bench.names.patterns_of("d/g/tasks") == bench.names.patterns_of("d/g2/alarms/a/high") == []
    bench.forget_below(10)
    assert (list(alarms), alarms.last, alarms.known) == (["d/g/alarms/a/high"], 10, 10)
    bench.forget_below(99)
    assert (len(alarms), alarms.last, alarms.known) == (0, 10, None)


@pytest.mark.parametrize("offset", [4, 400])
def test_a_log_that_knows_nothing_more_keeps_its_patterns(offset: int) -> None:
    bench = Bench()
    bench.note("d/g/alarms/a", 3)
    assert bench.names.of_pattern("d/g", "^alarms/").last == 3
    bench.last.know_nothing_below(offset)
    bench.names.reload()
    bench.note("d/g/alarms/b", offset)
    found = bench.names.of_pattern("d/g", "^alarms/")
    assert (list(found), found.forgotten, found.last) == (["d/g/alarms/b"], offset - 1, offset)
    assert bench.names.patterns_of("d/g/alarms/b")


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("(", r"pattern: expected a regular expression as RE2 has it: missing \)"),
        (r"\pL\pL", r"pattern: takes \d+ steps \(at most 2000 are allowed\)"),
        ("^many/", r"pattern: fits 100001 channels \(at most 100000 are allowed\)"),
        ("^alarms/[^/]*/high$", "$"),
    ],
)
def test_refusals_name_the_reason(expression: str, reason: str) -> None:
    bench = Bench()
    if expression == "^many/":
        for number in range(100_001):
            bench.last.note(f"d/g/many/{number}", number)
    assert re.match(reason, bench.names.why_not("d/g", expression))


def test_the_patterns_of_a_group_have_room_together() -> None:
    bench = Bench()
    refused = [at for at in range(200) if bench.names.why_not("d/g", rf"\pL{at}") and bench.names.why_not("d/g", "a")]
    assert refused == [] or min(refused) > 100
    assert "other patterns of its group" in bench.names.why_not("d/g", r"\pL-new")
    assert not bench.names.why_not("d/g", r"\pL0"), "others have it already"
    assert not bench.names.why_not("d/g2", r"\pL-new")


def test_an_expression_that_re2_no_longer_takes_fits_nothing() -> None:
    bench = Bench()
    found = bench.names.of_pattern("d/g", "(")
    bench.note("d/g/(", 3)
    assert len(found) == 0


def _nobody(_: str) -> bool:
    return False
