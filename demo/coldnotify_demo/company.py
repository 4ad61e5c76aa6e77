"""The processes of the demo: started, relayed to the terminal line by line, stopped; their output is kept."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from coldnotify_kafka.broker.process import spawn

from coldnotify_demo.saying import JSON_LINES

Event = dict[str, Any]
"""One output of a process: "words", "time_s", mostly "event", and the facts that belong to it."""
Show = Callable[[str, str], object]
"""Shows a line: the speaker's name, the words."""

POLL_S = 0.02
STOP_S_MAX = 10.0
"""An OU says goodbye to the gateway first, which takes one exchange."""
FIRST_WORDS_S_MAX = 60.0
"""Limit for the start of Python and its imports, on a machine that has much else to do."""


class Collapsed(Exception):
    """A process ended that should have gone on: nothing can be shown any more."""


@dataclass
class Actor:
    """One process, or several after each other under one name."""

    name: str
    log: Path
    events: list[Event] = field(default_factory=list)
    """All its output, over restarts."""
    process: "subprocess.Popen[bytes] | None" = None
    read_bytes: int = 0
    begins_bytes: int = 0
    """Bytes that earlier processes wrote to the log."""

    def said(self, event: str, since: int = 0, **facts: object) -> list[Event]:
        """Its events of this kind with these facts, of those after the first `since`."""
        wanted = {"event": event, **facts}
        return [e for e in self.events[since:] if all(e.get(key) == value for key, value in wanted.items())]

    def begin(self) -> None:
        """Prepares the log for a new process."""
        self.log.touch()
        self.begins_bytes = self.log.stat().st_size

    def has_spoken(self) -> bool:
        """Returns true if its present process has written something."""
        return self.log.stat().st_size > self.begins_bytes

    def read_new(self) -> list[Event]:
        """Returns what was written to the log since the last call, whole lines only."""
        with self.log.open("rb") as file:
            file.seek(self.read_bytes)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        self.read_bytes += len(whole)
        before = len(self.events)
        for line in whole.decode(errors="replace").splitlines():
            self.events.append(_event(line, self.events[-1]["time_s"] if self.events else 0.0))
        return self.events[before:]


class Company:
    """All processes."""

    def __init__(self, logs: Path, show: Show) -> None:
        """Logs are written to the directory `logs`; `show` is given every line."""
        self._logs = logs
        self._show = show
        self._actors: dict[str, Actor] = {}

    def __getitem__(self, name: str) -> Actor:
        return self._actors[name]

    def start(self, name: str, module: str, *arguments: str) -> Actor:
        """Starts `python -m module`. The name may have been used before, by a process that was stopped."""
        return self.run(name, [sys.executable, "-m", module, *arguments])

    def run(self, name: str, command: list[str]) -> Actor:
        """Starts any program; likewise."""
        actor = self._actors.setdefault(name, Actor(name, self._logs / f"{name}.log"))
        assert actor.process is None, f"{name} runs already"
        actor.begin()
        actor.process = spawn(command, actor.log, environ={**os.environ, JSON_LINES: "1"})
        return actor

    def stop(self, name: str) -> None:
        """Stops it in order. Raises Collapsed if it does not end, or not well.

        Until it has said something it may not handle SIGTERM yet.
        """
        actor = self._actors[name]
        self.wait_until(actor.has_spoken, FIRST_WORDS_S_MAX)
        status = self._end(actor, signal.SIGTERM)
        if status != 0:
            raise Collapsed(f"{name} was asked to stop and ended with status {status}")

    def kill(self, name: str) -> None:
        """Ends it as a power cut does."""
        self._end(self._actors[name], signal.SIGKILL)

    def relay(self) -> None:
        """Shows new output, ordered by time. Raises Collapsed if a process ended by itself."""
        new = [(actor.name, event) for actor in self._actors.values() for event in actor.read_new()]
        for name, event in sorted(new, key=lambda pair: float(pair[1]["time_s"])):
            self._show(name, event["words"])
        for actor in self._actors.values():
            if actor.process is not None and (status := actor.process.poll()) is not None:
                raise Collapsed(f"{actor.name} ended by itself with status {status}, see {actor.log}")

    def wait_until(self, condition: Callable[[], object], limit_s: float) -> bool:
        """Relays until the condition holds, or `limit_s` have passed; whether it holds. Raises Collapsed."""
        deadline = time.monotonic() + limit_s
        while True:
            self.relay()
            if condition():
                return True
            if time.monotonic() > deadline:
                return False
            time.sleep(POLL_S)

    def close(self) -> None:
        """Stops all that run, at once; kills what does not stop."""
        running = [actor for actor in self._actors.values() if actor.process is not None]
        for actor in running:
            assert actor.process is not None
            actor.process.terminate()
        for actor in running:
            self._await_end(actor)
        with contextlib.suppress(Collapsed):
            self.relay()

    def _end(self, actor: Actor, signal_number: int) -> int:
        assert actor.process is not None, f"{actor.name} does not run"
        actor.process.send_signal(signal_number)
        return self._await_end(actor)

    def _await_end(self, actor: Actor) -> int:
        process, actor.process = actor.process, None
        assert process is not None
        try:
            return process.wait(STOP_S_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()


def _event(line: str, previous_s: float) -> Event:
    """Parses a line of say(). Other lines (a warning, a traceback) get the previous line's time, so that they stay
    together.
    """
    try:
        event = json.loads(line)
        if isinstance(event, dict) and isinstance(event["words"], str) and isinstance(event["time_s"], float):
            return event
    except (ValueError, KeyError):
        pass
    return {"words": line, "time_s": previous_s}
