"""The epochs within which cursors hold."""

import hashlib

from coldnotify_schemas.channels import Retention


def epoch_of(objects_topic_id: str, partitions: int, counter: int) -> int:
    """Returns 32 bits, not 0, that change with the objects topic's id, its partition count and the operator's
    counter."""
    return _epoch(f"{objects_topic_id}/{partitions}/{counter}")


def channels_epoch_of(topic_id: str, partitions: int, counter: int, retention: Retention) -> int:
    """Returns the same for a log of channels, from its topic's id and its retention."""
    return _epoch(f"{topic_id}/{partitions}/{counter}/{retention.value}")


def requests_epoch_of(topic_id: str) -> int:
    """Returns the same for the topic of requests, from its id: offsets of requests hold within it."""
    return _epoch(topic_id)


def _epoch(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "little") or 1
