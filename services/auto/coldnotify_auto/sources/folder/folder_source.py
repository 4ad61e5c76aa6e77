"""A folder as a source: each file is an object, published when it is whole and its content has changed."""

import os
import time
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path

from coldnotify_schemas.names import ObjectKey

from coldnotify_auto.cells import Cell, Row, text_cell
from coldnotify_auto.changes import KnownNewest, Put, RowRejected, digest, is_changed
from coldnotify_auto.row_rules import Naming, read_naming, refuse_unknown
from coldnotify_auto.source import Outlet, SourceFailed, SourceRefused
from coldnotify_auto.sources.folder.closed_files import ClosedFiles
from coldnotify_auto.sources.folder.whole_files import FileStamp, StillWritten, TooLarge, read_whole
from coldnotify_auto.sources.json_payloads import payload_from
from coldnotify_auto.yaml_sections import Section

COLUMNS = ("path", "folder", "name", "stem")
FILES_MAX = 100_000
SCAN_S = 1.0
"""Time between two scans that must agree."""
_SCAN_WATCHED_S = 60.0
"""Time between two scans where inotify tells: it does not see what other machines write."""
_WAIT_S = 0.1


def read(name: str, section: Section) -> "FolderSource":
    """Makes a source of its section. Raises AutoFileError."""
    folder = Path(section.text("folder", "a folder")).expanduser()
    files = section.text("files", "a pattern of file names, such as '*.json'", "*")
    naming = read_naming(section)
    for field, template in naming.fields:
        refuse_unknown(section, field, template.columns, COLUMNS)
    if not naming.object.columns:
        raise section.fault("object", "expected {path}, {name} or {stem} in it: all files would be one object")
    return FolderSource(name, section.file.parent / folder, files, naming)


class FolderSource:
    """Follows a folder and the folders in it."""

    def __init__(self, name: str, folder: Path, files: str, naming: Naming, *, watched: bool = True) -> None:
        """`watched`: uses inotify where it is."""
        self.name, self._folder, self._files, self._naming, self._watched = name, folder, files, naming, watched

    def run(self, outlet: Outlet) -> None:
        """Publishes files that have changed, until the outlet raises RunStopped. Raises SourceFailed."""
        events = None
        if self._watched:
            try:
                events = ClosedFiles()
            except OSError:
                events = None
        try:
            _FolderRun(self.name, self._folder, self._files, self._naming, outlet, events).follow()
        finally:
            if events is not None:
                events.close()

    def resync(self) -> str:
        """Raises SourceRefused: each start compares all files."""
        raise SourceRefused("compares every file whenever `coldnotify auto` starts: start it again")


class _FolderRun:
    """State of the folder in one run."""

    def __init__(
        self, name: str, folder: Path, files: str, naming: Naming, outlet: Outlet, events: ClosedFiles | None
    ) -> None:
        self._label = f"auto.{name}"
        self._folder, self._files, self._naming, self._outlet, self._events = folder, files, naming, outlet, events
        self._newest: dict[ObjectKey, KnownNewest] = {}
        self._done: dict[Path, FileStamp] = {}
        """Stamps of the files that were handled."""
        self._paths: dict[ObjectKey, Path] = {}
        self._last_scan: dict[Path, FileStamp] = {}
        self._missing: set[Path] = set()

    def follow(self) -> None:
        self._scan()
        self._newest = self._outlet.newest(() if self._naming.domain.columns else (self._naming.domain.text,))
        self._outlet.wait(SCAN_S)
        unsettled = self._scan()
        self._delete_lost()
        self._outlet.ready(None)
        next_s = time.monotonic() + self._pause_s(unsettled)
        while True:
            self._outlet.wait(0 if self._events else _WAIT_S)
            if self._events is not None:
                found = self._events.look(_WAIT_S)
                self._outlet.wait(0.001)
                for path in sorted(found.removed):
                    self._removed(path)
                for path in sorted(found.complete):
                    self._complete(path)
                if found.rescan:
                    next_s = min(next_s, time.monotonic())
            if time.monotonic() >= next_s:
                next_s = time.monotonic() + self._pause_s(self._scan())

    def _pause_s(self, unsettled: bool) -> float:
        return SCAN_S if unsettled or self._events is None else _SCAN_WATCHED_S

    def _scan(self) -> bool:
        """Handles the files that two scans agree about; returns true if there are others."""
        found = self._found()
        unsettled = False
        for path, stamp in sorted(found.items()):
            if self._done.get(path) == stamp:
                continue
            if self._last_scan.get(path) != stamp or not self._read(path):
                unsettled = True
        for path in [one for one in self._done if one not in found]:
            if path in self._missing:
                self._removed(path)
            else:
                self._missing.add(path)
                unsettled = True
        self._missing &= self._done.keys() - found.keys()
        self._last_scan = found
        return unsettled

    def _found(self) -> dict[Path, FileStamp]:
        found: dict[Path, FileStamp] = {}
        if not self._folder.is_dir():
            # A folder that is not mounted has no files, either: nothing is deleted then.
            raise SourceFailed(f"folder {self._folder} is not there")
        try:
            for root, folders, names in os.walk(self._folder, onerror=_raise):
                folders[:] = sorted(one for one in folders if not one.startswith("."))
                if self._events is not None:
                    self._events.watch(Path(root))
                for name in names:
                    path = Path(root, name)
                    if self._is_wanted(path) and path.is_file():
                        found[path] = FileStamp.of(path.stat())
                if len(found) > FILES_MAX:
                    raise SourceFailed(f"folder {self._folder} has more than {FILES_MAX} files")
        except FileNotFoundError:
            pass  # removed meanwhile: the next scan knows
        except OSError as error:
            raise SourceFailed(f"folder {self._folder} cannot be read: {error}") from None
        return found

    def _is_wanted(self, path: Path) -> bool:
        return not path.name.startswith(".") and fnmatchcase(path.name, self._files)

    def _complete(self, path: Path) -> None:
        if self._is_wanted(path):
            self._read(path)

    def _read(self, path: Path) -> bool:
        """Publishes the file if its content has changed. Returns false if it must be looked at again."""
        try:
            whole = read_whole(path, self._outlet.payload_bytes_max + 64)
        except StillWritten:
            return False
        except FileNotFoundError:
            return False
        except (TooLarge, OSError) as error:
            words = (
                f"is larger than {self._outlet.payload_bytes_max} bytes" if isinstance(error, TooLarge) else str(error)
            )
            self._outlet.set_aside(str(path), words)
            self._handled(path)
            return True
        if self._done.get(path) == whole.stamp:
            return True
        self._done[path] = whole.stamp
        try:
            key = self._naming.key(self._row(path))
            other = self._paths.setdefault(key, path)
            if other != path and other in self._done:
                raise RowRejected(f"object: {other} is {'/'.join(key)}, too")
            self._paths[key] = path
            self._put(key, payload_from(whole.content), whole.stamp.mtime_ns // 1_000_000)
        except RowRejected as error:
            self._outlet.set_aside(str(path), str(error))
        return True

    def _handled(self, path: Path) -> None:
        try:
            self._done[path] = FileStamp.of(path.stat())
        except OSError:
            self._done.pop(path, None)

    def _row(self, path: Path) -> Row:
        inside = path.relative_to(self._folder)
        folder = "" if inside.parent == Path() else inside.parent.as_posix()
        row: dict[str, Cell | None] = {
            "path": text_cell(inside.as_posix()),
            "folder": text_cell(folder) if folder else None,
            "name": text_cell(path.name),
            "stem": text_cell(path.stem),
        }
        return row

    def _removed(self, path: Path) -> None:
        """Publishes that a file is gone, if it is."""
        if path.exists() or self._done.pop(path, None) is None:
            return
        try:
            key = self._naming.key(self._row(path))
        except RowRejected:
            return  # it was no object
        if self._paths.get(key) == path:
            del self._paths[key]
            self._put(key, b"", 0, deleted=True)

    def _delete_lost(self) -> None:
        """Publishes as deleted what this source published and has no file any more."""
        there = set()
        for path in self._last_scan:
            with suppress(RowRejected):
                there.add(self._naming.key(self._row(path)))
        for key, newest in list(self._newest.items()):
            if newest.source == self._label and not newest.deleted and key not in there:
                self._put(key, b"", 0, deleted=True)

    def _put(self, key: ObjectKey, payload: bytes, time_ms: int, *, deleted: bool = False) -> None:
        newest = self._newest.get(key)
        version = max(time_ms if time_ms > 0 else time.time_ns() // 1_000_000, newest.version + 1 if newest else 0)
        put = Put(key=key, version=version, payload=payload, deleted=deleted, source=self._label)
        if not is_changed(newest, put):
            return
        self._outlet.put(put)
        incarnation = newest.incarnation if newest else 0
        self._newest[key] = KnownNewest(incarnation, version, digest(payload), deleted, self._label, b"")


def _raise(error: OSError) -> None:
    raise error
