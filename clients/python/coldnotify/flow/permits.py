"""A counting semaphore whose number of permits can be changed while they are out."""


class Permits:
    """So many permits, some of them out. A caller from several threads brings the lock."""

    def __init__(self, limit: int) -> None:
        """Raises ValueError for a limit below 1."""
        self._limit = _checked(limit)
        self._in_flight = 0
        self._shrinking = False

    @property
    def limit(self) -> int:
        """M: how many may be out."""
        return self._limit

    @property
    def in_flight(self) -> int:
        """The number of permits taken. After the limit was lowered it may exceed the limit until
        enough are given back.
        """
        return self._in_flight

    @property
    def free(self) -> int:
        """How many can be taken; never below 0."""
        return max(0, self._limit - self._in_flight)

    @property
    def shrinking(self) -> bool:
        """True if a lower limit is not in force yet, because more are out: no other resize begins meanwhile."""
        return self._shrinking

    def take(self, count: int = 1) -> bool:
        """Takes all of `count`, or none. What belongs together needs one free permit only, and may be beyond the limit
        by the others: it could not be taken at all beside those that take one each."""
        if not self.free:
            return False
        self._in_flight += count
        return True

    def give_back(self, count: int = 1) -> None:
        """Raises ValueError where so many are not out."""
        if count > self._in_flight:
            raise ValueError(f"count: {count} permits are given back, {self._in_flight} are out")
        self._in_flight -= count
        self._shrinking = self._shrinking and self._in_flight > self._limit

    def resize(self, limit: int) -> None:
        """Changes the limit. Permits that are out stay valid. Raises ValueError below 1, and while `shrinking`."""
        if self._shrinking:
            raise ValueError(f"limit: {self._limit} is not in force yet, {self._in_flight} are out")
        self._shrinking = _checked(limit) < min(self._limit, self._in_flight)
        self._limit = limit


def _checked(limit: int) -> int:
    if limit < 1:
        raise ValueError(f"limit: {limit} is less than 1")
    return limit
