"""The JSON of where a channel, or a share of one, begins. Pure."""

from datetime import datetime

from coldnotify_common.http.web import BadRequest
from coldnotify_schemas.whole_numbers import WHOLE_NUMBER_MAX, whole_number
from coldnotify_schemas.wire_pb2 import (
    SINCE_NEWEST,
    SINCE_NOW,
    SINCE_OLDEST,
    SINCE_POSITION,
    SINCE_TIME,
    Interest,
)

SHOWN_CHARS = 80
_SINCE = {"now": SINCE_NOW, "oldest": SINCE_OLDEST, "newest": SINCE_NEWEST}


def since_wanted(interest: Interest, since: str | int) -> None:
    """Fills in where a registration begins. Raises BadRequest."""
    if isinstance(since, int):
        if not 0 <= since <= WHOLE_NUMBER_MAX:
            raise BadRequest("since", f"{str(since)[:SHOWN_CHARS]} is not from 0 to {WHOLE_NUMBER_MAX}")
        interest.since, interest.at = SINCE_POSITION, since
    elif (offset := whole_number(since)) is not None:
        interest.since, interest.at = SINCE_POSITION, offset
    elif since in _SINCE:
        interest.since = _SINCE[since]
    else:
        interest.since, interest.at = SINCE_TIME, _time_ms(since)


def _time_ms(text: str) -> int:
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        time = None
    if time is None or time.tzinfo is None or time.timestamp() < 0:
        words = "is none of now, oldest, newest, an offset, a time with its zone as in 2026-01-31T12:00:00Z"
        raise BadRequest("since", f"{text[:SHOWN_CHARS]!r} {words}")
    return round(time.timestamp() * 1000)
