"""The patches of a random schedule: devices say what their objects are, in order, whatever dies.

Each client counts up keys of its own, in descriptions that several clients share and nobody else writes. So a patch
that is lost, or merged twice, or into the wrong description, makes a count go back. A separate random generator draws
all of it, so that schedules without patches stay unchanged.
"""

from collections.abc import Callable, Mapping
from functools import partial
from random import Random

from coldnotify._core.publishing.outgoing import patch_of
from coldnotify._core.publishing.publications import PublishAnswer

from coldnotify_simulation.client import SimulatedClient
from coldnotify_simulation.promises import Broken
from coldnotify_simulation.world import World

PATCHED = ["p0", "p1"]
"""Names of the objects."""
_SHARE = 0.25
"""The share of schedules that have patches."""


class Patching:
    """The patches of one schedule."""

    def __init__(self, seed: int, world: World, *, possible: bool) -> None:
        """`possible`: nothing takes away what is in Kafka."""
        self.random = Random(seed ^ 0x9A7C)
        self.world = world
        self.on = self.random.random() < _SHARE and possible
        self._said: dict[tuple[str, str], int] = {}
        """By object and key: the last count that was said."""
        self._acknowledged: dict[tuple[str, str], int] = {}
        """The last one that was acknowledged."""
        if self.on:
            world.groups.on_described = self._on_described

    def kinds(self) -> dict[str, tuple[float, Callable[[], None]]]:
        """Returns the actions, each with its weight among all others."""
        return {"patch": (8, self.patch), "patch many": (2, self.patch_many)} if self.on else {}

    def patch(self) -> None:
        """A client says one more."""
        self._patch(self.random.choice(self.world.clients), 1)

    def patch_many(self) -> None:
        """All say several at once."""
        for client in self.world.clients:
            self._patch(client, 3)

    def settle(self) -> None:
        """Looks at what is in force at the end. Raises Broken."""
        for (key, name), count in self._acknowledged.items():
            self._hold(key, name, count, "at the end")

    def _patch(self, client: SimulatedClient, count: int) -> None:
        if client.stopped:
            return  # its machine sleeps, and its application with it
        for _ in range(count):
            object_, name = self.random.choice(PATCHED), f"{client.name}_{self.random.randrange(2)}"
            key = client.key_of(object_)
            number = self._said[key, name] = self._said.get((key, name), 0) + 1
            self.world.trace(client.name, "patches", key, name, number)
            outgoing = patch_of(client.identity.domain, client.identity.group, object_, {name: number, "Other": None})
            client.publications.say([(outgoing, partial(self._on_answer, key, name, number))])
        if client.alive:
            client.drive()

    def _on_answer(self, key: str, name: str, number: int, answer: PublishAnswer) -> None:
        self.world.trace("a patch is answered:", key, name, number, answer.reason)
        if answer.offset is None:
            raise Broken(f"P9: {key}: the patch {name} = {number} was refused: {answer.reason}")
        self._acknowledged[key, name] = max(number, self._acknowledged.get((key, name), 0))
        self._hold(key, name, number, "when it was acknowledged")

    def _hold(self, key: str, name: str, number: int, when: str) -> None:
        group, _, object_ = key.rpartition("/")
        thing = self.world.groups.objects.get(group, {}).get(object_)
        found = None if thing is None or thing.described[1] is None else thing.described[1].get(name)
        if not isinstance(found, int | float) or found < number:
            raise Broken(f"P9: {key} {when} is described by {name} = {found}, and not by {number}")

    def _on_described(self, key: str, before: Mapping[str, object] | None, after: Mapping[str, object] | None) -> None:
        """A description is another one: no count in it goes back, but to what its client may say again."""
        for name, count in (before or {}).items():
            acknowledged = self._acknowledged.get((key, name), 0)
            now = (after or {}).get(name, 0)
            if acknowledged and isinstance(now, int | float) and isinstance(count, int | float) and now < acknowledged:
                raise Broken(f"P9: {key}: {name} = {acknowledged} was acknowledged, and becomes {now}")
