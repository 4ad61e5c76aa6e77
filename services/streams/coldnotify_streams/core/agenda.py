"""Holds what the current step wants done, in order, and the questions it asks meanwhile. Pure."""

from typing import Any

from coldnotify_streams.core.actions import Action, Doing, Question
from coldnotify_streams.core.events import Now


class Agenda:
    """The agenda of one run: `Run` and its parts add actions, which are executed in the order of their addition."""

    def __init__(self) -> None:
        self.now = Now(0.0, 0)
        """The time of the step."""
        self._actions: list[Action] = []
        """Actions to execute before the next question."""

    def do(self, *actions: Action) -> None:
        """Adds actions, to be executed before the next question."""
        self._actions += actions

    def done(self) -> Doing[None]:
        """Yields the actions added so far."""
        actions, self._actions = self._actions, []
        yield from actions

    def ask(self, question: Question) -> Doing[Any]:
        """Returns the answer, or raises what the shell throws."""
        if self._actions:
            yield from self.done()
        return (yield question)
