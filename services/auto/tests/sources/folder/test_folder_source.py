"""Folders as sources: whole files, once for each change, deleted when they are gone.

Stands for: closed_files, whole_files
"""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from coldnotify_auto.changes import Put
from coldnotify_auto.row_rules import Naming
from coldnotify_auto.source import RunStopped, SourceFailed
from coldnotify_auto.sources.folder.folder_source import FolderSource
from coldnotify_auto.sources.folder.whole_files import StillWritten, TooLarge, read_whole
from coldnotify_auto.templates import Template
from coldnotify_testkit.collecting_outlet import CollectingOutlet

WAYS = pytest.mark.parametrize("watched", [True, False], ids=["inotify", "scans"])


def source(folder: Path, *, watched: bool = True, group: str = "g", object_: str = "{path}") -> FolderSource:
    return FolderSource(
        "s", folder, "*.json", Naming(Template("d"), Template(group), Template(object_)), watched=watched
    )


def followed(one: FolderSource, outlet: CollectingOutlet) -> CollectingOutlet:
    with pytest.raises(RunStopped):
        one.run(outlet)
    return outlet


def after(count: int) -> Callable[[CollectingOutlet], bool]:
    return lambda outlet: len(outlet.changes) + len(outlet.aside) >= count


@WAYS
def test_files_are_objects_and_their_changes_versions(tmp_path: Path, watched: bool) -> None:
    (tmp_path / "a.json").write_text('{"fps": 1}\n')
    (tmp_path / ".hidden.json").write_text("1")
    (tmp_path / "other.txt").write_text("1")

    def steps(wait: int) -> None:
        if wait == 0:
            (tmp_path / "sub").mkdir()
            (tmp_path / "sub" / "b.json").write_text("2")
            (tmp_path / "a.json").write_text('{"fps": 3}')
        elif wait == 80:
            (tmp_path / "a.json").unlink()
            (tmp_path / "sub" / "b.json").rename(tmp_path / "sub" / "c.json")

    def enough(outlet: CollectingOutlet) -> bool:
        return len(outlet.changes) >= 6

    outlet = followed(source(tmp_path, watched=watched), CollectingOutlet(enough, steps))
    assert outlet.told[0] == ("a.json", b'{"fps": 1}')
    assert sorted(outlet.told[1:3], key=str) == [("a.json", b'{"fps": 3}'), ("sub/b.json", b"2")]
    assert sorted(outlet.told[3:], key=str) == [("a.json", None), ("sub/b.json", None), ("sub/c.json", b"2")]
    versions = [one.version for one in outlet.changes if isinstance(one, Put) and one.key.object == "a.json"]
    assert versions == sorted(set(versions))
    assert not outlet.aside


@WAYS
def test_the_next_run_publishes_only_what_has_changed_meanwhile(tmp_path: Path, watched: bool) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / f"{name}.json").write_text(f'"{name}"')
    first = followed(source(tmp_path, watched=watched), CollectingOutlet(after(3)))
    (tmp_path / "a.json").unlink()
    (tmp_path / "b.json").write_text('"b2"')
    os.utime(tmp_path / "b.json", (1, 1))  # its clock went back: the version must not
    (tmp_path / "c.json").touch()
    second = followed(source(tmp_path, watched=watched), first.again(after(2)))
    assert second.told == [("b.json", b'"b2"'), ("a.json", None)]
    (put,) = [one for one in second.changes if isinstance(one, Put) and one.key.object == "b.json"]
    (before,) = [one for one in first.changes if isinstance(one, Put) and one.key.object == "b.json"]
    assert put.version == before.version + 1


@WAYS
def test_a_file_that_is_being_written_is_not_read(tmp_path: Path, watched: bool) -> None:
    """A writer that pauses for longer than two scans take is waited for."""
    with (tmp_path / "a.json").open("w") as file:
        file.write('"half')
        file.flush()

        def steps(wait: int) -> None:
            if wait == 60:
                file.write(' and whole"')
                file.close()

        outlet = followed(source(tmp_path, watched=watched), CollectingOutlet(after(1), steps))
    assert outlet.told == [("a.json", b'"half and whole"')]


def test_a_file_that_cannot_be_mapped_is_set_aside_and_the_rest_goes_on(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("x" * 5000)
    (tmp_path / "b.json").write_text("1")  # has no folder for its group
    (tmp_path / "north").mkdir()
    (tmp_path / "north" / "c.json").write_text("2")
    outlet = followed(source(tmp_path, group="{folder}", object_="{name}"), CollectingOutlet(after(3)))
    assert outlet.told == [("c.json", b"2")]
    assert outlet.aside == [
        (str(tmp_path / "a.json"), "is larger than 4096 bytes"),
        (str(tmp_path / "b.json"), "group: column folder is null"),
    ]


def test_two_files_that_are_one_object_are_not_published_in_turns(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    (tmp_path / "a.json").write_text("1")
    (tmp_path / "x" / "a.json").write_text("2")
    outlet = followed(source(tmp_path, object_="{name}"), CollectingOutlet(after(2)))
    assert outlet.told == [("a.json", b"1")]
    assert outlet.aside == [(str(tmp_path / "x" / "a.json"), f"object: {tmp_path / 'a.json'} is d/g/a.json, too")]


def test_a_folder_that_is_not_there_deletes_nothing(tmp_path: Path) -> None:
    (tmp_path / "f").mkdir()
    (tmp_path / "f" / "a.json").write_text("1")
    first = followed(source(tmp_path / "f"), CollectingOutlet(after(1)))
    (tmp_path / "f").rename(tmp_path / "elsewhere")
    again = first.again(after(1))
    with pytest.raises(SourceFailed, match="is not there"):
        source(tmp_path / "f").run(again)
    assert again.changes == []


def test_a_whole_file_is_read_and_no_other(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"12345")
    assert read_whole(path, 5).content == b"12345"
    with pytest.raises(TooLarge):
        read_whole(path, 4)
    with path.open("ab"), pytest.raises(StillWritten):
        read_whole(path, 5)
    assert read_whole(path, 5).content == b"12345"
