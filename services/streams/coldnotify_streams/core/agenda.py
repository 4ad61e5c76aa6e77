"""What the step that is under way wants done, in order, and what it asks in between. Pure."""

from typing import Any

from coldnotify_streams.core.actions import Action, Doing, Question
from coldnotify_streams.core.events import Now


class Agenda:
    """Of one run: `Run` and its parts put actions here, and they are done in the order in which they were put."""

    def __init__(self) -> None:
        self.now = Now(0.0, 0)
        """The time of the step."""
        self._actions: list[Action] = []
        """To be done before the next question."""

    def do(self, *actions: Action) -> None:
        """Have these done, before whatever is asked next."""
        self._actions += actions

    def done(self) -> Doing[None]:
        """All that is wanted so far."""
        actions, self._actions = self._actions, []
        yield from actions

    def ask(self, question: Question) -> Doing[Any]:
        """Returns the answer, or raises what the shell throws."""
        if self._actions:
            yield from self.done()
        return (yield question)
