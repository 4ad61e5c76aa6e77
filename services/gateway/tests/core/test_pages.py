"""The pages of a catch-up, one by one: which is due, which was sent, how large the next one is."""

import pytest
from coldnotify_gateway.core.link_rate import PAGE_BYTES_FIRST
from coldnotify_gateway.core.pages import TABLE, Event, Pages, Stage

HIGH_WATER_BYTES = 64 * 1024


def stages(pages: Pages) -> tuple[int, int]:
    return pages.due, pages.sent


def test_every_stage_is_in_the_table_and_can_be_dropped():
    assert set(TABLE) == set(Stage)
    assert all(row[Event.DROPPED] is Stage.NONE for row in TABLE.values())


def test_one_page_after_the_other_is_due_and_sent():
    pages = Pages()
    assert stages(pages) == (0, 0)
    pages.begin()
    assert stages(pages) == (1, 0)
    pages.arrived(7, last=False)
    assert stages(pages) == (0, 1)
    pages.acknowledged()
    assert stages(pages) == (2, 0)
    pages.arrived(7, last=True)
    assert stages(pages) == (0, 0)


@pytest.mark.parametrize(
    ("before", "what"),
    [
        ([], lambda pages: pages.arrived(7, last=True)),
        ([], Pages.acknowledged),
        ([Pages.begin], Pages.begin),
        ([Pages.begin], Pages.acknowledged),
        ([Pages.begin, lambda pages: pages.arrived(7, last=False)], lambda pages: pages.arrived(7, last=False)),
    ],
)
def test_what_is_not_in_the_table_does_not_happen(before, what):
    pages = Pages()
    for step in before:
        step(pages)
    was = stages(pages)
    with pytest.raises(KeyError):
        what(pages)
    assert stages(pages) == was


def test_what_is_dropped_begins_with_the_first_page():
    pages = Pages()
    pages.begin()
    pages.arrived(7, last=False)
    pages.drop()
    assert stages(pages) == (0, 0)
    pages.begin()
    assert stages(pages) == (1, 0)


def test_a_link_that_was_never_measured_has_pages_of_the_first_size():
    pages = Pages()
    pages.leaves(0, HIGH_WATER_BYTES, 1.0)
    assert (pages.size_bytes, pages.reached(2.0)) == (PAGE_BYTES_FIRST, None)


def test_pages_are_as_large_as_the_link_was_measured_and_a_slow_one_is_full_earlier():
    pages = Pages()
    pages.leaves(10_000, HIGH_WATER_BYTES, 1.0)
    assert (pages.reached(5.0), pages.size_bytes) == (5_000, 5_000)
    pages.fills(HIGH_WATER_BYTES, 10.0)
    assert (pages.reached(12.0), pages.size_bytes) == (None, 5_000)


def test_a_connection_that_is_full_for_the_first_time_holds_the_high_water_mark():
    pages = Pages()
    pages.fills(HIGH_WATER_BYTES, 10.0)
    assert pages.reached(26.0) == HIGH_WATER_BYTES // 8
