"""Virtual time: a queue of actions, and processes that stop, resume and die."""

import heapq
from collections.abc import Callable

Act = Callable[[], None]

START_S = 1_700_000_000.0
"""The virtual clock begins at a Unix time, so that it serves as both clocks of the real parts."""


class Clock:
    """Acts in the order of their times; those of the same time in the order in which they were asked for."""

    def __init__(self) -> None:
        self.now_s = START_S
        self._acts: list[tuple[float, int, Act]] = []
        self._asked = 0

    @property
    def now_ms(self) -> int:
        """Unix time, in ms."""
        return int(self.now_s * 1000)

    def later(self, delay_s: float, act: Act) -> None:
        """Do it `delay_s` from now."""
        self._asked += 1
        heapq.heappush(self._acts, (self.now_s + delay_s, self._asked, act))

    def run(self, seconds: float) -> None:
        """Let so much time pass."""
        end_s = self.now_s + seconds
        acts = self._acts
        while acts and acts[0][0] <= end_s:
            self.now_s, _, act = heapq.heappop(acts)
            act()
        self.now_s = end_s

    def run_until(self, holds: Callable[[], bool], limit_s: float = 120.0) -> None:
        """Let time pass until `holds()`. Raises TimeoutError where it does not within `limit_s`."""
        end_s = self.now_s + limit_s
        while not holds():
            if not self._acts or self._acts[0][0] > end_s:
                raise TimeoutError(f"not within {limit_s:g} s of virtual time")
            self.now_s, _, act = heapq.heappop(self._acts)
            act()


class SimulatedProcess:
    """A process that can be stopped (SIGSTOP), resumed, and killed, which loses what it was about to do."""

    def __init__(self, clock: Clock, name: str) -> None:
        self.clock = clock
        self.name = name
        self.alive = False
        self.stopped = False
        self.life = 0
        self.stops = 0
        """How often it was stopped: distinguishes one stop from the next."""
        self._waiting: list[Act] = []

    def later(self, delay_s: float, act: Act) -> None:
        """Do it later, unless the process is dead by then; while it is stopped, it waits."""
        life = self.life

        def do() -> None:
            if life != self.life or not self.alive:
                return
            if self.stopped:
                self._waiting.append(do)
            else:
                act()

        self.clock.later(delay_s, do)

    def _born(self) -> None:
        self.life += 1
        self.alive = True
        self.stopped = False
        self._waiting.clear()

    def _died(self) -> None:
        self.life += 1
        self.alive = False
        self.stopped = False
        self._waiting.clear()

    def stop(self) -> None:
        """SIGSTOP."""
        if self.alive and not self.stopped:
            self.stopped = True
            self.stops += 1

    def go_on(self) -> None:
        """SIGCONT: does everything that has become due meanwhile, in order."""
        if not self.alive or not self.stopped:
            return
        self.stopped = False
        waiting, self._waiting = self._waiting, []
        for act in waiting:
            self.clock.later(0.0, act)
