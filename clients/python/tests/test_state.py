"""The state file."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from coldnotify import State, StateError, StateInUse


def test_a_round_trip_preserves_everything(tmp_path: Path):
    state = State(tmp_path / "s.json")
    state.open()
    assert state.read() is None
    state.write(b"one")
    state.write(b"two")
    assert state.read() == b"two"
    state.close()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["s.json", "s.json.lock"]


def test_it_is_for_its_owner_only_also_where_others_could_write_it_before(tmp_path: Path):
    left = tmp_path / "s.json.new"
    left.write_bytes(b"of a power cut")
    left.chmod(0o666)
    (tmp_path / "s.json").write_bytes(b"of before")
    umask = os.umask(0)
    try:
        state = State(tmp_path / "s.json")
        state.open()
        state.write(b"one")
        state.close()
    finally:
        os.umask(umask)
    rights = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    assert rights == {"s.json": 0o600, "s.json.lock": 0o600}


def test_in_memory():
    state = State(None)
    state.open()
    assert state.read() is None
    state.write(b"one")
    state.close()
    state.open()
    assert state.read() == b"one"
    state.set_aside()
    assert state.read() is None
    with pytest.raises(StateInUse):
        state.open()


def test_the_order_of_a_write_survives_a_power_cut(tmp_path: Path, monkeypatch):
    """The new content is on disk before it takes the name, and the name before write() returns."""
    steps: list[str] = []
    fsync, replace = os.fsync, Path.replace

    def record_fsync(fd: int) -> None:
        steps.append("fsync " + Path(f"/proc/self/fd/{fd}").resolve().name)
        fsync(fd)

    def record_replace(self: Path, target: Path) -> Path:
        assert self.read_bytes() == b"new"
        steps.append(f"rename {self.name} {target.name}")
        return replace(self, target)

    monkeypatch.setattr(os, "fsync", record_fsync)
    monkeypatch.setattr(Path, "replace", record_replace)
    State(tmp_path / "s.json").write(b"new")
    assert steps == ["fsync s.json.new", "rename s.json.new s.json", f"fsync {tmp_path.name}"]


def test_a_write_that_fails_leaves_the_old_content(tmp_path: Path, monkeypatch):
    state = State(tmp_path / "s.json")
    state.write(b"old")

    def no_space(fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", no_space)
    with pytest.raises(StateError, match=r"s\.json: cannot be written: .*No space"):
        state.write(b"new")
    assert state.read() == b"old"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["s.json"]


def test_only_one_at_a_time_may_have_it(tmp_path: Path):
    path = tmp_path / "s.json"
    first, second = State(path), State(path)
    first.open()
    with pytest.raises(StateInUse, match=r"s\.json: is in use"):
        second.open()
    first.close()
    second.open()
    second.close()


def test_another_process_may_not_have_it_and_its_death_frees_it(tmp_path: Path):
    path = tmp_path / "s.json"
    program = (
        "import sys; from coldnotify import State\n"
        "s = State(sys.argv[1]); s.open(); print('open', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"open\n"
        state = State(path)
        with pytest.raises(StateInUse):
            state.open()
        process.kill()
        process.wait(60)
        state.open()
        state.close()


def test_a_damaged_state_is_kept(tmp_path: Path):
    state = State(tmp_path / "s.json")
    for number in (1, 2):
        state.write(b"bad")
        assert state.set_aside() == str(tmp_path / f"s.json.damaged-{number}")
        assert state.read() is None


def test_errors_name_the_file(tmp_path: Path):
    with pytest.raises(StateError, match=r"^.*nowhere/s\.json: cannot be locked"):
        State(tmp_path / "nowhere" / "s.json").open()
    (tmp_path / "dir").mkdir()
    with pytest.raises(StateError, match=r"dir: cannot be read"):
        State(tmp_path / "dir").read()
    with pytest.raises(ValueError, match=r"^filename"):
        State("")


def test_it_follows_no_link(tmp_path: Path):
    others = tmp_path / "others"
    (tmp_path / "state.lock").symlink_to(others)
    with pytest.raises(StateError, match=r"state: cannot be locked: .*state\.lock"):
        State(tmp_path / "state").open()
    assert not others.exists()
