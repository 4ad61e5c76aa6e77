"""For tests: `Looks` returns what an operator sees of one object of one group."""

import json
from typing import Any

from coldnotify_testkit.command import coldnotify
from coldnotify_testkit.stack import Up


class Looks:
    """Asks the commands for operators about one object of one group."""

    def __init__(self, up: Up, domain: str, group: str, object_: str) -> None:
        self._http, self._group, self._object = up.report["http"], (domain, group), object_

    def _asked(self, command: str, *arguments: str, codes: tuple[int, ...] = (0,)) -> str:
        done = coldnotify(command, *self._group, *arguments, http=self._http)
        assert done.returncode in codes, done.stderr
        return done.stdout

    def lackers(self) -> dict[str, dict[str, Any] | None]:
        """Returns the clients that lack the object, with what each reports about its callbacks."""
        lines = self._asked("who-lacks", self._object, "--json").splitlines()
        return {row["client"]: row["callbacks"] for row in map(json.loads, lines[1:])}

    def verdict(self, client: str) -> str:
        """Returns the verdict of `explain`, as a word. A name that is not known makes its exit code 1."""
        shown: dict[str, Any] = json.loads(self._asked("explain", client, self._object, "--json", codes=(0, 1)))
        return str(shown["verdict"])

    def words(self) -> str:
        """Returns the output of `who-lacks` as a person reads it."""
        return self._asked("who-lacks", self._object)
