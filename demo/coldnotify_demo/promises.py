"""The promises: each with its words, what was seen, and whether it was kept; pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

_COLUMNS = 110
Told = tuple[str, int | None]
"""An object and its version, as an application was told them."""


@dataclass(frozen=True)
class Promise:
    """One line of the summary."""

    words: str
    seen: str
    kept: bool


class DemoPromises:
    """All promises, in the order in which they were to be kept."""

    def __init__(self) -> None:
        self.all: list[Promise] = []

    def add(self, words: str, seen: str, kept: bool) -> Promise:
        """Writes one down."""
        self.all.append(promise := Promise(words, seen, kept))
        return promise

    @property
    def kept(self) -> bool:
        """True if there were any, and all were kept."""
        return bool(self.all) and all(promise.kept for promise in self.all)

    def summary(self) -> list[str]:
        """Two lines for each, and one for all."""
        lines = []
        for promise in self.all:
            lines.append(f"{'ok' if promise.kept else 'FAILED':<7} {promise.words}")
            lines += wrap(
                f"seen: {promise.seen}",
                _COLUMNS,
                initial_indent=" " * 10,
                subsequent_indent=" " * 16,
                break_long_words=False,
                break_on_hyphens=False,
            )
        failed = sum(not promise.kept for promise in self.all)
        count = len(self.all)
        lines.append(f"{count - failed} of {count} promises kept" + (f", {failed} FAILED" if failed else ""))
        return lines


def told(events: Iterable[Mapping[str, Any]]) -> list[Told]:
    """Returns what an OU's application was told, in order."""
    return [(event["object"], event["version"]) for event in events if event.get("event") == "told"]


def in_words(items: Iterable[Told]) -> str:
    """Returns each object's versions, in order: "camera-config 3 4 5, sampling-config 2"."""
    versions: dict[str, list[str]] = {}
    for name, version in items:
        versions.setdefault(name, []).append("unknown" if version is None else str(version))
    return ", ".join(f"{name} {' '.join(told_of)}" for name, told_of in versions.items()) or "nothing"


def forwards_only(items: Iterable[Told]) -> bool:
    """Returns true if no object's version was told twice, or after a newer one."""
    newest: dict[str, int] = {}
    for name, version in items:
        if version is None:
            continue
        if version <= newest.get(name, -1):
            return False
        newest[name] = version
    return True
