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
    """Measured times of one alert: seconds until it fired after the fault was made, and until it cleared after the
    fault ended.
    """

    fired_s: float
    cleared_s: float


def drill(scene: Scene, fault: Fault) -> dict[str, Times]:
    """Makes the fault, waits for its alerts to fire, ends it, and waits for them to clear. Raises AssertionError that
    names what did not happen.
    """
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
    """Returns the results of the drills as a Markdown table."""
    lines = ["| alert | fault made | fired after | cleared after |", "|---|---|---|---|"]
    for fault, alerts in times.items():
        for alert, (fired_s, cleared_s) in alerts.items():
            lines.append(f"| {alert} | {fault.__doc__} | {fired_s:.0f} s | {cleared_s:.0f} s |")
    return "\n".join(lines)
