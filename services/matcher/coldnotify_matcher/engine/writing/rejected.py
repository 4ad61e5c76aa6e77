"""A record of the rejected topic: a record that could not be handled, as it came, and the reason. Pure."""

from coldnotify_schemas.records import rejected_headers
from coldnotify_schemas.topics import TopicNames

from coldnotify_matcher.engine.outputs import ProducedRecord

REJECTED_BYTES_MAX = 1_500_000
"""Maximum size of a rejected record's key and value. The topic takes 2 MiB: larger ones come only if an operator allows
them."""


def rejected(
    topics: TopicNames,
    topic: str,
    partition: int,
    offset: int | None,
    key: bytes | None,
    value: bytes | None,
    reason: str,
) -> ProducedRecord:
    """Returns the rejection of the record at this offset of `topic`. None: it is known by its key alone."""
    size = len(key or b"") + len(value or b"")
    if size > REJECTED_BYTES_MAX:
        reason = f"{reason} (the record has {size} bytes; this is only its beginning)"
        key = key and key[: REJECTED_BYTES_MAX // 2]
        value = value and value[: REJECTED_BYTES_MAX // 2]
    place = f"{topic}/{partition}" if offset is None else f"{topic}/{partition}@{offset}"
    return ProducedRecord(topics.rejected, None, key, value, rejected_headers(reason, place))
