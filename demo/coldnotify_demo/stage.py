"""The stage for the acts: starts and stops processes and ColdNotify, checks promises, writes to the terminal."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from coldnotify_demo.company import Actor, Collapsed, Company
from coldnotify_demo.planted_faults import planted
from coldnotify_demo.promises import DemoPromises
from coldnotify_demo.service import DemoService
from coldnotify_demo.terminal import Terminal

GO_ON_S_MAX = 60.0
"""Limit for what must have happened before anything is promised: a back-end serves, has published ..."""


@dataclass
class DemoStage:
    """The surroundings of the plays."""

    directory: Path
    company: Company
    service: DemoService
    terminal: Terminal
    limit_s: float
    """The longest time for a promise to come true."""
    faults: Sequence[str] = ()
    promises: DemoPromises = field(default_factory=DemoPromises)

    def act(self, title: str) -> None:
        """Begins an act."""
        self.company.relay()
        self.terminal.title(title)

    def note(self, words: str) -> None:
        """Writes what is done now."""
        self.company.relay()
        self.terminal.line("director", words)

    def start(self, name: str, module: str, *arguments: str) -> Actor:
        """Starts a process of this package, under the planted fault if that is its."""
        return self.company.start(name, *planted(self.faults, name, (f"coldnotify_demo.{module}", *arguments)))

    def wait(self, condition: Callable[[], object], limit_s: float | None = None) -> bool:
        """Until it holds; whether it came to hold within `limit_s` (default: a promise's). Raises Collapsed."""

        def holds() -> object:
            self.service.check()
            return condition()

        return self.company.wait_until(holds, self.limit_s if limit_s is None else limit_s)

    def require(self, words: str, condition: Callable[[], object]) -> None:
        """Waits for what the rest builds on. Raises Collapsed, also when it does not come."""
        if not self.wait(condition, GO_ON_S_MAX):
            raise Collapsed(f"not within {GO_ON_S_MAX:g} s: {words}")

    def expect(self, words: str, condition: Callable[[], bool], seen: Callable[[], str]) -> None:
        """Waits for a promise, and records whether it was kept and what was `seen` at the end."""
        promise = self.promises.add(words, kept=self.wait(condition), seen=seen())
        self.terminal.outcome(promise.words, promise.kept)

    def url(self, actor: Actor) -> str:
        """Returns a back-end's address, once it serves. Raises Collapsed."""
        self.require(f"{actor.name} serves", lambda: actor.said("serving"))
        return str(actor.said("serving")[-1]["url"])
