"""Answers of receivers, and what each means for the hook. Pure."""

from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from enum import Enum

RETRY_AFTER_S_MAX = 24 * 3600
"""A receiver that asks for more is asked again after this."""
_TOO_MANY, _GONE, _UNAVAILABLE = 429, 410, 503


class Meaning(Enum):
    """The ways in which a call ends."""

    APPLIED = "applied"
    FAILED = "failed"
    """This item was refused; others may pass."""
    AWAY = "away"
    """Nobody answered, or the receiver wants no calls for now: the whole hook rests."""
    GONE = "gone"
    """410: twice, a minute apart, it suspends the hook."""


@dataclass(frozen=True, slots=True)
class Reply:
    """One call's end."""

    meaning: Meaning
    words: str
    """For operators: `status 500`, or why nobody answered."""
    retry_after_s: float | None = None


def reply_of(status: int, retry_after: str | None, now_s: float) -> Reply:
    """Returns the meaning of a status and the header Retry-After. `now_s`: Unix time. A redirection is a failure: it
    could lead anywhere."""
    words = f"status {status}"
    if 200 <= status < 300:
        return Reply(Meaning.APPLIED, words)
    if status == _GONE:
        return Reply(Meaning.GONE, words)
    if status in (_TOO_MANY, _UNAVAILABLE):
        return Reply(Meaning.AWAY, words, _seconds(retry_after, now_s))
    return Reply(Meaning.FAILED, words)


def _seconds(text: str | None, now_s: float) -> float | None:
    """Returns the seconds that Retry-After asks for, as a number or as a date; None: nothing that can be read."""
    text = (text or "").strip()
    if text.isascii() and text.isdigit():
        # A number of thousands of digits would cost Python a long time, and means the same.
        return min(int(text[:12]), RETRY_AFTER_S_MAX)
    try:
        then_s = parsedate_to_datetime(text).timestamp()
    except (ValueError, TypeError, OverflowError):
        return None
    return min(max(0.0, then_s - now_s), RETRY_AFTER_S_MAX)
