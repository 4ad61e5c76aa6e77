"""Limits on clients and registrations of a random schedule's tenant, and what matchers know of them.

Each matcher counts its own partitions, and hears of the other matcher's count seconds later, as through the usage job.
The limits change now and then. Once faults have stopped, the limit equals the number of clients: then each must get in,
or something that is gone is still counted.

A separate random generator draws all of it, at times of its own: the rest of the schedule stays unchanged.
"""

from collections.abc import Collection
from dataclasses import replace
from functools import partial
from random import Random

from coldnotify_matcher.engine.tenants.ceilings import Ceilings, HeldAgreement
from coldnotify_schemas.close_codes import CloseCode
from coldnotify_schemas.frames import FrameBuffer, parse_gateway_frame
from coldnotify_schemas.protocol import GATEWAY_FRAME_BYTES_MAX
from coldnotify_schemas.tenant_usage import partition_node
from coldnotify_schemas.wire_pb2 import Refusal
from coldnotify_streams.core.partition_progress import OwningPhase

from coldnotify_simulation.client import SimulatedClient
from coldnotify_simulation.link import SimulatedLink
from coldnotify_simulation.matcher import Matcher
from coldnotify_simulation.world import DOMAIN, World

_SHARE = 0.4
"""The share of schedules with limits, without strangers' requests: those open clients that no history knows."""
STRANGERS = frozenset(("nonsense request", "poison"))
_LOOK_S = 1.0
_HEARD_S = 0.3, 3.0
"""How long (least and most) until a matcher knows the other's count."""


class SimulatedHolding:
    """The limits of one schedule."""

    def __init__(
        self, seed: int, world: World, kinds: Collection[str], *, names_only: bool, possible: bool = True
    ) -> None:
        """`kinds`: what the schedule draws. `names_only`: clients register for nothing but objects, by their names."""
        self.random = Random(seed ^ 0x401D)
        self.world = world
        self.on = self.random.random() < _SHARE and not STRANGERS & set(kinds) and possible
        self._changes = self.random.random() < 0.6
        self._names_only = names_only
        self._limits: tuple[int | None, int | None] = None, None
        self._said: dict[int, tuple[int, int, int]] = {}
        """By partition: generation, clients and registrations, as last heard."""
        self._frames: dict[SimulatedLink, FrameBuffer] = {}
        """Frames by connection."""
        self._welcomed: set[SimulatedLink] = set()
        """Those that have been let in."""
        if self.on:
            self.begin()

    def begin(self) -> None:
        """Makes matchers enforce limits from now on, and notes what clients are told of them."""
        self.on = True
        for matcher in self.world.matchers:
            matcher.rules = replace(matcher.rules, ceilings=Ceilings())
        self.world.witness.received = self.received
        self._draw()
        self._look()

    def agree(self, clients_max: int | None, registrations_max: int | None = None) -> None:
        """Changes the agreement; matchers learn of it at their next look."""
        self._limits = clients_max, registrations_max
        self.world.trace("tenant", "may have", clients_max, "clients,", registrations_max, "registrations")
        self.world.trace.event(
            "agreement", tenant=DOMAIN, domains=[DOMAIN], clients_max=clients_max, registrations_max=registrations_max
        )

    def stop_drawing(self) -> None:
        """Keeps the present agreement."""
        self._changes = False

    def end(self, clients: int) -> None:
        """Faults have stopped: so many clients are there, and so many there may be."""
        if self.on:
            self.stop_drawing()
            self.agree(clients)

    def _draw(self) -> None:
        most = len(self.world.clients)
        registrations_max = self.random.choice([None, 1, 2, 4, 8]) if self._names_only else None
        self.agree(self.random.choice([None, *range(1, most + 1)]), registrations_max)
        if self._changes:
            self.world.clock.later(self.random.uniform(5, 20), lambda: self._draw() if self._changes else None)

    # ---- what matchers know

    def _look(self) -> None:
        self.world.clock.later(_LOOK_S, self._look)
        for matcher in self.world.matchers:
            if matcher.alive and not matcher.stopped and matcher.run is not None:
                self._look_at(matcher)

    def _look_at(self, matcher: Matcher) -> None:
        clients_max, registrations_max = self._limits
        clients = registrations = 0
        here: set[int] = set()
        for number, partition in (matcher.run.partitions if matcher.run is not None else {}).items():
            if partition.phase is not OwningPhase.OWNED:
                continue
            here.add(number)
            stock = partition.engine.inventory.look().get(DOMAIN, (0, 0, 0))
            clients, registrations = clients + stock[1], registrations + stock[2]
            said = partition.engine.state.generation, stock[1], stock[2]
            self.world.clock.later(self.random.uniform(*_HEARD_S), partial(self._hear, number, said))
        elsewhere: dict[str, tuple[int, int, int]] = {}
        for number, (_, of_clients, of_registrations) in self._said.items():
            if number not in here:
                clients, registrations = clients + of_clients, registrations + of_registrations
                elsewhere[partition_node(number)] = 0, of_clients, of_registrations
        held = HeldAgreement(DOMAIN, clients_max, registrations_max, clients, registrations, elsewhere)
        matcher.rules.ceilings.agree([held] if self._limits != (None, None) else [])

    def _hear(self, number: int, said: tuple[int, int, int]) -> None:
        # Of a partition the newest owner's word counts.
        if said[0] >= self._said.get(number, (0, 0, 0))[0]:
            self._said[number] = said

    # ---- what clients are told

    def received(self, client: SimulatedClient, link: SimulatedLink, data: bytes) -> None:
        """The client has taken in these bytes."""
        frames = self._frames.setdefault(link, FrameBuffer(GATEWAY_FRAME_BYTES_MAX))
        for body in frames.feed(data):
            frame = parse_gateway_frame(body)
            if frame.HasField("welcome"):
                self._welcomed.add(link)
                self._note_refused(client, frame.welcome.refused)
            elif frame.HasField("registered"):
                self._note_refused(client, frame.registered.refused)
            elif frame.HasField("close") and frame.close.code == CloseCode.ABOVE_AGREEMENT:
                self.world.trace(client.name, "is sent away:", frame.close.reason)
                self.world.trace.event("turned_away", client=client.key, welcomed=link in self._welcomed)

    def _note_refused(self, client: SimulatedClient, refusals: Collection[Refusal]) -> None:
        for refusal in refusals:
            name = refusal.object
            if name and name not in client.wanted and name in client.wish:
                self.world.trace(client.name, "is refused", name, refusal.reason)
                client.wish.discard(name)
                self.world.trace.event("refused", client=client.key, object=client.key_of(name), reason=refusal.reason)
