"""Rights of what is made, and of what was there before."""

import logging
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from coldnotify_kafka.broker import EmbeddedBroker, data_dir, private
from coldnotify_kafka.broker.process import spawn
from coldnotify_kafka.errors import DataDirectoryError

pytestmark = pytest.mark.own_broker("is about the embedded Kafka itself")


@pytest.fixture(autouse=True)
def careless_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def open_to_others(root: Path) -> list[str]:
    return [str(path) for path in [root, *root.rglob("*")] if not path.is_symlink() and mode(path) & 0o077]


def test_new_files_are_for_the_owner_only(tmp_path: Path) -> None:
    directory = tmp_path / "new" / "data"
    os.close(data_dir.lock(directory))
    data_dir.write_cluster_file(directory, data_dir.ClusterFile("AAAA", (1, 2, 3)))
    private.write(directory / "server.properties", b"a=b")
    assert spawn(["touch", str(directory / "records")], directory / "broker.out", umask=private.UMASK).wait(60) == 0
    assert open_to_others(directory) == []
    assert (directory / "server.properties").read_text() == "a=b"
    private.write(directory / "server.properties", b"c")
    assert (directory / "server.properties").read_text() == "c"


def test_existing_files_lose_the_permissions_of_others(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    for name in ("records/topic-0/0.log", "node-2/records/1.log", "node-2/broker.out", "up.log", "broker.log.2"):
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    (directory / "records" / "topic-0").chmod(0o2775)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("x")
    (directory / "records" / "link").symlink_to(elsewhere)
    private.make_directory(directory)
    assert open_to_others(directory) == []
    assert mode(elsewhere) == 0o666, "links are not followed"
    assert mode(directory / "records" / "topic-0") == 0o2700


def test_in_a_shared_directory_only_our_own_files_lose_permissions(tmp_path: Path) -> None:
    (tmp_path / "records").mkdir()
    (tmp_path / "program").touch(0o755)
    tmp_path.chmod(0o755)
    private.make_directory(tmp_path)
    assert [mode(tmp_path / name) for name in (".", "program", "records")] == [0o755, 0o755, 0o700]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to others")
def test_another_users_directory_causes_a_warning_or_an_error_if_everybody_may_write(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    directory = tmp_path / "theirs"
    directory.mkdir(0o750)
    os.chown(directory, 12345, 12345)
    with caplog.at_level(logging.WARNING):
        private.make_directory(directory)
    assert "is another user's (uid 12345)" in caplog.text
    assert mode(directory) == 0o750
    directory.chmod(0o777)
    with pytest.raises(DataDirectoryError, match=r"theirs is another user's .*everybody may write there.*--data"):
        data_dir.lock(directory)


@pytest.mark.kafka
def test_kafkas_own_files_are_for_the_owner_only(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    with EmbeddedBroker(directory):
        assert open_to_others(directory) == []
    assert {path.name for path in directory.iterdir() if not private._OURS.fullmatch(path.name)} == set()
    for path in directory.rglob("*"):
        path.chmod(0o777)
    directory.chmod(0o777)
    with EmbeddedBroker(directory):
        assert open_to_others(directory) == []


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    others = tmp_path / "others"
    others.write_text("theirs")
    directory = tmp_path / "data"
    directory.mkdir()
    for name in ("lock", "broker.log", "broker.out", "up.log.1", "server.properties", "server.properties.tmp"):
        (directory / name).symlink_to(others)
    with pytest.raises(DataDirectoryError, match=r"data directory .* cannot be used: .*/lock"):
        data_dir.lock(directory)
    for name in ("broker.log", "broker.out"):
        with pytest.raises(OSError, match=name):
            private.open_file(directory / name, "ab")
    private.open_file(directory / "up.log.1", "xb").close()
    private.write(directory / "server.properties", b"ours")
    assert others.read_text() == "theirs"
    assert (directory / "server.properties").read_text() == "ours"
    assert not (directory / "server.properties").is_symlink()
