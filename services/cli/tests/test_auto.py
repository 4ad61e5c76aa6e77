"""`coldnotify auto` and `up --auto` refuse a wrong file before anything starts; services/auto/tests has the rest."""

from pathlib import Path

from coldnotify_testkit.command import coldnotify


def test_a_wrong_file_is_wrong_use(tmp_path: Path) -> None:
    file = tmp_path / "auto.yaml"
    file.write_text("sources:\n  settings:\n    kind: folder\n    folders: files\n")
    for argv in (
        ["auto", str(file)],
        ["auto", str(file), "--plan"],
        ["up", f"--auto={file}", f"--data={tmp_path / 'd'}"],
    ):
        done = coldnotify(*argv)
        assert done.returncode == 2
        assert f"{file}:3: sources.settings.folder: is missing, expected a folder" in done.stderr
