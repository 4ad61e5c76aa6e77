"""The order of a step, and what becomes of partitions that come and go: with a job of a few lines.

Stands for: actions, agenda, durable_steps, events, job, partition_progress, run
"""

from dataclasses import replace

import pytest
from coldnotify_streams.core.actions import AskEnds, Commit, Durable, Flush, Release, Say, WriteRecords
from coldnotify_streams.core.events import (
    Assigned,
    Began,
    JobRecord,
    LogStarts,
    NotCommitted,
    Now,
    PartitionsRevoked,
    ReaderFailed,
    Records,
    UnreadableOffsets,
)
from coldnotify_streams.core.job import LogBounds, Outputs
from coldnotify_streams.core.partition_progress import OwningPhase
from coldnotify_streams.core.run import JobRun, RunLimits
from coldnotify_streams.errors import RunFailure
from coldnotify_testkit.tally_bench import TallyBench, bench, kinds, log_bench, topics_of
from coldnotify_testkit.tally_job import ANSWERS, LOG, NEW, REQUESTS, STATE, TABLE, OffsetTally, Written

# --- the order of a step


def test_state_is_durable_before_what_promises_it_and_both_before_anything_is_committed() -> None:
    one = bench()
    one.request(0)
    one.request(1)
    done = one.step()
    order = kinds(done, WriteRecords, Flush, Commit)
    assert order == [WriteRecords, WriteRecords, Flush, WriteRecords, WriteRecords, Flush, Commit]
    written = [topics_of(action.records) for action in done if isinstance(action, WriteRecords)]
    assert written == [{STATE}, {STATE}, {ANSWERS}, {ANSWERS}]
    assert one.committed[REQUESTS, 0] == one.committed[REQUESTS, 1] == 1


@pytest.mark.parametrize("flushes", [0, 1], ids=["state", "what promises it"])
def test_a_delivery_that_fails_ends_the_run_and_nothing_of_the_step_is_committed(flushes: int) -> None:
    one = bench()
    before = dict(one.committed)
    one.request(0)
    one.fails[Flush] = RunFailure("not delivered")
    one.fails_after = flushes
    with pytest.raises(RunFailure, match="not delivered"):
        one.step()
    one.commit(one.run.last_offsets())
    assert one.committed.get((REQUESTS, 0), 0) == before.get((REQUESTS, 0), 0) == 0


@pytest.mark.parametrize("fails_after", [0, 1, 2])
def test_seals_are_written_once_the_state_is_durable(fails_after: int, monkeypatch: pytest.MonkeyPatch) -> None:
    one = bench()
    topics = [STATE, TABLE, ANSWERS]
    state, seals, rest = ([Written(topic, 0, b"k", b"v")] for topic in topics)
    monkeypatch.setattr(one.partition(0), "take_step", lambda _now_ms: Outputs(state, rest, seals))
    before = [len(one.log[topic, 0]) for topic in topics]
    one.request(0)
    one.fails[Flush] = RunFailure("not delivered")
    one.fails_after = fails_after
    with pytest.raises(RunFailure, match="not delivered"):
        one.step()
    written = [len(one.log[topic, 0]) - length for topic, length in zip(topics, before, strict=True)]
    assert written == [int(at <= fails_after) for at in range(3)]


def test_no_step_begins_before_the_one_before_has_ended() -> None:
    one = bench()
    one.request(0)
    under_way = one.run.step(one.take(), Now(one.now_s, 0), one.assigned)
    next(under_way)
    with pytest.raises(AssertionError, match="has not ended"):
        next(one.run.step((), Now(one.now_s, 0), one.assigned))


# --- rests


def test_a_step_that_answered_requests_is_followed_by_a_rest_and_others_are_not() -> None:
    one = bench(limits=RunLimits(rest_share=2.0, rest_max_s=0.5))
    one.request(0)
    one.step()
    one.run.on_stepped(one.now_s + 0.1)
    assert one.run.rest_s(one.now_s + 0.1) == pytest.approx(0.2)
    assert one.run.rest_s(one.now_s + 0.3) == 0
    one.append(TABLE, 0, b"x", b"1")
    one.step()
    one.run.on_stepped(one.now_s + 0.1)
    assert one.run.rest_s(one.now_s + 0.1) == 0, "a publish is to be fanned out soon"


def test_a_record_of_the_table_ends_a_rest() -> None:
    run = bench().run
    records = [
        JobRecord(TABLE, 0, 7, end=False),
        JobRecord(REQUESTS, 0, 3, end=False),
        JobRecord(TABLE, 0, 8, end=True),
    ]
    assert [run.ends_rest(Records([record])) for record in records] == [True, False, False]
    assert run.ends_rest(Records(records[::-1])), "it need not be the first one"
    assert not run.ends_rest(Began(0))


def test_a_rest_has_a_bound() -> None:
    one = bench(limits=RunLimits(rest_share=2.0, rest_max_s=0.5))
    one.request(0)
    one.step()
    one.run.on_stepped(one.now_s + 20)
    assert one.run.rest_s(one.now_s + 20) == pytest.approx(0.5)


def test_a_run_that_is_careful_does_not_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    one = bench(limits=RunLimits(rest_share=2.0, rest_max_s=0.5))
    one.request(0)
    one.step()
    one.run.on_stepped(one.now_s + 0.1)
    assert one.run.rest_s(one.now_s + 0.1) > 0
    monkeypatch.setattr(JobRun, "careful", True)
    assert one.run.rest_s(one.now_s + 0.1) == 0


def test_handled_but_unstored_requests_are_not_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    one = bench()
    one.request(0)
    one.request(0)
    monkeypatch.setattr(OffsetTally, "first_not_stored", property(lambda self: 1))
    one.steps(2)
    assert one.partition().handled == [0, 1]
    assert one.committed[REQUESTS, 0] == 1
    monkeypatch.setattr(OffsetTally, "first_not_stored", property(lambda self: None))
    one.steps(2)
    assert one.committed[REQUESTS, 0] == 2


# --- who has a part in a step


def test_a_known_end_gives_its_partition_no_turn() -> None:
    one = bench()
    one.step()
    one.append(TABLE, 0, b"x", b"1")
    done = one.step(seconds=0.1)  # with the ends of all that is read, as after each record
    assert [[p.number for p in action.partitions] for action in done if isinstance(action, Durable)] == [[0]]


def test_a_higher_end_releases_the_requests_that_wait_for_it() -> None:
    one = bench()
    one.append(TABLE, 0, None, None)  # as the marker of a transaction: nobody is handed it
    one.table_held.add(0)
    one.request(0, wait=True)
    one.step(seconds=0.1)
    assert one.partition().handled == []
    one.step(Records([JobRecord(TABLE, 0, 1, end=True)]), seconds=0.1)
    assert one.partition().handled == [0]


# --- what nobody can read


def test_unreadable_offsets_delay_no_request_and_commits_pass_them() -> None:
    one = bench()
    one.append(TABLE, 0, b"bad", None)
    one.table_held.add(0)
    one.request(0, wait=True)
    one.step(seconds=0.1)
    assert one.partition().handled == []
    one.step(UnreadableOffsets(TABLE, 0, 0, 1, "broken"), seconds=0.1)
    assert one.partition().handled == [0]
    one.step()
    assert one.committed[TABLE, 0] == one.committed[REQUESTS, 0] == 1


def test_unreadable_requests_are_committed_like_handled_ones() -> None:
    one = bench()
    one.request(0)
    one.step(seconds=0.1)
    one.step(UnreadableOffsets(REQUESTS, 0, 1, 5, "broken"))
    assert one.committed[REQUESTS, 0] == 5
    assert one.partition().handled == [0]
    assert [gap.start for gap in one.partition().gaps] == [1]


@pytest.mark.parametrize("topic", [TABLE, STATE])
def test_a_load_passes_unreadable_offsets(topic: str) -> None:
    one = TallyBench()
    one.append(topic, 0, b"bad", None)
    one.assigned.add(0)
    one.step(Assigned(0, NEW))
    one.read[topic, 0] = 1  # the reader's consumer has come upon it
    held, one.reading = one.reading, set()
    one.step()
    assert one.partition().phase is OwningPhase.LOADING
    one.step(UnreadableOffsets(topic, 0, 0, 1, "broken"))
    one.reading = held
    one.steps(3)
    assert one.partition().phase is OwningPhase.OWNED


def test_unreadable_offsets_of_an_earlier_load_are_ignored() -> None:
    one = TallyBench()
    one.assigned.add(0)
    one.step(Assigned(0, NEW), UnreadableOffsets(TABLE, 0, 0, 7, "broken"), UnreadableOffsets(TABLE, 1, 0, 7, "broken"))
    one.steps(3)
    assert one.partition().gaps == []
    assert one.partition().position == 0


# --- who serves what


def test_a_takeover_is_one_value_and_is_handed_on_whole() -> None:
    one = TallyBench()
    takeover = replace(NEW, requests_start=3, table_committed=7, table_in_epoch=False)
    one.assign(0, takeover=takeover)
    assert one.partition().takeover == takeover


def test_records_of_an_earlier_load_are_ignored() -> None:
    one = TallyBench()
    one.append(STATE, 0, b"a", b"[5]")
    one.assigned.add(0)
    one.step(Assigned(0, NEW), Records([JobRecord(STATE, 0, 0, end=False, key=b"ghost", value=b"[1]")]))
    one.steps(3)
    assert one.partition().sums == {"a": [5]}


def test_a_revoked_partition_is_released_with_its_durable_offsets() -> None:
    one = bench()
    one.step(seconds=0.1)
    one.request(0)
    done = one.step(PartitionsRevoked((0,), lost=False), seconds=0.1)
    (release,) = [action for action in done if isinstance(action, Release)]
    assert {(o.topic, o.offset, o.mark) for o in release.offsets} == {
        (REQUESTS, 1, "requests-id"),
        (TABLE, 0, "table-id"),
    }
    assert set(one.run.partitions) == {1}
    (lost,) = [a for a in one.step(PartitionsRevoked((1,), lost=True)) if isinstance(a, Release)]
    assert lost.offsets == []


def test_a_refused_commit_is_tried_again_and_a_fenced_one_ends_the_run() -> None:
    one = bench()
    one.request(0)
    one.step()
    one.committed.clear()
    done = one.step(NotCommitted("timed out", fenced=False))
    assert [dict(say.about) for say in done if isinstance(say, Say)] == [{"error": "timed out"}], "it is told"
    one.step()
    assert one.committed[REQUESTS, 0] == 1
    with pytest.raises(RunFailure, match="committing: fenced"):
        one.step(NotCommitted("fenced", fenced=True))


def test_a_reader_that_fails_ends_the_run() -> None:
    with pytest.raises(RunFailure, match="reading from Kafka: gone"):
        bench().step(ReaderFailed(OSError("gone")))


# --- time


def test_each_partition_ticks_once_a_second() -> None:
    one = bench()
    before = one.partition().ticks
    for _ in range(40):
        one.step(seconds=0.1)
    assert 3 <= one.partition().ticks - before <= 4


def test_the_ends_of_all_claimed_partitions_are_one_question() -> None:
    one = TallyBench()
    one.assigned |= {0, 1}
    one.step(Assigned(0, NEW), Assigned(1, NEW))
    asked = [action for _ in range(3) for action in one.step() if isinstance(action, AskEnds)]
    assert [len(action.places) for action in asked] == [4]
    assert all(action.uncommitted for action in asked)


# --- logs


def test_a_log_resumes_at_its_commit_after_some_earlier_records() -> None:
    one = log_bench(9)
    one.assign(0, takeover=replace(NEW, logs_committed={LOG: 6}))
    assert one.partition().log_bounds == {LOG: LogBounds(6, 0, 9)}
    one.step()
    assert one.partition().messages == [4, 5, 6, 7, 8]


@pytest.mark.parametrize(
    ("committed", "start", "messages"),
    [({}, 3, [3, 4, 5]), ({LOG: 1}, 3, [3, 4, 5]), ({LOG: 4}, 4, [3, 4, 5]), ({LOG: 8}, 6, [4, 5])],
    ids=["never committed", "retention has passed it", "so near to the start", "the end was lost"],
)
def test_a_log_is_read_from_an_offset_that_it_still_has(
    committed: dict[str, int], start: int, messages: list[int]
) -> None:
    one = log_bench(6)
    one.log_begins[LOG, 0] = 3
    one.assign(0, takeover=replace(NEW, logs_committed=committed))
    one.step()
    assert one.partition().log_bounds == {LOG: LogBounds(start, 3, 6)}
    assert one.partition().messages == messages


def test_a_logs_offset_is_committed_once_its_results_are_durable() -> None:
    one = log_bench()
    one.assign(0)
    one.append(LOG, 0, b"x", b"1")
    one.append(LOG, 0, b"x", b"1")
    one.partition().done = 1
    one.steps(2)
    assert one.committed[LOG, 0] == 1
    one.partition().done = None
    one.steps(2)
    assert one.committed[LOG, 0] == 2


def test_the_first_offset_of_a_log_is_passed_to_its_owner() -> None:
    one = log_bench(3)
    one.assign(0)
    one.step(LogStarts({(LOG, 0): 2, (LOG, 1): 1}))
    assert one.partition().log_starts == [2]
