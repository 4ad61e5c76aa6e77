"""What the acts have at hand: processes to start and stop, ColdNotify, promises to check, the terminal."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from coldnotify_demo.company import Actor, Company
from coldnotify_demo.faults import planted
from coldnotify_demo.promises import Promises
from coldnotify_demo.service import Service
from coldnotify_demo.terminal import Terminal


@dataclass
class Stage:
    """The surroundings of the plays."""

    directory: Path
    company: Company
    service: Service
    terminal: Terminal
    limit_s: float
    """How long a promise may take to come true."""
    fault: str | None = None
    promises: Promises = field(default_factory=Promises)

    def act(self, title: str) -> None:
        """Begins an act."""
        self.company.relay()
        self.terminal.title(title)

    def note(self, words: str) -> None:
        """Says what is done now."""
        self.company.relay()
        self.terminal.line("director", words)

    def start(self, name: str, module: str, *arguments: str) -> Actor:
        """Starts a process of this package, under the planted fault if that is its."""
        return self.company.start(name, *planted(self.fault, name, (f"coldnotify_demo.{module}", *arguments)))

    def wait(self, condition: Callable[[], object]) -> bool:
        """Until it holds; whether it came to hold in time. Raises Collapsed."""

        def holds() -> object:
            self.service.check()
            return condition()

        return self.company.wait_until(holds, self.limit_s)

    def expect(self, words: str, condition: Callable[[], bool], seen: Callable[[], str]) -> None:
        """Waits for a promise, and writes down whether it was kept and what was `seen` at the end."""
        promise = self.promises.add(words, kept=self.wait(condition), seen=seen())
        self.terminal.outcome(promise.words, promise.kept)

    def url(self, actor: Actor) -> str:
        """Where a back-end serves, once it does. Raises Collapsed, TimeoutError."""
        if not self.wait(lambda: actor.said("serving")):
            raise TimeoutError(f"{actor.name} does not serve after {self.limit_s:g} s, see {actor.log}")
        return str(actor.said("serving")[-1]["url"])
