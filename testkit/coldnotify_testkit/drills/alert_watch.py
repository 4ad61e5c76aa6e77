"""Watches which alerts fire, according to a Prometheus that does not have to answer each time."""

import threading
import time
from http.client import HTTPException
from urllib.error import HTTPError

from coldnotify_testkit.drills.scene import WAIT_S, Scene
from coldnotify_testkit.prometheus import Prometheus
from coldnotify_testkit.waiting import wait_for

LOOK_S = 0.5


class Looking:
    """Notes when which alert fires, by a thread."""

    def __init__(self, watcher: Prometheus) -> None:
        self._watcher = watcher
        self.first_s: dict[str, float] = {}
        """When an alert was first seen to fire (monotonic clock), by alert."""
        self.last_s: dict[str, float] = {}
        """And when last."""

    def look(self, stopping: threading.Event) -> None:
        """Once; where Prometheus does not answer, the next look will do."""
        now_s = time.monotonic()
        for name in _firing(self._watcher) or ():
            self.first_s.setdefault(name, now_s)
            self.last_s[name] = now_s
        stopping.wait(LOOK_S)


def _firing(watcher: Prometheus) -> set[str] | None:
    """Returns the alerts that fire; None if Prometheus does not answer just now."""
    try:
        return watcher.firing()
    except HTTPError as error:
        error.close()  # it holds the connection
    except (OSError, HTTPException):
        pass
    return None


def wait_quiet(scene: Scene, alerts: set[str], what: str) -> None:
    """Waits until none of these alerts fires. Raises AssertionError that contains `what` if it takes too long."""

    def quiet() -> bool:
        firing = _firing(scene.watcher)
        return firing is not None and not alerts & firing

    wait_for(quiet, f"{alerts} {what}", WAIT_S)
