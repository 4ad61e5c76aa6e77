"""Versions by arrival, and the two kinds of header."""

import pytest
from coldnotify_schemas.arrival_versions import (
    ARRIVAL_HEADER,
    TIMES_FROM,
    arrival_header,
    arrival_of,
    arrival_version,
    checkpoint_epoch,
    checkpoint_header,
    checkpoint_of,
    is_by_arrival,
)
from coldnotify_schemas.records import VERSION_MAX, PublicRecord

NOW_MS = 1_700_000_000_000


@pytest.mark.parametrize(
    ("newest", "timestamp_ms", "version"),
    [
        (-1, NOW_MS, NOW_MS),
        (-1, -1, -1),
        (0, NOW_MS, 1),
        (41, NOW_MS, 42),
        (TIMES_FROM - 1, NOW_MS, TIMES_FROM),
        (TIMES_FROM, NOW_MS, NOW_MS),
        (NOW_MS - 1, NOW_MS, NOW_MS),
        (NOW_MS, NOW_MS, NOW_MS + 1),
        (NOW_MS + 5_000, NOW_MS, NOW_MS + 5_001),
        (NOW_MS, -1, NOW_MS + 1),
        (VERSION_MAX, NOW_MS, VERSION_MAX),
    ],
)
def test_a_version_by_arrival(newest: int, timestamp_ms: int, version: int) -> None:
    assert arrival_version(newest, timestamp_ms) == version


@pytest.mark.parametrize(
    ("record", "header", "by_arrival"),
    [
        (PublicRecord(), b"", True),
        (PublicRecord(), b"anything", True),
        (PublicRecord(), None, False),
        (PublicRecord(version=1), b"", False),
        (PublicRecord(incarnation=1), b"", False),
    ],
)
def test_a_record_by_arrival_says_neither_version_nor_incarnation(
    record: PublicRecord, header: bytes | None, by_arrival: bool
) -> None:
    assert is_by_arrival(record, header) is by_arrival


def test_a_checkpoint_names_the_place_that_its_owner_had_read_up_to() -> None:
    said = PublicRecord(version=1, incarnation=0)
    name, value = checkpoint_header(0x5EED, 41)
    assert (name, value) == (ARRIVAL_HEADER, b"00005eed/41")
    assert checkpoint_of(said, value, 0x5EED, 42) == 41
    for other in (
        checkpoint_of(said, value, 0x5EED, 40),  # no owner reads what is to come
        checkpoint_of(said, value, 0x5EEE, 42),
        checkpoint_of(said, arrival_header()[1], 0x5EED, 42),
        checkpoint_of(said, None, 0x5EED, 42),
        checkpoint_of(said, b"5eed", 0x5EED, 42),
        checkpoint_of(PublicRecord(version=1), value, 0x5EED, 42),
        checkpoint_of(PublicRecord(), value, 0x5EED, 42),
    ):
        assert other is None


@pytest.mark.parametrize(
    ("headers", "value"),
    [
        ([], None),
        ([("other", b"x")], None),
        ([(ARRIVAL_HEADER, None)], b""),
        ([(ARRIVAL_HEADER, b"a"), ("other", b"x"), (ARRIVAL_HEADER, b"b")], b"b"),
    ],
)
def test_the_last_header_counts_also_without_a_value(
    headers: list[tuple[str, bytes | None]], value: bytes | None
) -> None:
    assert arrival_of(headers) == value


@pytest.mark.parametrize(("header", "epoch"), [(b"00005eed/41", 0x5EED), (b"", None), (None, None), (b"x/1", None)])
def test_the_epoch_of_a_checkpoint(header: bytes | None, epoch: int | None) -> None:
    assert checkpoint_epoch(header) == epoch
