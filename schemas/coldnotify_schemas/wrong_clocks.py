"""Times by clocks that nobody checks: which of them cannot be, and how a time is written for people. Pure."""

from datetime import UTC, datetime

from coldnotify_schemas.protocol import CLOCK_AHEAD_S_MAX, CLOCK_SET_S


def clock_fault(clock_ms: int, now_ms: int) -> str | None:
    """Why a time that was read from another machine's clock cannot be, if it is `now_ms` here; None: it can.

    How long ago it was read is not known, so a clock that is behind is noticed only if it was never set.
    """
    if clock_ms > now_ms + CLOCK_AHEAD_S_MAX * 1000:
        return f"the clock was at {time_words(clock_ms)}, far ahead of the service's, which is at {time_words(now_ms)}"
    if clock_ms < CLOCK_SET_S * 1000 <= now_ms:
        return f"the clock was at {time_words(clock_ms)}, and never set; the service's is at {time_words(now_ms)}"
    return None


def expiry_here(expires_at_ms: int, clock_ms: int, now_ms: int) -> int:
    """Returns when something expires by this clock (`now_ms`) that another clock (`clock_ms`) gave an expiry.

    If the expiry is nearer to the other clock's time than to this one's, it was computed by that clock: then it lasts
    as long by this one. Otherwise it is unchanged.
    """
    if abs(expires_at_ms - clock_ms) >= abs(expires_at_ms - now_ms):
        return expires_at_ms
    return max(1, expires_at_ms - clock_ms + now_ms)


def time_words(unix_ms: int) -> str:
    """Returns the time in ISO 8601, in UTC; beyond the calendar, the number."""
    try:
        return datetime.fromtimestamp(unix_ms / 1000, UTC).isoformat(sep=" ", timespec="seconds")
    except (OverflowError, ValueError, OSError):
        return f"{unix_ms} ms"
