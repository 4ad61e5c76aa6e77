"""The outbox's directory: what was accepted is there after any end, and errors name the file.

Stands for: outbox_base
"""

import errno
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from coldnotify._core.publishing.outgoing import Outgoing
from coldnotify._outbox import outbox_directory
from coldnotify._outbox.outbox_directory import OutboxDirectory
from coldnotify.errors import OutboxError, OutboxFull, OutboxInUse


def message(number: int, payload: bytes = b"x") -> Outgoing:
    return Outgoing("d", "g", "c", is_message=True, payload=payload, id=str(number))


def ids(path: Path) -> list[str]:
    directory = OutboxDirectory(path)
    found = [record.outgoing.id for record in directory.take(10_000, 1 << 30)]
    directory.close()
    return found


def test_an_accepted_record_survives_restarts_until_it_is_settled(tmp_path: Path):
    directory = OutboxDirectory(tmp_path / "out")
    first, *_ = directory.accept([message(1), message(2)])
    directory.accept([message(3)])
    directory.settle([first.number])
    assert directory.pending()[0] == 2
    directory.close()
    directory.close()
    assert ids(tmp_path / "out") == ["2", "3"]
    rights = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "out").iterdir()}
    assert rights == {"outbox.log": 0o600, "outbox.lock": 0o600}
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o700
    with pytest.raises(OutboxError, match=r"^outbox: .*closed"):
        directory.accept([message(4)])


def test_it_is_durable_before_it_is_said_to_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    steps: list[str] = []
    fsync, pwrite = os.fsync, os.pwrite

    def record_fsync(file: int) -> None:
        steps.append("fsync " + Path(f"/proc/self/fd/{file}").resolve().name)
        fsync(file)

    def record_pwrite(file: int, data: bytes, at: int) -> int:
        steps.append("write " + Path(f"/proc/self/fd/{file}").resolve().name)
        return pwrite(file, data, at)

    monkeypatch.setattr(os, "fsync", record_fsync)
    monkeypatch.setattr(os, "pwrite", record_pwrite)
    directory = OutboxDirectory(tmp_path / "out")
    assert steps == [f"fsync {tmp_path.name}", "write outbox.log.new", "fsync outbox.log.new", "fsync out"]
    steps.clear()
    directory.accept([message(1)])
    assert steps == ["write outbox.log", "fsync outbox.log"]
    directory.close()


def test_threads_write_together(tmp_path: Path):
    directory = OutboxDirectory(tmp_path)
    threads = [
        threading.Thread(target=lambda n=n: [directory.accept([message(n * 100 + k)]) for k in range(20)])
        for n in range(5)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    directory.close()
    found = ids(tmp_path)
    assert sorted(found) == sorted(str(n * 100 + k) for n in range(5) for k in range(20))
    for n in range(5):
        assert [int(one) for one in found if int(one) // 100 == n] == [n * 100 + k for k in range(20)]


@pytest.mark.parametrize("fails", ["write", "half a write", "fsync"])
def test_a_failed_write_refuses_the_record_and_loses_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str
):
    directory = OutboxDirectory(tmp_path)
    first, _ = directory.accept([message(1), message(2)])
    directory.settle([first.number])
    fsync, pwrite = os.fsync, os.pwrite

    def fail(file: int, data: memoryview | None = None, at: int = 0) -> int:
        if data is not None and fails == "half a write":
            monkeypatch.setattr(os, "pwrite", lambda *_: fail(file))
            return pwrite(file, data[: len(data) // 2], at)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync" if fails == "fsync" else "pwrite", fail)
    with pytest.raises(OutboxError, match=r"^outbox: .*outbox\.log: cannot be written: .*No space left"):
        directory.accept([message(3)])
    directory.settle([])
    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "pwrite", pwrite)
    copy = (tmp_path / "outbox.log").read_bytes()
    directory.accept([message(4)])
    directory.close()
    assert ids(tmp_path) == ["2", "4"]
    (tmp_path / "outbox.log").write_bytes(copy)  # killed in between
    assert ids(tmp_path) == ["2"]


def test_a_torn_last_record_is_dropped_and_a_damaged_one_is_set_aside(tmp_path: Path):
    directory = OutboxDirectory(tmp_path)
    directory.accept([message(1)])
    directory.accept([message(2, b"in the middle")])
    directory.accept([message(3)])
    directory.close()
    log = tmp_path / "outbox.log"
    data = log.read_bytes()
    log.write_bytes(data[:-3])
    torn = OutboxDirectory(tmp_path)
    assert torn.damage is None
    assert [record.outgoing.id for record in torn.take(9, 9999)] == ["1", "2"]
    torn.close()
    assert not list(tmp_path.glob("*damaged*"))
    log.write_bytes(data.replace(b"in the middle", b"in the muddle"))
    damaged = OutboxDirectory(tmp_path)
    assert damaged.damage is not None
    assert str(damaged.damage).startswith(f"outbox: {log}: ")
    assert damaged.damage.aside == str(tmp_path / "outbox.damaged-1")
    assert b"in the muddle" in Path(damaged.damage.aside).read_bytes()
    assert [record.outgoing.id for record in damaged.take(9, 9999)] == ["1", "3"]
    damaged.close()
    again = OutboxDirectory(tmp_path)
    assert again.damage is None
    again.close()


def test_a_newer_librarys_log_is_refused_and_left(tmp_path: Path):
    (tmp_path / "outbox.log").write_bytes(b"CNo2...")
    with pytest.raises(OutboxError, match=r"^outbox: .*outbox\.log: was written by a newer library"):
        OutboxDirectory(tmp_path)
    assert (tmp_path / "outbox.log").read_bytes() == b"CNo2..."


def test_one_that_cannot_be_used_is_named(tmp_path: Path):
    with pytest.raises(ValueError, match=r"^outbox: is empty"):
        OutboxDirectory("")
    with pytest.raises(ValueError, match=r"^outbox_max_bytes: 0 "):
        OutboxDirectory(tmp_path, bytes_max=0)
    with pytest.raises(ValueError, match=r"^outbox_max_records: 0 "):
        OutboxDirectory(tmp_path, records_max=0)
    with pytest.raises(OutboxError, match=r"^outbox: .*/a/b: cannot be used: "):
        OutboxDirectory(tmp_path / "a" / "b")
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(OutboxError, match=r"^outbox: .*/file: cannot be used: "):
        OutboxDirectory(tmp_path / "file")
    (tmp_path / "odd" / "outbox.log").mkdir(parents=True)
    with pytest.raises(OutboxError, match=r"^outbox: .*outbox\.log: cannot be read: "):
        OutboxDirectory(tmp_path / "odd")


def test_two_may_not_use_one(tmp_path: Path):
    directory = OutboxDirectory(tmp_path)
    with pytest.raises(OutboxInUse, match=r"^outbox: .*in use"):
        OutboxDirectory(tmp_path)
    program = (
        "import sys\nfrom coldnotify._outbox.outbox_directory import OutboxDirectory\nOutboxDirectory(sys.argv[1])"
    )
    run = subprocess.run([sys.executable, "-c", program, tmp_path], capture_output=True, text=True, timeout=120)
    assert "OutboxInUse: outbox: " in run.stderr
    directory.close()
    OutboxDirectory(tmp_path).close()


def test_it_is_full_by_bytes_and_what_waits_stays(tmp_path: Path):
    directory = OutboxDirectory(tmp_path, bytes_max=1000)
    directory.accept([message(1, bytes(700))])
    with pytest.raises(OutboxFull, match=r"^outbox_max_bytes: "):
        directory.accept([message(2, bytes(700))])
    directory.close()
    assert ids(tmp_path) == ["1"]


def test_the_log_does_not_grow_with_what_is_settled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(outbox_directory, "DEAD_BYTES_MIN", 10_000)
    directory = OutboxDirectory(tmp_path)
    (kept,) = directory.accept([message(0, b"kept")])
    most = 0
    for number in range(1, 60):
        (record,) = directory.accept([message(number, bytes(1000))])
        directory.settle([record.number])
        most = max(most, (tmp_path / "outbox.log").stat().st_size)
    assert most < 13_000
    assert kept.number in directory
    directory.close()
    assert ids(tmp_path) == ["0"]


def test_rejected_records_are_kept_in_a_file_of_bounded_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    directory = OutboxDirectory(tmp_path)
    (record,) = directory.accept([message(1, b"\xff")])
    rejected = directory.set_aside(record, "too odd")
    assert (rejected.channel, rejected.object, rejected.id, rejected.reason) == ("c", None, "1", "too odd")
    line = json.loads((tmp_path / "rejected.jsonl").read_text())
    assert (line["channel"], line["reason"], line["payload_base64"]) == ("c", "too odd", "/w==")
    monkeypatch.setattr(outbox_directory, "REJECTED_BYTES_MAX", 10)
    directory.set_aside(record, "once more")
    assert "too odd" in (tmp_path / "rejected.old.jsonl").read_text()
    assert "once more" in (tmp_path / "rejected.jsonl").read_text()
    directory.close()


def test_it_follows_no_link(tmp_path: Path):
    others = tmp_path / "others"
    box = tmp_path / "box"
    box.mkdir()
    (box / "outbox.lock").symlink_to(others)
    with pytest.raises(OutboxError, match=r"outbox\.lock"):
        OutboxDirectory(box)
    assert not others.exists()
