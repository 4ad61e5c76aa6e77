"""The devices of a run and their registrations, so that swarm and publisher agree without communication. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from coldnotify_schemas.protocol import SILENCE_EXTRA_S, SILENCE_FACTOR


def silence_s(keepalive_s: float) -> float:
    """Returns how long after an unanswered Ping a server is given up, by devices as by clients."""
    return SILENCE_FACTOR * keepalive_s + min(SILENCE_EXTRA_S, keepalive_s)


def merged(newest: Iterable[Mapping[int, Counter[int]]]) -> dict[int, Counter[int]]:
    """Returns by block how many devices have which version as their newest: of all processes, or devices, together."""
    found: dict[int, Counter[int]] = {}
    for some in newest:
        for block, versions in some.items():
            found.setdefault(block, Counter()).update(versions)
    return found


@dataclass(frozen=True)
class Population:
    """Devices by number: blocks of `fan_out` of them register for the same objects."""

    fan_out: int = 1000
    registrations: int = 1
    """Registrations of each device."""
    groups: int = 1
    """Blocks are spread over so many groups, and so over partitions."""
    domain: str = "animal.observer"
    prefix: str = "observer"
    """Prefix of the devices' names: another one makes them new devices."""
    keepalive_s: int = 0
    """Each device sends a Ping so often, and gives up a server that is silent; 0: none does."""
    token: str = field(default="", repr=False)
    """Proves the identity of all devices; empty: none does."""

    def block_of(self, device: int) -> int:
        """The block that a device belongs to."""
        return device // self.fan_out

    def group(self, block: int) -> str:
        """The group of a block."""
        return f"region-{block % self.groups + 1}"

    def object(self, block: int, number: int) -> str:
        """The name of one of a block's objects."""
        return f"object-{block}-{number}"

    def objects(self, block: int) -> tuple[str, ...]:
        """All that the devices of a block register for."""
        return tuple(self.object(block, number) for number in range(self.registrations))

    def queries(self, _device: int) -> tuple[str, ...]:
        """The texts of the queries that a device registers for; here none."""
        return ()

    def client(self, device: int) -> str:
        """The device's name."""
        return f"{self.prefix}-{device}"
