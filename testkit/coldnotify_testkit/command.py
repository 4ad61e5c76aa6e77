"""For tests: runs the real command in processes of its own."""

import os
import subprocess
import sys
from pathlib import Path

from coldnotify_testkit.child import Child
from coldnotify_testkit.fetching import fetch

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


class RunningCommand(Child):
    """A command that keeps running; its output is in a file."""

    def __init__(self, output: Path, *arguments: str, **environ: str) -> None:
        super().__init__([COMMAND, *arguments], output, _environment(environ))

    def wait_port_ready(self, port: int) -> None:
        """Waits until /readyz on this port answers 200."""
        self.wait_for(lambda: http_status(port, "/readyz") == 200, f"port {port} is ready")


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
