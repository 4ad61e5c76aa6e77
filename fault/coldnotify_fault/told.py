"""Follows the histories while they are written: the last version each client was told, and its members and messages."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coldnotify_checker.freshness import USUAL_US


@dataclass(slots=True)
class FollowedChannel:
    """One channel that a client follows."""

    since: str
    attributes: list[str]
    position: int | None = None
    """The offset up to which messages were told, or reported as missed; None: nothing yet."""
    pattern: str | None = None
    """The expression, if it is a pattern of channels."""

    def is_for(self, to: list[str]) -> bool:
        """Returns true if messages to these attributes are told it."""
        return not to or not set(to).isdisjoint(self.attributes)


class ToldFiles:
    """Reads on in growing files."""

    def __init__(self, files: list[Path]) -> None:
        self._files = files
        self._lives: dict[str, int] = {}
        self._positions = dict.fromkeys(files, 0)
        self.newest: dict[tuple[str, str], tuple[int, int]] = {}
        """(client, object) -> the (incarnation, version) last told; (-1, -1) for unknown."""
        self.members: dict[tuple[str, str], set[str]] = {}
        """(client, query) -> the names that the application was told to be members."""
        self.following: dict[tuple[str, str], FollowedChannel] = {}
        """By client and channel."""
        self.caught_up: set[str] = set()
        """Clients that have reported to be caught up since they last connected."""
        self.stale: dict[str, bool] = {}
        """By client that says how fresh it is: true if that is longer ago than with nothing wrong."""
        self.told = 0
        """How many times a callback was entered."""

    def read_on(self) -> None:
        """Takes in what was appended. An incomplete line waits for the next call."""
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
            self.following = {key: one_ for key, one_ in self.following.items() if key[0] != one["client"]}
        if one["event"] == "caught_up":
            self.caught_up.add(one["client"])
        elif one["event"] in ("connecting", "stopped", "started"):
            self.caught_up.discard(one["client"])
            if one["client"] in self.stale:
                self.stale[one["client"]] = True
        elif one["event"] == "fresh":
            usual_us = one["keepalive_s"] * 1e6 + USUAL_US
            self.stale[one["client"]] = one["as_of"] is None or one["asked"] - one["as_of"] > usual_us
        if "channel" in one and "client" in one:
            self._take_of_channel(one)
        if one["event"] != "told":
            return
        self.told += 1
        if not one.get("failed"):
            version = one["version"]
            key = (one["client"], one["object"])
            self.newest[key] = (-1, -1) if version is None else (one["incarnation"], version)

    def _take_of_channel(self, one: dict[str, Any]) -> None:
        pattern, channel = one.get("pattern"), one["channel"]
        if pattern is not None:
            channel = f"{one['client'].rpartition('/')[0]}/{pattern}"
        key = one["client"], channel
        if one["event"] == "subscribe":
            self.following.setdefault(key, FollowedChannel(one["since"], one["attributes"], pattern=pattern))
        elif one["event"] == "unsubscribe":
            self.following.pop(key, None)
        elif key in self.following and not one.get("failed"):
            end = one["offset"] if one["event"] == "message" else one["before"] - 1
            following = self.following[key]
            lost = one.get("reason") == "lost"
            following.position = end if lost or following.position is None else max(following.position, end)
