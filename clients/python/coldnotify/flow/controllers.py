"""All controllers, by the names that settings take."""

from coldnotify.flow.adaptive import Adaptive
from coldnotify.flow.beginnings import Beginnings
from coldnotify.flow.bottleneck import Bottleneck
from coldnotify.flow.controller import Controller, Fixed
from coldnotify.flow.gradient2 import Gradient2
from coldnotify.flow.last_three_points import LastThreePoints
from coldnotify.flow.vegas import Vegas

DEFAULT = "bottleneck"
"""docs/adr/0033-flow-control.md gives the reasons."""
FIXED = "fixed"
NAMES = ("bottleneck", "last-three-points", "adaptive", "gradient2", "vegas", FIXED)


def controller_named(name: str, begin: Beginnings, unix_s: float = 0.0) -> Controller:
    """Returns a new controller. `unix_s`: the difference of Unix time and the caller's clock. Raises ValueError naming
    those that exist.
    """
    match name:
        case "bottleneck":
            return Bottleneck(begin.gain, begin.seconds, unix_s)
        case "last-three-points":
            return LastThreePoints(begin.delta)
        case "adaptive":
            return Adaptive(begin.delta)
        case "gradient2":
            return Gradient2()
        case "vegas":
            return Vegas()
        case "fixed":
            return Fixed()
    raise ValueError(f"unknown controller {name!r}, expected one of {', '.join(NAMES)}")
