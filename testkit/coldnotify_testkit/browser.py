"""For tests: a real Chromium without a window, driven over WebDriver's own HTTP protocol by chromedriver."""

import base64
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from coldnotify_common.security.certificates import public_key_hash
from coldnotify_kafka.broker import free_port
from coldnotify_kafka.broker.process import end, spawn

from coldnotify_testkit.waiting import wait_for

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
CHROMEDRIVER = shutil.which("chromedriver")
MISSING = None if CHROMIUM and CHROMEDRIVER else "there is no chromium with chromedriver here (make tools)"
"""Why a test of a page is to be skipped; None: it can run."""
_TIMEOUT_S = 120
_STOP_S = 30
_LOADS_MAX = 20
_NETWORK_CHANGED = "ERR_NETWORK_CHANGED"
_DIES_WITH_DRIVER = """#!{python} -I
import ctypes, os, signal, sys
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() != {driver}:
        sys.exit("chromedriver has ended")
os.execv({chromium!r}, [{chromium!r}, *sys.argv[1:]])
"""
"""The script that chromedriver starts instead of Chromium: Chromium ends if chromedriver is asked to end, but not if
chromedriver is killed.
"""


class Browser:
    """One window."""

    def __init__(self, session_url: str) -> None:
        self._session_url = session_url
        self._logged: list[str] = []
        """Entries of the page's load that `log` has not returned yet."""

    def open(self, url: str) -> None:
        """Goes to a page; returns once it is loaded.

        Chromium drops requests whenever an interface of this machine comes or goes, as other tests' networks do: then
        the page is loaded again.
        """
        for _ in range(_LOADS_MAX):
            try:
                _call("POST", f"{self._session_url}/url", {"url": url})
                self._logged = self._new_log()
            except AssertionError as error:
                if _NETWORK_CHANGED not in str(error):
                    raise
                continue
            if not any(_NETWORK_CHANGED in entry for entry in self._logged):
                return
        raise AssertionError(f"{url} is not loaded: the network changed {_LOADS_MAX} times")

    def start_over(self) -> None:
        """Replaces all windows by a new one, without the storage, size and log of the pages before."""
        before = _call("GET", f"{self._session_url}/window/handles")
        new = self.new_tab()
        for one in before:
            _call("POST", f"{self._session_url}/window", {"handle": one})
            _call("DELETE", f"{self._session_url}/window")
        self.turn_to(new)
        self.log()

    @property
    def tab(self) -> str:
        """The tab in front."""
        return str(_call("GET", f"{self._session_url}/window"))

    def new_tab(self) -> str:
        """Opens another tab, in front of the others, which are hidden then."""
        handle = str(_call("POST", f"{self._session_url}/window/new", {"type": "tab"})["handle"])
        self.turn_to(handle)
        return handle

    def turn_to(self, tab: str) -> None:
        """Brings a tab to the front."""
        _call("POST", f"{self._session_url}/window", {"handle": tab})
        self._devtools("Page.bringToFront", {})

    def close_tab(self, tab: str) -> None:
        """Closes a tab; another one is to be turned to then."""
        _call("POST", f"{self._session_url}/window", {"handle": tab})
        _call("DELETE", f"{self._session_url}/window")

    def crash_tab(self, tab: str) -> None:
        """Kills the process of a tab, which is told nothing; another one is to be turned to then."""
        _call("POST", f"{self._session_url}/window", {"handle": tab})
        with pytest.raises(AssertionError, match="tab crashed"):
            self._devtools("Page.crash", {})

    def run(self, script: str, *arguments: Any) -> Any:
        """Returns the result of a function with this body, run in the page."""
        return _call("POST", f"{self._session_url}/execute/sync", {"script": script, "args": list(arguments)})

    def wait_for(self, condition: str, what: str) -> Any:
        """Waits for a JavaScript expression to be true, and returns its value. Raises AssertionError that names `what`
        if it times out.
        """
        try:
            return wait_for(lambda: self.run(f"return {condition}"), what, _TIMEOUT_S)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.text()}\n{self.log()}") from None

    def text(self) -> str:
        """All that can be read."""
        return str(self.run("return document.body.innerText"))

    def log(self) -> list[str]:
        """Returns what the page has written to the console since the last call: errors, mostly.

        Requests that a change of this machine's interfaces broke are left out: the page repeats them.
        """
        new = self._new_log()
        logged, self._logged = self._logged, []
        return [entry for entry in logged + new if _NETWORK_CHANGED not in entry]

    def _new_log(self) -> list[str]:
        entries = _call("POST", f"{self._session_url}/se/log", {"type": "browser"})
        return [str(entry["message"]) for entry in entries]

    def look(self, width_px: int, height_px: int, *, dark: bool) -> None:
        """The size of the window, a phone's below 500, and light or dark."""
        metrics = {"width": width_px, "height": height_px, "deviceScaleFactor": 1, "mobile": width_px < 500}
        self._devtools("Emulation.setDeviceMetricsOverride", metrics)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._devtools("Emulation.setEmulatedMedia", {"features": [scheme]})

    def be_online(self, online: bool) -> None:
        """Sets whether the browser believes that the machine is online. The page is notified of the change."""
        link = {"offline": not online, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
        self._devtools("Network.emulateNetworkConditions", link)

    def freeze(self, *, frozen: bool) -> None:
        """The browser gives the page no turn any more, as one that nobody has looked at for long; or again."""
        self._devtools("Page.setWebLifecycleState", {"state": "frozen" if frozen else "active"})

    def block(self) -> None:
        """Opens a dialog of the page, which does nothing until `go_on`. Another tab is to be turned to meanwhile."""
        self.run("setTimeout(() => alert())")
        wait_for(self._has_dialog, "a dialog is open", _TIMEOUT_S)

    def go_on(self, tab: str) -> None:
        """Closes the dialog of a tab, and brings it to the front."""
        _call("POST", f"{self._session_url}/window", {"handle": tab})
        _call("POST", f"{self._session_url}/alert/accept", {})
        self.turn_to(tab)

    def _has_dialog(self) -> bool:
        try:
            _call("GET", f"{self._session_url}/alert/text")
        except AssertionError:
            return False
        return True

    def screenshot(self, path: Path, *, whole_page: bool = True) -> None:
        """Saves a screenshot as PNG."""
        options = {"format": "png", "captureBeyondViewport": whole_page}
        path.write_bytes(base64.b64decode(self._devtools("Page.captureScreenshot", options)["data"]))

    def _devtools(self, command: str, parameters: dict[str, Any]) -> Any:
        return _call("POST", f"{self._session_url}/goog/cdp/execute", {"cmd": command, "params": parameters})


@contextmanager
def browser(log: Path, trusting: Path | None = None) -> Iterator[Browser]:
    """A new browser with nothing in its memory; chromedriver's output goes to `log`.

    Both end with this process, however it ends (on Linux). What they write elsewhere is removed.

    `trusting`: a service's certificate, whose authority the browser does not know.
    """
    assert CHROMIUM
    with _chromedriver(log) as (base, pid):
        binary = log.with_suffix(f".{pid}.chromium")
        binary.write_text(_DIES_WITH_DRIVER.format(python=sys.executable, driver=pid, chromium=CHROMIUM))
        binary.chmod(0o700)
        arguments = [
            "--headless=new",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--lang=en",
            "--hide-scrollbars",
        ]
        if trusting is not None:
            # Heeded only with a profile directory, which chromedriver makes.
            arguments.append(f"--ignore-certificate-errors-spki-list={public_key_hash(trusting)}")
        if os.geteuid() == 0:
            arguments.append("--no-sandbox")  # Chromium refuses to run as root otherwise
        options = {"binary": str(binary), "args": arguments}
        wanted = {"alwaysMatch": {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}}
        session_id = _call("POST", f"{base}/session", {"capabilities": wanted})["sessionId"]
        session_url = f"{base}/session/{session_id}"
        try:
            yield Browser(session_url)
        finally:
            _call("DELETE", session_url)


@contextmanager
def _chromedriver(log: Path) -> Iterator[tuple[str, int]]:
    """Its address and process id, once it answers."""
    assert CHROMEDRIVER
    port = free_port()
    log.unlink(missing_ok=True)
    # Each start leaves its caches in the directory for temporary files. Its name is short: it holds a Unix socket.
    with tempfile.TemporaryDirectory(prefix="coldnotify-chromium-", ignore_cleanup_errors=True) as temporary:
        driver = spawn([CHROMEDRIVER, f"--port={port}"], log, environ={**os.environ, "TMPDIR": temporary})
        base = f"http://127.0.0.1:{port}"
        try:
            _wait(lambda: _call("GET", f"{base}/status")["ready"])
            yield base, driver.pid
        finally:
            end(driver, _STOP_S)


def _wait(condition: Callable[[], Any]) -> None:
    deadline_s = time.monotonic() + _TIMEOUT_S
    while True:
        try:
            if condition():
                return
        except OSError:
            pass
        assert time.monotonic() < deadline_s, "chromedriver does not answer"
        time.sleep(0.1)


def _call(method: str, url: str, body: object = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = Request(url, data=data, method=method, headers={"Content-Type": "application/json"})
    try:
        with urlopen(request, timeout=_TIMEOUT_S) as response:
            return json.load(response)["value"]
    except HTTPError as error:
        with error:
            raise AssertionError(json.load(error)["value"]["message"]) from None
