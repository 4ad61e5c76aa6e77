"""The rate of a session's link: what it carries in a little while bounds its pages, and what may wait for it."""

from coldnotify_schemas.internal_protocol import PAGE_BYTES_MAX

_AHEAD_S = 2.0
"""As much is under way as the link carries in this time: a Pong waits behind it, and newer may be published meanwhile.
Pages go one by one, and the link rests for a round trip after each: with less it would rest too often."""
PAGE_BYTES_FIRST = 16 * 1024
"""Before anything is known of the link. Most wakes are one page."""
_BYTES_MIN = 4 * 1024
"""On the slowest link, and where the round trip alone takes longer than _AHEAD_S."""


class LinkRate:
    """The rate of one session's link, measured wherever it is known how many bytes it took how long to carry."""

    __slots__ = ("_high_water_bytes_max", "_under_way_bytes", "_under_way_s", "high_water_bytes", "page_bytes")

    def __init__(self, high_water_bytes_max: int) -> None:
        """`high_water_bytes_max`: of a link that is not slow."""
        self._high_water_bytes_max = high_water_bytes_max
        self._under_way_bytes = 0
        self._under_way_s = 0.0
        self.page_bytes = PAGE_BYTES_FIRST
        """How large the next page is to be."""
        self.high_water_bytes = high_water_bytes_max
        """With more than this waiting to be written, the session is slow."""

    def begin(self, size_bytes: int, now_s: float) -> None:
        """So many bytes leave now, with nothing in front of them; 0: it is not known what is in front."""
        self._under_way_bytes, self._under_way_s = size_bytes, now_s

    def end(self, now_s: float) -> bool:
        """They have arrived. Whether the high-water mark has changed."""
        size_bytes, began_s = self._under_way_bytes, self._under_way_s
        self.begin(0, 0.0)
        if not size_bytes:
            return False
        took_s = now_s - began_s
        # Where no time has passed, all there is fits.
        carried = size_bytes * _AHEAD_S / took_s if took_s > 0 else float("inf")
        # One fast page may be chance: a link's own buffer takes it.
        self.page_bytes = _clamp(min(carried, 2 * self.page_bytes), PAGE_BYTES_MAX)
        before, self.high_water_bytes = self.high_water_bytes, _clamp(carried, self._high_water_bytes_max)
        return self.high_water_bytes != before


class SessionLink:
    """The link of one session. Most are never measured: most wakes are one page."""

    __slots__ = ("_high_water_bytes_max", "_rate")

    def __init__(self, high_water_bytes_max: int) -> None:
        """`high_water_bytes_max`: of a link that is not slow."""
        self._high_water_bytes_max = high_water_bytes_max
        self._rate: LinkRate | None = None

    @property
    def page_bytes(self) -> int:
        """How large the next page is to be."""
        return PAGE_BYTES_FIRST if self._rate is None else self._rate.page_bytes

    def leaves(self, size_bytes: int, now_s: float) -> None:
        """So many bytes leave now: the link's time for them is measured. 0: what is in front of them is not known."""
        if self._rate is None:
            if not size_bytes:
                return
            self._rate = LinkRate(self._high_water_bytes_max)
        self._rate.begin(size_bytes, now_s)

    def fills(self, now_s: float) -> None:
        """As much as the connection takes leaves now."""
        self.leaves(self._high_water_bytes_max if self._rate is None else self._rate.high_water_bytes, now_s)

    def reached(self, now_s: float) -> int | None:
        """What left has arrived. Returns the bytes that may wait before the session is slow; None: as before."""
        rate = self._rate
        return rate.high_water_bytes if rate is not None and rate.end(now_s) else None


def _clamp(size_bytes: float, bytes_max: int) -> int:
    return int(min(max(size_bytes, _BYTES_MIN), bytes_max))
