"""Blocks of a log: whose turn it is, for how much of the time, and what is left out of them."""

from dataclasses import replace

from coldnotify_streams.core.actions import ReadBlock
from coldnotify_streams.core.events import PartitionsRevoked
from coldnotify_streams.core.run import RunLimits
from coldnotify_testkit.tally_bench import kinds, log_bench
from coldnotify_testkit.tally_job import LOG, NEW


def test_blocks_are_read_one_at_a_time_and_partitions_take_turns() -> None:
    one = log_bench(9, limits=RunLimits(blocks_share=0.5))
    for _ in range(9):
        one.append(LOG, 1, b"x", b"1")
    one.assign(0, 1)
    one.partition(0).wants = [0, 3]
    one.partition(1).wants = [6]
    done = [action for _ in range(8) for action in one.step()]
    assert [(one.partition, one.start) for one in done if isinstance(one, ReadBlock)] == [(0, 0), (1, 6), (0, 3)]
    assert one.partition(0).blocks == [(0, 3, [0, 1, 2], False), (3, 6, [3, 4, 5], False)]


def test_blocks_take_a_share_of_the_time() -> None:
    one = log_bench(9, limits=RunLimits(blocks_share=0.2))
    one.assign(0)
    one.partition().wants = [0, 3]
    assert kinds(one.step(), ReadBlock) == [ReadBlock]
    assert kinds(one.step(), ReadBlock) == [ReadBlock], "nothing is known of how long it takes"
    one.step(seconds=0.0)
    one.partition().wants.append(6)
    one.run.on_stepped(one.now_s + 0.1)
    now_s = one.now_s + 0.1
    assert one.run.blocks.due_in_s(now_s) is None, "nobody has been asked yet"
    assert kinds(one.step(seconds=0.5), ReadBlock) == [], "0.1 s to read and 0.1 s to handle it: 0.8 s of rest"
    assert kinds(one.step(seconds=0.5), ReadBlock) == [ReadBlock]


def test_a_record_that_raises_is_left_out_of_its_block_as_unreadable() -> None:
    one = log_bench(2)
    one.append(LOG, 0, b"x", b"raise")
    for _ in range(3, 8):
        one.append(LOG, 0, b"x", b"1")
    one.assign(0, takeover=replace(NEW, logs_committed={LOG: 8}))
    one.partition().wants = [1]
    one.steps(6)
    assert one.partition().blocks == [], "it was loaded anew"
    one.partition().wants = [1]
    one.steps(4)
    assert one.partition().blocks == [(1, 2, [1], False)]
    one.partition().wants = [2]
    one.steps(4)
    assert one.partition().blocks[1:] == [(2, 3, [], True)]


def test_a_block_that_raises_at_an_unknown_record_is_left_out_whole() -> None:
    one = log_bench(2)
    one.append(LOG, 0, b"x", b"raise without saying where")
    for _ in range(3, 8):
        one.append(LOG, 0, b"x", b"1")
    one.assign(0, takeover=replace(NEW, logs_committed={LOG: 8}))
    one.partition().wants = [1]
    one.steps(8)
    one.partition().wants = [1]
    one.steps(4)
    assert one.partition().blocks == [(1, 4, [], True)]


def test_a_block_for_a_partition_that_is_gone_is_ignored() -> None:
    one = log_bench(9)
    one.assign(0)
    one.partition().wants = [0]
    one.step()
    one.events.insert(0, PartitionsRevoked((0,), lost=False))
    one.assigned.clear()
    one.steps(3)
    one.assign(0)
    assert one.partition().blocks == []
    one.partition().wants = [3]
    one.steps(3)
    assert one.partition().blocks == [(3, 6, [3, 4, 5], False)]
