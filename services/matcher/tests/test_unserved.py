"""Partitions that a stable group has given to nobody: who joins again, and that then they are served."""

import threading
from pathlib import Path

import pytest
from coldnotify_kafka.broker import EmbeddedBroker
from coldnotify_matcher.testing_kafka import PARTITIONS, matcher, wait_for
from coldnotify_matcher.unserved import Members, Unserved, members_of
from coldnotify_schemas import topics
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

ALL = frozenset(range(PARTITIONS))
LOW, HIGH = frozenset(range(4)), frozenset(range(4, 8))


def settled(**assigned: frozenset[int]) -> Members:
    return Members(stable=True, assigned=assigned)


def test_the_member_with_the_fewest_partitions_joins_again_when_two_looks_agree() -> None:
    looks = {name: Unserved(PARTITIONS, name) for name in "abc"}
    missing = settled(a=HIGH, b=frozenset(), c=frozenset())
    assert [look.must_join_again(missing) for look in looks.values()] == [False, False, False]
    assert [look.must_join_again(missing) for look in looks.values()] == [False, True, False]
    assert [look.must_join_again(missing) for look in looks.values()] == [False, False, False], "not at once again"


@pytest.mark.parametrize(
    "second",
    [
        settled(a=HIGH, b=LOW),
        settled(a=HIGH, b=frozenset({1})),
        Members(stable=False, assigned={"a": HIGH, "b": frozenset()}),
    ],
)
def test_a_group_that_serves_all_or_is_still_moving_is_left_alone(second: Members) -> None:
    look = Unserved(PARTITIONS, "b")
    for members in (settled(a=HIGH, b=frozenset()), second):
        assert not look.must_join_again(members)


def test_who_cannot_be_asked_is_not_taken_for_the_same_again() -> None:
    look = Unserved(PARTITIONS, "b")
    missing = settled(a=HIGH, b=frozenset())
    assert not look.must_join_again(missing)
    assert not look.look(AdminClient({"bootstrap.servers": "127.0.0.1:1", "log_level": 0}), "some-group", 0.1)
    assert not look.must_join_again(missing)
    assert look.must_join_again(missing)


@pytest.mark.kafka
def test_a_member_restarted_between_the_two_rounds_of_a_rebalance(fresh_kafka: EmbeddedBroker, tmp_path: Path) -> None:
    group = f"matchers-of-{tmp_path.name}"
    restarted = threading.Event()

    def frozen(_: Consumer, partitions: list[TopicPartition]) -> None:
        """It has been told what to give up, and does not come to join again."""
        assert restarted.wait(120)
        earlier.incremental_unassign(partitions)

    earlier = Consumer(
        {
            "bootstrap.servers": fresh_kafka.bootstrap,
            "group.id": group,
            "group.instance.id": "a",
            "session.timeout.ms": 60_000,
            "partition.assignment.strategy": "cooperative-sticky",
            "log_level": 0,
        }
    )
    earlier.subscribe([topics.REQUESTS], on_revoke=frozen, on_lost=frozen)
    polling = threading.Thread(target=lambda: [earlier.poll(0.1) for _ in iter(restarted.is_set, True)])
    admin = AdminClient({"bootstrap.servers": fresh_kafka.bootstrap})

    def members() -> Members:
        return members_of(admin, group, 30)

    polling.start()
    try:
        wait_for(lambda: members() == settled(a=ALL), "the first member's having all")
        with matcher(fresh_kafka.bootstrap, tmp_path / "b", matcher_id="b", matcher_group=group) as b:
            wait_for(lambda: members() == settled(a=HIGH, b=frozenset()), "the first round's end")
            with matcher(fresh_kafka.bootstrap, tmp_path / "a", matcher_id="a", matcher_group=group) as a:
                wait_for(lambda: a.owned() and b.owned() and a.owned() | b.owned() == ALL, "all partitions served")
                assert "given to nobody" in b.log.read_text()
    finally:
        restarted.set()
        polling.join(60)
        earlier.close()
