"""All controllers, by the names that settings take."""

from coldnotify.flow.adaptive import Adaptive
from coldnotify.flow.beginnings import Beginnings
from coldnotify.flow.bottleneck import Bottleneck
from coldnotify.flow.controller import Controller, Fixed
from coldnotify.flow.gradient2 import Gradient2
from coldnotify.flow.last_three_points import LastThreePoints
from coldnotify.flow.vegas import Vegas

DEFAULT = "bottleneck"
"""docs/adr/0033-flow-control.md says why."""
FIXED = "fixed"
NAMES = ("bottleneck", "last-three-points", "adaptive", "gradient2", "vegas", FIXED)


def controller_named(name: str, begin: Beginnings, unix_s: float = 0.0) -> Controller:
    """A new one. `unix_s`: what the caller's clock lacks of Unix time. Raises ValueError naming what there is."""
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
    raise ValueError(f"{name!r} is none of {', '.join(NAMES)}")
