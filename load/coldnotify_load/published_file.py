"""Publishes that bench-pub has noted in its history: the subscribers' side of a bench learns by it what is owed."""

import json
from pathlib import Path
from typing import Any

from coldnotify_load.mark_tally import MarkedPublishes
from coldnotify_load.marks import mark_of


class PublishedFile:
    """A history that grows; what was read is not read again."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._at = 0
        self._rest = b""
        self._waiting: dict[tuple[str, str], tuple[int, int]] = {}
        self._said: list[tuple[int, int]] = []
        self._acknowledged: list[tuple[int, int]] = []

    def read(self) -> None:
        """Reads what has come. A file that is not there yet is empty."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._at)
                data = file.read()
        except FileNotFoundError:
            return
        self._at += len(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._take(json.loads(line))

    def published(self, since: int, until: int) -> tuple[int, dict[int, MarkedPublishes]]:
        """Returns of what was published from `since` to before `until` (Unix ms): how many, and by topic those that
        were acknowledged.
        """
        sent = sum(since <= version < until for _, version in self._said)
        found: dict[int, MarkedPublishes] = {}
        for topic, version in self._acknowledged:
            if since <= version < until:
                number, newest = found.get(topic, (0, -1))
                found[topic] = MarkedPublishes(number + 1, max(newest, version))
        return sent, found

    def _take(self, event: Any) -> None:
        if not isinstance(event, dict):
            return
        key = event.get("publisher"), event.get("id")
        if event.get("event") in ("publish", "send"):
            mark = mark_of(json.dumps(event.get("payload")).encode())
            if mark is not None:
                self._waiting[key] = mark.topic, mark.version  # type: ignore[index]
                self._said.append((mark.topic, mark.version))
        elif event.get("event") == "published":
            said = self._waiting.pop(key, None)  # type: ignore[arg-type]
            if said is not None and event.get("outcome") == "acknowledged":
                self._acknowledged.append(said)
