"""What is said of loads.

Stands for: rebalance
"""

from coldnotify_cli.rebalance_plan import GroupLoad, PartitionLoad, plan


def test_nothing_that_came_divides_nothing() -> None:
    assert plan([PartitionLoad("m1", 0, 0)], [], {}, 5) == ["1 partition, 1 matcher: nothing came within 5 s"]


def test_a_partition_above_an_even_share_is_too_much_for_its_matcher() -> None:
    loads = [PartitionLoad("m1", 0, 600), PartitionLoad("m1", 1, 100), PartitionLoad("m2", 2, 300)]
    groups = [GroupLoad("d", f"g{number}", 10.0) for number in range(64)] + [GroupLoad("d", "big", 360.0)]
    lines = plan(loads, groups, {"m1": 0.5, "m2": None}, 10)
    assert lines[:3] == [
        "3 partitions, 2 matchers: 100.0 records/s",
        "m1: 70% of them, 50% of a core, 2 partitions (0 60%, 1 10%); too much",
        "m2: 30% of them, 1 partition (2 30%)",
    ]
    assert lines[3].startswith("partition 0 alone has 60%, more than an even share (50%): it is too much for m1")
    assert lines[4] == "3 matchers: the busiest has 60% at best"
    assert lines[5].startswith("6 partitions: the heaviest has ")
    assert lines[-1] == "one group is never divided: d/big has 36% of the publishes"


def test_even_shares_name_nobody() -> None:
    loads = [PartitionLoad(f"m{number % 2}", number, 10) for number in range(8)]
    lines = plan(loads, [], {}, 1)
    assert not any("too much" in line for line in lines)
    assert lines[-2:] == ["4 matchers: the busiest has 25% at best", "6 matchers: the busiest has 25% at best"]
