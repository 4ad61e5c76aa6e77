"""Operations that are not settled, and how far each has come in this session."""

from collections.abc import Iterable, Mapping
from enum import Enum, auto

from coldnotify_testkit.raw_device.state import RawInterest, RawState

REGISTER, UNREGISTER = "register", "unregister"


class RawStage(Enum):
    """The stage of one operation, in this session."""

    UNSENT = auto()
    WITHHELD = auto()
    """It is not sent before CaughtUp, because the service has yet to report whether it is needed."""
    SENT = auto()
    CONFIRMED = auto()
    """It is durable. A registration waits for its first delivery."""


class Operations:
    """Those of the state. Each has a number, so that an answer to one that was replaced is known."""

    def __init__(self, state: RawState) -> None:
        self._state = state
        self._numbers: dict[RawInterest, int] = dict.fromkeys(state.pending, 0)
        self._stages: dict[RawInterest, RawStage] = dict.fromkeys(state.pending, RawStage.UNSENT)
        self._last = 0
        self.held: set[RawInterest] = set()
        """Registrations that the service counts as unsettled, as far as known."""
        self.settled: set[RawInterest] = set()
        """The part of these that has to be reported to the service as settled."""

    def begin_session(self) -> None:
        """Nothing is sent."""
        self._stages = dict.fromkeys(self._state.pending, RawStage.UNSENT)
        self.held, self.settled = set(), set()

    def ask(self, interest: RawInterest, operation: str = REGISTER, stage: RawStage = RawStage.UNSENT) -> None:
        """A new operation; it replaces a pending one."""
        self._last += 1
        self._state.pending[interest] = operation
        self._numbers[interest] = self._last
        self._stages[interest] = stage
        self.settled.discard(interest)

    def settle(self, interest: RawInterest) -> None:
        """It is not pending any more."""
        if self._state.pending.pop(interest, None) is not None:
            del self._numbers[interest], self._stages[interest]
            self.take(interest)

    def take(self, interest: RawInterest) -> None:
        """The application has all of it, whether it is pending or not."""
        if interest in self.held:
            self.held.discard(interest)
            self.settled.add(interest)

    def stage(self, interest: RawInterest) -> RawStage | None:
        """None: it is not pending."""
        return self._stages.get(interest)

    def put(self, interests: Iterable[RawInterest], stage: RawStage) -> dict[RawInterest, int]:
        """These are at this stage now. Their numbers, for `answered`."""
        numbers = {}
        for interest in interests:
            self._stages[interest] = stage
            numbers[interest] = self._numbers[interest]
        return numbers

    def is_(self, interest: RawInterest, number: int) -> bool:
        """Returns true if this very operation is pending."""
        return self._numbers.get(interest) == number

    def answered(self, numbers: Mapping[RawInterest, int]) -> list[RawInterest]:
        """Notes that the service has these operations: unregistrations are settled, registrations confirmed. Returns
        their interests.
        """
        found = [one for one, number in numbers.items() if self.is_(one, number)]
        for interest in found:
            if self._state.pending[interest] == UNREGISTER:
                self.settle(interest)
                self.settled.discard(interest)
            else:
                self._stages[interest] = RawStage.CONFIRMED
        return found

    def at(self, *stages: RawStage, operation: str | None = None) -> list[RawInterest]:
        """The pending operations at one of these stages, in a fixed order."""
        return sorted(
            one
            for one, stage in self._stages.items()
            if stage in stages and operation in (None, self._state.pending[one])
        )

    @property
    def all_confirmed(self) -> bool:
        """True if the service has this very set."""
        return all(stage is RawStage.CONFIRMED for stage in self._stages.values())
