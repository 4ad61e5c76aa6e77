"""GET /v1/process: a process's version, how long it has run, how busy it is, and whether it is ready."""

import time
from collections import deque
from collections.abc import Callable
from importlib.metadata import version

from aiohttp import web

from coldnotify_common.http.json_answers import json_answer

_SAMPLES = 21
"""With a tick each half second, the load is of the last ten seconds."""


class ProcessFacts:
    """Facts about this process, since this was made. `tick` is to be called twice a second or so."""

    def __init__(
        self,
        readiness: Callable[[], str | None],
        *,
        now_s: Callable[[], float] = time.monotonic,
        cpu_s: Callable[[], float] = time.process_time,
    ) -> None:
        self._readiness = readiness
        self._now_s = now_s
        self._cpu_s = cpu_s
        self._begun_s = now_s()
        self._samples = deque([(self._begun_s, cpu_s())], maxlen=_SAMPLES)

    def tick(self) -> None:
        """Takes a sample of the time that the process has computed."""
        self._samples.append((self._now_s(), self._cpu_s()))

    def route(self) -> web.RouteDef:
        """Returns the route GET /v1/process."""

        async def process(_request: web.Request) -> web.Response:
            return json_answer(self.shown())

        return web.get("/v1/process", process)

    def shown(self) -> dict[str, object]:
        """Returns the facts. `cpu`: the part of one core that it has used lately; None before the first tick."""
        (first_s, first_cpu_s), (last_s, last_cpu_s) = self._samples[0], self._samples[-1]
        window_s = last_s - first_s
        uptime_s = self._now_s() - self._begun_s
        reason = self._readiness()
        return {
            "version": version("coldnotify-server"),
            "started_ms": round((time.time() - uptime_s) * 1000),
            "uptime_s": round(uptime_s, 1),
            "cpu": round((last_cpu_s - first_cpu_s) / window_s, 3) if window_s > 0 else None,
            "ready": reason is None,
            "not_ready": reason,
        }
