"""The matcher's state as compacted topics hold it, as JSON: registrations and sessions.

Two records of one key merge by the higher (generation, applied), never by their position in the log.
"""

import msgspec

FORMAT = 1
FORMAT_WITH_QUERIES = 2
"""Of a bucket that has queries: a matcher that knows nothing of them must not take it for one without."""
BUCKET_OBJECTS_MAX = 64
"""Objects in one record of the registrations topic: a change rewrites one small record, not a client's whole set."""
GENERATION_KEY = "@generation"
"""The key, in each partition of the sessions topic, of that partition's GenerationRecord; no client has this name."""

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


class RegistrationsRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """One bucket of a client's registrations; key domain/group/client/bucket."""

    format: int
    generation: int
    applied: int
    """The offset in the requests topic up to which requests are in here."""
    objects: list[str]
    queries: list[str] = []
    """As their client registered them."""


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
