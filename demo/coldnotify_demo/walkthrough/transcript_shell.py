"""A shell whose commands and their output are the transcript; what must not be, ends it."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from coldnotify_kafka.broker.process import spawn

_POLL_S = 0.05
_AGAIN_S = 0.5
_STOP_S = 60.0
_PATIENCE_S = (3, 12, 40)
"""For a client to hear why it is refused: milliseconds, but for a machine that others keep busy."""


class StepFailed(Exception):
    """A step did not come out as it must."""


class Background:
    """A process that goes on while others run."""

    def __init__(self, name: str, log: Path, process: "subprocess.Popen[bytes]") -> None:
        self.name = name
        self.log = log
        self.process = process
        self.shown_chars = 0
        self.stopped = False

    def said(self) -> str:
        """All that it has printed."""
        return self.log.read_text(errors="replace")


class TranscriptShell:
    """Runs commands in one directory, by bash, with `coldnotify` and `python` of this very Python on the PATH."""

    def __init__(self, directory: Path, limit_s: float, write: Callable[[str], object]) -> None:
        """`limit_s`: how long any one thing may take."""
        self.directory = directory
        self._limit_s = limit_s
        self._write = write
        self._backgrounds: list[Background] = []
        os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        os.environ["PYTHONUNBUFFERED"] = "1"

    def title(self, words: str) -> None:
        """The beginning of a part."""
        self._write(f"\n-- {words}")

    def note(self, words: str) -> None:
        """Writes a comment."""
        self._write(f"# {words}")

    def export(self, name: str, value: str) -> None:
        """For all commands from now on."""
        os.environ[name] = value
        self._write(f"$ export {name}={value}")

    def run(self, command: str, *, code: int | None = 0, says: str = "") -> str:
        """Returns the command's output on stdout and stderr; `code`: the required exit code (None: any but 0).

        `says`: a regular expression that the output must match. Raises Failed.
        """
        return self._run(command, code, says, show=True)[1]

    def refused(self, command: str, says: str) -> None:
        """Runs a command that must be refused (exit code 1); its {timeout_s} is short at first, and longer if that was
        too short.
        """
        for timeout_s in _PATIENCE_S:
            spelled = command.format(timeout_s=timeout_s)
            status, output = self._run(spelled, None, "", show=False)
            if re.search(says, output):
                break
        self._show(spelled, status, output)
        if status != 1 or not re.search(says, output):
            raise StepFailed(f"exit code {status}, 1 is wanted, with {says!r}")

    def until(self, command: str, says: str) -> str:
        """Repeats a command until its output matches; shows the last run only. Raises Failed."""
        deadline_s = time.monotonic() + self._limit_s
        while True:
            status, output = self._run(command, None, "", show=False)
            if status == 0 and re.search(says, output):
                self._show(command, status, output)
                return output
            if time.monotonic() > deadline_s:
                self._show(command, status, output)
                raise StepFailed(f"not within {self._limit_s:g} s: {says!r}")
            time.sleep(_AGAIN_S)

    def start(self, name: str, command: str) -> Background:
        """Starts a command in the background; `expect` shows its output with its name."""
        self._write(f"$ {command} &")
        log = self.directory / f"{name}.log"
        # env: bash may be gone then, and the process is the command itself, which may begin with NAME=value.
        process = spawn(["bash", "-c", f'cd "$0" && exec env {command}', str(self.directory)], log)
        background = Background(name, log, process)
        self._backgrounds.append(background)
        return background

    def expect(self, background: Background, says: str) -> str:
        """Waits until the output matches this regular expression; returns all output. Raises Failed."""
        deadline_s = time.monotonic() + self._limit_s
        while not re.search(says, said := background.said()):
            status = background.process.poll()
            if status is not None or time.monotonic() > deadline_s:
                self.show_new(background)
                why = f"not within {self._limit_s:g} s" if status is None else f"it has ended with status {status}"
                raise StepFailed(f"{background.name}: {says!r}: {why}")
            time.sleep(_POLL_S)
        self.show_new(background)
        return said

    def show_new(self, background: Background) -> None:
        """Shows output since the last call."""
        said = background.said()
        for line in said[background.shown_chars :].splitlines():
            self._write(f"{background.name:<10} | {line}")
        background.shown_chars = len(said)

    def stop(self, background: Background) -> int:
        """SIGTERM; its exit code."""
        background.stopped = True
        process = background.process
        if process.poll() is None:
            process.terminate()
        try:
            status = process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # it has a session of its own (spawn)
            status = process.wait()
        self.show_new(background)
        return status

    def close(self) -> None:
        """Stops all that still runs, the last one first."""
        for background in reversed(self._backgrounds):
            if not background.stopped:
                self.stop(background)

    def _run(self, command: str, code: int | None, says: str, *, show: bool) -> tuple[int, str]:
        try:
            done = subprocess.run(
                ["bash", "-c", command],
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=self._limit_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            self._write(f"$ {command}")
            raise StepFailed(f"no end within {self._limit_s:g} s") from None
        if show:
            self._show(command, done.returncode, done.stdout)
            if (done.returncode != code) if code is not None else (done.returncode == 0):
                raise StepFailed(f"exit code {done.returncode}, {'not 0' if code is None else code} is wanted")
            if not re.search(says, done.stdout):
                raise StepFailed(f"it does not say {says!r}")
        return done.returncode, done.stdout

    def _show(self, command: str, status: int, output: str) -> None:
        self._write(f"$ {command}")
        for line in output.splitlines():
            self._write(line)
        if status:
            self._write(f"[exit code {status}]")
