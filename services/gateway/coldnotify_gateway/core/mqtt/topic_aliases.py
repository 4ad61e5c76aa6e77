"""Topic aliases of MQTT 5.0: numbers that stand for topics on one connection, in both directions.

Upwards a client says which number stands for which topic. Downwards the first topics that a group's devices are told
have numbers, which are the same on all connections. So like devices keep getting the same bytes.
"""

from typing import NamedTuple
from weakref import WeakValueDictionary

from coldnotify_schemas.mqtt.errors import ProtocolViolation
from coldnotify_schemas.mqtt.packets import Publish
from coldnotify_schemas.mqtt.reasons import ReasonCode
from coldnotify_schemas.names import OBJECT_BYTES_MAX
from msgspec.structs import replace

CLIENT_ALIASES_MAX = 16
"""Highest alias that a client may say: with topics of full length, they take 4 KiB of a connection."""
TOLD_ALIASES_MAX = 64
"""Topics of one group that have numbers downwards. A connection remembers which it was told in one integer."""
_SHORT_BYTES = 3
"""A topic of this length is no longer than the alias itself."""


class Alias(NamedTuple):
    """The alias of one PUBLISH."""

    number: int = 0
    """0: none."""
    known: bool = False
    """True if the connection was told what it stands for: the topic is left out."""


NO_ALIAS = Alias()


class GroupAliases:
    """The numbers of one group's topics. All its devices share them."""

    __slots__ = ("__weakref__", "_numbers")

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number_of(self, topic: str) -> int:
        """Returns the topic's number, its new one if there is room; 0: it has none."""
        number = self._numbers.get(topic, 0)
        if not number and len(self._numbers) < TOLD_ALIASES_MAX and len(topic) > _SHORT_BYTES:
            number = self._numbers[topic] = len(self._numbers) + 1
        return number


_GROUPS: "WeakValueDictionary[str, GroupAliases]" = WeakValueDictionary()


def group_aliases(group_key: str) -> GroupAliases:
    """Returns the one object of a group, `domain/group`. It lasts as long as a connection has it."""
    found = _GROUPS.get(group_key)
    if found is None:
        found = _GROUPS[group_key] = GroupAliases()
    return found


class DeviceAliases:
    """The aliases of one connection."""

    __slots__ = ("_group", "_known", "_of_client", "_told_max")

    def __init__(self, told_max: int = 0, group: GroupAliases | None = None) -> None:
        """`told_max`: the highest alias that the client takes. `group`: None if it takes none."""
        self._of_client: dict[int, str] = {}
        self._told_max = told_max
        self._group = group
        self._known = 0
        """A bit for each number that the client was told."""

    def resolved(self, packet: Publish) -> Publish:
        """Returns a client's PUBLISH with its topic. Raises ProtocolViolation if its alias is too high, or stands for
        nothing."""
        number, topic = packet.properties.topic_alias, packet.topic
        assert number is not None
        if number > CLIENT_ALIASES_MAX:
            words = f"topic alias: is {number} (at most {CLIENT_ALIASES_MAX} is allowed)"
            raise ProtocolViolation(words, ReasonCode.TOPIC_ALIAS_INVALID)
        if topic:
            # A longer topic is refused: it must not take the connection's memory.
            self._of_client[number] = topic if len(topic) <= OBJECT_BYTES_MAX else ""
            return packet
        if not (found := self._of_client.get(number)):
            raise ProtocolViolation(f"topic alias: {number} stands for no topic", ReasonCode.TOPIC_ALIAS_INVALID)
        return replace(packet, topic=found)

    def of(self, topic: str) -> Alias:
        """Returns the alias with which a topic is told."""
        number = 0 if self._group is None else self._group.number_of(topic)
        if not 0 < number <= self._told_max:
            return NO_ALIAS
        return Alias(number, bool(self._known >> number & 1))

    def told(self, alias: Alias) -> None:
        """Notes that the client was told what an alias stands for."""
        self._known |= (alias.number > 0) << alias.number
