"""The browser's client (clients/browser): its own tests, and a page in a real browser against all of ColdNotify."""

import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlencode

import pytest
from coldnotify.publisher import Publisher
from coldnotify_testkit.browser import MISSING, browser
from coldnotify_testkit.stack import Up

CLIENT = Path(__file__).parents[2] / "clients" / "browser"
PAGE = Path(__file__).with_name("browser_page.html")
DOMAIN, GROUP = "animal.observer", "pages"
NPM = shutil.which("npm")
_NPM_S = 240
TOLD = "[...document.querySelectorAll('#told li')].map((item) => item.innerText).join(', ')"
CAUGHT_UP = "document.querySelector('#phase').innerText == 'caught up'"


def npm(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The client's own package manager, whatever its output is to look like where this runs."""
    assert NPM is not None
    environment = {**os.environ, "NO_COLOR": "1", "FORCE_COLOR": "0"}
    return subprocess.run(
        [NPM, *arguments], cwd=CLIENT, env=environment, capture_output=True, text=True, timeout=_NPM_S, check=False
    )


@pytest.fixture(scope="module")
def installed() -> None:
    """The compiler is there, of the version that package-lock.json names."""
    if NPM is None or shutil.which("node") is None:
        pytest.skip("there is no node with npm here")
    lock, done = CLIENT / "package-lock.json", CLIENT / "node_modules" / ".package-lock.json"
    if done.exists() and done.stat().st_mtime >= lock.stat().st_mtime:
        return
    try:
        found = npm("ci", "--prefer-offline")
    except subprocess.TimeoutExpired:
        pytest.skip(f"npm ci: not within {_NPM_S} s (it needs a registry)")
    if found.returncode:
        pytest.skip(f"npm ci failed (it needs a registry): {found.stderr[-500:]}")


@pytest.mark.timeout(3 * _NPM_S)
def test_its_own_tests_pass(installed: None) -> None:
    done = npm("test")
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert "# fail 0" in done.stdout
    assert "# pass 0" not in done.stdout


def test_the_lock_names_no_registry() -> None:
    text = (CLIENT / "package-lock.json").read_text(encoding="utf-8")
    assert '"resolved"' not in text
    assert "://" not in text


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def site(installed: None, tmp_path: Path) -> Iterator[str]:
    """The page and the compiled client, from an origin of its own."""
    built = npm("run", "build", "--", "--outDir", str(tmp_path / "dist"))
    assert built.returncode == 0, built.stdout + built.stderr
    shutil.copy(PAGE, tmp_path / "index.html")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(tmp_path)))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/index.html"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.kafka
@pytest.mark.timeout(3 * _NPM_S)
@pytest.mark.skipif(MISSING is not None, reason=str(MISSING))
def test_a_page_learns_comes_back_and_remembers(up: Up, site: str, tmp_path: Path) -> None:
    addresses = [f"ws://{up.report['web']}", f"ws://{up.report['http']}"]
    query = urlencode({"domain": DOMAIN, "group": GROUP, "address": addresses}, doseq=True)
    with Publisher(up.kafka) as publisher, browser(tmp_path / "chromedriver.log") as window:
        window.open(f"{site}?{query}")
        window.wait_for(f"{TOLD} == 'camera null null'", "nothing was published")
        publisher.publish(DOMAIN, GROUP, "camera", version=9007199254740993, payload={"fps": 5})
        window.wait_for(f"{TOLD}.endsWith('camera 9007199254740993 {{\"fps\":5}}')", "a publish, to the last digit")

        pids = up.kill("gateway")
        publisher.publish(DOMAIN, GROUP, "camera", version=9007199254740994)
        up.wait_ready(other_than=pids)
        window.wait_for(f"{TOLD}.endsWith('camera 9007199254740994 null')", "it came back")
        publisher.publish(DOMAIN, GROUP, "camera", version=9007199254740995)
        window.wait_for(f"{TOLD}.split(', ').length == 4", "each once")

        window.run("window.isOld = true; location.reload()")
        window.wait_for(f"!window.isOld && document.readyState == 'complete' && {CAUGHT_UP}", "it woke up")
        assert window.run(f"return {TOLD}") == "", "what it knows is not told again"
        assert window.run("return window.notify.status.registrations") == 1
        locks = window.run("return navigator.locks.query().then(({ held }) => held.map(({ name }) => name))")
        assert locks == [f"coldnotify coldnotify:{DOMAIN}/{GROUP}/page"], "no other page may be this client meanwhile"
        publisher.publish(DOMAIN, GROUP, "camera", version=9007199254740996)
        window.wait_for(f"{TOLD} == 'camera 9007199254740996 null'", "what is new is told")
