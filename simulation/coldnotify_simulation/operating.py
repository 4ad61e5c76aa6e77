"""The operator of a random schedule: ends clients' sessions and has clients forgotten, at any time.

A separate random generator draws all of it, at times of its own: the rest of the schedule stays unchanged.
"""

from random import Random

from coldnotify_schemas.internal_pb2 import Disconnect, Forget, Request
from coldnotify_schemas.topics import TopicNames

from coldnotify_simulation.client import SimulatedClient
from coldnotify_simulation.world import DOMAIN, GROUPS, World

TOPICS = TopicNames()

_SHARE = 0.4
"""The share of schedules in which an operator acts."""


class SimulatedOperator:
    """The operator of one schedule."""

    def __init__(self, seed: int, world: World) -> None:
        self.random = Random(seed ^ 0x0E7A)
        self.world = world
        self.on = self.random.random() < _SHARE
        self._pace_s = self.random.choice([2.0, 8.0])
        self._later()

    def _later(self) -> None:
        if self.on:
            self.world.clock.later(self.random.expovariate(1 / self._pace_s), self._act)

    def _act(self) -> None:
        if self.on:
            # Some are asked for twice at once, as by somebody who has had no answer.
            client, forget = self.random.choice(self.world.clients), self.random.random() < 0.6
            for _ in range(self.random.choice([1, 1, 2])):
                self.ask(client, forget=forget)
            self._later()

    def ask(self, client: SimulatedClient, *, forget: bool) -> None:
        """One request about a client, at the end of its partition's log."""
        self.world.trace("operator", "forgets" if forget else "disconnects", client.name)
        request = Request(
            format=1, domain=DOMAIN, group=client.identity.group, client=client.identity.client,
            forget=Forget(reason="by hand") if forget else None,
            disconnect=None if forget else Disconnect(reason="by hand"),
        )  # fmt: skip
        if forget:
            self.world.forgotten.add(client.key)
        partition, now_ms = GROUPS.index(client.identity.group), self.world.clock.now_ms
        self.world.kafka.append(TOPICS.requests, partition, now_ms, client.key.encode(), request.SerializeToString())

    def end(self) -> None:
        """Nobody does anything any more."""
        self.on = False
