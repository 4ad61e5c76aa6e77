"""Stream: which page is next, and that a row goes from one stage to the next."""

import pytest
from coldnotify_matcher.engine.streams.stream import NO_CURSOR, TABLE, FollowedEvent, FollowedStage, Stream

PAGING = 7


def begun(cursor: int = 3, after_page: int = 0) -> Stream:
    stream = Stream()
    stream.asked(1, page_bytes=100)
    stream.place(cursor)
    stream.begin(PAGING, after_page)
    return stream


def test_a_row_of_two_pages() -> None:
    stream = begun()
    assert (stream.stage, stream.under_way) == (FollowedStage.DUE, True)
    stream.cover(5)
    assert stream.send(whole=True) == 1
    assert (stream.stage, stream.complete, stream.under_way) == (FollowedStage.SENT, 5, True)
    assert stream.is_next(1, 1, PAGING)
    stream.next_page()
    assert stream.send_last(9) == 2
    assert (stream.stage, stream.cursor, stream.complete, stream.live) == (FollowedStage.LIVE, 8, 8, True)


@pytest.mark.parametrize(
    ("ask", "page", "paging"), [(2, 1, PAGING), (1, 2, PAGING), (1, 1, PAGING + 1), (1, 0, PAGING)]
)
def test_another_question_is_not_for_the_next_page(ask: int, page: int, paging: int) -> None:
    stream = begun()
    stream.send(whole=True)
    assert not stream.is_next(ask, page, paging)


def test_page_0_is_before_the_first_and_asks_for_a_row() -> None:
    assert not begun().is_next(1, 0, PAGING)


def test_a_page_that_tells_not_all_moves_the_cursor_and_not_what_its_client_may_believe() -> None:
    stream = begun()
    stream.cover(5)
    stream.send(whole=False)
    assert (stream.cursor, stream.complete) == (5, 3)


def test_a_cursor_never_goes_back_within_a_row() -> None:
    stream = begun(cursor=8)
    stream.cover(5)
    stream.send_last(4)
    assert stream.cursor == 8


def test_a_row_goes_on_behind_pages_of_a_predecessor() -> None:
    stream = begun(after_page=4)
    assert stream.send(whole=True) == 5


def test_what_lacks_nothing_is_said_by_another_page_once() -> None:
    stream = begun(cursor=NO_CURSOR)
    stream.join(9)
    assert (stream.live, stream.complete, stream.page) == (True, 8, 0)
    assert (stream.take_clean(), stream.take_clean()) == (True, False)


def test_the_epoch_is_said_once() -> None:
    stream = Stream()
    assert (stream.take_epoch(), stream.take_epoch()) == (True, False)
    stream.know_epoch(known=False)
    assert stream.take_epoch()


@pytest.mark.parametrize("stage", FollowedStage)
@pytest.mark.parametrize("event", FollowedEvent)
def test_any_other_transition_raises_key_error(stage: FollowedStage, event: FollowedEvent) -> None:
    stream = Stream(stage=stage)
    act = {
        FollowedEvent.BEGUN: lambda: stream.begin(PAGING, 0),
        FollowedEvent.NEXT: stream.next_page,
        FollowedEvent.PAGE: lambda: stream.send(whole=True),
        FollowedEvent.LAST_PAGE: lambda: stream.send_last(1),
        FollowedEvent.PAUSED: stream.pause,
    }[event]
    if event in TABLE[stage]:
        act()
        assert stream.stage is TABLE[stage][event]
    else:
        with pytest.raises(KeyError):
            act()
        assert stream.stage is stage


def test_every_stage_can_be_paused_and_only_a_row_that_began_becomes_live() -> None:
    assert all(TABLE[stage][FollowedEvent.PAUSED] is FollowedStage.PAUSED for stage in FollowedStage)
    assert [stage for stage in FollowedStage if FollowedStage.LIVE in TABLE[stage].values()] == [FollowedStage.DUE]
