"""A browser of a test ends with the test, however that ends, and leaves nothing behind."""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from coldnotify_testkit.browser import MISSING, browser
from coldnotify_testkit.waiting import wait_for

_OPENS_A_PAGE = """
import sys
from pathlib import Path
from coldnotify_testkit.browser import browser

with browser(Path(sys.argv[1])) as window:
    window.open("data:text/html,here")
    print(window.text(), flush=True)
    sys.stdin.read()
"""


def _parents() -> dict[int, int]:
    """By process id, that of the parent: of all that run."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = path.read_text().rpartition(")")[2].split()[:2]
        except OSError:
            continue
        if state != "Z":
            found[int(path.parent.name)] = int(parent)
    return found


def _descendants(pid: int) -> set[int]:
    parents, found = _parents(), {pid}
    while new := {one for one, parent in parents.items() if parent in found} - found:
        found |= new
    return found - {pid}


@pytest.mark.skipif(MISSING is not None, reason=str(MISSING))
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing ends a child")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_no_chromium_is_left_of_a_process_that_is_killed(number: signal.Signals, tmp_path: Path) -> None:
    argv = [sys.executable, "-c", _OPENS_A_PAGE, str(tmp_path / "driver.log")]
    # Who is killed leaves its files.
    files = TemporaryDirectory(prefix="files-", ignore_cleanup_errors=True)
    environ = {**os.environ, "TMPDIR": files.name}
    with files, subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"here\n"
            started = _descendants(process.pid)
            assert len(started) > 3, "chromedriver, Chromium, and Chromium's own"
        finally:
            process.send_signal(number)
    wait_for(lambda: not started & _parents().keys(), "all of them have ended")


@pytest.mark.skipif(MISSING is not None, reason=str(MISSING))
def test_a_window_that_starts_over_has_nothing_of_the_one_before_and_no_file_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As short as it is usually: Chromium makes a Unix socket below it.
    with TemporaryDirectory(prefix="files-") as files:
        monkeypatch.setattr(tempfile, "tempdir", files)
        page = tmp_path / "page.html"
        page.write_text("<p>here</p>")
        with browser(tmp_path / "driver.log") as window:
            window.open(page.as_uri())
            window.look(300, 200, dark=True)
            window.run("sessionStorage.setItem('token', 'secret'); console.error('loud')")
            window.start_over()
            assert window.log() == []
            window.open(page.as_uri())
            assert window.run("return sessionStorage.getItem('token')") is None
            assert window.run("return matchMedia('(prefers-color-scheme: dark)').matches") is False
            assert window.run("return innerWidth") > 300
            assert list(Path(files).iterdir()) != [], "it writes there"
        assert list(Path(files).iterdir()) == []
