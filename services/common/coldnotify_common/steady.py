"""A clock for ages: seconds that never go back, and that count the machine's sleep."""

import time

_BOOTTIME = getattr(time, "CLOCK_BOOTTIME", None)


def steady_s() -> float:
    """Returns seconds that pass independently of the wall clock, and also while the machine sleeps (on Linux)."""
    return time.monotonic() if _BOOTTIME is None else time.clock_gettime(_BOOTTIME)
