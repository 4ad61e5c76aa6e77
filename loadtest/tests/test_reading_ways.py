"""Ways of reading a log for clients that are behind: what each reads, and how long clients wait."""

import pytest
from coldnotify_loadtest.reading_ways import Away, DrawnLog, Followed, Reading, one_reader_a_client, two_caravans
from coldnotify_matcher.engine.channel_bounds import ChannelBounds

END = 10_000
PAGE = 450
BOUNDS = ChannelBounds(tail_messages_max=500)


@pytest.fixture(scope="module")
def drawn() -> DrawnLog:
    return DrawnLog(END, 100)


def away(drawn: DrawnLog, begins: int, channels: int) -> Away:
    some = range(channels)
    return Away(begins, some, drawn.offsets(some))


def test_what_is_drawn_is_counted_by_channel(drawn: DrawnLog) -> None:
    some = drawn.draw_channels(7)
    offsets = drawn.offsets(some)
    assert len(set(some)) == 7
    assert list(offsets) == [offset for offset, channel in enumerate(drawn.channel_at) if channel in some]
    assert drawn.above(some, -1) == len(offsets)
    assert drawn.above(some, offsets[2]) == len(offsets) - 3
    assert {50 <= drawn.draw_behind(100) <= 100 for _ in range(100)} == {True}
    assert drawn.draw_behind(10 * END) == END - 1


def test_readers_of_their_own_read_as_often_as_there_are_clients(drawn: DrawnLog) -> None:
    clients = [away(drawn, 4_500, 1)] * 3
    assert one_reader_a_client(END, clients, PAGE) == Reading(3 * 5_500, [16, 17, 18])


def test_caravans_read_once_for_all_and_split_where_clients_wait_less(drawn: DrawnLog) -> None:
    together = two_caravans(END, [away(drawn, begins, 1) for begins in (1_000, 1_500, 2_500)], PAGE)
    assert together == Reading(9_000, [9] * 3)
    apart = two_caravans(END, [away(drawn, 9_500, 1), away(drawn, 1_000, 1)], PAGE)
    assert apart.records == 9_000 + 500
    assert sorted(apart.turns) == [2, 10]


def test_a_caravan_waits_until_pages_are_taken(drawn: DrawnLog) -> None:
    assert two_caravans(END, [away(drawn, 5_000, 100)], PAGE) == Reading(5_000, [5 * 3])


def test_blocks_serve_all_that_are_in_them_and_the_tail_is_not_read(drawn: DrawnLog) -> None:
    followed = Followed(drawn, BOUNDS, 100)
    one = followed.read([away(drawn, 5_000, 50)], PAGE * 10)
    assert one.records == 5_000
    assert followed.read([away(drawn, 5_000, 50)] * 20, PAGE * 10).records == 5_000
    assert followed.read([away(drawn, END - 500, 50)], PAGE * 10) == Reading(0, [1])
    # Who wants nothing of a block is not waited with.
    nothing = Away(0, [10**6], drawn.offsets([]))
    assert followed.read([nothing], PAGE) == Reading(0, [1])


def test_a_block_without_a_message_of_a_wanted_channel_is_not_read() -> None:
    drawn = DrawnLog(END, 20_000)
    offset = drawn.channel_at[3_333]
    rare = drawn.offsets([offset])
    reading = Followed(drawn, BOUNDS, 100).read([Away(0, [offset], rare)], PAGE)
    blocks = {one // 1_000 for one in rare if one < END - 500}
    assert reading.records == 1_000 * len(blocks)
    assert reading.turns == [len(blocks) + 1]
