"""Faults of the usage job: the same for a seed, of the kinds that are wanted, none while its worker is down."""

from random import Random

from coldnotify_fault import usage_faults


def drawn(seed: int, *kinds: str) -> list[usage_faults.DrawnFault]:
    return list(usage_faults.draw(Random(seed), 60.0, kinds or (usage_faults.KILLED, usage_faults.DOUBLED, "another")))


def test_a_seed_draws_the_same_usage_faults_and_only_requested_kinds() -> None:
    assert drawn(1) == drawn(1) != drawn(2)
    kinds = {one.kind for seed in range(10) for one in drawn(seed)}
    assert kinds == {usage_faults.KILLED, usage_faults.DOUBLED}
    assert drawn(1, "another") == []


def test_no_worker_is_hit_before_it_is_whole_again() -> None:
    for seed in range(20):
        until_s = dict.fromkeys(usage_faults.WORKERS, 0.0)
        for one in drawn(seed, usage_faults.KILLED, usage_faults.PAUSED, usage_faults.DOUBLED):
            assert until_s[one.target] < one.at_s < one.healed_s
            until_s[one.target] = one.healed_s
