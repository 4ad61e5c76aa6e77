"""What becomes of partitions that fail, while the others go on: with a job of a few lines."""

from typing import Any

import pytest
from coldnotify_streams.core.actions import Drop, LoadsAnew, Say, WriteRecords
from coldnotify_streams.core.events import Records
from coldnotify_streams.core.job import Outputs, RecordRefused
from coldnotify_streams.core.partition_progress import OwningPhase
from coldnotify_testkit.tally_bench import TallyBench, bench, kinds, log_bench
from coldnotify_testkit.tally_job import ANSWERS, CLAIM, LOG, REQUESTS, STATE, TABLE, Written


def test_a_foreign_claim_drops_only_that_partition_which_is_claimed_again_later() -> None:
    one = bench()
    one.request(0)
    one.step()
    other = one.partition(1)
    one.append(STATE, 0, CLAIM, b"another")
    assert Drop in kinds(one.step(), Drop)
    assert one.run.partitions == {1: other}
    one.request(0)
    one.steps(2)
    assert one.run.partitions == {1: other}
    one.steps(4)
    again = one.partition(0)
    assert again.phase is OwningPhase.OWNED
    assert again.takeover is not None
    assert (again.takeover.requests_start, again.takeover.requests_known) == (1, True)
    assert again.sums == {"a": [0, 1]}


def test_a_dropped_partition_that_the_group_has_given_away_is_not_claimed_again() -> None:
    one = bench()
    one.append(STATE, 0, CLAIM, b"another")
    one.step()
    one.assigned.discard(0)
    one.steps(10)
    assert 0 not in one.run.partitions


def test_a_record_of_a_later_release_parks_its_partition_alone() -> None:
    one = TallyBench()
    one.append(STATE, 0, b"a", b"newer")
    one.assign(0, 1)
    assert set(one.run.partitions) == {1}
    assert set(one.run.waiting) == {0}
    assert [r.key for r in one.log[STATE, 0]] == [b"a"], "nothing is written there"
    one.append(STATE, 0, b"a", b"[1]")
    one.steps(40)
    assert one.partition(0).phase is OwningPhase.OWNED


@pytest.mark.parametrize("about", [{"raise": True}, {"key": "step-raises"}], ids=["handling it", "its step"])
def test_a_request_that_raises_is_set_aside_and_its_partition_goes_on(about: dict[str, Any]) -> None:
    one = bench()
    other = one.partition(1)
    one.request(0)
    bad = one.request(0, **about)
    one.request(0)
    one.steps(12)
    assert [(r.topic, r.offset) for r in one.partition(0).aside] == [(REQUESTS, bad)]
    assert one.partition(0).sums == {"a": [0, 2]}
    assert one.partition(1) is other
    assert one.committed[REQUESTS, 0] == 3


def test_a_record_of_the_table_that_raises_is_set_aside() -> None:
    one = bench()
    bad = one.append(TABLE, 0, b"x", b"raise")
    one.request(0, wait=True)
    one.steps(6)
    assert [(r.topic, r.offset) for r in one.partition(0).aside] == [(TABLE, bad)]
    assert one.partition(0).handled == [0]


def test_a_refused_record_is_a_fault_of_its_partition_if_one_owns_it() -> None:
    one = bench()
    one.request(0)
    one.refused = [RecordRefused(ANSWERS, 0, b"", "too large")]
    assert "a record is lost that Kafka does not take" in [a.words for a in one.step() if isinstance(a, Say)]
    assert set(one.run.partitions) == {0, 1}
    one.request(0)
    one.refused = [RecordRefused(STATE, 0, b"", "too large")]
    other = one.partition(1)
    assert [action.partition for action in one.step() if isinstance(action, LoadsAnew)] == [0]
    assert one.partition(1) is other


def test_a_record_refused_by_another_partition_is_a_fault_of_its_writer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is moved to another partition, and not taken there, must not be removed from its own."""
    one = bench()
    moved = Written(STATE, 1, b"moved", b"away")
    monkeypatch.setattr(
        one.partition(0), "take_step", lambda _now_ms: Outputs([moved], [Written(ANSWERS, 0, b"", b"")])
    )
    one.refuses = {b"moved"}
    other = one.partition(1)
    answers = len(one.log[ANSWERS, 0])
    one.request(0)
    assert [action.partition for action in one.step() if isinstance(action, LoadsAnew)] == [0]
    assert len(one.log[ANSWERS, 0]) == answers, "nothing that rests on it is written"
    assert one.partition(1) is other


def test_the_error_of_a_question_is_raised_where_it_was_asked() -> None:
    """A record that the producer does not take is a fault of its partition: no other one notices."""
    one = bench()
    one.request(0)
    other = one.partition(1)
    one.fails[WriteRecords] = OverflowError("no C integer")
    assert [action.partition for action in one.step() if isinstance(action, LoadsAnew)] == [0]
    one.steps(8)
    assert one.partition(0).sums == {"a": [0]}
    assert one.partition(1) is other


def test_a_record_of_a_log_that_raises_is_left_out_and_all_others_are_handled() -> None:
    one = log_bench(2)
    one.assign(0)
    one.step()
    one.append(LOG, 0, b"x", b"raise")
    one.append(LOG, 0, b"x", b"1")
    one.steps(6)
    assert [(record.topic, record.offset) for record in one.partition().aside] == [(LOG, 2)]
    assert one.partition().messages[-1] == 3
    one.steps(2)
    assert one.committed[LOG, 0] == 4


def test_a_partition_that_is_loaded_anew_reads_its_log_from_what_was_noted() -> None:
    one = log_bench(8)
    one.assign(0)
    one.step()
    one.append(TABLE, 0, b"x", b"raise")
    one.steps(6)
    takeover = one.partition().takeover
    assert takeover is not None
    assert takeover.logs_committed == {LOG: 8}
    assert one.partition().messages == [6, 7]


def test_records_of_a_log_from_before_a_load_are_ignored() -> None:
    one = log_bench(8)
    one.assign(0)
    one.step()
    late = Records([one.log[LOG, 0][7]])
    one.append(TABLE, 0, b"x", b"raise")
    one.step()
    one.events.insert(0, late)
    one.steps(5)
    assert one.partition().messages == [6, 7]
