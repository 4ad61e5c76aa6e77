"""A matcher is killed, and others take its partitions over long before its session times out: their kernel tells."""

import re
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import count
from pathlib import Path

import pytest
from coldnotify_kafka.broker import EmbeddedBroker
from coldnotify_kafka.broker.freezing import frozen
from coldnotify_schemas.partitioner import partition_of
from coldnotify_schemas.topics import TopicNames
from coldnotify_testkit.kafka import committed
from coldnotify_testkit.matcher_process import DOMAIN, PARTITIONS, MatcherProcess, Player, group_of, records_of
from coldnotify_testkit.waiting import wait_for

pytestmark = pytest.mark.kafka

SESSION_MS = 60_000
"""Whoever takes over within a test has not waited for it."""
REFUSED = "commit refused, retrying"
REMOVED = "a member died: removed from its group"


def matcher(kafka: EmbeddedBroker, directory: Path, name: str, **settings: object) -> MatcherProcess:
    """A matcher with a name of this test: the nodes topic is one for all tests on this Kafka."""
    settings = {"matcher_standby": True, "matcher_session_timeout_ms": SESSION_MS, **settings}
    return MatcherProcess(kafka.bootstrap, directory / name, matcher_id=f"{directory.name}-{name}", **settings)


@contextmanager
def matchers(kafka: EmbeddedBroker, directory: Path, *names: str, **settings: object) -> Iterator[list[MatcherProcess]]:
    """Matchers of one group that serve all partitions, and would notice the deaths of each other."""
    with ExitStack() as stack:
        found = [stack.enter_context(matcher(kafka, directory, name, **settings)) for name in names]
        wait_for(lambda: serve_all(found), "all partitions served")
        wait_for(lambda: all(watch_each_other(one, len(found) - 1) for one in found), "connections to each other")
        yield found


def serve_all(them: Iterable[MatcherProcess]) -> bool:
    """Returns true if each partition is served by exactly one, and each of them has some."""
    owned = [one.owned() for one in them]
    return all(owned) and sum(map(len, owned)) == PARTITIONS == len(set().union(*owned))


def watch_each_other(one: MatcherProcess, others: int) -> bool:
    """Returns true once the log says so."""
    return len(set(re.findall(r"death will be noticed at once.*?member=(\S+)", plain(one)))) == others


def plain(one: MatcherProcess) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", one.log.read_text())


def test_a_killed_matcher_is_replaced_at_once(fresh_kafka: EmbeddedBroker, tmp_path: Path) -> None:
    with matchers(fresh_kafka, tmp_path, "a", "b") as (killed, stays):
        before = {number: killed.generation(number) for number in killed.owned()}
        killed.kill()
        wait_for(lambda: serve_all([stays]), "all of its partitions, too")
        assert {number: stays.generation(number) for number in before} == {n: g + 1 for n, g in before.items()}
        assert plain(stays).count(REMOVED) == 1


def test_two_matchers_killed_at_once_are_replaced_by_one_without_a_standby(
    fresh_kafka: EmbeddedBroker, tmp_path: Path
) -> None:
    with matchers(fresh_kafka, tmp_path, "a", "b", "c", matcher_standby=False) as (one, other, stays):
        one.kill()
        other.kill()
        wait_for(lambda: serve_all([stays]), "all of their partitions, too")


def test_a_standby_killed_during_its_claim_is_replaced(fresh_kafka: EmbeddedBroker, tmp_path: Path) -> None:
    with matchers(fresh_kafka, tmp_path, "a", "b", "c") as (first, second, stays):
        first.kill()
        wait_for(lambda: REMOVED in plain(second) + plain(stays), "the first one's removal")
        second.kill()
        wait_for(lambda: serve_all([stays]), "all partitions of both")


def test_a_commit_that_is_refused_during_the_rebalance_costs_no_state(
    fresh_kafka: EmbeddedBroker, tmp_path: Path
) -> None:
    """A commit that is sent behind JoinGroup says the generation before: Kafka handles it once all have joined."""
    options = tmp_path / "kafka-options"
    options.write_text("debug=cgrp\nlog_level=7\n")
    names = ("still", "killed", "stays")
    with matchers(fresh_kafka, tmp_path, *names, kafka_config=options, log_level="debug") as (still, killed, stays):
        kept = {number: stays.generation(number) for number in stays.owned()}
        number = min(kept)
        group = next(name for name in map(str, range(1000)) if partition_of(DOMAIN, name, PARTITIONS) == number)
        player = Player(fresh_kafka.bootstrap)
        versions = count(1)

        def commits_while_it_joins() -> bool:
            player.version("lamp", next(versions), group=group)  # so that there is something to commit
            return "in join-state wait-join: manual" in plain(stays)

        with frozen(still.process.pid):
            killed.kill()
            wait_for(commits_while_it_joins, "a commit while it joins")
        wait_for(lambda: serve_all([still, stays]), "all partitions of the dead one")
        last = next(versions)
        player.version("lamp", last, group=group)
        wait_for(lambda: is_committed(fresh_kafka, stays, number), "the next commit")
        player.close()
        assert REFUSED in plain(stays)
        assert {number: stays.generation(number) for number in kept} == kept


def is_committed(kafka: EmbeddedBroker, one: MatcherProcess, number: int) -> bool:
    """Returns true once the group has committed the table to its end."""
    objects = TopicNames().objects
    offset, _ = committed(kafka.bootstrap, objects, number, group_of(one.log))
    return offset == len(records_of(kafka.bootstrap, objects, number))


def test_a_matcher_that_is_killed_and_started_again_has_a_share_again(
    fresh_kafka: EmbeddedBroker, tmp_path: Path
) -> None:
    with ExitStack() as stack:
        killed, stays = stack.enter_context(matchers(fresh_kafka, tmp_path, "a", "b"))
        for _ in range(3):
            killed.kill()
            killed = stack.enter_context(matcher(fresh_kafka, tmp_path, "a"))
            wait_for(partial(serve_all, [killed, stays]), "shares of both")


def test_a_matcher_that_stands_still_is_not_removed(fresh_kafka: EmbeddedBroker, tmp_path: Path) -> None:
    with matchers(fresh_kafka, tmp_path, "a", "b", "c") as (still, killed, stays):
        with frozen(still.process.pid):
            killed.kill()
            wait_for(lambda: plain(stays).count(REMOVED) == 1, "the killed one's removal")
            time.sleep(1)  # nothing happens
        wait_for(lambda: serve_all([still, stays]), "shares of both")
        assert plain(stays).count(REMOVED) == 1


@pytest.mark.own_broker("suspends Kafka")
def test_while_kafka_stands_still_nobody_is_removed_and_the_dead_one_is_afterwards(
    own_kafka: EmbeddedBroker, tmp_path: Path
) -> None:
    with matchers(own_kafka, tmp_path, "a", "b", "c") as (one, killed, other):
        with frozen(own_kafka.pid):
            killed.kill()
            time.sleep(3)  # longer than any wait for an answer
            assert REMOVED not in plain(one) + plain(other)
        wait_for(lambda: serve_all([one, other]), "all partitions of the dead one")
        assert plain(one).count(REMOVED) + plain(other).count(REMOVED) == 1
