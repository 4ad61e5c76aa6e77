"""Room on the disk of a data directory."""

import shutil
from collections import namedtuple
from pathlib import Path

import pytest
from coldnotify_kafka.errors import DiskFullError
from coldnotify_kafka.room import FREE_BYTES_MIN, DiskRoom, check_room, room_of

_MIB = 1024 * 1024
_Usage = namedtuple("_Usage", "total used free")


def disk_with(monkeypatch: pytest.MonkeyPatch, free_bytes: int, whole_bytes: int = 10_000 * _MIB) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: _Usage(whole_bytes, 0, free_bytes))


def test_a_directory_that_will_be_made_is_on_the_disk_of_the_one_above(tmp_path: Path) -> None:
    later, here = room_of(tmp_path / "a" / "b"), room_of(tmp_path)
    assert later.whole_bytes == here.whole_bytes > 0
    assert later.directory == tmp_path / "a" / "b"


@pytest.mark.parametrize(
    ("free_mib", "full", "nearly_full"), [(10, True, True), (64, False, True), (499, False, True), (500, False, False)]
)
def test_a_disk_is_full_below_the_minimum(free_mib: int, full: bool, nearly_full: bool) -> None:
    one = DiskRoom(Path("/data"), free_mib * _MIB, 10_000 * _MIB)
    assert (one.is_full, one.is_nearly_full) == (full, nearly_full)


def test_a_full_disk_is_named_with_what_is_free_and_what_is_needed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    disk_with(monkeypatch, 3 * _MIB)
    with pytest.raises(DiskFullError) as raised:
        check_room(tmp_path)
    words = str(raised.value)
    assert words.startswith(f"the disk is full: 3 MiB of 10000 MiB are free on the disk of {tmp_path}")
    assert "64 MiB" in words
    assert "\n" not in words


def test_a_disk_with_room_causes_no_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    disk_with(monkeypatch, FREE_BYTES_MIN)
    check_room(tmp_path)


def test_a_disk_without_figures_does_not_count_as_full(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fails(_: object) -> None:
        raise OSError("no answer")

    monkeypatch.setattr(shutil, "disk_usage", fails)
    check_room(tmp_path)
