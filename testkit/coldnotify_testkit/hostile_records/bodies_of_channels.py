"""Makes the records of channels, and of what the matcher stores about them, from which hostile ones are bent."""

from collections.abc import Callable
from random import Random

from coldnotify_schemas.matcher_state import CHANNEL_BUCKETS, generation_max
from coldnotify_schemas.partitioner import partition_of
from coldnotify_schemas.topics import TopicNames

from coldnotify_testkit.hostile_records.documents import Documents
from coldnotify_testkit.hostile_records.records import KnownToAttacker
from coldnotify_testkit.hostile_records.values import NUMBERS, Body, Values

TOPICS = TopicNames()

_PAYLOADS = (b"", b"null", b'{"look": "north"}', b"[" * 10_000, b"\xff\xfe", b"\0" * 100, b"x" * 70_000, b"NaN")
_RETENTIONS = ("1h", "1d", "30d")


class OfChannels:
    """Draws partition, key and value of a record. `of` draws for a topic, from what is known."""

    def __init__(self, random: Random, values: Values, documents: Documents) -> None:
        self._random = random
        self._values = values
        self._documents = documents
        self.of: dict[str, Callable[[KnownToAttacker], Body]] = {
            **dict.fromkeys(TOPICS.channels, self._message),
            TOPICS.channels_state: self._state,
            TOPICS.shares: self._share,
        }

    def _message(self, known: KnownToAttacker) -> Body:
        group = self._random.choice(known.groups)
        key = self._values.key(f"{known.domain}/{group}/{self._values.made_up('channel')}")
        value = self._values.bent(self._random.choice(_PAYLOADS))
        return partition_of(known.domain, group, known.partitions), key, value

    def _state(self, known: KnownToAttacker) -> Body:
        draw, group = self._random, self._random.choice(known.groups)
        home = partition_of(known.domain, group, known.partitions)
        present = known.generations.get(home, 1)
        most = generation_max(known.now_ms)
        channel = f"{known.domain}/{group}/{self._values.made_up('channel')}"
        fields = {
            "format": "1",
            "generation": str(draw.choice((0, 1, present - 1, present, present + 1, most, most + 1, *NUMBERS))),
            "epoch": str(draw.getrandbits(32)),
            "through": str(draw.choice(NUMBERS)),
            "forgotten": str(draw.choice((-1, *NUMBERS))),
            "last": f'{{"{channel}": {draw.choice(NUMBERS)}}}',
        }
        bucket = draw.choice((0, 17, CHANNEL_BUCKETS - 1, CHANNEL_BUCKETS, draw.randrange(CHANNEL_BUCKETS), *NUMBERS))
        return home, self._values.key(f"{draw.choice(_RETENTIONS)}/{bucket}"), self._documents.bent(fields)

    def _share(self, known: KnownToAttacker) -> Body:
        draw, group = self._random, self._random.choice(known.groups)
        home = partition_of(known.domain, group, known.partitions)
        present = known.generations.get(home, 1)
        most = generation_max(known.now_ms)
        offset = draw.choice((-1, 0, 5, *NUMBERS))
        hand_out = (
            f"[{draw.choice(NUMBERS)}, 1, 1, {draw.choice((0, 1, 2, 3, 9))}, {draw.choice((-1, 0, 7))}, 30, 0, -1]"
        )
        fields = {
            "format": "1",
            "generation": str(draw.choice((0, 1, present - 1, present, present + 1, most, most + 1, *NUMBERS))),
            "applied": str(draw.choice((-1, *NUMBERS))),
            "epoch": str(draw.getrandbits(32)),
            "base": str(offset),
            "settled": draw.choice(("[]", "[7, 9]", f"[{draw.choice(NUMBERS)}, {draw.choice(NUMBERS)}]", "[1]")),
            "members": draw.choice(("[]", '["c"]', '["a/b"]')),
            "handed_out": draw.choice(("[]", f"[{hand_out}]")),
            "since": str(draw.choice((0, 5, *NUMBERS))),
            "empty_since": str(draw.choice((0, *NUMBERS))),
        }
        share, channel = self._values.made_up("share"), self._values.made_up("channel")
        return home, self._values.key(f"{known.domain}/{group}/{share}/{channel}"), self._documents.bent(fields)
