"""The outbox's log: what was written is read, and damage takes nothing with it that can be read."""

import pytest
from coldnotify._core.publishing.outbox_log import (
    HEAD_BYTES,
    Checkpoint,
    KeptEntry,
    NewerLog,
    Settled,
    accepted_entry,
    checkpoint_entry,
    read_log,
    settled_entry,
)
from coldnotify._core.publishing.outgoing import Outgoing
from hypothesis import given
from hypothesis import strategies as st

TEXT = st.text(max_size=9)
OUTGOING = st.builds(
    Outgoing,
    TEXT,
    TEXT,
    TEXT,
    is_message=st.booleans(),
    payload=st.none() | st.binary(max_size=40),
    version=st.none() | st.integers(0, 1 << 62),
    incarnation=st.none() | st.integers(0, 9),
    deleted=st.booleans(),
    id=TEXT,
    to=st.lists(TEXT, max_size=3).map(tuple),
    expires_at=st.none() | st.integers(0, 9),
    source=st.none() | TEXT,
    time_ms=st.none() | st.integers(0, 9),
    traceparent=st.none() | TEXT,
)
MESSAGES = [Outgoing("d", "g", "c", is_message=True, payload=b"CNo1" * 9, id=str(number)) for number in range(5)]
ENTRIES = [accepted_entry(number, one, given=False, accepted_ms=7) for number, one in enumerate(MESSAGES, 1)]


@given(outgoing=OUTGOING, said=st.booleans())
def test_a_round_trip_preserves_everything(outgoing: Outgoing, said: bool):
    entry = accepted_entry(3, outgoing, given=said, accepted_ms=9)
    log = read_log(checkpoint_entry(2, 8) + entry + settled_entry([1, 3]))
    assert log.entries == [Checkpoint(2, 8), KeptEntry(3, outgoing, said, 9, len(entry)), Settled([1, 3])]
    assert (log.damaged, log.torn_at) == ([], None)


@given(cut=st.integers(1, len(ENTRIES[-1]) - 1), zeros=st.booleans())
def test_a_torn_last_record_is_dropped(cut: int, zeros: bool):
    """What a power cut leaves of a write is its beginning; the rest is not there, or is zeros."""
    whole = b"".join(ENTRIES[:-1])
    rest = ENTRIES[-1][:cut] + (bytes(700) if zeros and cut <= HEAD_BYTES else b"")
    log = read_log(whole + rest)
    assert [entry.number for entry in log.entries if isinstance(entry, KeptEntry)] == [1, 2, 3, 4]
    assert (log.damaged, log.torn_at) == ([], len(whole))


@given(which=st.integers(0, 3), at=st.integers(0, 1 << 20), bit=st.integers(0, 7))
def test_a_damaged_record_takes_no_other_with_it(which: int, at: int, bit: int):
    entries = [bytearray(entry) for entry in ENTRIES]
    entries[which][at % len(entries[which])] ^= 1 << bit
    if entries[0][3:4].isdigit() and entries[0][:3] == b"CNo" and entries[0][:4] != b"CNo1":
        return  # that is what a newer library's begins with
    log = read_log(b"".join(entries))
    numbers = [entry.number for entry in log.entries if isinstance(entry, KeptEntry)]
    assert numbers == [number for number in range(1, 6) if number != which + 1]
    begin = sum(map(len, ENTRIES[:which]))
    assert (log.damaged, log.torn_at) == ([(begin, begin + len(ENTRIES[which]))], None)


def test_a_whole_last_record_that_is_damaged_is_no_torn_one():
    data = bytearray(b"".join(ENTRIES))
    data[-1] ^= 1
    log = read_log(bytes(data))
    assert len(log.entries) == 4
    assert log.damaged == [(len(data) - len(ENTRIES[-1]), len(data))]


@given(st.binary(max_size=200))
def test_any_bytes_are_read(data: bytes):
    try:
        log = read_log(data)
    except NewerLog:
        return
    assert log.entries == []
    ends = [end for _, end in log.damaged] + ([len(data)] if log.torn_at is not None else [])
    assert not data or ends[-1] == len(data)


def test_a_newer_librarys_log_is_not_touched():
    with pytest.raises(NewerLog):
        read_log(b"CNo2" + ENTRIES[0][4:])


def test_a_length_beyond_all_measure_is_damage():
    data = ENTRIES[0] + b"CNo1" + b"\xff" * (HEAD_BYTES - 4) + ENTRIES[1]
    assert [entry.number for entry in read_log(data).entries if isinstance(entry, KeptEntry)] == [1, 2]
