"""Keeps parts running: starts them, restarts the one that dies, stops them in order. Knows nothing of what they do."""

import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import structlog
from coldnotify_common.errors import ServiceError
from coldnotify_common.stop import StopFlag

log = structlog.get_logger()

LOOK_EVERY_S = 0.1
"""Interval of checks for the end of a part, or its readiness."""
DEATHS_MAX = 5
DEATHS_WINDOW_S = 60.0
"""A part that dies so often in this time is not going to get well by another start."""
RESTART_DELAY_FIRST_S = 0.1
RESTART_DELAY_MAX_S = 5.0
STOP_TIMEOUT_S = 20.0
"""Longer than any part takes to stop in order; then it is killed."""


class KeepsDying(ServiceError):
    """A part keeps dying; the message names it."""


class NotReady(ServiceError):
    """A part did not get ready in time; the message names it, and contains its own reason."""


class PartProcess(Protocol):
    """The process that a part starts."""

    @property
    def pid(self) -> int: ...

    def poll(self) -> int | None: ...

    def stop(self, timeout: float) -> int | None: ...


class ChildProcess:
    """A subprocess as a Process."""

    def __init__(self, popen: subprocess.Popen[bytes]) -> None:
        self._popen = popen

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._popen.pid

    def poll(self) -> int | None:
        """None while it runs, else its exit status (negative: the signal)."""
        return self._popen.poll()

    def hang_up(self) -> None:
        """SIGHUP: a service reads its certificates again."""
        self._popen.send_signal(signal.SIGHUP)

    def stop(self, timeout: float) -> int | None:
        """SIGTERM, after `timeout` seconds SIGKILL; its exit status."""
        for number, seconds in ((signal.SIGTERM, timeout), (signal.SIGKILL, STOP_TIMEOUT_S)):
            if self._popen.poll() is None:
                self._popen.send_signal(number)
            try:
                return self._popen.wait(seconds)
            except subprocess.TimeoutExpired:
                log.warning("does not stop", pid=self._popen.pid, signal=number)
        return None


class _Look(threading.Thread):
    """Asks one run of a part whether it is ready. It is a separate thread, so that a silent part delays no other."""

    def __init__(self, unready: Callable[[], str | None]) -> None:
        super().__init__(daemon=True)
        self._unready = unready
        self.reason: str | None = "it has not answered yet"

    def run(self) -> None:
        self.reason = self._unready()


class PartStatus(NamedTuple):
    """The state of a part, in words."""

    word: str
    """waiting (for others to be ready), starting, ready, down, stopped (in order)."""
    reason: str | None
    seconds: float | None
    """Since its process was started."""
    deaths: int
    """Within the last DEATHS_WINDOW_S."""


class Part:
    """One process to be kept running."""

    def __init__(
        self,
        name: str,
        start: Callable[[], PartProcess],
        unready: Callable[[], str | None],
        *,
        ready_timeout_s: float,
        needed: bool = True,
        awaited: bool = True,
        last_words: Callable[[], str] = lambda: "",
        after_death: Callable[[], object] | None = None,
    ) -> None:
        """`unready`: returns None if the part is ready, else why not; it may take some seconds to answer.

        `last_words`: returns its last log lines, and their place, if they are not on our stderr anyway.

        `needed`: true if the others are useless without it. A part that is not needed is restarted however often it
        dies, and nobody waits for it. `awaited`: true if the parts of the next stage are started only when it is ready,
        because they could do nothing before, or would report errors.

        `after_death`: called in a thread when it has died; the next start waits for its end, which must come soon.
        """
        self.name = name
        self.needed = needed
        self.awaited = awaited and needed
        self.process: PartProcess | None = None
        self.ready = False
        self._start = start
        self._last_words = last_words
        self._after_death = after_death
        self._follow_up: threading.Thread | None = None
        self._unready = unready
        self._ready_timeout_s = ready_timeout_s
        self._deaths_s: deque[float] = deque()
        self._start_at_s = 0.0
        self._started_s = 0.0
        self._reason: str | None = None
        self._look: _Look | None = None
        self._stopped = False

    def turn(self, now_s: float) -> None:
        """Look after the part. Raises KeepsDying, NotReady."""
        if self.process is None:
            if now_s >= self._start_at_s and (self._follow_up is None or not self._follow_up.is_alive()):
                self._begin(now_s)
        elif (status := self.process.poll()) is not None:
            self._on_death(f"by signal {-status}" if status < 0 else f"with exit code {status}", now_s)
        elif not self.ready:
            self._look_if_ready(now_s)

    def status(self, now_s: float) -> PartStatus:
        """Returns its present state; may be called by another thread."""
        deaths = sum(death_s >= now_s - DEATHS_WINDOW_S for death_s in list(self._deaths_s))
        if self._stopped:
            return PartStatus("stopped", None, None, deaths)
        if self.process is None:
            return PartStatus("down" if deaths else "waiting", None, None, deaths)
        seconds = now_s - self._started_s
        return (
            PartStatus("ready", None, seconds, deaths)
            if self.ready
            else PartStatus("starting", self._reason, seconds, deaths)
        )

    def stop(self, timeout_s: float) -> None:
        """Ends the process, if there is one."""
        process = self.process
        if process is not None:
            process.stop(timeout_s)
            self.process = None
            log.info("stopped", part=self.name)
        self._stopped = True

    def _begin(self, now_s: float) -> None:
        try:
            self.process = self._start()
        except Exception as error:
            if not self._deaths_s and self.needed:
                raise
            # It ran before: what is in its way now, its own remains perhaps, may go away.
            self._on_death(f"could not be started: {error}", now_s)
            return
        self.ready = False
        self._look = None
        self._reason = "it has not answered yet"
        self._started_s = now_s
        log.info("started", part=self.name, pid=self.process.pid)

    def _on_death(self, how: str, now_s: float) -> None:
        self.process = None
        self.ready = False
        self._deaths_s.append(now_s)
        while self._deaths_s[0] < now_s - DEATHS_WINDOW_S:
            self._deaths_s.popleft()
        if len(self._deaths_s) >= DEATHS_MAX and self.needed:
            words = self._last_words()
            raise KeepsDying(
                f"{self.name} keeps dying: {len(self._deaths_s)} times within {DEATHS_WINDOW_S:.0f} s, last {how}"
                + (f". Its log ends:\n{words}" if words else "")
            )
        if self._after_death is not None:
            self._follow_up = threading.Thread(target=self._after_death, daemon=True)
            self._follow_up.start()
        delay_s = min(RESTART_DELAY_FIRST_S * 2 ** min(len(self._deaths_s) - 1, 10), RESTART_DELAY_MAX_S)
        self._start_at_s = now_s + delay_s
        log.warning("died, is started again", part=self.name, how=how, delay_s=delay_s)

    def _look_if_ready(self, now_s: float) -> None:
        if self._look is not None and not self._look.is_alive():
            self._reason, self._look = self._look.reason, None
            if self._reason is None:
                self.ready = True
                log.info("ready", part=self.name, seconds=round(now_s - self._started_s, 1))
                return
        if now_s - self._started_s > self._ready_timeout_s and self.needed:
            raise NotReady(f"{self.name} is not ready after {self._ready_timeout_s:g} s: {self._reason}")
        if self._look is None:
            self._look = _Look(self._unready)
            self._look.start()


class Supervisor:
    """Parts in stages: a part is started when the awaited parts of the previous stage are ready, and stopped before
    they are.
    """

    def __init__(self, stages: Sequence[Sequence[Part]], on_ready: Callable[[], None]) -> None:
        """`on_ready` is called each time all needed parts have become ready, and when another one is started again."""
        self.stages = stages
        self._on_ready = on_ready
        self._known_pids: dict[str, int] = {}
        self._all_ready = False
        self._stages_begun = 0
        self._hung_up = False

    def on_hangup(self) -> None:
        """Passes a SIGHUP on to the services, soon."""
        self._hung_up = True

    def run(self, stop: StopFlag) -> None:
        """Until `stop`, or KeepsDying or NotReady is raised; then all parts are stopped in order."""
        try:
            while not stop.is_set():
                self._turn()
                if self._hung_up:
                    self._hung_up = False
                    self._pass_on_hangup()
                stop.wait(LOOK_EVERY_S)
        finally:
            for stage in reversed(self.stages):
                self._stop(stage)

    def pids(self) -> dict[str, int]:
        """The process ids by part."""
        return {part.name: part.process.pid for stage in self.stages for part in stage if part.process is not None}

    def _turn(self) -> None:
        now_s = time.monotonic()
        for index, stage in enumerate(self.stages):
            # Only the first start waits for the stage before: parts that run wait by themselves for one that died.
            if index > self._stages_begun:
                break
            for part in stage:
                part.turn(now_s)
            if index == self._stages_begun and all(part.ready or not part.awaited for part in stage):
                self._stages_begun += 1
        ready = _are_ready(self.stages)
        pids = self.pids()
        if ready and (not self._all_ready or (pids != self._known_pids and pids.keys() >= self._known_pids.keys())):
            self._known_pids = pids
            self._on_ready()
        self._all_ready = ready

    def _pass_on_hangup(self) -> None:
        for part in (part for stage in self.stages for part in stage):
            # Kafka's Java would end by it. A service that is starting may, too, and reads its files anyway.
            if part.ready and isinstance(part.process, ChildProcess):
                part.process.hang_up()

    def _stop(self, stage: Sequence[Part]) -> None:
        threads = [threading.Thread(target=part.stop, args=(STOP_TIMEOUT_S,)) for part in stage]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def _are_ready(stages: Sequence[Sequence[Part]]) -> bool:
    return all(part.ready for stage in stages for part in stage if part.needed)
