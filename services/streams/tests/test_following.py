"""What is followed for others, and what a takeover gains by it: with a job of a few lines."""

from coldnotify_streams.core.actions import Follow, Read, TakeFollowed, TookOver, Unfollow
from coldnotify_streams.core.events import Assigned, Began, JobRecord, Records
from coldnotify_streams.core.partition_progress import OwningPhase
from coldnotify_testkit.tally_bench import TallyBench, kinds
from coldnotify_testkit.tally_job import NEW, REQUESTS, STATE, TABLE


def test_a_followed_partition_is_not_loaded_again() -> None:
    one = TallyBench(standby=True)
    one.append(STATE, 0, b"a", b"[5]")
    assert kinds(one.step(), Follow, TakeFollowed) == [Follow, Follow, TakeFollowed]
    one.followed += [
        Began(0),
        Records([JobRecord(STATE, 0, 0, end=False, key=b"a", value=b"[5]"), JobRecord(STATE, 0, 1, end=True)]),
        Records([JobRecord(TABLE, 0, 0, end=True)]),
    ]
    one.steps(3)
    assert one.run.followed[0].positions == {STATE: 1, TABLE: 0}
    one.assigned.add(0)
    done = one.step(Assigned(0, NEW))
    assert kinds(done, Unfollow, Read) == [Unfollow, Read]
    assert [action.offsets for action in done if isinstance(action, Read)] == [{STATE: 1, TABLE: 0}]
    done = [action for _ in range(3) for action in one.step()]
    assert [action.partition.warm for action in done if isinstance(action, TookOver)] == [True]


def test_a_record_of_a_later_release_that_was_followed_parks_its_partition_alone() -> None:
    one = TallyBench(standby=True)
    one.append(STATE, 0, b"a", b"newer")
    one.assign(1)
    one.followed += [
        Began(0),
        Records([JobRecord(STATE, 0, 0, end=False, key=b"a", value=b"newer"), JobRecord(STATE, 0, 1, end=True)]),
        Records([JobRecord(TABLE, 0, 0, end=True)]),
    ]
    one.steps(3)
    one.request(0)
    one.assign(0)
    read = [action.offsets for action in one.done if isinstance(action, Read) and action.partition == 0]
    assert read == [{STATE: 1, TABLE: 0}], "the record is not read again"
    assert set(one.run.waiting) == {0}
    assert [record.key for record in one.log[STATE, 0]] == [b"a"], "nothing is written there"
    assert (REQUESTS, 0) not in one.committed
    one.request(1)
    one.step()
    assert one.partition(1).handled == [0]


def test_a_partition_that_cannot_be_followed_affects_no_other() -> None:
    one = TallyBench(standby=True)
    one.assign(1)
    one.followed += [Began(0), Records([JobRecord(TABLE, 0, 0, end=False, key=b"x", value=b"raise")])]
    one.steps(2)
    assert one.run.followed == {}
    one.steps(2)
    assert one.run.followed == {}, "nor later"
    assert one.partition(1).phase is OwningPhase.OWNED


def test_nothing_is_followed_while_owned_partitions_load() -> None:
    one = TallyBench(standby=True)
    one.assigned.add(1)
    assert TakeFollowed not in kinds(one.step(Assigned(1, NEW)), TakeFollowed)
