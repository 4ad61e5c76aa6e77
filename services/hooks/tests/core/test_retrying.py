import json

import pytest
from coldnotify_hooks.core.receiver_answers import Meaning, Reply
from coldnotify_hooks.core.retrying import GIVE_UP_S, GONE_APART_S, ITEMS_MAX, PAUSE_MAX_S, May, Retrying

NOW_S = 1_000_000_000.0
APPLIED, FAILED = Reply(Meaning.APPLIED, "status 200"), Reply(Meaning.FAILED, "status 500")
AWAY, GONE = Reply(Meaning.AWAY, "refused"), Reply(Meaning.GONE, "status 410")


class Hook:
    """A hook under a clock that the test moves."""

    def __init__(self):
        self.now_s, self.rules = NOW_S, Retrying()

    def may(self, item="a", what="1"):
        return self.rules.may(item, what, self.now_s)

    def call(self, answer, item="a", what="1"):
        assert self.may(item, what) is May.CALL
        return self.rules.on_reply(item, what, answer, self.now_s)

    def wait(self, item="a", what="1"):
        """Moves the clock until the item may be called, or is given up; returns the seconds."""
        began_s = self.now_s
        while self.may(item, what) is May.WAIT:
            self.now_s += 0.5
            assert self.now_s - began_s < 2 * GIVE_UP_S
        return self.now_s - began_s

    def succeed(self):
        """Another process goes on."""
        self.rules = Retrying(json.loads(json.dumps(self.rules.marks())))


@pytest.fixture
def hook():
    return Hook()


def test_a_failed_item_waits_longer_each_time_up_to_an_hour(hook):
    pauses = []
    for _ in range(15):
        hook.call(FAILED)
        pauses.append(hook.wait())
    assert pauses[:5] == [1, 2, 4, 8, 16]
    assert pauses[-1] == PAUSE_MAX_S
    assert pauses == sorted(pauses)


def test_an_item_that_failed_holds_up_no_other(hook):
    hook.call(FAILED, "a")
    assert hook.may("a") is May.WAIT
    assert hook.may("b") is May.CALL


def test_a_receiver_that_is_away_is_left_alone_for_all_items(hook):
    pauses = []
    for number in range(14):
        hook.call(AWAY, f"{number}")
        assert hook.may("other") is May.WAIT
        pauses.append(hook.wait("new"))
    assert pauses[:4] == [1, 2, 4, 8]
    assert pauses[-1] == PAUSE_MAX_S
    hook.call(APPLIED, "new")
    hook.call(AWAY, "new")
    assert hook.wait("new") == 1


def test_retry_after_is_obeyed(hook):
    hook.call(Reply(Meaning.AWAY, "status 429", 7200.0))
    assert hook.wait() == 7200
    hook.call(Reply(Meaning.AWAY, "status 429", 0.0))
    assert hook.may() is May.CALL


def test_an_item_is_given_up_after_a_day_and_its_next_version_is_not(hook):
    hook.call(FAILED)
    while hook.wait() is not None and hook.may() is May.CALL:
        hook.call(FAILED)
    assert hook.may() is May.GIVE_UP
    assert GIVE_UP_S <= hook.now_s - NOW_S < GIVE_UP_S + PAUSE_MAX_S
    assert hook.may(what="2") is May.CALL
    assert hook.rules.failing == 0


def test_items_behind_a_receiver_that_is_away_are_all_given_up_after_one_day(hook):
    items = [f"{number}" for number in range(20)]
    hook.call(AWAY, "first")
    assert {hook.may(item) for item in items} == {May.WAIT}
    hook.now_s += GIVE_UP_S
    assert {hook.may(item) for item in items} == {May.GIVE_UP}


def test_gone_twice_a_minute_apart_suspends(hook):
    hook.call(GONE)
    assert hook.wait("other") == GONE_APART_S
    assert not hook.rules.suspended
    assert hook.call(GONE)
    assert hook.rules.suspended
    hook.now_s += 10 * GIVE_UP_S
    assert hook.may("new") is May.WAIT


def test_gone_once_and_then_something_else_does_not(hook):
    hook.call(GONE)
    hook.wait()
    hook.call(FAILED)
    hook.wait()
    hook.call(GONE)
    assert not hook.rules.suspended


def test_the_next_caller_goes_on_where_the_last_one_was(hook):
    for _ in range(6):
        hook.call(FAILED)
        hook.wait()
    hook.call(FAILED)
    hook.succeed()
    assert hook.wait() == 64
    hook.call(GONE, "b")
    hook.succeed()
    hook.wait("b")
    hook.call(GONE, "b")
    hook.succeed()
    assert hook.rules.suspended
    assert hook.rules.last_words == "status 410"
    assert hook.may() is May.WAIT


def test_marks_are_stored_when_an_item_begins_or_ceases_to_fail_and_not_each_time(hook):
    assert hook.call(FAILED) is True
    hook.wait()
    assert hook.call(FAILED) is False
    hook.wait()
    assert hook.call(APPLIED) is True
    assert hook.call(APPLIED) is False


def test_remembered_items_have_a_bound(hook):
    for number in range(ITEMS_MAX + 10):
        hook.call(FAILED, f"{number}")
    assert hook.rules.failing == ITEMS_MAX
    assert hook.may("0") is May.CALL
    assert hook.may(f"{ITEMS_MAX}") is May.WAIT


def test_a_clock_that_was_set_back_leaves_nothing_waiting_for_it(hook):
    hook.call(FAILED)
    hook.now_s -= 86_400
    assert hook.may() is May.CALL


@pytest.mark.parametrize(
    "marks", [{"items": 3}, {"items": {"a": [1]}}, {"away": "x"}, {"gone": []}, {"rest_until": None}]
)
def test_damaged_marks_count_as_none(marks):
    assert Retrying(marks).may("a", "1", NOW_S) is May.CALL
