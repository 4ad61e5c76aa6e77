"""A partition's claims: who owns it, given up to a later claim; and what a claim made on another cluster is worth.

Stands for: generations
"""

import pytest
from coldnotify_matcher.epoch import epoch_of
from coldnotify_matcher.run_topics import Cluster
from coldnotify_schemas.close_codes import CloseCode
from coldnotify_schemas.topics import TopicNames
from coldnotify_streams.core.partition_progress import OwningPhase
from coldnotify_streams.errors import TakenOver
from coldnotify_testkit.engine_bench import CLUSTER, EPOCH, GATEWAY, PARTITION, EngineBench, closed
from coldnotify_testkit.partition_bench import (
    ENDS,
    KEY,
    bucket,
    claim,
    handled_on,
    own,
    partition,
    record,
    session,
    written,
)

TOPICS = TopicNames()


def test_each_takeover_claims_the_next_generation() -> None:
    one = partition()
    one.on_record(record(TOPICS.sessions, "@generation", claim(4, "b")), 0)

    write = one.claim()

    assert (write.topic, write.partition, write.key) == (TOPICS.sessions, PARTITION, b"@generation")
    assert written(write) == claim(5, "a")
    assert one.phase is OwningPhase.CLAIMING
    assert not one.claimed


def test_a_claim_of_the_same_number_that_came_first_wins() -> None:
    first, second = partition("a"), partition("b")
    of_first, of_second = first.claim(), second.claim()
    log = [record(TOPICS.sessions, "@generation", write.value, o) for o, write in enumerate((of_first, of_second))]

    first.on_record(log[0], 0)
    second.on_record(log[0], 0)
    assert first.claimed
    first.own(0, ENDS)
    assert second.must_claim_again
    again = second.claim()
    assert written(again)["generation"] == 3
    with pytest.raises(TakenOver, match="b took it over"):
        first.on_record(log[1], 0)
    second.on_record(log[1], 0)
    assert not second.claimed
    second.on_record(record(TOPICS.sessions, "@generation", again.value, 2), 0)
    assert second.claimed


def test_the_owner_gives_up_when_another_claims_a_higher_generation() -> None:
    one = own(partition())

    with pytest.raises(TakenOver):
        one.on_record(record(TOPICS.sessions, "@generation", claim(2, "b")), 0)


@pytest.mark.parametrize("value", [None, b"nonsense", claim(0, "zombie")])
def test_a_claim_that_was_overwritten_is_written_again(value: object) -> None:
    one = own(partition())
    one.on_record(record(TOPICS.sessions, "@generation", value), 0)

    *aside, write = one.take_repairs()

    assert [each.topic for each in aside] == ([TOPICS.rejected] if value == b"nonsense" else [])
    assert written(write) == claim(1, "a")
    assert one.take_repairs() == []


def test_a_lost_claim_does_not_lower_the_generation() -> None:
    one = partition()
    one.on_record(record(TOPICS.sessions, KEY, session(generation=6)), 0)

    assert written(one.claim())["generation"] == 7


# --- another cluster


def test_what_is_committed_with_says_the_epoch_once_an_operator_began_another() -> None:
    first, later = (
        Cluster(4, 4, "objects-id", "requests-id", epoch_of("objects-id", 4, counter)) for counter in (0, 1)
    )
    assert first.marks == {TOPICS.requests: "requests-id", TOPICS.objects: "objects-id"}
    assert later.marks == {TOPICS.requests: "requests-id", TOPICS.objects: f"objects-id/{later.epoch:08x}"}


def test_cursors_of_another_epoch_do_not_count() -> None:
    bench = EngineBench()
    bench.opened("a")
    bench.version("a", 1)
    bench.settle()
    changed = Cluster(CLUSTER.partitions, CLUSTER.inboxes, "other-objects", CLUSTER.requests_topic_id, EPOCH + 1)
    bench.cluster = changed
    bench.told.clear()

    bench.load()

    assert closed(bench.told[GATEWAY].take()) == [(1, CloseCode.UNKNOWN_SESSION)]
    assert bench.engine.state.clients[KEY].cursor == -1


def test_without_claims_and_commits_the_requests_topic_is_taken_for_another_one() -> None:
    """The claims are lost with the sessions topic: what the state says of offsets may be of a topic that is no more."""
    one = partition()
    one.takeover = handled_on(requests_committed=False)
    assert one.requests_topic_changed


def test_it_says_when_the_requests_topic_is_another_one() -> None:
    one = partition()
    assert not one.requests_topic_changed
    one.on_record(record(TOPICS.sessions, "@generation", claim(1, "b", requests_topic_id="old")), 0)

    assert one.requests_topic_changed


@pytest.mark.parametrize(
    ("claims", "since", "counts"),
    [
        ([claim(1, "b")], 0, True),
        ([claim(3, "b", requests_since=2)], 2, False),
        ([claim(3, "b", requests_since=1)], 1, True),
        ([claim(1, "b", requests_topic_id="old")], 2, False),
        ([{name: value for name, value in claim(3, "b").items() if name != "requests_since"}], 0, True),
        # The first one under this topic failed before it wrote any record anew.
        ([claim(1, "b", requests_topic_id="old"), claim(2, "c", requests_since=2)], 2, False),
    ],
)
def test_applied_counts_in_records_of_generations_under_the_present_requests_topic(
    claims: list[dict[str, object]], since: int, counts: bool
) -> None:
    one = partition()
    for said in claims:
        one.on_record(record(TOPICS.sessions, "@generation", said), 0)
    one.on_record(record(TOPICS.registrations, f"{KEY}/0", bucket("a", generation=1, applied=16)), 0)
    mine = one.claim()
    one.on_record(record(TOPICS.sessions, "@generation", mine.value), 0)
    one.own(0, ENDS)

    assert written(mine)["requests_since"] == since
    assert (one.engine.state.clients[KEY].registrations_applied == 16) is counts
