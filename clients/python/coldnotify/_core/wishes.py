"""What the application asked for while there is no driver: applied to the document once it is read."""

from typing import TYPE_CHECKING

from coldnotify._core.interests import Interest

if TYPE_CHECKING:
    from coldnotify._core.driver import Driver


class Wishes:
    """The calls that matter still, in an order that leads to the same."""

    def __init__(self) -> None:
        self.only: set[str] | None = None
        self.steps: dict[Interest, tuple[bool, ...]] = {}
        """By interest: unregister (False), register (True), or both in this order."""

    def register(self, interest: Interest) -> None:
        """Want this."""
        self.steps[interest] = (False, True) if False in self.steps.get(interest, ()) else (True,)

    def unregister(self, interest: Interest) -> None:
        """Want this no more."""
        self.steps[interest] = (False,)

    def register_only(self, names: set[str]) -> None:
        """Want exactly these objects, by name: what was asked for others before means nothing any more."""
        self.only = names
        self.steps = {
            interest: steps
            for interest, steps in self.steps.items()
            if not isinstance(interest, str) or (interest in names and True in steps)
        }

    def apply(self, driver: "Driver") -> None:
        """Ask all of it."""
        if self.only is not None:
            driver.register_only(self.only)
        for interest, steps in self.steps.items():
            for wanted in steps:
                (driver.register if wanted else driver.unregister)(interest)
