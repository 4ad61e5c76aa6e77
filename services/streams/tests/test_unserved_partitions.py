"""Partitions that a stable group has given to nobody: who joins again, and that then they are served."""

import threading
from pathlib import Path

import pytest
from coldnotify_kafka.broker import EmbeddedBroker
from coldnotify_schemas.topics import TopicNames
from coldnotify_streams.unserved_partitions import GroupMembers, Unserved, members_of, partitions_of
from coldnotify_testkit.matcher_process import PARTITIONS, MatcherProcess, group_of
from coldnotify_testkit.waiting import wait_for
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

TOPICS = TopicNames()

ALL = frozenset(range(PARTITIONS))
LOW, HIGH = frozenset(range(4)), frozenset(range(4, 8))
MISSING = GroupMembers(True, {"a": HIGH, "b": frozenset()})


def test_it_joins_again_when_two_looks_agree_that_partitions_are_missing_and_looks_on() -> None:
    look = Unserved(PARTITIONS)
    assert [look.must_join_again(MISSING) for _ in range(4)] == [False, True, False, True]
    assert not look.settled


@pytest.mark.parametrize(
    "second",
    [
        GroupMembers(True, {"a": HIGH, "b": frozenset({1})}),
        GroupMembers(False, MISSING.assigned),
        GroupMembers(True, {"a": HIGH}),
    ],
)
def test_a_group_that_is_still_moving_is_left_alone(second: GroupMembers) -> None:
    look = Unserved(PARTITIONS)
    assert [look.must_join_again(members) for members in (MISSING, second)] == [False, False]
    assert not look.settled


def test_it_has_seen_enough_when_two_looks_agree_that_all_are_served() -> None:
    look = Unserved(PARTITIONS)
    for expected in (False, True):
        assert not look.must_join_again(GroupMembers(True, {"a": HIGH, "b": LOW}))
        assert look.settled is expected


def test_a_failed_look_at_the_group_does_not_count() -> None:
    look = Unserved(PARTITIONS)
    assert not look.must_join_again(MISSING)
    assert not look.look(AdminClient({"bootstrap.servers": "127.0.0.1:1", "log_level": 0}), "some-group", 0.1)
    assert [look.must_join_again(MISSING) for _ in range(2)] == [False, True]


@pytest.mark.parametrize(
    ("assignment", "partitions"),
    [
        (None, set()),
        (b"", set()),
        (b"\0\0\0\0\0\0\0\0\0\0", set()),
        (b"\0\1\0\0\0\2\0\1t\0\0\0\2\0\0\0\3\0\0\0\7\0\2uv\0\0\0\1\0\0\1\0\0\0\0\0", {3, 7, 256}),
    ],
)
def test_partitions_are_parsed_from_kafkas_assignment_format(assignment: bytes | None, partitions: set[int]) -> None:
    assert partitions_of(assignment) == partitions


@pytest.mark.kafka
def test_a_member_restarted_between_the_two_rounds_of_a_rebalance(fresh_kafka: EmbeddedBroker, tmp_path: Path) -> None:
    group = group_of(tmp_path / "log")
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
    earlier.subscribe([TOPICS.requests], on_revoke=frozen, on_lost=frozen)
    polling = threading.Thread(target=lambda: [earlier.poll(0.1) for _ in iter(restarted.is_set, True)])
    admin = AdminClient({"bootstrap.servers": fresh_kafka.bootstrap})

    def settled_as(*assigned: frozenset[int]) -> bool:
        members = members_of(admin, group, 30)
        return members.stable and set(members.assigned.values()) == set(assigned)

    polling.start()
    try:
        wait_for(lambda: settled_as(ALL), "the first member's having all")
        with MatcherProcess(fresh_kafka.bootstrap, tmp_path / "b", matcher_id="b") as b:
            wait_for(lambda: settled_as(HIGH, frozenset()), "the first round's end")
            with MatcherProcess(fresh_kafka.bootstrap, tmp_path / "a", matcher_id="a") as a:
                wait_for(lambda: a.owned() and b.owned() and a.owned() | b.owned() == ALL, "all partitions served")
                assert any("given to nobody" in one.log.read_text() for one in (a, b))
    finally:
        restarted.set()
        polling.join(60)
        earlier.close()
