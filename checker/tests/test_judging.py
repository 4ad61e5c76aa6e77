"""The checker sees every planted bug by the promise that it breaks, and nothing where nothing is wrong.

Stands for: clients, topic_contents, publishes, verdict, catching_up
"""

import pytest
from coldnotify_checker import judge
from coldnotify_checker.histories import (
    CaughtUp,
    Connecting,
    End,
    Event,
    Fault,
    Forgotten,
    Healed,
    Publish,
    Published,
    Register,
    Sleep,
    Started,
    Stopped,
    Told,
    Topic,
)
from coldnotify_checker.publishes import CheckedPublishes, PublishCall
from coldnotify_testkit.examples import examples
from coldnotify_testkit.planted_bugs import BUGS, Double, play


@pytest.mark.parametrize("incarnations_told", [True, False])
def test_a_service_without_a_bug_is_clean(incarnations_told: bool) -> None:
    for seed in range(examples(2.0)):
        verdict = judge(play(seed, incarnations_told=incarnations_told))
        assert verdict.clean, f"seed {seed}: {verdict}"
        assert verdict.not_judged == verdict.judged_in_part == {}


@pytest.mark.parametrize("bug", BUGS)
def test_each_planted_bug_violates_its_promise(bug: str) -> None:
    planted = 0
    for seed in range(40):
        double = Double(seed, bug)
        verdict = judge(double.play())
        if double.planted:
            planted += 1
            assert verdict.counts[BUGS[bug]], f"seed {seed}: {verdict}"
            assert all(violation.evidence for violation in verdict.violations)
        if planted == examples(0.4):
            break
    assert planted >= 5, "the bug hardly ever came to bear"


@pytest.mark.parametrize("asleep", [False, True])
def test_catching_up_is_measured_for_clients_awake_at_the_end_of_a_fault(asleep: bool) -> None:
    client, object_ = "d/g/c", "d/g/o"

    def at(second: int) -> int:
        return second * 1_000_000

    history: list[Event] = [
        Started(t=at(0), client=client, life=0),
        Register(t=at(0), client=client, object=object_),
        Connecting(t=at(1), client=client),
        *([Sleep(t=at(2), client=client)] if asleep else []),
        Fault(t=at(3), kind="gateway_killed", target="gateway-1"),
        Publish(t=at(3), publisher="p", id=1, object=object_, version=1),
        Published(t=at(4), publisher="p", id=1, outcome="acknowledged"),
        Healed(t=at(5), kind="gateway_killed", target="gateway-1"),
        *([Connecting(t=at(60), client=client)] if asleep else []),
        Told(t=at(61) if asleep else at(7), client=client, object=object_, version=1),
    ]
    statistics = judge(history).statistics
    assert statistics.catch_up_s_max == (0.0 if asleep else 2.0)
    assert statistics.catch_ups_unfinished == 0


def wakes(objects: int, count: int) -> list[Event]:
    """A client that is registered for all, and wakes each time that one of them was published."""
    client = "d/g/c"
    history: list[Event] = [Started(t=1, client=client, life=1)]
    history += [Register(t=1, client=client, object=f"d/g/{name}") for name in range(objects)]
    for wake in range(count):
        t, object_ = 10 * (wake + 1), f"d/g/{wake % objects}"
        history += [
            Publish(t=t, publisher="p", id=wake, object=object_, version=wake),
            Published(t=t + 1, publisher="p", id=wake, outcome="acknowledged"),
            Connecting(t=t + 2, client=client),
            Told(t=t + 3, client=client, object=object_, version=wake),
            CaughtUp(t=t + 4, client=client, since=t + 2),
            Sleep(t=t + 5, client=client),
        ]
    return history


def test_a_wake_checks_only_what_was_published_since_the_previous_one(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = 0
    newest = CheckedPublishes.newest

    def counted(
        self: CheckedPublishes, object_: str, before: int | None = None, *, in_place: bool = False
    ) -> PublishCall | None:
        nonlocal looks
        looks += 1
        return newest(self, object_, before, in_place=in_place)

    monkeypatch.setattr(CheckedPublishes, "newest", counted)
    history = wakes(objects=500, count=1000)
    assert judge(history).clean
    assert looks < len(history)


def test_a_version_missed_long_before_is_missed_at_every_wake() -> None:
    history = [event for event in wakes(objects=3, count=9) if not (isinstance(event, Told) and event.version == 1)]
    assert judge(history).counts["P2"] == 3  # until the object's next version is told


def test_clients_connected_at_rest_are_judged_as_at_the_end() -> None:
    object_ = "d/g/o"
    history: list[Event] = [
        *(Started(t=1, client=f"d/g/{name}", life=1) for name in ("there", "gone")),
        *(Register(t=1, client=f"d/g/{name}", object=object_) for name in ("there", "gone")),
        *(Connecting(t=2, client=f"d/g/{name}") for name in ("there", "gone")),
        Stopped(t=3, client="d/g/gone"),
        Publish(t=4, publisher="p", id=1, object=object_, version=1),
        Published(t=5, publisher="p", id=1, outcome="acknowledged"),
        Topic(t=6, topic="coldnotify.registrations", partitions=1),
        Stopped(t=7, client="d/g/there"),
    ]
    assert judge(history).clean
    assert "P5" in judge(history).not_judged
    assert "P2" in judge(history).judged_in_part
    verdict = judge(history, at_rest=True)
    assert [(violation.promise, "d/g/there" in str(violation)) for violation in verdict.violations] == [
        ("P2", True),
        ("P5", True),
    ]


@pytest.mark.parametrize("forgotten_s", [None, 1, 50, 90])
def test_a_forgotten_client_has_no_registrations_until_it_returns(
    forgotten_s: int | None,
) -> None:
    client, object_ = "d/g/c", "d/g/o"
    history: list[Event] = [
        Started(t=1, client=client, life=1),
        Register(t=1, client=client, object=object_),
        Connecting(t=2, client=client),
        CaughtUp(t=3, client=client, since=2),
        Sleep(t=4, client=client),
        Connecting(t=60_000_000, client=client),
        CaughtUp(t=60_000_001, client=client, since=60_000_000),
        Stopped(t=60_000_002, client=client),
        End(t=100_000_000, connected=[]),
        Topic(t=100_000_000, topic="coldnotify.registrations", partitions=1),
    ]
    if forgotten_s is not None:
        history.append(Forgotten(t=forgotten_s * 1_000_000, client=client))
    assert judge(history).counts["P5"] == (1 if forgotten_s in (None, 1) else 0)
