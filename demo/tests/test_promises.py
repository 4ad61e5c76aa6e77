"""The summary, and what is read out of what OUs say."""

from typing import Any

import pytest
from coldnotify_demo.promises import DemoPromises, Told, forwards_only, in_words, told


def test_without_promises_nothing_counts_as_kept() -> None:
    assert not DemoPromises().kept


def test_a_single_kept_promise_counts_as_kept() -> None:
    promises = DemoPromises()
    promises.add("first", "this", kept=True)
    assert promises.kept


def test_one_broken_promise_counts_as_broken() -> None:
    promises = DemoPromises()
    promises.add("first", "this", kept=True)
    promises.add("second", "that " * 40, kept=False)
    promises.add("third", "those", kept=True)
    assert not promises.kept
    lines = promises.summary()
    assert lines[:3] == ["ok      first", "          seen: this", "FAILED  second"]
    assert lines[-1] == "2 of 3 promises kept, 1 FAILED"
    assert max(map(len, lines)) <= 110


def test_told_lists_versions_in_order() -> None:
    events: list[dict[str, Any]] = [
        {"words": "a warning"},
        {"event": "told", "object": "camera", "version": 1},
        {"event": "caught up"},
        {"event": "told", "object": "heater", "version": None},
    ]
    assert told(events) == [("camera", 1), ("heater", None)]
    assert in_words([*told(events), ("camera", 4)]) == "camera 1 4, heater unknown"
    assert in_words([]) == "nothing"


@pytest.mark.parametrize(
    ("items", "forwards"),
    [
        ([], True),
        ([("a", None), ("a", 0), ("b", 7), ("a", 1), ("b", 9)], True),
        ([("a", 1), ("a", 1)], False),
        ([("a", 1), ("b", 1), ("a", 0)], False),
    ],
)
def test_forwards_only(items: list[Told], forwards: bool) -> None:
    assert forwards_only(items) is forwards
