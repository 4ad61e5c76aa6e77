"""The interests of a client: an object by its name, objects by a query, a channel. A name is its own text.

Collections keyed by interest work as they did for names alone: a client without queries or channels pays nothing for
them.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

from coldnotify_schemas.digest import object_digest
from coldnotify_schemas.interests import (
    channel_hash,
    channel_of,
    channel_text,
    check_query,
    expression_of,
    pattern_name,
    prefix_expression,
    query_hash,
    share_hash,
    share_of,
    share_text,
)
from coldnotify_schemas.names import InvalidName
from coldnotify_schemas.protocol import (
    CLIENT_FRAME_BYTES_MAX,
    HELLO_QUERY_BYTES_MAX,
    OBJECT_BYTES_MAX,
    OBJECTS_PER_FRAME_MAX,
)


class QueryInterest(NamedTuple):
    """A condition over objects' names and descriptions, which the service parses."""

    text: str
    """The application's text."""

    @property
    def hash(self) -> int:
        """The hash that identifies it on the wire."""
        return query_hash(self.text)


class ChannelInterest(NamedTuple):
    """A channel or a pattern of channels, and the attributes of the subscription. A client wants at most one of a
    name.
    """

    name: str
    """A pattern's is that of `pattern_name`."""
    attributes: tuple[str, ...]
    """Sorted."""

    @property
    def text(self) -> str:
        """The text that is registered."""
        return channel_text(self.name, self.attributes)

    @property
    def hash(self) -> int:
        """The hash that identifies it on the wire."""
        return channel_hash(self.text)

    @property
    def expression(self) -> str | None:
        """A pattern's expression; None: it is one channel."""
        return expression_of(self.name)

    @property
    def title(self) -> str:
        """The channel's name or the pattern's expression, for people."""
        return self.expression or self.name


class ShareInterest(NamedTuple):
    """A share of a channel, and the attributes of its messages. A client wants at most one of a channel and name."""

    channel: str
    share: str
    attributes: tuple[str, ...]
    """Sorted."""

    @property
    def text(self) -> str:
        """The text that is registered."""
        return share_text(self.share, self.channel, self.attributes)

    @property
    def hash(self) -> int:
        """The hash that identifies it on the wire."""
        return share_hash(self.text)

    @property
    def title(self) -> str:
        """Its name, for people."""
        return f"share {self.share} of {self.channel}"


Interest = str | QueryInterest | ChannelInterest | ShareInterest


def channel_from(text: str) -> ChannelInterest:
    """The channel or pattern that has this `text`. Raises InvalidName, a ValueError."""
    name, attributes = channel_of(text)
    expression = expression_of(name)
    channel = channel_by(name, attributes) if expression is None else channels_by("", expression, attributes)
    if channel.text != text:
        raise InvalidName(f"channel: the attributes of {name[:80]!r} are not sorted")
    return channel


def channel_by(name: str, attributes: Iterable[str] = ()) -> ChannelInterest:
    """The channel of this name. Raises InvalidName, a ValueError that names the field."""
    texts = () if isinstance(attributes, str) else tuple(attributes)
    if isinstance(attributes, str) or not all(isinstance(one, str) for one in texts):
        raise InvalidName(f"attributes: {attributes!r} are not several texts")
    try:
        if not isinstance(name, str) or expression_of(name) is not None:
            raise InvalidName(f"channel: {name!r} is not a name")
        name, sorted_attributes = channel_of(channel_text(name, texts))
    except InvalidName as error:
        raise InvalidName(re.sub("^object", "channel", str(error))) from None
    return ChannelInterest(name, tuple(sorted_attributes))


def share_by(share: str, channel: str, attributes: Iterable[str] = ()) -> ShareInterest:
    """The share of this name of a channel. Raises InvalidName, a ValueError that names the field."""
    of_channel = channel_by(channel, attributes)
    if not isinstance(share, str):
        raise InvalidName(f"share: {share!r} is not a name")
    share_text(share, channel, of_channel.attributes)
    return ShareInterest(channel, share, of_channel.attributes)


def share_from(text: str) -> ShareInterest:
    """The share that has this `text`. Raises InvalidName, a ValueError."""
    try:
        share, channel, attributes = share_of(text)
    except ValueError:
        raise InvalidName("share: has no channel") from None
    interest = share_by(share, channel, attributes)
    if interest.text != text:
        raise InvalidName(f"share: the attributes of {share!r} are not sorted")
    return interest


def channels_by(prefix: str = "", pattern: str = "", attributes: Iterable[str] = ()) -> ChannelInterest:
    """The pattern of all channels whose names begin with `prefix`, or in whose names `pattern` is found. Raises
    InvalidName, a ValueError that names the field.
    """
    for field, said in (("prefix", prefix), ("pattern", pattern)):
        if not isinstance(said, str):
            raise InvalidName(f"{field}: {said!r} is not a text")
    if bool(prefix) == bool(pattern):
        raise InvalidName("pattern: give a prefix or a pattern, one of the two")
    name = pattern_name(pattern or prefix_expression(prefix))
    return ChannelInterest(name, channel_by("x", attributes).attributes)


def query_of(text: str) -> QueryInterest:
    """Returns the query with this text. Raises InvalidName, a ValueError, if it cannot be sent to a service."""
    return QueryInterest(check_query(text) if isinstance(text, str) else check_query(""))


def prefix_of(prefix: str) -> QueryInterest:
    """The query for all objects whose names begin with `prefix`. Raises InvalidName, a ValueError."""
    size = len(prefix.encode(errors="replace")) if isinstance(prefix, str) else 0
    if not 0 < size <= OBJECT_BYTES_MAX:
        raise ValueError(f"prefix: has {size} bytes (1 to {OBJECT_BYTES_MAX} are allowed)")
    escaped = prefix.replace("\\", "\\\\").replace('"', '\\"')
    return query_of(f'NAME STARTS WITH "{escaped}"')


def hash_of(interest: Interest) -> int:
    """Returns its part of the digest of the wanted set."""
    return object_digest(interest) if isinstance(interest, str) else interest.hash


def text_of(interest: Interest) -> str:
    """Returns the application's name for it: an object's or a channel's name, a query's or a pattern's text."""
    if isinstance(interest, str):
        return interest
    return interest.text if isinstance(interest, QueryInterest) else interest.title


def names_of(interests: Iterable[Interest]) -> list[str]:
    """Those that are names."""
    return [interest for interest in interests if isinstance(interest, str)]


def queries_of(interests: Iterable[Interest]) -> list[QueryInterest]:
    """Those that are queries."""
    return [interest for interest in interests if isinstance(interest, QueryInterest)]


def channels_of(interests: Iterable[Interest]) -> list[ChannelInterest]:
    """Those that are channels."""
    return [interest for interest in interests if isinstance(interest, ChannelInterest)]


def shares_of(interests: Iterable[Interest]) -> list[ShareInterest]:
    """Those that are shares."""
    return [interest for interest in interests if isinstance(interest, ShareInterest)]


def hashes_of(interests: Iterable[Interest]) -> list[int]:
    """Returns the hashes of queries and channels: what frames call them by once they are registered."""
    return [interest.hash for interest in interests if not isinstance(interest, str)]


class FrameRoom:
    """The remaining room of a frame: a number of interests, and bytes of texts of queries and channels."""

    def __init__(self) -> None:
        self.interests = OBJECTS_PER_FRAME_MAX
        self.text_bytes = HELLO_QUERY_BYTES_MAX

    def take(self, interest: Interest) -> bool:
        """Takes room for an interest. Returns false if there is none."""
        size = 0 if isinstance(interest, str) else len(interest.text.encode())
        if isinstance(interest, ChannelInterest | ShareInterest):
            size += _CHANNEL_BYTES + len(interest.attributes)
        if not self.interests or size > self.text_bytes:
            return False
        self.interests -= 1
        self.text_bytes -= size
        return True


def fit_in_frame(interests: Iterable[Interest]) -> bool:
    """Returns true if all of them fit in one frame."""
    room = FrameRoom()
    return all(room.take(interest) for interest in interests)


def frames_of(interests: Iterable[Interest]) -> list[list[Interest]]:
    """Divides interests into frames. Without any interest it is one empty frame."""
    frames: list[list[Interest]] = [[]]
    room = FrameRoom()
    for interest in interests:
        if not room.take(interest):
            frames.append([])
            room = FrameRoom()
            room.take(interest)
        frames[-1].append(interest)
    return frames


def spare_bytes(interests: Iterable[Interest]) -> int:
    """Returns the bytes that a frame with these has left for names that parts of answers have reached."""
    said = sum(len((one if isinstance(one, str) else one.text).encode()) + _ENTRY_BYTES for one in interests)
    return CLIENT_FRAME_BYTES_MAX - _HEAD_BYTES - said


_CHANNEL_BYTES = 24
"""Size of a channel in a frame, beside its text: its beginning."""
_ENTRY_BYTES = 32
"""Size of a name or a query in a frame, beside its text and the name reached: tags, lengths and numbers."""
_HEAD_BYTES = 4096
"""Size of a Hello beside its operations: names and a token."""
