"""The outbox's queue against a plain list, with crashes: what is in the log is what is left."""

from dataclasses import dataclass

import pytest
from coldnotify._core.publishing.outbox_log import KeptEntry
from coldnotify._core.publishing.outbox_queue import STEPS_REMEMBERED_MAX, OutboxQueue
from coldnotify._core.publishing.outgoing import Outgoing
from coldnotify.errors import OutboxFull
from coldnotify_testkit.examples import examples
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule


def version(name: str = "a", number: int | None = None, incarnation: int | None = None) -> Outgoing:
    return Outgoing("d", "g", name, payload=b"{}", version=number, incarnation=incarnation)


def message(name: str = "a", id_: str = "m") -> Outgoing:
    return Outgoing("d", "g", name, is_message=True, payload=b"\x00CNo1", id=id_)


def accept(queue: OutboxQueue, *outgoings: Outgoing, now_ms: int = 5) -> tuple[list[KeptEntry], bytes]:
    made = queue.accept(outgoings, now_ms)
    queue.commit([record for record, _ in made])
    return [record for record, _ in made], b"".join(entry for _, entry in made)


def names(records: list[KeptEntry]) -> list[tuple[str, int | str | None]]:
    return [(record.outgoing.name, record.outgoing.version or record.outgoing.id) for record in records]


def test_a_newer_publish_goes_to_the_end_and_takes_out_the_older_one():
    queue = OutboxQueue(10, 10_000)
    accept(queue, version("a", 1), version("b", 1), version("a", 2))
    assert names(queue.take(10, 10_000)) == [("b", 1), ("a", 2)]


def test_a_record_under_way_stays_until_it_is_known_not_to_be_published():
    queue = OutboxQueue(10, 10_000)
    accept(queue, version("a", 1))
    (first,) = queue.take(1, 10_000)
    accept(queue, version("b", 1), version("a", 2))
    assert len(queue) == 3
    assert queue.put_back([first.number]) == [(1, 3)]
    assert names(queue.take(10, 10_000)) == [("b", 1), ("a", 2)]


@pytest.mark.parametrize("newer", [version("a", 4), version("a", 6, 1), version("b", 6), message("a")])
def test_a_record_that_may_still_count_is_kept(newer: Outgoing):
    queue = OutboxQueue(10, 10_000)
    accept(queue, version("a", 5), newer)
    assert len(queue) == 2


def test_messages_are_all_kept_in_order():
    queue = OutboxQueue(10, 10_000)
    accept(queue, *(message("c", str(n)) for n in range(5)))
    assert names(queue.take(3, 10_000)) == [("c", "0"), ("c", "1"), ("c", "2")]
    assert names(queue.take(3, 10_000)) == [("c", "3"), ("c", "4")]


def test_versions_are_given_above_the_last_also_when_the_clock_goes_back_and_after_a_restart():
    queue = OutboxQueue(10, 10_000)
    records, log = accept(queue, version("a"), version("a"), version("b"), now_ms=100)
    assert names(records) == [("a", 100), ("a", 101), ("b", 100)]
    (record,), more = accept(queue, version("a"), now_ms=50)
    assert record.outgoing.version == 102
    log += more + queue.settle([2, 3, 4])
    for data in (log, queue.compacted()):
        again = OutboxQueue(10, 10_000)
        again.load(data)
        assert len(again) == 0
        (record,), _ = accept(again, version("a"), now_ms=50)
        assert (record.number, record.outgoing.version) == (5, 103)


def test_a_version_that_the_application_gave_counts_too():
    queue = OutboxQueue(10, 10_000)
    accept(queue, version("a", 1_000))
    (record,), _ = accept(queue, version("a"))
    assert record.outgoing.version == 1_001


def test_a_settled_entry_without_its_record_is_harmless():
    queue = OutboxQueue(10, 10_000)
    queue.load(OutboxQueue(1, 1).settle([7]))
    (record,), _ = accept(queue, message())
    assert record.number == 8


def test_it_is_full_by_records_and_by_bytes_and_nothing_is_lost():
    queue = OutboxQueue(2, 10_000)
    accept(queue, version("a", 1), message())
    with pytest.raises(OutboxFull, match=r"^outbox_max_records: 2 "):
        queue.accept([message()], 5)
    accept(queue, version("a", 2))  # takes out the older one
    assert len(queue) == 2
    small = OutboxQueue(10, 300)
    accept(small, message())
    with pytest.raises(OutboxFull, match=r"^outbox_max_bytes: "):
        small.accept([message()] * 3, 5)
    assert len(small) == 1
    small.settle([1])
    accept(small, message())


def test_abandoned_records_leave_no_trace():
    queue = OutboxQueue(10, 10_000)
    accept(queue, version("a", 1))
    size = queue.size_bytes
    queue.abandon([record for record, _ in queue.accept([version("a", 2), message()], 5)])
    assert (len(queue), queue.size_bytes) == (1, size)
    assert names(queue.take(9, 9_999)) == [("a", 1)]


@dataclass
class Row:
    """Of the model: one record that is left."""

    number: int
    outgoing: Outgoing
    under_way: bool = False
    outdone: bool = False
    """A newer one was accepted while it was under way."""


class AgainstAList(RuleBasedStateMachine):
    """Whatever is done, and wherever it is killed: the queue has what the plain list has."""

    def __init__(self) -> None:
        super().__init__()
        self.queue = OutboxQueue(1000, 1_000_000)
        self.log = b""
        self.rows: list[Row] = []
        self.ids = 0
        self.stale: set[int] = set()

    def outdone(self, older: Row, newer: Row) -> bool:
        if older.outgoing.is_message or newer.outgoing.is_message or older.outgoing.name != newer.outgoing.name:
            return False
        return (older.outgoing.version or 0) <= (newer.outgoing.version or 0)

    @rule(
        names=st.lists(st.sampled_from("abc"), min_size=1, max_size=3),
        are_messages=st.booleans(),
        number=st.integers(1, 9),
    )
    def publish(self, names: list[str], are_messages: bool, number: int) -> None:
        outgoings = []
        for name in names:
            self.ids += 1
            outgoings.append(message(name, str(self.ids)) if are_messages else version(name, number))
        records, data = accept(self.queue, *outgoings)
        self.log += data
        for record in records:
            row = Row(record.number, record.outgoing)
            for older in self.rows:
                older.outdone |= self.outdone(older, row)
            self.rows = [older for older in self.rows if older.under_way or not older.outdone] + [row]

    @rule(most=st.integers(1, 4))
    def take(self, most: int) -> None:
        expected = [row for row in self.rows if not row.under_way][:most]
        assert [record.number for record in self.queue.take(most, 1_000_000)] == [row.number for row in expected]
        for row in expected:
            row.under_way = True

    @rule(which=st.integers(0, 5), published=st.booleans())
    def answered(self, which: int, published: bool) -> None:
        under_way = [row for row in self.rows if row.under_way]
        if not under_way:
            return
        row = under_way[which % len(under_way)]
        if published:
            self.log += self.queue.settle([row.number])
            self.rows.remove(row)
            return
        self.queue.put_back([row.number])
        row.under_way = False
        later = [other for other in self.rows if other.number > row.number]
        if any(self.outdone(row, other) for other in later):
            self.rows.remove(row)
        elif row.outdone:
            row.outdone = False  # by one that is published already: then it is sent again, and is stale
            self.stale.add(row.number)

    @rule(torn=st.binary(max_size=3), compacted=st.booleans())
    def killed(self, torn: bytes, compacted: bool) -> None:
        if compacted:
            self.log = self.queue.compacted()
        self.queue = OutboxQueue(1000, 1_000_000)
        self.queue.load(self.log + b"CNo1"[: len(torn)])
        before, self.rows = self.rows, []
        for row in before:  # what was under way is taken out now, if there was a newer one
            if compacted or not (row.outdone or row.number in self.stale):
                self.rows = [older for older in self.rows if not self.outdone(older, row)]
                self.rows.append(Row(row.number, row.outgoing))

    @invariant()
    def has_what_is_left(self) -> None:
        assert len(self.queue) == len(self.rows)
        assert all(row.number in self.queue for row in self.rows)
        assert self.queue.under_way == sum(row.under_way for row in self.rows)


TestAgainstAList = AgainstAList.TestCase
TestAgainstAList.settings = settings(max_examples=examples(1.0), stateful_step_count=40, deadline=None)


YEARS_MS = 10 * 365 * 86_400_000
NOW_MS = 1_800_000_000_000


def test_a_version_says_whether_the_clock_made_it():
    queue = OutboxQueue(100, 100_000)
    made = accept(queue, version(), version(), version(number=NOW_MS + 9), now_ms=NOW_MS)[0]
    made += accept(queue, version(), now_ms=NOW_MS)[0]
    assert [(one.outgoing.version, one.outgoing.clock_ms) for one in made] == [
        (NOW_MS, NOW_MS),
        (NOW_MS + 1, NOW_MS + 1),
        (NOW_MS + 9, None),
        (NOW_MS + 10, None),  # above one that somebody chose
    ]


def test_versions_numbered_by_a_wrong_clock_get_the_numbers_of_a_right_one():
    queue = OutboxQueue(100, 100_000)
    (old,) = accept(queue, version("a"), now_ms=NOW_MS + YEARS_MS)[0]
    first, second = accept(queue, version("b")._replace(priority="high"), version("b"), now_ms=NOW_MS + YEARS_MS + 5)[0]
    (told,) = accept(queue, version("c", 7)._replace(expires_at=NOW_MS + YEARS_MS + 50), now_ms=NOW_MS + YEARS_MS)[0]
    log = queue.compacted()
    queue.take(100, 100_000)
    # The service sees them 100 ms after the first was accepted, and its clock is right.
    numbers = {one.number: NOW_MS + 100 for one in (old, first, second, told)}
    made = queue.renumber(numbers, NOW_MS + YEARS_MS + 100)
    versions = [one.outgoing.version for one, _ in made]
    assert versions == [NOW_MS, NOW_MS + 5, NOW_MS + 6, 7]
    assert [one.outgoing.clock_ms for one, _ in made] == [NOW_MS, NOW_MS + 5, NOW_MS + 6, NOW_MS]
    assert made[-1][0].outgoing.expires_at == NOW_MS + 50

    again = OutboxQueue(100, 100_000)
    again.load(log + b"".join(entry for _, entry in made))
    assert [one.outgoing.version for one in again.take(100, 100_000)] == versions
    for one in (queue, again):
        (later,) = accept(one, version("b"), now_ms=NOW_MS + 200)[0]
        assert later.outgoing.version == NOW_MS + 200  # the clock was set right: nothing goes on in ten years
    assert again.size_bytes == queue.size_bytes


def test_versions_numbered_before_the_clock_was_corrected_get_the_present_time():
    queue = OutboxQueue(100, 100_000)
    (one,) = accept(queue, version(), now_ms=NOW_MS + YEARS_MS)[0]
    (later,) = accept(queue, version(), now_ms=NOW_MS)[0]  # above the first, so from the same clock
    assert later.outgoing.clocked
    made = queue.renumber({one.number: NOW_MS, later.number: NOW_MS}, NOW_MS)
    assert [record.outgoing.version for record, _ in made] == [NOW_MS]  # the newer one had taken the first out
    queue.take(9, 9_999)
    queue.settle([later.number])
    (last,) = accept(queue, version(), now_ms=NOW_MS)[0]
    assert last.outgoing.version == NOW_MS + 1


@pytest.mark.parametrize("steps", [1, 2, STEPS_REMEMBERED_MAX])
def test_versions_possibly_published_before_the_clock_stepped_are_outdone_after_any_number_of_restarts(steps: int):
    queue = OutboxQueue(100, 100_000)
    (sent,) = accept(queue, version(), now_ms=NOW_MS)[0]
    queue.take(9, 9_999)  # Kafka has it, and the answer is lost
    for step in range(1, steps + 1):
        (stepped,) = accept(queue, version(), now_ms=NOW_MS + 2 * step * 3_600_000)[0]
    for _ in range(3):
        log, queue = queue.compacted(), OutboxQueue(100, 100_000)
        queue.load(log)
        assert names(queue.take(9, 9_999)) == [("a", stepped.outgoing.version)]
    # By the service's clock, which is behind ours, it was published a minute before the first.
    (made,) = queue.renumber({stepped.number: NOW_MS - 60_000}, stepped.accepted_ms)
    assert made[0].outgoing.version == (sent.outgoing.version or 0) + 1
    queue.settle([stepped.number])
    (last,) = accept(queue, version(), now_ms=NOW_MS)[0]
    assert last.outgoing.version == (sent.outgoing.version or 0) + 2


def test_one_objects_number_is_not_every_objects():
    queue = OutboxQueue(100, 100_000)
    (highest,) = accept(queue, version("a", 2**63 - 2), now_ms=NOW_MS)[0]
    (next_one,) = accept(queue, version("a"), now_ms=NOW_MS)[0]
    assert next_one.outgoing.version == 2**63 - 1
    with pytest.raises(ValueError, match=r"^version: "):
        queue.accept([version("a")], NOW_MS)
    again = OutboxQueue(100, 100_000)
    again.load(queue.compacted())
    (other,) = accept(again, version("b"), now_ms=NOW_MS)[0]
    assert other.outgoing.version == NOW_MS
    assert highest.number == 1


# --- patches of descriptions


def patched(number: int | None, patch: str, name: str = "a") -> Outgoing:
    return version(name, number)._replace(describe=patch)


def patch(text: str, name: str = "a") -> Outgoing:
    return Outgoing("d", "g", name, describe=text, only_describe=True)


def said(records: list[KeptEntry]) -> list[tuple[int | None, str]]:
    return [(record.outgoing.version, record.outgoing.describe) for record in records]


def test_a_newer_one_takes_the_patches_over_that_wait():
    queue = OutboxQueue(10, 10_000)
    accept(queue, patch('{"a":1,"b":1}'), patched(1, '{"b":2}'), patch('{"c":3}'), patch('{"c":4}'), version("a", 2))
    assert said(queue.take(10, 10_000)) == [(2, '{"a":1,"b":2,"c":4}')]


def test_a_patch_alone_takes_no_version_out():
    queue = OutboxQueue(10, 10_000)
    accept(queue, patched(1, '{"a":1}'), patch('{"a":2}'), patch('{"b":3}'))
    assert said(queue.take(10, 10_000)) == [(1, '{"a":1}'), (None, '{"a":2,"b":3}')]


def test_no_patch_comes_before_one_that_is_under_way():
    queue = OutboxQueue(10, 10_000)
    accept(queue, patch('{"a":1}'))
    (first,) = queue.take(1, 10_000)
    accept(queue, patch('{"a":2}'), patched(3, '{"a":3}'))
    assert queue.put_back([first.number]) == []
    assert said(queue.take(10, 10_000)) == [(None, '{"a":1}'), (3, '{"a":3}')]


def test_a_version_that_still_counts_keeps_its_patch_and_those_before_it():
    queue = OutboxQueue(10, 10_000)
    accept(queue, patch('{"a":1}'), patched(5, '{"a":2}'), patched(4, '{"a":3}'))
    assert said(queue.take(10, 10_000)) == [(5, '{"a":1}'.replace("1", "2")), (4, '{"a":3}')]


def test_after_a_crash_patches_come_in_their_order_and_what_was_settled_with_another_is_gone():
    queue = OutboxQueue(10, 10_000)
    _, log = accept(queue, patch('{"a":1}'), patched(1, '{"a":2}'), message())
    again = OutboxQueue(10, 10_000)
    again.load(log)
    assert said(again.take(2, 10_000)) == [(None, '{"a":1}'), (1, '{"a":2}')]
    log += queue.settle([2])
    again = OutboxQueue(10, 10_000)
    again.load(log)
    assert names(again.take(10, 10_000)) == [("a", "m")]
    assert len(again) == 1


def test_two_patches_that_are_too_long_together_stay_two():
    queue = OutboxQueue(10, 100_000)
    long = ",".join(f'"x{number}":"{"y" * 250}"' for number in range(40))
    other = long.replace("x", "z")
    accept(queue, patch(f"{{{long}}}"), patch(f"{{{other}}}"), patch('{"a":1}'))
    assert [len(text) for _, text in said(queue.take(10, 100_000))] == [len(long) + 2, len(other) + 2 + 6]
