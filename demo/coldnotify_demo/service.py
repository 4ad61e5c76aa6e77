"""ColdNotify itself, as `coldnotify up` runs it, on free ports and temporary data; and what its matcher shows."""

import json
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from coldnotify_kafka.broker.process import end, spawn

from coldnotify_demo.company import Collapsed

READY_S_MAX = 180.0
"""Some 5 s are usual; a small machine that starts Java for the first time takes its time."""
STOP_S_MAX = 60.0
ANSWER_S_MAX = 10.0
POLL_S = 0.1
LOG_TAIL_LINES = 40


class DemoService:
    """A process `coldnotify up`."""

    def __init__(self, directory: Path) -> None:
        """Its data go to `directory`/service, its log to `directory`/logs/service.log. Nothing is started."""
        self._directory = directory
        self.log = directory / "logs" / "service.log"
        self._ready_file = directory / "ready.json"
        self._process: subprocess.Popen[bytes] | None = None
        self._ready: dict[str, Any] = {}

    def start(self) -> None:
        """Returns when all parts are ready. Raises Collapsed."""
        self._process = spawn(
            [
                *(sys.executable, "-m", "coldnotify_cli.main", "up", "--data", str(self._directory / "service")),
                "--kafka=",  # its own, whatever the environment names
                *("--kafka-port=0", "--gateway-port=0", "--http-port=0", "--matcher-port=0", "--gateway-http-port=0"),
                *("--ready-file", str(self._ready_file)),
            ],
            self.log,
        )
        deadline = time.monotonic() + READY_S_MAX
        while not self._ready_file.exists():
            self.check()
            if time.monotonic() > deadline:
                raise Collapsed(f"ColdNotify was not ready within {READY_S_MAX:g} s:\n{self._log_tail()}")
            time.sleep(POLL_S)
        self._ready = json.loads(self._ready_file.read_text())

    def check(self) -> None:
        """Raises Collapsed if it has ended."""
        if self._process is not None and (status := self._process.poll()) is not None:
            raise Collapsed(f"ColdNotify ended by itself with status {status}:\n{self._log_tail()}")

    def stop(self) -> int | None:
        """Stops all parts in order; its exit code, None if it was not running. Kills it if that takes too long."""
        process, self._process = self._process, None
        return None if process is None else end(process, STOP_S_MAX)

    @property
    def kafka(self) -> str:
        """host:port"""
        return str(self._ready["kafka"])

    @property
    def gateway(self) -> str:
        """host:port"""
        return str(self._ready["gateway"])

    @property
    def mqtt(self) -> str:
        """host:port, for MQTT devices."""
        return str(self._ready["mqtt"])

    @property
    def http(self) -> str:
        """A URL."""
        return _url(str(self._ready["http"]))

    @property
    def pids(self) -> dict[str, int]:
        """Process ids by part."""
        return dict(self._ready["pids"])

    def registrations(self, domain: str, group: str, client: str) -> set[str]:
        """The objects for which the matcher has this client registered; none for a client it does not know.

        Raises Collapsed.
        """
        try:
            shown = json.loads(self._ask_matcher(f"/v1/domains/{domain}/groups/{group}/clients/{client}"))
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return set()
            raise Collapsed(f"the matcher does not show its state: {error}") from error
        return {registration["object"] for registration in shown["registrations"]["items"]}

    def reg_syncs(self) -> int:
        """Returns how often the matcher has taken in a client's whole set. Raises Collapsed."""
        found = re.search(r"^coldnotify_matcher_syncs_total (\S+)$", self._ask_matcher("/metrics"), re.MULTILINE)
        if found is None:
            raise Collapsed("the matcher's /metrics has no coldnotify_matcher_syncs_total")
        return int(float(found[1]))

    def _ask_matcher(self, path: str) -> str:
        url = _url(str(self._ready["matcher"])) + path
        try:
            with urllib.request.urlopen(url, timeout=ANSWER_S_MAX) as answer:
                return bytes(answer.read()).decode()
        except urllib.error.HTTPError:
            raise
        except OSError as error:
            raise Collapsed(f"the matcher does not answer ({url}): {error}") from error

    def _log_tail(self) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-LOG_TAIL_LINES:])


def _url(address: str) -> str:
    return address if "://" in address else f"http://{address}"
