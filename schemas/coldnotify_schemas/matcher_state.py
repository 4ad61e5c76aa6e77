"""The matcher's state as compacted topics hold it, as JSON: registrations and sessions.

Two records of one key merge by the higher (generation, applied), never by their position in the log. A null says in a
header which generation wrote it: it ends what stands before it, and what an earlier generation writes behind it, but
nothing of a later generation. A null without the header ends what stands before it.
"""

import msgspec

from coldnotify_schemas.whole_numbers import whole_number

FORMAT = 1
FORMAT_WITH_QUERIES = 2
"""Of a bucket that has queries: a matcher that knows nothing of them must not take it for one without."""
FORMAT_WITH_CHANNELS = 3
"""Of a bucket that has channels."""
BUCKET_OBJECTS_MAX = 64
"""Objects in one record of the registrations topic: a change rewrites one small record, not a client's whole set."""
CHANNEL_BUCKETS = 1024
"""Of the state of one log's channels in one partition: with 100,000 channels a record is 5 KB."""
GENERATION_KEY = "@generation"
"""The key, in each partition of the sessions topic, of that partition's GenerationRecord; no client has this name."""

ENDED_BY_HEADER = "coldnotify-ended-by"
"""Header of a null: the generation that wrote it, in digits."""

GENERATIONS_ALWAYS_BELIEVED = 1_000_000
"""More takeovers than a partition sees in years; what is above must fit the time that there was for them."""
_TAKEOVERS_SINCE_MS = 1_577_836_800_000
"""2020-01-01, Unix ms: before the first release."""
_TAKEOVER_MS_MIN = 100
"""A partition is not taken over more often than this for long."""


def generation_max(now_ms: int) -> int:
    """The highest generation that takeovers can have come to by now (Unix ms).

    It grows faster than takeovers count up: above the highest generation that anybody can forge there is always room.
    """
    return max(GENERATIONS_ALWAYS_BELIEVED, (now_ms - _TAKEOVERS_SINCE_MS) // _TAKEOVER_MS_MIN)


def ended_by_header(generation: int) -> tuple[str, bytes]:
    """What a null of this generation says."""
    return ENDED_BY_HEADER, b"%d" % generation


def ended_by(value: bytes) -> int:
    """The generation that an ENDED_BY_HEADER says; 0: none that can be understood."""
    return whole_number(value) or 0


class RegisteredChannel(msgspec.Struct, frozen=True, omit_defaults=True):
    """A client's registration of a channel."""

    text: str
    """`interests.channel_text` of its name and attributes."""
    position: int
    """Behind which offset of the log it began; -1: with the first one."""
    epoch: int
    """Of the log that the position belongs to."""


class UnsettledRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the client's application has not taken of one registration of the bucket."""

    name: str = ""
    """The object's; empty: of a query or channel."""
    hash: int = 0
    """The query's or channel's."""
    since: int = 0
    """Unix time in ms."""
    parked: bool = False
    """Its callbacks failed too often."""
    failures: int = 0
    """So often its callbacks have raised."""
    error: str = ""
    """The first line of what they raised last."""
    members: list[str] = []
    """Of the query: these were not taken. Empty: any may not have been."""
    position: int = -1
    """Of the channel: all up to this offset of its log is told; -1: nothing is."""


class RegistrationsRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """One bucket of a client's registrations; key domain/group/client/bucket."""

    format: int
    generation: int
    applied: int
    """The offset in the requests topic up to which requests are in here."""
    objects: list[str]
    queries: list[str] = []
    """As their client registered them."""
    channels: list[RegisteredChannel] = []
    unsettled: list[UnsettledRecord] | None = None
    """What the application has not taken. None: the client cannot say, as its library is of release 0.1.0; or a
    matcher of that release wrote the record."""


class SessionRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """How far a client is and where it is connected; key domain/group/client."""

    format: int
    generation: int
    applied: int
    online: bool
    gateway: str
    """Of its latest session: the gateway's id, 16 hex digits."""
    inbox: int
    session: int
    epoch: int
    cursor: int
    """The client's, in the objects topic; -1: none."""
    last_seen: int
    """Unix time in ms."""
    digest: int | None = None
    """Of all that it was registered for then. None: written by release 0.1.0."""
    channels_epoch: int = 0
    """0: it has no cursor in a log of channels."""
    channels_cursor: int = -1


class ChannelsRecord(msgspec.Struct, frozen=True):
    """The last offsets of some channels of one log; key retention/bucket, as in `1d/17`.

    A channel is in the bucket that the CRC-32 of its key (domain/group/channel) says, modulo CHANNEL_BUCKETS.
    """

    format: int
    generation: int
    epoch: int
    """Of the log."""
    through: int
    """All records of the log below this offset are in here."""
    forgotten: int
    """A channel that is not in here may have had messages up to this offset; -1: none had."""
    last: dict[str, int]
    """By a channel's key domain/group/channel, the offset of its last message."""


class GenerationRecord(msgspec.Struct, frozen=True):
    """Who took the partition over last."""

    format: int
    generation: int
    owner: str
    requests_topic_id: str
    """`applied` of older records, and committed offsets, count only while the requests topic is this one."""
    epoch: int
    """Of the objects topic, for whoever looks in."""
    requests_since: int = 0
    """The first generation that was claimed under this requests topic: `applied` counts in its records, and in later
    ones, whoever wrote this claim."""
