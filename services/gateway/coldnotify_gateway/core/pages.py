"""The pages that a session is caught up with: which one is due or was sent, and how large the next one is to be.

Pages go one by one: the next one is asked for when the client has acknowledged the last one.

`TABLE` says how they follow each other. Everything that changes a session's pages is in this file, and what its link
carries in `link_rate.py`.
"""

from dataclasses import dataclass
from enum import IntEnum, auto

from coldnotify_gateway.core.link_rate import PAGE_BYTES_FIRST, LinkRate


class Stage(IntEnum):
    """Of one page."""

    NONE = auto()
    """No page is under way."""
    DUE = auto()
    """It is to come from the matcher."""
    SENT = auto()
    """The client is to acknowledge it."""


class Event(IntEnum):
    """What happens to pages."""

    FIRST = auto()
    """A catch-up begins."""
    ARRIVED = auto()
    """It came from the matcher, and others follow it."""
    ARRIVED_LAST = auto()
    ACKNOWLEDGED = auto()
    """The client has it; the next one is due."""
    DROPPED = auto()
    """The catch-up is over, or begins anew."""


TABLE: dict[Stage, dict[Event, Stage]] = {
    Stage.NONE: {Event.FIRST: Stage.DUE, Event.DROPPED: Stage.NONE},
    Stage.DUE: {Event.ARRIVED: Stage.SENT, Event.ARRIVED_LAST: Stage.NONE, Event.DROPPED: Stage.NONE},
    Stage.SENT: {Event.ACKNOWLEDGED: Stage.DUE, Event.DROPPED: Stage.NONE},
}
"""What is not in here does not happen: it raises KeyError."""


@dataclass(slots=True)
class Pages:
    """The pages of one session."""

    stage: Stage = Stage.NONE
    number: int = 0
    """Of the page that is at this stage."""
    paging: int = 0
    """Names the row of pages that the last one came in."""
    _rate: LinkRate | None = None
    """Of the link; None: it was never measured, as most are not. Most wakes are one page."""

    @property
    def due(self) -> int:
        """The page that is to come next; 0: none is."""
        return self.number if self.stage is Stage.DUE else 0

    @property
    def sent(self) -> int:
        """The page that the client is to acknowledge; 0: none is."""
        return self.number if self.stage is Stage.SENT else 0

    @property
    def size_bytes(self) -> int:
        """How large the next page is to be."""
        return PAGE_BYTES_FIRST if self._rate is None else self._rate.page_bytes

    def begin(self) -> None:
        """The first page is due."""
        self._move(Event.FIRST, 1)

    def drop(self) -> None:
        """None is due any more, and none is to be acknowledged. A row that is cut off here counts for nothing."""
        if self.stage is not Stage.NONE:
            self.paging = 0
        self._move(Event.DROPPED, 0)

    def arrived(self, paging: int, *, last: bool) -> None:
        """The page that was due has come, in this row of pages."""
        self.paging = paging
        self._move(Event.ARRIVED_LAST if last else Event.ARRIVED, 0 if last else self.number)

    def acknowledged(self) -> None:
        """The client has the page that was sent; the next one is due."""
        self._move(Event.ACKNOWLEDGED, self.number + 1)

    def leaves(self, size_bytes: int, high_water_bytes_max: int, now_s: float) -> None:
        """So many bytes leave now: how long the link takes for them is measured. 0: it is not known what is in front.

        `high_water_bytes_max`: of a link that is not slow.
        """
        if self._rate is None:
            if not size_bytes:
                return
            self._rate = LinkRate(high_water_bytes_max)
        self._rate.begin(size_bytes, now_s)

    def fills(self, high_water_bytes_max: int, now_s: float) -> None:
        """As much as the connection takes leaves now."""
        high_water_bytes = high_water_bytes_max if self._rate is None else self._rate.high_water_bytes
        self.leaves(high_water_bytes, high_water_bytes_max, now_s)

    def reached(self, now_s: float) -> int | None:
        """What left has arrived. With more than this waiting to be written, the session is slow; None: as before."""
        rate = self._rate
        return rate.high_water_bytes if rate is not None and rate.end(now_s) else None

    def _move(self, event: Event, number: int) -> None:
        self.stage = TABLE[self.stage][event]
        self.number = number
