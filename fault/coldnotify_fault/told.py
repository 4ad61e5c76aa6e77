"""Follows the histories while they are written: what each client was told last, and of which members."""

import json
from pathlib import Path


class Told:
    """Reads on in growing files."""

    def __init__(self, files: list[Path]) -> None:
        self._files = files
        self._lives: dict[str, int] = {}
        self._positions = dict.fromkeys(files, 0)
        self.newest: dict[tuple[str, str], tuple[int, int]] = {}
        """(client, object) -> the (incarnation, version) last told; (-1, -1) for unknown."""
        self.members: dict[tuple[str, str], set[str]] = {}
        """(client, query) -> the names that the application was told to be members."""
        self.told = 0
        """How many times a callback was entered."""

    def read_on(self) -> None:
        """Take in what has been added. A line that is not whole yet is left for the next time."""
        for path in self._files:
            if not path.exists():
                continue
            with path.open("rb") as file:
                file.seek(self._positions[path])
                data = file.read()
            whole = data[: data.rfind(b"\n") + 1]
            self._positions[path] += len(whole)
            for line in whole.splitlines():
                self._take(line)

    def _take(self, line: bytes) -> None:
        try:
            one = json.loads(line)
        except ValueError:
            # The line during which the process was killed, and the first one of its successor behind it.
            return
        if one["event"] == "members" and not one.get("failed"):
            members = self.members.setdefault((one["client"], one["query"]), set())
            members |= set(one["added"])
            members -= set(one["removed"])
        elif one["event"] in ("unregister_query", "query_refused"):
            self.members.pop((one["client"], one["query"]), None)
        elif one["event"] == "started" and one["life"] != self._lives.setdefault(one["client"], one["life"]):
            self._lives[one["client"]] = one["life"]
            self.members = {key: names for key, names in self.members.items() if key[0] != one["client"]}
        if one["event"] != "told":
            return
        self.told += 1
        if not one.get("failed"):
            version = one["version"]
            key = (one["client"], one["object"])
            self.newest[key] = (-1, -1) if version is None else (one["incarnation"], version)
