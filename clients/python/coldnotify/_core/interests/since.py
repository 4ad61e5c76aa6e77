"""The beginning of a channel's subscription, in the forms of the application, the wire and the document."""

import re
from datetime import datetime
from typing import NamedTuple

from coldnotify_schemas import wire_pb2 as wire

_TIME, _POSITION = "time", "position"
_WORDS = ("now", "oldest", "newest")
_KINDS = {
    "now": wire.SINCE_NOW,
    "oldest": wire.SINCE_OLDEST,
    "newest": wire.SINCE_NEWEST,
    _TIME: wire.SINCE_TIME,
    _POSITION: wire.SINCE_POSITION,
}
_POSITION_TEXT = re.compile(r"([0-9a-f]{8})\.(0|[1-9][0-9]{0,18})", re.ASCII)
_OFFSET_MAX = 2**63 - 1


class Since(NamedTuple):
    """The beginning, until the service has sent the position."""

    kind: str
    """now, oldest, newest, time, position"""
    at: int = 0
    """For a time: Unix ms. For a position: the offset after which it begins."""
    epoch: int = 0
    """Epoch of a position's log."""

    @property
    def number(self) -> "wire.Since":
        """The value in a frame."""
        return _KINDS[self.kind]

    @property
    def is_position(self) -> bool:
        """True if it is a place in one log, which may differ from the domain's present one."""
        return self.kind == _POSITION

    @property
    def parts(self) -> dict[str, str | int]:
        """For the document."""
        if self.kind in _WORDS:
            return {"since": self.kind}
        parts: dict[str, str | int] = {"since": self.kind, "at": self.at}
        return parts | {"epoch": self.epoch} if self.is_position else parts


NOW = Since("now")
OLDEST = Since("oldest")


def since_of(value: object) -> Since:
    """Parses an application's value. Raises ValueError, which names `since`."""
    if isinstance(value, datetime):
        if value.tzinfo is None or value.utcoffset() is None:
            raise ValueError(f"since: {value!r} has no time zone")
        at = int(value.timestamp() * 1000)
        if at < 0:
            raise ValueError(f"since: {value!r} is before 1970")
        return Since(_TIME, at)
    if isinstance(value, str):
        if value in _WORDS:
            return Since(value)
        said = _POSITION_TEXT.fullmatch(value)
        if said is not None:
            offset = int(said[2])
            if offset > _OFFSET_MAX:
                raise ValueError(f"since: {value!r} is beyond the highest offset, {_OFFSET_MAX}")
            return Since(_POSITION, offset, int(said[1], 16))
    raise ValueError(f'since: {value!r} is not "now", "oldest", "newest", a datetime or the `position` of a message')


def since_from(parts: dict[str, object]) -> Since:
    """Parses the document's form. Raises ValueError."""
    kind, at, epoch = parts.get("since"), parts.get("at", 0), parts.get("epoch", 0)
    if not isinstance(kind, str) or kind not in _KINDS:
        raise ValueError(f"since: {kind!r} is unknown")
    for value, most in ((at, _OFFSET_MAX), (epoch, 2**32 - 1)):
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
            raise ValueError(f"since: {value!r} is not a number from 0 to {most}")
    assert isinstance(at, int)
    assert isinstance(epoch, int)
    return Since(kind, at, epoch)
