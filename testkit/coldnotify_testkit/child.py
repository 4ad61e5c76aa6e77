"""Child processes: `Child` is one whose output lies in a file, `ServiceProcess` a service in such a process."""

import json
import os
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from coldnotify_testkit import zygote
from coldnotify_testkit.fetching import fetch
from coldnotify_testkit.waiting import WAIT_S, wait_for

_OUTPUT_LINES_SHOWN = 60
_ASK_S = 10.0

_SERVICES = {
    "matcher": ("coldnotify_matcher", "MatcherSettings"),
    "gateway": ("coldnotify_gateway", "GatewaySettings"),
    "http": ("coldnotify_http", "HttpSettings"),
    "usage": ("coldnotify_usage", "UsageSettings"),
}
_FUNCTION = f"{zygote.__name__}:{zygote.service.__name__}"
_RUN = (
    "import os, sys; from coldnotify_common.settings import load; from {package}.app import run; "
    "from {package}.settings import {settings}; sys.exit(run(load({settings}, os.environ)))"
)
"""The same for a process of its own, which may run another release: it knows nothing of the testkit."""


class Child:
    """A process. As a context it is killed at the end; a test that fails in it gets the output's end as a note."""

    def __init__(self, argv: Sequence[str | Path], output: Path, environ: Mapping[str, str] | None = None) -> None:
        """Starts it. Its output is appended to the file `output`. `environ`: all of its environment; None: as ours."""
        self.output_file = output
        self._argv, self._environ = argv, environ
        self.process = self._started()

    @property
    def output(self) -> str:
        """Returns what the process has written so far to standard output and standard error."""
        return self.output_file.read_text(errors="replace")

    @property
    def running(self) -> bool:
        """True if the process has not ended."""
        return self.process.poll() is None

    def wait_for(self, condition: Callable[[], object], what: str = "the condition", timeout_s: float = WAIT_S) -> None:
        """Waits until `condition` is true. Raises AssertionError if the process ends before, or not in time."""

        def holds() -> object:
            assert self.running, f"ended with {self.process.returncode}"
            return condition()

        try:
            wait_for(holds, what, timeout_s)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.output}") from None

    def keep(self) -> bool:
        """Restarts the process if it has ended with exit code 1, as `coldnotify up` does. Returns true if it has."""
        if self.process.poll() != 1:
            return False
        self.process = self._started()
        return True

    def send(self, number: int) -> None:
        """A signal."""
        self.process.send_signal(number)

    def kill(self) -> None:
        """Kills the process with SIGKILL, even if it is stopped, and waits until it has ended."""
        self.process.kill()
        self.process.wait(WAIT_S)

    def stop(self, timeout_s: float = WAIT_S) -> int:
        """SIGTERM; its exit code."""
        self.process.terminate()
        return self.process.wait(timeout_s)

    def stop_timed(self) -> tuple[int, float]:
        """SIGTERM: (exit code, how long it took in s)."""
        started_s = time.monotonic()
        return self.stop(), time.monotonic() - started_s

    def _started(self) -> "subprocess.Popen[bytes] | zygote.ForkedProcess":
        with self.output_file.open("ab") as file:
            return self._forked(file.fileno()) or subprocess.Popen(
                self._argv, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT, env=self._environ
            )

    def _forked(self, _output: int) -> zygote.ForkedProcess | None:
        """The process, if it is to be forked; its output goes to this descriptor."""
        return None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        if error is not None:
            last = self.output.splitlines()[-_OUTPUT_LINES_SHOWN:]
            error.add_note("\n".join([f"{self.output_file} ends:", *last]))


class ServiceProcess(Child, ABC):
    """A service's own code in a process, its log as JSON; `settings` by their names, as its environment has them."""

    def __init__(self, service: str, output: Path, settings: Mapping[str, object]) -> None:
        """`service`: matcher, gateway, http or usage. Settings of this process' environment are not handed on."""
        self._service = _SERVICES[service]
        environ = {name: value for name, value in os.environ.items() if not name.startswith("COLDNOTIFY_")}
        settings = {"log_format": "json", "log_level": "info", **settings}
        environ |= {f"COLDNOTIFY_{name.upper()}": str(value) for name, value in settings.items()}
        package, cls = self._service
        super().__init__([sys.executable, "-c", _RUN.format(package=package, settings=cls)], output, environ)

    def _forked(self, output: int) -> zygote.ForkedProcess | None:
        return zygote.start(_FUNCTION, self._service, output, self._environ)

    @property
    @abstractmethod
    def http_port(self) -> int:
        """The port of its HTTP endpoints. The subclass knows it, or reads it from the log."""

    @property
    def url(self) -> str:
        """The URL of its HTTP port."""
        return f"http://127.0.0.1:{self.http_port}"

    @property
    def events(self) -> list[dict[str, Any]]:
        """Returns the lines of its log. A line that is not JSON becomes an event without fields."""
        return [_event(line) for line in self.output.splitlines()]

    def event(self, name: str, count: int = 1) -> dict[str, Any]:
        """The `count`th log line of this event, once it is there."""

        def found() -> list[dict[str, Any]]:
            return [event for event in self.events if event["event"] == name]

        wait_for(lambda: len(found()) >= count or not self.running, f"log line {name!r}")
        there = found()
        assert len(there) >= count, f"ended without {name!r}"
        return there[count - 1]

    def get(self, path: str) -> tuple[int, str]:
        """(status, body) of a GET; (0, why) if nobody answers."""
        try:
            answer = fetch(self.url + path, _ASK_S)
        except OSError as error:
            return 0, str(error)
        return answer.status, answer.text

    def json(self, path: str) -> Any:
        """Returns the JSON of a GET that is answered with status 200."""
        status, body = self.get(path)
        assert status == 200, body
        return json.loads(body)

    def metric(self, name: str) -> float:
        """The sum of a metric's samples: of all its labels, or of those in `name`."""
        lines = [line for line in self.get("/metrics")[1].splitlines() if not line.startswith("#")]
        return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith((f"{name} ", f"{name}{{")))

    @property
    def ready(self) -> bool:
        """True if /readyz answers 200."""
        return self.get("/readyz")[0] == 200

    def wait_ready(self) -> Self:
        """Waits until /readyz answers 200. Raises AssertionError if the process ends before, or if
        it takes too long.
        """
        self.wait_for(lambda: self.ready, "ready")
        return self


def _event(line: str) -> dict[str, Any]:
    try:
        event = json.loads(line)
    except ValueError:
        event = None
    return event if isinstance(event, dict) and "event" in event else {"event": line.rstrip()}
