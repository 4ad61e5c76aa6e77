"""The outbox's directory: accepted records are on disk before the caller returns, and survive a power cut.

It contains

    outbox.log          accepted and settled records (docs/adr/0036-outbox.md, coldnotify._core.publishing.outbox_log)
    outbox.lock         held while it is in use
    outbox.log.new      while the log is being rewritten
    outbox.damaged-1    the unreadable part of the log, unchanged
    rejected.jsonl      what the service refused for ever, one JSON object a line; before that: rejected.old.jsonl

All of them are for their owner only, because whoever can write them controls what is published.
"""

import base64
import fcntl
import json
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from coldnotify._core.publishing.outbox_log import KeptEntry, NewerLog, OutboxLog
from coldnotify._core.publishing.outbox_queue import OutboxQueue
from coldnotify._core.publishing.outgoing import Outgoing
from coldnotify._forked import in_children
from coldnotify._outbox.outbox_base import Outbox, RejectedRecord, rejected_of
from coldnotify.errors import OutboxDamaged, OutboxError, OutboxInUse

RECORDS_MAX = 100_000
BYTES_MAX = 64 * 1024 * 1024
"""Limit on waiting records, which are in memory as well. The log on disk may be twice as large."""
DEAD_BYTES_MIN = 1024 * 1024
"""The log is rewritten when more of it than this, and more than what waits, is settled: so each byte is copied at most
once.
"""
SYNC_S = 1.0
"""How much later, at most, settled records are durable. After a power cut before that they are sent again, with the
same version or id.
"""
REJECTED_BYTES_MAX = 16 * 1024 * 1024
"""Limit on rejected.jsonl; then it becomes rejected.old.jsonl, and replaces the previous one."""


class _Commit:
    """Records that are written together."""

    def __init__(self) -> None:
        self.made: list[tuple[KeptEntry, bytes]] = []
        self.done = False
        self.error: OSError | None = None


class OutboxDirectory(Outbox):
    """The queue and its log. Safe to use from many threads: what they accept at the same time is written at once."""

    def __init__(
        self, path: str | os.PathLike[str], *, records_max: int = RECORDS_MAX, bytes_max: int = BYTES_MAX
    ) -> None:
        """Takes it, and makes it if it is not there. Raises OutboxError, OutboxInUse; ValueError with the argument."""
        if not os.fspath(path):
            raise ValueError("outbox: is empty")
        if records_max < 1:
            raise ValueError(f"outbox_max_records: {records_max!r} is less than 1")
        if bytes_max < 1:
            raise ValueError(f"outbox_max_bytes: {bytes_max!r} is less than 1")
        super().__init__(OutboxQueue(records_max, bytes_max))
        self._path = Path(path).absolute()
        self._log_path = self._path / "outbox.log"
        self._disk = threading.Lock()
        """Held by who writes. Taken before `_lock`, never within it; that is never held while the disk works."""
        self._gathering = _Commit()
        self._settled = bytearray()
        """Not written yet: the disk did not take it."""
        self._end = 0
        self._tail_is_torn = False
        self._synced_s = time.monotonic()
        self._unsynced = False
        self._directory_due = False
        """The log has its name since the directory was durable last."""
        self._log_file = -1
        self._lock_file = self._take()
        try:
            self._open_log()
        except BaseException:
            if self._log_file >= 0:
                os.close(self._log_file)
            os.close(self._lock_file)
            raise
        in_children(self)

    def forked(self) -> None:
        """A child lets go of both files: they are its parent's."""
        if not self._closed:
            os.close(self._log_file)
            os.close(self._lock_file)
        self._closed = True

    def __str__(self) -> str:
        return str(self._path)

    # -- what comes ----------------------------------------------------------------------------------------------------

    def accept(
        self,
        outgoings: Sequence[Outgoing],
        on_numbered: Callable[[list[KeptEntry]], None] = lambda _: None,
        version_min: int = 0,
    ) -> list[KeptEntry]:
        """Keeps these, all or none; returns when they are durable. Raises OutboxFull, OutboxError, UsedAfterFork.

        `on_numbered` is called with the numbered records before anybody can take them.
        """
        self.owner.check()
        with self._lock:
            self._check_open()
            made = self._queue.accept(outgoings, time.time_ns() // 1_000_000, version_min)
            on_numbered([record for record, _ in made])
            commit = self._gathering
            commit.made.extend(made)
        with self._disk:
            if not commit.done:
                with self._lock:
                    self._gathering = _Commit()
                self._write(commit)
        if commit.error is not None:
            raise OutboxError(f"outbox: {self._log_path}: cannot be written: {commit.error}") from commit.error
        self.on_change()
        return [record for record, _ in made]

    def _write(self, commit: _Commit) -> None:
        records = [record for record, _ in commit.made]
        end, settled = self._end, bytes(self._settled)
        try:
            if self._closed:
                raise OSError("it is closed")
            if self._directory_due:
                self._sync_directory()
            self._append(b"".join(entry for _, entry in commit.made))
            os.fsync(self._log_file)
            self._synced_s, self._unsynced = time.monotonic(), False
        except OSError as error:
            # Whoever waits is told that it was not accepted: no later start may find it.
            self._end, self._settled, self._tail_is_torn = end, bytearray(settled), True
            with suppress(OSError):
                self._cut()
            commit.error = error
            with self._lock:
                self._queue.abandon(records)
        else:
            with self._lock:
                for old, new in self._queue.commit(records):
                    self.on_taken_out(old, new)
        commit.done = True
        if commit.error is None:
            self._compact_if_due()

    # -- what goes -----------------------------------------------------------------------------------------------------

    def renumber(self, clocks: Mapping[int, int]) -> list[KeptEntry]:
        """See Outbox. What could not be written is in the log with what comes next, or the service refuses it again."""
        with self._disk:
            with self._lock:
                made = self._queue.renumber(clocks, time.time_ns() // 1_000_000)
            try:
                if self._closed:
                    raise OSError("it is closed")
                self._append(b"".join(entry for _, entry in made))
                os.fsync(self._log_file)
            except OSError as error:
                raise OutboxError(f"outbox: {self._log_path}: cannot be written: {error}") from error
        return [record for record, _ in made]

    def settle(self, numbers: Sequence[int]) -> None:
        """These are published, or set aside. That is written at once, and durable within SYNC_S: see sync()."""
        self.owner.check()
        if not numbers:
            return
        with self._disk:
            with self._lock:
                self._settled += self._queue.settle(numbers)
            if self._closed:
                return
            with suppress(OSError):  # it is written with what comes next
                self._append(b"")
            self._unsynced = True
            self._compact_if_due()
        self.sync(SYNC_S)

    def sync(self, older_than_s: float = 0.0) -> None:
        """Makes durable what is settled, if the last time was so long ago."""
        self.owner.check()
        with self._disk:
            if self._closed or not self._unsynced or time.monotonic() - self._synced_s < older_than_s:
                return
            self._synced_s = time.monotonic()
            with suppress(OSError):
                if self._settled:
                    self._append(b"")
                os.fsync(self._log_file)
                self._unsynced = False

    @property
    def unsynced(self) -> bool:
        """True if sync() has something to do."""
        return self._unsynced

    def set_aside(self, kept: KeptEntry, reason: str) -> RejectedRecord:
        """Writes a record that was refused for ever to rejected.jsonl. Raises OutboxError."""
        self.owner.check()
        said, rejected = kept.outgoing, rejected_of(kept, reason)
        fields = {name: value for name, value in {**said._asdict(), **rejected._asdict()}.items() if value is not None}
        for name in ("name", "is_message", "payload"):
            fields.pop(name, None)
        for name in ("describe", "only_describe"):
            if not fields.get(name):
                fields.pop(name, None)
        if said.payload is not None:
            fields["payload_base64"] = base64.b64encode(said.payload).decode()
        fields["accepted_ms"] = kept.accepted_ms
        line = json.dumps(fields).encode() + b"\n"
        path = self._path / "rejected.jsonl"
        try:
            if path.exists() and path.stat().st_size + len(line) > REJECTED_BYTES_MAX:
                path.replace(self._path / "rejected.old.jsonl")
            how = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
            with os.fdopen(os.open(path, how, 0o600), "wb") as file:
                file.write(line)
                file.flush()
                os.fsync(file.fileno())
            self._sync_directory()
        except OSError as error:
            raise OutboxError(f"outbox: {path}: cannot be written: {error}") from error
        return rejected

    # -- how it stands -------------------------------------------------------------------------------------------------

    def __contains__(self, number: object) -> bool:
        self.owner.check()
        with self._lock:
            return number in self._queue

    def domains_and_groups(self) -> set[tuple[str, str]]:
        """Returns the domains and groups of all waiting records."""
        self.owner.check()
        with self._lock:
            return self._queue.domains_and_groups()

    def close(self) -> None:
        """Lets it go; what waits is kept. May be called twice. In a child of fork() it does nothing."""
        if not self.owner.is_here:
            return
        self.sync()
        with self._disk, self._lock:
            if self._closed:
                return
            self._closed = True
            os.close(self._log_file)
            os.close(self._lock_file)

    # -- the disk ------------------------------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self._closed:
            raise OutboxError(f"outbox: {self._path}: is closed; nothing was accepted")

    def _take(self) -> int:
        try:
            made = not self._path.exists()
            if made:
                self._path.mkdir(mode=0o700)
                _sync(self._path.parent)
            how = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            lock = os.open(self._path / "outbox.lock", how, 0o600)
        except OSError as error:
            raise OutboxError(f"outbox: {self._path}: cannot be used: {error}") from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(lock)
            raise OutboxInUse(f"outbox: {self._path}: is in use by another process or publisher: {error}") from None
        return lock

    def _open_log(self) -> None:
        try:
            data = self._log_path.read_bytes() if self._log_path.exists() else None
        except OSError as error:
            raise OutboxError(f"outbox: {self._log_path}: cannot be read: {error}") from error
        try:
            log = None if data is None else self._queue.load(data)
        except NewerLog:
            raise OutboxError(f"outbox: {self._log_path}: was written by a newer library") from None
        try:
            if data is not None and log is not None and log.damaged:
                self._keep_damaged(data, log)
            self._write_anew()
            if self._directory_due:
                self._sync_directory()
        except OSError as error:
            raise OutboxError(f"outbox: {self._log_path}: cannot be written: {error}") from error

    def _keep_damaged(self, data: bytes, log: OutboxLog) -> None:
        number = 1
        while (aside := self._path / f"outbox.damaged-{number}").exists():
            number += 1
        with os.fdopen(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
            for begin, end in log.damaged:
                file.write(data[begin:end])
            file.flush()
            os.fsync(file.fileno())
        self._sync_directory()
        size = sum(end - begin for begin, end in log.damaged)
        self.damage = OutboxDamaged(
            f"outbox: {self._log_path}: {size} bytes from {log.damaged[0][0]} on cannot be read; they are set aside in "
            f"{aside}; {len(self._queue)} records that wait can be read, and are published",
            str(aside),
        )

    def _write_anew(self) -> None:
        """A log with nothing but what waits takes the old one's place. Raises OSError: then the old one stays."""
        with self._lock:
            data = self._queue.compacted()
        new = self._path / "outbox.log.new"
        # Another one may lie there, of a power cut, that others may write to.
        new.unlink(missing_ok=True)
        file = os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            _write_all(file, data, 0)
            os.fsync(file)
            new.replace(self._log_path)
        except OSError:
            os.close(file)
            with suppress(OSError):
                new.unlink(missing_ok=True)
            raise
        old, self._log_file, self._end = self._log_file, file, len(data)
        if old >= 0:
            os.close(old)
        self._settled.clear()
        self._tail_is_torn, self._directory_due = False, True
        with suppress(OSError):  # what is accepted next waits for it
            self._sync_directory()
            self._synced_s, self._unsynced = time.monotonic(), False

    def _compact_if_due(self) -> None:
        """The caller holds `_disk`: the queue gets and loses nothing durable meanwhile."""
        with self._lock:
            live = self._queue.size_bytes
        if not self._closed and self._end - live > max(DEAD_BYTES_MIN, live):
            with suppress(OSError):  # then it stays as it is, and the next write tries again
                self._write_anew()

    def _append(self, data: bytes) -> None:
        """Writes what is settled, and `data`. Raises OSError; what was written before stays."""
        self._cut()
        whole = bytes(self._settled) + data
        self._tail_is_torn = True
        _write_all(self._log_file, whole, self._end)
        self._tail_is_torn = False
        self._end += len(whole)
        self._settled.clear()

    def _cut(self) -> None:
        """Takes away what a write left that failed. Raises OSError."""
        if self._tail_is_torn and not self._closed:
            os.ftruncate(self._log_file, self._end)
            self._tail_is_torn = False

    def _sync_directory(self) -> None:
        _sync(self._path)
        self._directory_due = False


def _write_all(file: int, data: bytes, at: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(file, view, at)
        view, at = view[written:], at + written


def _sync(path: Path) -> None:
    directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
