"""A claim that Kafka does not take is written again, until it does."""

from coldnotify_streams.core.actions import LookedAtPartitions, Say, WriteRecords
from coldnotify_streams.core.claims import RETRY_MAX_S
from coldnotify_streams.core.partition_progress import OwningPhase
from coldnotify_testkit.tally_bench import TallyBench
from coldnotify_testkit.tally_job import CLAIM, STATE


def claims_of(one: TallyBench) -> list[tuple[int, int]]:
    """(partition, offset) of each that Kafka has taken."""
    return [(r.partition, r.offset) for n in (0, 1) for r in one.log[STATE, n] if r.key == CLAIM]


def test_a_claim_that_kafka_refuses_is_written_again_and_the_partition_served() -> None:
    one = TallyBench()
    one.refuses = {CLAIM}
    one.assign(0, 1)
    assert {p.phase for p in one.run.partitions.values()} == {OwningPhase.CLAIMING}
    assert set(one.run.claims.refused) == {0, 1}

    one.refuses.clear()
    one.steps(int(RETRY_MAX_S) + 3)

    assert {p.phase for p in one.run.partitions.values()} == {OwningPhase.OWNED}
    assert claims_of(one) == [(0, 0), (1, 0)], "each once"
    assert not one.run.claims.refused
    one.request(0)
    one.step()
    assert one.partition().handled == [0]


def test_refused_claims_are_logged_with_their_reason_but_not_at_every_step() -> None:
    one = TallyBench()
    one.refuses = {CLAIM}
    one.assign(0, 1)
    for _ in range(200):
        one.step(seconds=0.5)
    said = [action for action in one.done if isinstance(action, Say) and action.level == "error"]
    assert said[0].about == {"partitions": [0, 1], "error": "too large", "again_in_s": 1.0}
    assert len(said) < 18, "100 s"
    tries = [
        action for action in one.done if isinstance(action, WriteRecords) and {r.key for r in action.records} == {CLAIM}
    ]
    assert len(tries) == len(said)
    looked = [action for action in one.done if isinstance(action, LookedAtPartitions)]
    assert looked[-1].waiting == 2, "it is shown, and alerted"


def test_a_refused_claim_is_forgotten_when_its_partition_moves() -> None:
    one = TallyBench()
    one.refuses = {CLAIM}
    one.assign(0, 1)
    del one.run.partitions[1]
    one.steps(3)
    assert set(one.run.claims.refused) == {0}
