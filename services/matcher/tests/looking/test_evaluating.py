"""Evaluating queries for those who look in: with rests, not for long, and one at a time."""

import time

import pytest
from aiohttp import web
from coldnotify_matcher.engine.clients.memberships import LookedMember
from coldnotify_matcher.looking.evaluating import Evaluation, fits, in_turn, why

LAMP = LookedMember({"a": 1.0}, {"HAS a": True, "HAS b": None, "a = 1": True}, {"no query": "line 1, column 1: wrong"})


class Clock:
    """Goes on by so much with each look at it."""

    def __init__(self, step_s: float) -> None:
        self.now_s, self.step_s = 0.0, step_s

    def __call__(self) -> float:
        self.now_s += self.step_s
        return self.now_s


def test_it_rests_and_is_over_by_time(monkeypatch: pytest.MonkeyPatch) -> None:
    rests: list[float] = []
    monkeypatch.setattr(time, "sleep", rests.append)
    evaluation = Evaluation(1.0, Clock(0.0002))
    evaluations = 0
    while evaluation.goes_on():
        evaluations += 1
    assert 3000 < evaluations < 5000
    assert 800 < len(rests) < 2500


def test_why() -> None:
    assert why(LAMP, "o", Evaluation()) == [
        ("no query", False, "line 1, column 1: wrong"),
        ("HAS a", True, "HAS a is true, it is 1"),
        ("HAS b", False, "HAS b is false, there is no b"),
        ("a = 1", True, "a = 1 is true, it is 1"),
    ]
    gone = LAMP._replace(description=None, refused={})
    assert {words for _, _, words in why(gone, "o", Evaluation())} == {"there is no such object, or it is deleted"}


def test_what_there_is_no_time_for_is_told_as_such() -> None:
    said = why(LAMP, "o", Evaluation(pass_s=0))
    assert [member for _, member, _ in said] == [False, True, None, True]
    assert said[2][2].startswith("not looked into")
    with pytest.raises(web.HTTPServiceUnavailable, match="Service Unavailable") as refused:
        fits(["HAS a"], "o", {}, Evaluation(pass_s=0))
    assert "take too long" in (refused.value.text or "")


def test_a_query_of_many_is_evaluated_once() -> None:
    assert fits(["HAS a", "HAS b", "HAS a"], "o", {"a": 1.0}, Evaluation()) == {"HAS a": True, "HAS b": False}


def test_one_at_a_time() -> None:
    with in_turn(), pytest.raises(web.HTTPServiceUnavailable), in_turn(0.01):
        pass
    with in_turn(0.01):
        pass
