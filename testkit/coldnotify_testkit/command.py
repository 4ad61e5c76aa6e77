"""For tests: runs the real command in processes of its own."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from coldnotify_testkit.fetching import fetch
from coldnotify_testkit.waiting import wait_for

COMMAND = Path(sys.executable).parent / "coldnotify"
_TIMEOUT_S = 120
"""Nothing here needs so long but a machine that others keep busy."""


def coldnotify(*arguments: str, stdin: str = "", **environ: str) -> "subprocess.CompletedProcess[str]":
    """Runs the command to its end. `environ`: settings by their names, kafka="..." for COLDNOTIFY_KAFKA."""
    return subprocess.run(
        [COMMAND, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        env=_environment(environ),
        check=False,
    )


class Service:
    """A command that keeps running; its output is in a file."""

    def __init__(self, process: "subprocess.Popen[bytes]", output: Path) -> None:
        self.process = process
        self._output = output

    @property
    def output(self) -> str:
        """What it wrote so far, to standard output and error."""
        return self._output.read_text()

    def wait_for(self, condition: Callable[[], object]) -> None:
        """Waits until `condition` is true. Fails if the process ends before, or in time."""

        def holds() -> object:
            assert self.process.poll() is None, self.output
            return condition()

        try:
            wait_for(holds, "the condition", _TIMEOUT_S)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.output}") from None

    def wait_ready(self, port: int) -> None:
        """Waits until /readyz on this port says so."""
        self.wait_for(lambda: http_status(port, "/readyz") == 200)

    def stop(self) -> int:
        """SIGTERM; the exit code."""
        self.process.terminate()
        return self.process.wait(_TIMEOUT_S)


@contextmanager
def running(output: Path, *arguments: str, **environ: str) -> Iterator[Service]:
    """Runs the command, its output into the file `output`, and kills it at the end."""
    with output.open("wb") as file:
        process = subprocess.Popen(
            [COMMAND, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            env=_environment(environ),
        )
    try:
        yield Service(process, output)
    finally:
        process.kill()
        process.wait(_TIMEOUT_S)


def http_status(port: int, path: str) -> int | None:
    """The status of a GET; None: nobody answers."""
    try:
        return fetch(f"http://127.0.0.1:{port}{path}", 10).status
    except OSError:
        return None


def _environment(settings: dict[str, str]) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("COLDNOTIFY_")}
    kept |= {name: os.environ[name] for name in ("COLDNOTIFY_CACHE", "COLDNOTIFY_MAVEN_URL") if name in os.environ}
    return kept | {f"COLDNOTIFY_{name.upper()}": value for name, value in settings.items()}
