"""What counts as a change, and that a version number never stands for two contents."""

from pathlib import Path

import pytest
from coldnotify_demo.configuration_folder import Configuration, ConfigurationFolder


def write(folder: Path, key: str, text: str) -> None:
    path = folder / f"{key}.yaml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)


def test_the_first_call_returns_everything_and_later_ones_only_changes(tmp_path: Path) -> None:
    write(tmp_path, "region-1/camera", "fps: 1\n")
    write(tmp_path, "region-2/camera", "fps: 2\n")
    folder = ConfigurationFolder(tmp_path)
    assert folder.changes() == [
        Configuration("region-1", "camera", 1, b"fps: 1\n"),
        Configuration("region-2", "camera", 1, b"fps: 2\n"),
    ]
    assert folder.changes() == []
    write(tmp_path, "region-2/camera", "fps: 3\n")
    assert folder.changes() == [Configuration("region-2", "camera", 2, b"fps: 3\n")]
    assert folder.changes() == []


def test_a_file_that_was_only_touched_is_unchanged(tmp_path: Path) -> None:
    write(tmp_path, "region-1/camera", "fps: 1\n")
    folder = ConfigurationFolder(tmp_path)
    folder.changes()
    write(tmp_path, "region-1/camera", "fps: 1\n")
    assert folder.changes() == []


def test_a_change_back_to_an_older_content_is_a_new_version(tmp_path: Path) -> None:
    folder = ConfigurationFolder(tmp_path)
    versions = []
    for text in ("fps: 1", "fps: 2", "fps: 1"):
        write(tmp_path, "region-1/camera", text)
        versions += [(c.version, c.content) for c in folder.changes()]
    assert versions == [(1, b"fps: 1"), (2, b"fps: 2"), (3, b"fps: 1")]


def test_after_a_restart_everything_is_returned_with_the_same_numbers(tmp_path: Path) -> None:
    write(tmp_path, "region-1/camera", "fps: 1")
    write(tmp_path, "region-1/sampling", "every: 1")
    ConfigurationFolder(tmp_path).changes()
    write(tmp_path, "region-1/camera", "fps: 2")  # while nobody watches
    assert [(c.name, c.version) for c in ConfigurationFolder(tmp_path).changes()] == [("camera", 2), ("sampling", 1)]


def test_a_number_used_before_a_crash_is_not_reused_for_another_content(tmp_path: Path) -> None:
    write(tmp_path, "region-1/camera", "fps: 1")
    (crashed,) = ConfigurationFolder(tmp_path).changes()  # and it dies before it publishes
    write(tmp_path, "region-1/camera", "fps: 2")
    (after,) = ConfigurationFolder(tmp_path).changes()
    assert (crashed.version, after.version) == (1, 2)


def test_a_removal_and_a_return_are_versions(tmp_path: Path) -> None:
    write(tmp_path, "region-1/camera", "fps: 1")
    folder = ConfigurationFolder(tmp_path)
    folder.changes()
    (tmp_path / "region-1/camera.yaml").unlink()
    assert folder.changes() == [Configuration("region-1", "camera", 2, None)]
    assert folder.changes() == []
    assert ConfigurationFolder(tmp_path).changes() == [Configuration("region-1", "camera", 2, None)]
    write(tmp_path, "region-1/camera", "fps: 1")
    assert folder.changes() == [Configuration("region-1", "camera", 3, b"fps: 1")]


@pytest.mark.parametrize("text", ["", "just words", "- a\n- list", "a: [1", "a: \x00"])
def test_half_a_file_is_reported_once_and_not_published(tmp_path: Path, text: str) -> None:
    reports: list[str] = []
    write(tmp_path, "region-1/camera", "fps: 1")
    folder = ConfigurationFolder(tmp_path, reports.append)
    folder.changes()
    write(tmp_path, "region-1/camera", text)
    assert folder.changes() == []
    assert folder.changes() == []
    (report,) = reports
    assert "region-1/camera.yaml" in report
    write(tmp_path, "region-1/camera", "fps: 2")
    assert folder.changes() == [Configuration("region-1", "camera", 2, b"fps: 2")]


def test_a_file_that_was_never_usable_gets_no_number(tmp_path: Path) -> None:
    write(tmp_path, "region-1/camera", "words")
    folder = ConfigurationFolder(tmp_path)
    assert folder.changes() == []
    (tmp_path / "region-1/camera.yaml").unlink()
    assert folder.changes() == []
    write(tmp_path, "region-1/camera", "fps: 1")
    assert folder.changes() == [Configuration("region-1", "camera", 1, b"fps: 1")]


@pytest.mark.parametrize("text", ["", "[]", '{"region-1/camera": 3}', '{"region-1/camera": {"version": "x"}}'])
def test_a_damaged_ledger_is_reported_and_not_replaced(tmp_path: Path, text: str) -> None:
    (tmp_path / "versions.json").write_text(text)
    with pytest.raises(ValueError, match=r"versions\.json"):
        ConfigurationFolder(tmp_path)
    assert (tmp_path / "versions.json").read_text() == text
