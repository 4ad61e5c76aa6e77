"""Follows the histories while they are written: what each client was told last."""

import json
from pathlib import Path


class Told:
    """Reads on in growing files."""

    def __init__(self, files: list[Path]) -> None:
        self._files = files
        self._positions = dict.fromkeys(files, 0)
        self.newest: dict[tuple[str, str], tuple[int, int]] = {}
        """(client, object) -> the (incarnation, version) last told; (-1, -1) for unknown."""
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
        if one["event"] != "told":
            return
        self.told += 1
        if not one.get("failed"):
            version = one["version"]
            key = (one["client"], one["object"])
            self.newest[key] = (-1, -1) if version is None else (one["incarnation"], version)
