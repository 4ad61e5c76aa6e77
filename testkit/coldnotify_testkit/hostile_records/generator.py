"""Draws hostile records: of which topic, bent how; none that honest clients would have to believe."""

from collections.abc import Sequence
from random import Random

from coldnotify_schemas import topics

from coldnotify_testkit.hostile_records.bodies import Bodies
from coldnotify_testkit.hostile_records.honest import Honest, is_newer
from coldnotify_testkit.hostile_records.records import DOMAIN, Hostile, Known
from coldnotify_testkit.hostile_records.values import Values

WEIGHTS = {
    topics.OBJECTS: 25,
    topics.REQUESTS: 25,
    topics.REGISTRATIONS: 15,
    topics.SESSIONS: 15,
    topics.NOTIFICATIONS: 15,
    topics.REJECTED: 5,
}
"""How often a record is of each topic."""
_OUTBIDDING_SHARE = 0.02
"""Of records that say that the partition has a new owner: each is believed, and costs its matcher a load of it."""


class Generator:
    """Draws records."""

    def __init__(self, seed: int, only: Sequence[str] = tuple(WEIGHTS), *, newer_format: bool = False) -> None:
        """`only`: these topics. `newer_format`: state records of a later release too, whose partitions stand still."""
        self._random = Random(seed)
        self._topics = [topic for topic in WEIGHTS if topic in only]
        self._weights = [WEIGHTS[topic] for topic in self._topics]
        self._newer_format = newer_format
        self._values = Values(self._random)
        self._bodies = Bodies(self._random, self._values)

    def record(self, known: Known) -> Hostile:
        """The next one."""
        draw = self._random
        (topic,) = draw.choices(self._topics, self._weights)
        partition, key, value = self._bodies.of(topic, known)
        key, value = self._tamed(topic, key, value, known)
        if draw.random() < 0.05 and topic not in (topics.NOTIFICATIONS, topics.REJECTED):
            partition = draw.randrange(known.partitions)
        timestamp_ms = self._values.timestamp_ms(known.now_ms) if draw.random() < 0.02 else 0
        return Hostile(topic, partition, key, value, self._values.headers(), timestamp_ms)

    def _tamed(
        self, topic: str, key: bytes | None, value: bytes | None, known: Known
    ) -> tuple[bytes | None, bytes | None]:
        """The same, but for what would have to be believed."""
        if value is None:
            return key, value
        honest = Honest(known)
        if topic == topics.OBJECTS and honest.would_publish(key, value):
            return f"{DOMAIN}/{self._random.choice(known.groups)}/{self._values.made_up('object')}".encode(), value
        if topic in (topics.REGISTRATIONS, topics.SESSIONS):
            if not self._newer_format and is_newer(value, known.now_ms):
                return key, value[:-1]
            if honest.would_register(topic, key, value):
                return f"{DOMAIN}/{self._random.choice(known.groups)}/{self._values.made_up('client')}".encode(), value
            if honest.would_restart(key, value):
                return key, value[:-1]
            if honest.would_outbid(key, value) and self._random.random() > _OUTBIDDING_SHARE:
                return key, value[:-1]
        if topic == topics.REQUESTS and honest.would_displace(value):
            return key, value[:-1]
        if topic == topics.NOTIFICATIONS and honest.would_mislead(value):
            return key, None
        if honest.would_succeed(topic, value) and self._random.random() > _OUTBIDDING_SHARE:
            return key, value[:-1]
        return key, value
