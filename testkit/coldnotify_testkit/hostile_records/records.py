"""A hostile record, the batch that it is written in, and what its writer knows of the ColdNotify that runs."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from coldnotify_testkit.record_batches import Batch, Header

DOMAIN = "animal.observer"


class DrawnRecord(NamedTuple):
    """A record before it is bent as bytes: for a topic and partition."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[Header]
    timestamp_ms: int


class Hostile(NamedTuple):
    """A batch to be written."""

    topic: str
    partition: int
    kind: str
    """How it departs from what a Kafka library writes: one of batch_kinds.KINDS, or AS_DRAWN."""
    batch: Batch


class HonestSession(NamedTuple):
    """A session of an honest client."""

    gateway: int
    inbox: int
    partition: int
    number: int
    group: str
    client: str


class KnownToAttacker(NamedTuple):
    """The knowledge of an attacker who reads all topics."""

    partitions: int
    inboxes: int
    groups: Sequence[str]
    """The groups of `domain`. Each has the same clients and objects."""
    clients: Sequence[str]
    objects: Sequence[str]
    now_ms: int
    requests_topic_id: str = ""
    gateways: Mapping[int, int] = {}
    """Their inboxes, by id."""
    sessions: Sequence[HonestSession] = ()
    generations: Mapping[int, int] = {}
    """The generations, by partition."""
    numbers: Mapping[tuple[int, int], int] = {}
    """The number of the last inbox record, by gateway and partition."""
    domain: str = DOMAIN
    """The domain that most records concern."""
    spared_domains: Sequence[str] = ()
    """Domains of other honest clients. No record concerns them or their tenants."""
    spared_tenants: Sequence[str] = ()
    spared_partitions: Sequence[int] = ()
    """The partitions in which honest clients follow channels."""
    usage_partitions: int = 8
