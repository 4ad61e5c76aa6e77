"""The epoch within which cursors hold."""

import hashlib


def epoch_of(objects_topic_id: str, partitions: int, counter: int) -> int:
    """32 bits, not 0, that change with the objects topic's id, its partition count and the operator's counter."""
    text = f"{objects_topic_id}/{partitions}/{counter}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "little") or 1
