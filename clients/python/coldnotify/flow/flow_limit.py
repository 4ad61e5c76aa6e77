"""The limit on what is in flight: permits, the window that is measured, and the controller that moves the limit."""

from coldnotify.flow.beginnings import KAFKA, Beginnings
from coldnotify.flow.controller import Controller, Fixed
from coldnotify.flow.controllers import FIXED, controller_named
from coldnotify.flow.permits import Permits
from coldnotify.flow.windows import Measuring, Window


class FlowLimit:
    """The interface for a service or a library before it accepts a publish. With several threads, the caller brings the
    lock.
    """

    def __init__(self, controller: Controller, highest: int, begin: Beginnings = KAFKA) -> None:
        """`highest`: the limit stays between `begin.lowest` and this. Raises ValueError where that is below 1."""
        self._controller = controller
        self._lowest, self._highest = min(begin.lowest, highest), highest
        self._permits = Permits(min(begin.first, highest))
        self._measuring = Measuring(begin.completions, begin.seconds)
        self.window: Window | None = None
        """The last one that has ended."""

    @classmethod
    def named(cls, name: str, highest: int, begin: Beginnings = KAFKA, unix_s: float = 0.0) -> "FlowLimit":
        """Creates a limit with the controller of this name; "fixed" keeps `highest`. `unix_s`: the difference of Unix
        time and the caller's clock. Raises ValueError.
        """
        if name == FIXED:
            return cls(Fixed(), highest, begin._replace(first=highest))
        return cls(controller_named(name, begin, unix_s), highest, begin)

    @property
    def limit(self) -> int:
        """M."""
        return self._permits.limit

    @property
    def in_flight(self) -> int:
        """Permits that are out."""
        return self._permits.in_flight

    @property
    def free(self) -> int:
        """Permits that can be taken."""
        return self._permits.free

    def take(self, count: int = 1) -> bool:
        """Takes permits at acceptance: all of `count`, or none. What belongs together needs one free permit (see
        Permits.take), and is within the highest limit, or alone."""
        in_flight = self._permits.in_flight
        if (in_flight and in_flight + count > self._highest) or not self._permits.take(count):
            return False
        self._measuring.arrived(count)
        return True

    def acknowledged(self, now_s: float, taken_s: float, count: int = 1) -> Window | None:
        """Gives permits back at the acknowledgement of what took them at `taken_s`; returns the window, if one ends.

        Both times are of one clock that never goes back.
        """
        self._permits.give_back(count)
        window = self._measuring.completed(now_s, taken_s, count, self._permits.limit)
        if window is None:
            return None
        self.window = window
        # While a lower limit is not in force yet, the window is of neither.
        if window.is_point and not self._permits.shrinking:
            limit = min(max(round(self._controller.next_limit(window)), self._lowest), self._highest)
            if limit != self._permits.limit:
                self._permits.resize(limit)
                self._measuring.resized(now_s)
        return window

    def failed(self, count: int = 1) -> None:
        """Gives permits back at a failure. It is not a point: a refusal is quick, and a timeout only shows our own
        limit.
        """
        self._permits.give_back(count)
