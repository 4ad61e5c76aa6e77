"""What the application asked for while there is no driver: applied to the document once it is read."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coldnotify._core.driver import Driver


class Wishes:
    """The calls that matter still, in an order that leads to the same."""

    def __init__(self) -> None:
        self.only: set[str] | None = None
        self.steps: dict[str, tuple[bool, ...]] = {}
        """By object: unregister (False), register (True), or both in this order."""

    def register(self, name: str) -> None:
        """Want this object."""
        self.steps[name] = (False, True) if False in self.steps.get(name, ()) else (True,)

    def unregister(self, name: str) -> None:
        """Want this object no more."""
        self.steps[name] = (False,)

    def register_only(self, names: set[str]) -> None:
        """Want exactly these objects: what was asked for others before means nothing any more."""
        self.only = names
        self.steps = {name: steps for name, steps in self.steps.items() if name in names and True in steps}

    def apply(self, driver: "Driver") -> None:
        """Ask all of it."""
        if self.only is not None:
            driver.register_only(self.only)
        for name, steps in self.steps.items():
            for wanted in steps:
                (driver.register if wanted else driver.unregister)(name)
