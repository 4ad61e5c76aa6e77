import pytest
from coldnotify_testkit.waiting import until, wait_for


def test_waiting_ends_with_the_first_true_value_or_with_the_name_of_what_never_came() -> None:
    answers = iter([0, 0, 3])
    assert wait_for(lambda: next(answers)) == 3
    with pytest.raises(AssertionError, match=r"the impossible: not within 0\.1 s"):
        wait_for(lambda: False, "the impossible", 0.1)


async def test_so_it_does_on_an_event_loop() -> None:
    answers = iter([0, 0, 3])
    assert await until(lambda: next(answers)) == 3
    with pytest.raises(AssertionError, match=r"the impossible: not within 0\.1 s"):
        await until(lambda: False, "the impossible", 0.1)
