"""`coldnotify link`: what it refuses, and how it ends. What passes through it: tests/integration/test_links.py."""

import sys
from pathlib import Path

import pytest
from coldnotify_testkit.child import Child
from coldnotify_testkit.command import coldnotify
from coldnotify_testkit.waiting import wait_for

COLDNOTIFY = Path(sys.executable).with_name("coldnotify")


def test_it_listens_until_it_is_stopped(tmp_path: Path) -> None:
    path = tmp_path / "link"
    with Child([COLDNOTIFY, "link", path, "--mode", "600", "--gateway", "127.0.0.1:1"], tmp_path / "log") as link:
        wait_for(path.is_socket, "the socket")
        assert path.stat().st_mode & 0o777 == 0o600
        second = coldnotify("link", str(path), "--gateway", "127.0.0.1:1")
        assert (second.returncode, "path: another link listens at" in second.stderr) == (1, True)
        assert link.stop() == 0
    assert not path.exists()


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--mode", "9"), 2, "--mode: '9' is not an octal number up to 777"),
        (("--mode", "1777"), 2, "--mode: '1777' is not an octal number up to 777"),
        (("--gateway", "unix:/run/other"), 1, "address: a link connects to gateways, not to another link"),
        (("--ca-cert", "nowhere.pem"), 1, "ca_cert: nowhere.pem cannot be used"),
    ],
)
def test_wrong_settings(tmp_path: Path, arguments: tuple[str, ...], code: int, words: str) -> None:
    done = coldnotify("link", str(tmp_path / "link"), *arguments)
    assert done.returncode == code
    assert words in done.stderr


def test_a_path_in_no_directory(tmp_path: Path) -> None:
    done = coldnotify("link", str(tmp_path / "none" / "link"))
    assert (done.returncode, "No such file or directory" in done.stderr) == (1, True)
