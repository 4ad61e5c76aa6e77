"""Retrying: when a hook's items are tried again, when they are given up, and when the hook is suspended. Pure.

An item is an object or a channel, with the version or position that is to be told. Times are Unix times in seconds,
because they outlast the process: `marks` is stored with the hook's document, and the next caller goes on from it.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Any

from coldnotify_hooks.core.receiver_answers import Meaning, Reply

PAUSE_MIN_S = 1.0
PAUSE_MAX_S = 3600.0
GIVE_UP_S = 24 * 3600.0
GONE_APART_S = 60.0
ITEMS_MAX = 1_000
"""Limit on items whose failures are remembered, as many as a hook has registrations. The oldest is forgotten first: it
gets another 24 h."""


class May(Enum):
    """The treatment of an item now."""

    CALL = "call"
    WAIT = "wait"
    GIVE_UP = "give up"


@dataclass(slots=True)
class _Item:
    what: str
    first_s: float
    tries: int
    next_s: float

    def fail(self, now_s: float) -> None:
        """It was tried in vain."""
        self.tries += 1
        self.next_s = now_s + _pause_s(self.tries)

    def wait_until(self, then_s: float) -> None:
        """It is tried with the whole hook."""
        self.next_s = then_s


class Retrying:
    """The failures of one hook."""

    def __init__(self, marks: dict[str, Any] | None = None) -> None:
        """`marks`: those of the caller before; anything that is not marks counts as none."""
        self._items: dict[str, _Item] = {}
        self._away_tries = 0
        self._rest_until_s = 0.0
        self._gone_s: float | None = None
        self.suspended = False
        """True once the receiver has said twice that it is gone."""
        self.last_words = ""
        """The last failure, in words; "": the last call was applied."""
        self._restore(marks or {})

    def may(self, item: str, what: str, now_s: float) -> May:
        """Returns what may be done with `what`, the version or position of an item."""
        if self.suspended:
            return May.WAIT
        known = self._item(item, what, now_s)
        if known is not None and now_s - known.first_s >= GIVE_UP_S:
            return May.GIVE_UP
        if now_s < self._rest_until_s:
            if known is None:
                # Its 24 h begin now: otherwise those that wait for each other would wait for days.
                self._remember(item, _Item(what, now_s, 0, 0.0))
            return May.WAIT
        return May.WAIT if known is not None and now_s < known.next_s else May.CALL

    def on_reply(self, item: str, what: str, answer: Reply, now_s: float) -> bool:
        """Notes the end of a call. Returns true if the marks are to be stored at once: they say something new that must
        outlast this process."""
        if answer.meaning is not Meaning.GONE:
            self._gone_s = None
        if answer.meaning is Meaning.APPLIED:
            return self._on_applied(item)
        self.last_words = answer.words
        known = self._item(item, what, now_s)
        is_new = known is None
        if known is None:
            known = _Item(what, now_s, 0, 0.0)
        self._remember(item, known)
        known.fail(now_s)
        if answer.meaning is Meaning.AWAY:
            self._away_tries += 1
            pause_s = _pause_s(self._away_tries) if answer.retry_after_s is None else answer.retry_after_s
            self._rest_until_s = now_s + pause_s
            known.wait_until(self._rest_until_s)
        elif answer.meaning is Meaning.GONE:
            if self._gone_s is None:
                self._gone_s = now_s
            elif now_s - self._gone_s >= GONE_APART_S:
                self.suspended = True
                return True
            self._rest_until_s = max(now_s, self._gone_s + GONE_APART_S)
            known.wait_until(self._rest_until_s)
        else:
            self._away_tries = 0
        return is_new

    def given_up(self, item: str) -> None:
        """The item was passed over, or is wanted no more."""
        self._items.pop(item, None)

    def marks(self) -> dict[str, Any]:
        """Returns what the next caller has to know, as JSON values. Another thread may ask."""
        return {
            "items": {name: [one.what, one.first_s, one.tries, one.next_s] for name, one in list(self._items.items())},
            "away": self._away_tries,
            "rest_until": self._rest_until_s,
            "gone": self._gone_s,
            "suspended": self.suspended,
            "words": self.last_words,
        }

    @property
    def failing(self) -> int:
        """Number of items that wait for another try."""
        return len(self._items)

    def _on_applied(self, item: str) -> bool:
        self.last_words = ""
        self._away_tries, self._rest_until_s = 0, 0.0
        return self._items.pop(item, None) is not None

    def _item(self, item: str, what: str, now_s: float) -> _Item | None:
        """Returns the failures of this very version; a newer one begins without any."""
        known = self._items.get(item)
        if known is None:
            return None
        if known.what != what or known.first_s > now_s:
            # The second: the clock was set back. What counts from a time to come would wait for it.
            del self._items[item]
            return None
        return known

    def _remember(self, item: str, known: _Item) -> None:
        self._items.pop(item, None)
        self._items[item] = known
        while len(self._items) > ITEMS_MAX:
            del self._items[next(iter(self._items))]

    def _restore(self, marks: dict[str, Any]) -> None:
        try:
            items = {
                str(name): _Item(str(what), float(first_s), int(tries), float(next_s))
                for name, (what, first_s, tries, next_s) in list(marks.get("items", {}).items())[-ITEMS_MAX:]
            }
            gone = marks.get("gone")
            gone_s = None if gone is None else float(gone)
            away, rest_s = int(marks.get("away", 0)), float(marks.get("rest_until", 0.0))
        except (TypeError, ValueError, AttributeError):
            return
        self._items, self._gone_s, self._away_tries, self._rest_until_s = items, gone_s, away, rest_s
        self.suspended = marks.get("suspended") is True
        self.last_words = str(marks.get("words", ""))


def _pause_s(tries: int) -> float:
    return float(min(PAUSE_MAX_S, PAUSE_MIN_S * 2 ** min(tries - 1, 20)))
