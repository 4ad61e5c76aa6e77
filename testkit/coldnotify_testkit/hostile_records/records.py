"""A hostile record, and what its writer knows of the ColdNotify that it is written to."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

DOMAIN = "animal.observer"

Headers = list[tuple[str, str | bytes | None]]
"""As librdkafka takes them."""


class Hostile(NamedTuple):
    """A record to be written."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp_ms: int
    """0: as of now."""


class Session(NamedTuple):
    """A session of an honest client."""

    gateway: int
    inbox: int
    partition: int
    number: int
    group: str
    client: str


class Known(NamedTuple):
    """What an attacker who reads all topics knows."""

    partitions: int
    inboxes: int
    groups: Sequence[str]
    """Of DOMAIN; in each are the same clients and objects."""
    clients: Sequence[str]
    objects: Sequence[str]
    now_ms: int
    requests_topic_id: str = ""
    gateways: Mapping[int, int] = {}
    """Their inboxes, by id."""
    sessions: Sequence[Session] = ()
    generations: Mapping[int, int] = {}
    """By partition."""
    numbers: Mapping[tuple[int, int], int] = {}
    """By gateway and partition, the number of the last inbox record."""
