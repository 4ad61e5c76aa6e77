"""What a plain Kafka producer wrote into another partition is owed at the end, not to a wake before it was moved."""

from coldnotify_checker import judge
from coldnotify_checker.histories import CaughtUp, Connecting, End, Event, Publish, Published, Register, Started

CLIENT, OBJECT = "d/g/c", "d/g/o"


def history(path: str) -> list[Event]:
    return [
        Started(t=1, client=CLIENT),
        Register(t=2, client=CLIENT, object=OBJECT),
        Publish(t=1_000_000, publisher="p", id=1, object=OBJECT, version=1, path=path),
        Published(t=2_000_000, publisher="p", id=1, outcome="acknowledged"),
        Connecting(t=9_000_000, client=CLIENT),
        CaughtUp(t=10_000_000, client=CLIENT, since=9_000_000),
    ]


def test_a_wake_must_not_miss_a_record_in_its_own_partition() -> None:
    assert judge(history("kafka")).counts["P2"] == 1
    assert judge(history("http")).counts["P2"] == 1


def test_a_wake_may_come_before_a_stray_is_moved_but_the_end_may_not() -> None:
    assert judge(history("raw")).counts["P2"] == 0
    assert judge([*history("raw"), End(t=20_000_000, connected=[CLIENT])]).counts["P2"] == 1
