"""The matcher's state in compacted topics, as JSON: registrations and sessions.

Two records of one key merge by the higher (generation, applied), never by their position in the log. A null has a
header with the generation that wrote it: it ends what precedes it, and what an earlier generation writes later, but
nothing of a later generation. A null without the header ends what precedes it.
"""

import msgspec

from coldnotify_schemas.interests import Kind
from coldnotify_schemas.whole_numbers import whole_number

FORMAT = 1
FORMAT_WITH_INTERESTS = 2
"""Format of a bucket with interests beside names: a matcher that does not know them must not read it as one without."""
FORMAT_WITH_FILTERS = 3
"""Format of a bucket with filters, and of a session record of a client whose set is kept: see `SessionRecord.kept`."""
FORMAT_WITH_SHARES = 4
"""Format of a bucket with shares: a matcher that does not know them must not serve the partition."""
EXPIRY_NEVER = (1 << 32) - 1
"""Session Expiry Interval of a set that does not expire."""
WILL_BUCKET = "will"
"""Stands in the place of a bucket's number in the key of a WillRecord."""
BUCKET_OBJECTS_MAX = 64
"""Objects in one record of the registrations topic: a change rewrites one small record, not a client's whole set."""
CHANNEL_BUCKETS = 1024
"""Number of buckets for the channels of one log in one partition: with 100,000 channels a record has 5 KB."""
GENERATION_KEY = "@generation"
"""The key, in each partition of the sessions topic, of that partition's GenerationRecord; no client has this name."""

ENDED_BY_HEADER = "coldnotify-ended-by"
"""Header of a null: the generation that wrote it, in digits."""

GENERATIONS_ALWAYS_BELIEVED = 1_000_000
"""More takeovers than a partition sees in years; higher generations must be plausible for the time that has passed."""
_TAKEOVERS_SINCE_MS = 1_577_836_800_000
"""2020-01-01, Unix ms: before the first release."""
_TAKEOVER_MS_MIN = 100
"""A partition is not taken over more often than this for long."""


def generation_max(now_ms: int) -> int:
    """Returns the highest generation that takeovers can have reached by now (Unix ms).

    It grows faster than takeovers count up, so there is always room above the highest generation that anybody can
    forge.
    """
    return max(GENERATIONS_ALWAYS_BELIEVED, (now_ms - _TAKEOVERS_SINCE_MS) // _TAKEOVER_MS_MIN)


def ended_by_header(generation: int) -> tuple[str, bytes]:
    """Returns the header of a null that this generation writes."""
    return ENDED_BY_HEADER, b"%d" % generation


def ended_by(value: bytes) -> int:
    """Returns the generation in an ENDED_BY_HEADER; 0 if it is invalid."""
    return whole_number(value) or 0


class StoredMissed(msgspec.Struct, frozen=True, omit_defaults=True):
    """Offsets of a log of channels between which messages may be missing, as a client is to be told."""

    before: int
    reason: int
    """As in `wire.Reason`."""
    after: int = -1
    """-1: from the last message that the client was told."""


class StoredInterest(msgspec.Struct, frozen=True, omit_defaults=True):
    """A client's registration by another interest than a name."""

    kind: Kind
    text: str
    """As in `interests.Interest`."""
    position: int = -1
    """For a channel: the offset of its log after which it began; -1: with the first one. For a filter: the client was
    told what it fits up to this offset of the objects; -1: it is told by its cursor alone."""
    epoch: int = 0
    """The epoch of the log that the position belongs to."""
    options: int = 0
    """For a filter, or a share of an MQTT client: the byte of options as in SUBSCRIBE of MQTT 5.0."""
    identifier: int = 0
    """For both: its Subscription Identifier; 0: none."""
    owed: bool = False
    """For a filter: the client has not acknowledged the answer to it."""
    missed: StoredMissed | None = None
    """For a filter: its client has not acknowledged a message that says what is missing before it."""


class UnsettledRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """The versions, members or messages of one registration that the client's application has not taken."""

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
    """For a query: the members that were not taken. Empty: any may be missing."""
    position: int = -1
    """For a channel: all messages up to this offset of its log are told; -1: none is."""


class RegistrationsRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """One bucket of a client's registrations; key domain/group/client/bucket."""

    format: int
    generation: int
    applied: int
    """The offset in the requests topic up to which requests are in here."""
    objects: list[str]
    interests: list[StoredInterest] = []
    """All that is not registered by name."""
    unsettled: list[UnsettledRecord] | None = None
    """Registrations with something that the application has not accepted. None: the client cannot report it, because
    its library is of release 0.1.0; or a matcher of that release wrote the record.
    """

    def of_kind(self, kind: Kind) -> list[StoredInterest]:
        """Returns the interests of one kind, in their order."""
        return [one for one in self.interests if one.kind is kind]


class UnreleasedRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """A PUBLISH of QoS 2 that a kept session has sent and not released: what it became, or is to become."""

    identifier: int
    """The packet's."""
    applied: int
    """The offset of the request that told of it; -1: in another requests topic."""
    id: str = ""
    """The message's; empty: it is a version."""
    object: str = ""
    """The name of its object; empty: it is a message."""
    version: int = 0
    """The object's."""
    written: bool = False
    """The message is in Kafka."""


class SessionRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """A client's progress and connection; key domain/group/client."""

    format: int
    generation: int
    applied: int
    online: bool
    gateway: str
    """Gateway of its latest session: an id of 16 hex digits."""
    inbox: int
    session: int
    epoch: int
    cursor: int
    """The client's, in the objects topic; -1: none."""
    last_seen: int
    """Unix time in ms."""
    digest: int | None = None
    """Digest of all its registrations at that time. None: written by release 0.1.0; of a kept set, that it is lost."""
    channels_epoch: int = 0
    """0: it has no cursor in a log of channels."""
    channels_cursor: int = -1
    kept: str = ""
    """The protocol of a client that keeps nothing itself: its set and cursors are here alone; empty: it keeps them."""
    expiry_s: int = 0
    """Seconds that a kept set outlives its session; 0: it ends with it; EXPIRY_NEVER: for good."""
    unreleased: list[UnreleasedRecord] = []
    """Its client's publishes of QoS 2 that are not released."""


class StoredWill(msgspec.Struct, frozen=True, omit_defaults=True):
    """The will of one session, which is published when that ends."""

    gateway: str
    """Gateway of its session: an id of 16 hex digits."""
    session: int
    begun: int
    """Unix time in ms."""
    topic: str
    payload: bytes = b""
    retain: bool = False
    qos: int = 0
    delay_s: int = 0
    expiry_s: int | None = None
    properties: bytes = b""
    due: int = 0
    """Unix time in ms at which it is published; 0: its session goes on."""
    waits: bool = False
    """It falls away if its client is back by then."""
    version: int = -1
    """The version that it is published as; 0 for a message. -1: that is not decided."""
    incarnation: int = 0
    """The version's."""
    doubled: bool = False
    """It is published as a message before it is as a version."""


class WillRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """A client's wills; key domain/group/client/will, in the topic of registrations.

    If all are over it says so for some time, because a request from before may be handled again.
    """

    format: int
    generation: int
    applied: int
    """The offset in the requests topic of the last request that concerns them."""
    now: StoredWill | None = None
    """The will of the latest session."""
    owed: list[StoredWill] = []
    """Those that are to be published, as it is decided in them."""
    over: int = 0
    """Unix time in ms since which all are over; 0: they are not."""


def is_wills_key(key: str) -> bool:
    """Returns true if a key of the registrations topic is that of a client's wills, where it is one of that topic."""
    return key.endswith(f"/{WILL_BUCKET}")


class ChannelsRecord(msgspec.Struct, frozen=True):
    """The last offsets of some channels of one log; key retention/bucket, as in `1d/17`.

    A channel's bucket is the CRC-32 of its key (domain/group/channel), modulo CHANNEL_BUCKETS.
    """

    format: int
    generation: int
    epoch: int
    """Epoch of the log."""
    through: int
    """All records of the log below this offset are in here."""
    forgotten: int
    """A channel that is not in here may have had messages up to this offset; -1: none had."""
    last: dict[str, int]
    """The offset of each channel's last message, by its key domain/group/channel."""


class GenerationRecord(msgspec.Struct, frozen=True):
    """The last takeover of the partition."""

    format: int
    generation: int
    owner: str
    requests_topic_id: str
    """`applied` of older records, and committed offsets, count only while the requests topic is this one."""
    epoch: int
    """Epoch of the objects topic, for a reader of the record."""
    requests_since: int = 0
    """The first generation that was claimed under this requests topic: `applied` counts in its records, and in later
    ones, whoever wrote this claim."""
