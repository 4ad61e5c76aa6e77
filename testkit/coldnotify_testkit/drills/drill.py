"""A drill: make a fault, see its alerts fire, end it, see them clear; and a table of what drills found."""

import time
from collections.abc import Mapping
from contextlib import ExitStack
from typing import NamedTuple

from coldnotify_testkit.drills.alert_watch import LOOK_S, Looking, wait_quiet
from coldnotify_testkit.drills.faults import DRILLS, FAULTS
from coldnotify_testkit.drills.injection import repeated
from coldnotify_testkit.drills.scene import WAIT_S, Fault, Scene
from coldnotify_testkit.waiting import wait_for


class Times(NamedTuple):
    """Of one alert: seconds from beginning to make its fault, and from beginning to end it."""

    fired_s: float
    cleared_s: float


def drill(scene: Scene, fault: Fault) -> dict[str, Times]:
    """Make the fault, see its alerts fire, end it, see them clear. Raises AssertionError, which says what did not."""
    expected = (FAULTS | DRILLS)[fault]
    wait_quiet(scene, expected, "are quiet before")
    looking = Looking(scene.watcher)
    began_s = time.monotonic()
    with repeated(looking.look):
        with ExitStack() as stack:
            fault(scene, stack)
            try:
                wait_for(lambda: expected <= looking.first_s.keys(), f"{expected} fire", WAIT_S)
            except AssertionError as error:
                raise AssertionError(f"{error}; fired: {sorted(looking.first_s)}") from None
            ended_s = time.monotonic()
        wait_quiet(scene, expected, "clear")
    return {
        name: Times(looking.first_s[name] - began_s, max(0.0, looking.last_s[name] - ended_s) + LOOK_S)
        for name in sorted(expected)
    }


def table(times: Mapping[Fault, Mapping[str, Times]]) -> str:
    """What drills found, as a table of Markdown."""
    lines = ["| alert | fault made | fired after | cleared after |", "|---|---|---|---|"]
    for fault, alerts in times.items():
        for alert, (fired_s, cleared_s) in alerts.items():
            lines.append(f"| {alert} | {fault.__doc__} | {fired_s:.0f} s | {cleared_s:.0f} s |")
    return "\n".join(lines)
