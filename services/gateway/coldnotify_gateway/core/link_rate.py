"""Measures the rate of a session's link, which limits the size of its pages and the bytes that may wait for it."""

from coldnotify_schemas.internal_protocol import PAGE_BYTES_MAX

_AHEAD_S = 2.0
"""The link carries the bytes in transit within this time. A longer time would delay a Pong, and newer versions may be
published meanwhile. A shorter time would leave the link idle too often, because it is idle for a round trip after each
page."""
PAGE_BYTES_FIRST = 16 * 1024
"""Size of the first page, before the link is measured. Most wakes need one page only."""
_BYTES_MIN = 4 * 1024
"""Smallest size, for the slowest link, and for a link whose round trip alone takes longer than _AHEAD_S."""


class LinkRate:
    """The rate of one session's link, measured whenever the number of bytes and their transfer time are known."""

    __slots__ = ("_high_water_bytes_max", "_under_way_bytes", "_under_way_s", "high_water_bytes", "page_bytes")

    def __init__(self, high_water_bytes_max: int) -> None:
        """Sets `high_water_bytes_max`, the high-water mark of a link that is not slow."""
        self._high_water_bytes_max = high_water_bytes_max
        self._under_way_bytes = 0
        self._under_way_s = 0.0
        self.page_bytes = PAGE_BYTES_FIRST
        """Size of the next page."""
        self.high_water_bytes = high_water_bytes_max
        """Number of waiting bytes above which the session is slow."""

    def begin(self, size_bytes: int, now_s: float) -> None:
        """Starts a measurement: so many bytes leave now with nothing ahead of them; 0: the bytes ahead are unknown."""
        self._under_way_bytes, self._under_way_s = size_bytes, now_s

    def end(self, now_s: float) -> bool:
        """Ends the measurement, because the bytes have arrived. Returns true if the high-water mark has changed."""
        size_bytes, began_s = self._under_way_bytes, self._under_way_s
        self.begin(0, 0.0)
        if not size_bytes:
            return False
        took_s = now_s - began_s
        # If no time has passed, any size fits.
        carried = size_bytes * _AHEAD_S / took_s if took_s > 0 else float("inf")
        # One fast page may be chance, because a link's own buffer absorbs it.
        self.page_bytes = _clamp(min(carried, 2 * self.page_bytes), PAGE_BYTES_MAX)
        before, self.high_water_bytes = self.high_water_bytes, _clamp(carried, self._high_water_bytes_max)
        return self.high_water_bytes != before


class SessionLink:
    """The link of one session. Most links are never measured, because most wakes need one page only."""

    __slots__ = ("_high_water_bytes_max", "_rate")

    def __init__(self, high_water_bytes_max: int) -> None:
        """Sets `high_water_bytes_max`, the high-water mark of a link that is not slow."""
        self._high_water_bytes_max = high_water_bytes_max
        self._rate: LinkRate | None = None

    @property
    def page_bytes(self) -> int:
        """Returns the size of the next page."""
        return PAGE_BYTES_FIRST if self._rate is None else self._rate.page_bytes

    def leaves(self, size_bytes: int, now_s: float) -> None:
        """Starts to measure the time for so many bytes, which leave now. 0: the bytes ahead are unknown."""
        if self._rate is None:
            if not size_bytes:
                return
            self._rate = LinkRate(self._high_water_bytes_max)
        self._rate.begin(size_bytes, now_s)

    def fills(self, now_s: float) -> None:
        """Starts to measure the time for as many bytes as the connection holds."""
        self.leaves(self._high_water_bytes_max if self._rate is None else self._rate.high_water_bytes, now_s)

    def reached(self, now_s: float) -> int | None:
        """Ends the measurement. Returns the bytes that may wait before the session is slow; None: unchanged."""
        rate = self._rate
        return rate.high_water_bytes if rate is not None and rate.end(now_s) else None


def _clamp(size_bytes: float, bytes_max: int) -> int:
    return int(min(max(size_bytes, _BYTES_MIN), bytes_max))
