"""Draws hostile records: the topic, how it is bent, and the batch. Draws none that honest clients would have to
believe.
"""

from collections.abc import Sequence
from random import Random

from coldnotify_schemas.topics import TopicNames

from coldnotify_testkit.hostile_records.batch_kinds import AS_DRAWN, BOMBS, KINDS, of_kind
from coldnotify_testkit.hostile_records.bodies import HostileBodies
from coldnotify_testkit.hostile_records.honest import Honest, is_newer
from coldnotify_testkit.hostile_records.records import DrawnRecord, Hostile, KnownToAttacker
from coldnotify_testkit.hostile_records.values import Values

TOPICS = TopicNames()

WEIGHTS = {
    TOPICS.objects: 20,
    TOPICS.requests: 20,
    TOPICS.registrations: 12,
    TOPICS.sessions: 12,
    TOPICS.notifications: 12,
    TOPICS.channels_1h: 3,
    TOPICS.channels_1d: 6,
    TOPICS.channels_30d: 3,
    TOPICS.channels_state: 6,
    TOPICS.shares: 6,
    TOPICS.rejected: 4,
    TOPICS.tenants: 5,
    TOPICS.usage: 5,
    TOPICS.verdicts: 5,
    TOPICS.usage_history: 3,
    TOPICS.usage_state: 5,
    TOPICS.nodes: 5,
    TOPICS.hooks: 4,
    TOPICS.hooks_state: 3,
}
"""How often a record belongs to each topic. Contains all topics."""
_STATE = (TOPICS.registrations, TOPICS.sessions, TOPICS.channels_state, TOPICS.shares)
_OUTBIDDING_SHARE = 0.02
"""Share of records that claim the partition for a new owner. Each is believed, and costs its matcher a load of the
partition.
"""
_DEALT_EVERY = 3
"""Every third batch is of a kind that is dealt, so that a short run has each kind in each topic."""
_SOMEWHERE_SHARE = 0.05


class Generator:
    """Draws records."""

    def __init__(
        self,
        seed: int,
        only: Sequence[str] = tuple(WEIGHTS),
        *,
        newer_format: bool = False,
        kinds: Sequence[str] = tuple(KINDS),
    ) -> None:
        """`only`: draws for these topics. `newer_format`: draws state records of a later release, too, which block
        their partitions.

        `kinds`: kinds of batches, in addition to those that a Kafka library writes.
        """
        self._random = Random(seed)
        self._topics = [topic for topic in WEIGHTS if topic in only]
        self._weights = [WEIGHTS[topic] for topic in self._topics]
        self._newer_format = newer_format
        self._values = Values(self._random)
        self._bodies = HostileBodies(self._random, self._values)
        self._kinds = [kind for kind in KINDS if kind in kinds]
        self._dealt: list[tuple[str, str]] = []
        """Topics and kinds that are still to come before all are dealt again."""
        self._deals = 0
        self._drawn = 0

    def record(self, known: KnownToAttacker) -> Hostile:
        """The next one."""
        self._drawn += 1
        if self._kinds and self._drawn % _DEALT_EVERY == 0:
            topic, kind = self.next_dealt()
        else:
            (topic,), kind = self._random.choices(self._topics, self._weights), AS_DRAWN
        drawn = self._record_of(topic, known)
        return Hostile(topic, drawn.partition, kind, of_kind(kind, self._random, drawn, known.now_ms))

    def next_dealt(self) -> tuple[str, str]:
        """The topic and kind of the next batch that is dealt."""
        if not self._dealt:
            # What costs its readers 100 MiB each is dealt once, and later one of them for each topic.
            bombs = [kind for kind in self._kinds if kind in BOMBS]
            if self._deals and bombs:
                bombs = [self._random.choice(bombs)]
            kinds = [kind for kind in self._kinds if kind not in BOMBS or kind in bombs]
            self._dealt = [(topic, kind) for topic in self._topics for kind in kinds]
            self._random.shuffle(self._dealt)
            self._deals += 1
        return self._dealt.pop()

    def _record_of(self, topic: str, known: KnownToAttacker) -> DrawnRecord:
        draw = self._random
        partition, key, value = self._bodies.of(topic, known)
        key, value = self._tamed(topic, key, value, known)
        if draw.random() < _SOMEWHERE_SHARE and topic in TOPICS.co_partitioned:
            partition = draw.randrange(known.partitions)
        if topic == TOPICS.channels_state and partition in known.spared_partitions:
            key, value = self._disbelieved(key, value, believed=Honest(known).would_number(value or b""))
        timestamp_ms = self._values.timestamp_ms(known.now_ms) if draw.random() < 0.02 else 0
        return DrawnRecord(topic, partition, key, value, self._values.headers(), timestamp_ms)

    def _tamed(
        self, topic: str, key: bytes | None, value: bytes | None, known: KnownToAttacker
    ) -> tuple[bytes | None, bytes | None]:
        """The same, but for what would have to be believed."""
        if value is None:
            return key, value
        honest = Honest(known)
        if topic == TOPICS.objects and honest.would_publish(key, value):
            return (
                f"{known.domain}/{self._random.choice(known.groups)}/{self._values.made_up('object')}".encode(),
                value,
            )
        if topic in _STATE and not self._newer_format and is_newer(topic, value, known.now_ms):
            return key, value[:-1]
        if topic in (TOPICS.registrations, TOPICS.sessions):
            if honest.would_register(topic, key, value):
                client = f"{known.domain}/{self._random.choice(known.groups)}/{self._values.made_up('client')}"
                return client.encode(), value
            if honest.would_restart(key, value):
                return key, value[:-1]
            if honest.would_outbid(key, value) and self._random.random() > _OUTBIDDING_SHARE:
                return key, value[:-1]
        if topic == TOPICS.requests and honest.would_displace(value):
            return key, value[:-1]
        if topic == TOPICS.notifications and honest.would_mislead(value):
            return key, None
        if honest.would_succeed(topic, value) and self._random.random() > _OUTBIDDING_SHARE:
            return key, value[:-1]
        return self._disbelieved(key, value, believed=honest.would_agree(topic, key, value))

    def _disbelieved(
        self, key: bytes | None, value: bytes | None, *, believed: bool
    ) -> tuple[bytes | None, bytes | None]:
        return key, value[:-1] if believed and value else value
