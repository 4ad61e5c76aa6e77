"""Retention in a history: what was removed is owed to nobody, and what a null did not remove is.

Stands for: object_nulls
"""

from typing import Any

import pytest
from coldnotify_checker import judge
from coldnotify_checker.histories import (
    CaughtUp,
    Connecting,
    Describe,
    End,
    Event,
    Members,
    Publish,
    Published,
    Record,
    Register,
    RegisterQuery,
    Removed,
    Started,
    Told,
    Topic,
    parse_event,
)
from coldnotify_schemas.descriptions import KEY_PREFIX
from coldnotify_schemas.topics import TopicNames

TOPICS = TopicNames()

CLIENT, OBJECT = "d/g/c", "d/g/o"
S = 1_000_000


def published(version: int, t: int = 1) -> list[Event]:
    return [
        Publish(t=t * S, publisher="p", id=f"{version}@{t}", object=OBJECT, version=version),
        Published(t=t * S + 1, publisher="p", id=f"{version}@{t}", outcome="acknowledged"),
    ]


def dump(*records: tuple[str, Any, str]) -> list[Event]:
    """(key's prefix, value, what it removes), in the order of the log, a second apart."""
    found: list[Event] = [
        Record(
            topic=TOPICS.objects, partition=0, offset=offset, timestamp=(1 + offset) * 1000, key=f"{prefix}{OBJECT}",
            value=value, removes=removes,
        )
        for offset, (prefix, value, removes) in enumerate(records)
    ]  # fmt: skip
    return [*found, Topic(t=100 * S, topic=TOPICS.objects, partitions=1)]


V5 = ("", {"version": 5}, "")
DESCRIBED = (KEY_PREFIX, {"description": {"Kind": "lamp"}}, "")


def test_a_line_of_a_run_reports_a_removal() -> None:
    event = parse_event(b'{"t":5,"event":"removed","object":"d/g/o"}')
    assert event == Removed(t=5, object=OBJECT, what="object")


@pytest.mark.parametrize("said", ["by the run", "by the topic", "by nobody"])
def test_a_removed_object_is_neither_lost_nor_owed(said: str) -> None:
    history = [
        Started(t=1, client=CLIENT),
        Register(t=2, client=CLIENT, object=OBJECT),
        *published(5),
        Connecting(t=20 * S, client=CLIENT),
        CaughtUp(t=21 * S, client=CLIENT, since=20 * S),
        End(t=30 * S, connected=[CLIENT]),
    ]
    records = [V5, ("", None, "0/5@0000004d/0")] if said == "by the topic" else []
    removed = [Removed(t=10 * S, object=OBJECT)] if said == "by the run" else []
    verdict = judge([*history, *removed, *dump(*records)])
    lost = said == "by nobody"
    assert (verdict.counts["P1"], verdict.counts["P2"]) == (lost, 2 * lost)


@pytest.mark.parametrize(
    ("records", "there"),
    [
        ([V5, ("", None, "0/5")], False),
        ([V5, ("", None, "0/6@0000004d/0")], False),
        ([V5, ("", None, "0/4")], True),
        ([V5, ("", None, "")], True),
        ([V5, ("", None, "nonsense")], True),
        ([V5, V5, ("", None, "0/5@0000004d/0")], True),
        ([V5, DESCRIBED, ("", None, "0/5@0000004d/0")], True),
        ([V5, DESCRIBED, ("", None, "0/5@0000004d/1")], False),
        ([V5, ("", None, "0/5"), V5], True),
    ],
)
def test_a_null_removes_only_what_it_names(records: list[tuple[str, Any, str]], there: bool) -> None:
    history = [
        Started(t=1, client=CLIENT),
        Register(t=2, client=CLIENT, object=OBJECT),
        *published(5),
        *(published(5, t=3) if records[-1] == V5 else []),
        Connecting(t=20 * S, client=CLIENT),
        CaughtUp(t=21 * S, client=CLIENT, since=20 * S),
        End(t=30 * S, connected=[CLIENT]),
        *dump(*records),
    ]
    assert bool(judge(history).counts["P2"]) is there
    assert judge(history).counts["P1"] == 0


def test_a_version_published_after_a_removal_is_owed() -> None:
    verdict = judge([*published(5), Removed(t=10 * S, object=OBJECT), *published(5, t=11), *dump()])
    assert verdict.counts["P1"] == 1


def test_a_client_that_registers_again_may_be_told_that_the_object_is_unknown() -> None:
    history = [
        Started(t=1, client=CLIENT),
        Register(t=2, client=CLIENT, object=OBJECT),
        *published(5),
        Told(t=3 * S, client=CLIENT, object=OBJECT, version=5),
        Told(t=12 * S, client=CLIENT, object=OBJECT, version=None),
    ]
    assert judge(history).counts["P3"] == 1
    assert judge([*history, Removed(t=10 * S, object=OBJECT)]).counts["P3"] == 0


@pytest.mark.parametrize("stays", [False, True])
def test_a_removed_object_is_no_member_at_the_end(stays: bool) -> None:
    history = [
        Started(t=1, client=CLIENT),
        RegisterQuery(t=2, client=CLIENT, query="Kind = lamp"),
        Describe(t=1 * S, publisher="p", id=1, object=OBJECT, description={"Kind": "lamp"}, timestamp=1000),
        Published(t=1 * S + 1, publisher="p", id=1, outcome="acknowledged"),
        Members(t=2 * S, client=CLIENT, query="Kind = lamp", added=["o"], removed=[]),
        *([] if stays else [Members(t=5 * S, client=CLIENT, query="Kind = lamp", added=[], removed=["o"])]),
        End(t=30 * S, connected=[CLIENT]),
        *dump(DESCRIBED, (KEY_PREFIX, None, "0/1000@0000004d/0")),
    ]
    verdict = judge(history)
    assert verdict.counts["P9"] == stays
    assert verdict.counts["P1"] == 0
