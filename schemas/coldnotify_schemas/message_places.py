"""Places of messages that versions of objects name: who is told such a message is not told the version, too.

A publisher of both writes the message first, to the channel of the object's name. Then MESSAGE_HEADER of the version's
record says where it is, as `1h/4711`: the retention of its log, and its offset there, in the partition of both.
"""

from typing import NamedTuple

from coldnotify_schemas.channels import Retention
from coldnotify_schemas.whole_numbers import whole_number

MESSAGE_HEADER = "coldnotify-message"


class MessagePlace(NamedTuple):
    """The place of a message."""

    log: Retention
    offset: int


def message_header(place: MessagePlace | None) -> tuple[tuple[str, bytes], ...]:
    """Returns the headers that name a message: one, or none."""
    return () if place is None else ((MESSAGE_HEADER, f"{place.log.value}/{place.offset}".encode()),)


def message_place(value: str | bytes | None) -> MessagePlace | None:
    """Returns the place in a header's value; None: it has not this form."""
    text = value.decode(errors="replace") if isinstance(value, bytes) else value or ""
    name, _, offset_text = text.partition("/")
    offset = whole_number(offset_text)
    log = next((one for one in Retention if one.value == name), None)
    return None if log is None or offset is None else MessagePlace(log, offset)
