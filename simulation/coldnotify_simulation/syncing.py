"""A device of a random schedule that wakes by POST /v1/sync: the gateway's agent plays its part of the protocol.

The agent is the product's own; the transport is played as in `listeners/web/sync.py`. A device accepts an answer once
it is whole, and stores its cursor. What it holds then is compared with the log, as of that cursor, and each
notification with those before it. A separate random generator draws all of it, at times of its own: the rest of the
schedule stays unchanged.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from random import Random

from coldnotify_common.played.agent import Agent, Found, PlayedDevice
from coldnotify_gateway.core import JSON, Frame, values_of
from coldnotify_gateway.listeners.web.portion import Portion
from coldnotify_schemas.topics import TopicNames
from coldnotify_schemas.wire_pb2 import Notification, Registered

from coldnotify_simulation.clock import SimulatedProcess
from coldnotify_simulation.describing import QUERIES
from coldnotify_simulation.link import SimulatedLink
from coldnotify_simulation.promises import Broken
from coldnotify_simulation.truth import UNKNOWN, Version
from coldnotify_simulation.world import DOMAIN, GROUPS, OBJECTS, World

TOPICS = TopicNames()

_SHARE = 0.4
"""The share among schedules with queries."""
_ANSWERED_WITHIN_S = 30.0
"""Without a part of the answer for so long, the request ends with 503."""
_TRIES_MAX = 20
_PACE_S = 1.5
_NAME = "by-sync"
_SHARE_BY_NAME = 0.4
"""The share of sets without queries, whose answers may be divided."""
_PORTION_BYTES = (10, 100, 200, None)
"""So much is a small device's answer: one notification, a few, all."""


class _PlayedLink(SimulatedLink):
    """The link of a device that the gateway plays."""

    dialect = JSON

    def _hand_to_client(self, frames: Sequence[Frame]) -> None:
        if isinstance(self.client, Syncing):
            self.client.on_frames(self, frames)


class Syncing(SimulatedProcess):
    """The device of one schedule."""

    def __init__(self, seed: int, world: World, *, possible: bool) -> None:
        """`possible`: the schedule has queries, and limits on clients do not matter."""
        super().__init__(world.clock, _NAME)
        self.random = Random(seed ^ 0x5C9C)
        self.world = world
        self.group = GROUPS[0]
        self.on = possible and self.random.random() < _SHARE
        self.ended = False
        """It was there until faults stopped."""
        self.names: set[str] = set()
        self.texts: set[str] = set()
        self.epoch: int | None = None
        self.cursor: int | None = None
        self.members: dict[str, set[str]] = {}
        """The members that it was told, by the query's text."""
        self.known: dict[str, Version] = {}
        self.counts: Counter[str] = Counter()
        self._agent: Agent | None = None
        self._portion: Portion | None = None
        self._portions = Random(seed ^ 0xB17E)
        """Draws what came later, so that all else is drawn as before."""
        self._link: SimulatedLink | None = None
        self._found: list[Found] = []
        self._heard_s = 0.0
        self._registrations = ""
        if self.on:
            self._born()
            self._want_others()
            self._later()

    def _later(self) -> None:
        self.clock.later(self.random.expovariate(1 / _PACE_S), self._come)

    def _come(self) -> None:
        if self.on:
            self._later()
            self.sync()

    def end(self) -> None:
        """Faults stop: it does nothing by chance any more."""
        self.ended, self.on = self.on, False

    # ---- what the device does

    def _want_others(self) -> None:
        self.names = {name for name in OBJECTS if self.random.random() < 0.2}
        self.texts = {text for text in QUERIES if self.random.random() < 0.3} or {QUERIES[0]}
        if self._portions.random() < _SHARE_BY_NAME:
            self.names, self.texts = set(OBJECTS), set()
        self._lose_state()

    def _lose_state(self) -> None:
        self.epoch = self.cursor = None
        self.members, self.known = {}, {}

    def sync(self) -> None:
        """It asks; or, where it waits for an answer, goes."""
        if self._agent is not None:
            if self.random.random() < 0.3:
                self._end("gone")
            return
        drawn = self.random.random()
        if drawn < 0.2:
            self._want_others()
        elif drawn < 0.3:
            self._lose_state()
        self._ask()

    def _ask(self) -> None:
        gateway = self.random.choice(self.world.gateways)
        if not gateway.alive or gateway.stopped:
            return
        names, texts = sorted(self.names), sorted(self.texts)
        device = PlayedDevice(DOMAIN, self.group, _NAME, names, self.epoch, self.cursor, texts)
        self.world.trace(_NAME, "asks for", names, texts, "from", self.cursor)
        self._registrations = self.world.kafka.topics[TOPICS.registrations].id
        self._agent, self._found = Agent(device), []
        self._portion = Portion(self._agent, self._portions.choice(_PORTION_BYTES))
        self._link = _PlayedLink(self.clock, self.random, self, gateway, self.world.witness.late_s)
        gateway.accept(self._link)
        self._link.up(self._agent.begin())
        self._heard()

    def _heard(self) -> None:
        self._heard_s = heard_s = self.clock.now_s
        self.later(_ANSWERED_WITHIN_S, lambda: self._end("not answered in time") if self._heard_s == heard_s else None)

    def _end(self, outcome: str) -> None:
        link, self._agent, self._link = self._link, None, None
        if link is not None:
            self.counts[outcome] += 1
            self.world.trace(_NAME, outcome)
            link.cut(outcome)

    # ---- what it is told

    def on_broken(self, link: SimulatedLink, reason: str) -> None:
        """Its connection is gone: what had arrived is not an answer."""
        if link is self._link:
            self._end("broken off")

    def on_bytes(self, link: SimulatedLink, data: bytes) -> None:
        """Raises NotImplementedError, because it is handed values."""
        raise NotImplementedError

    def on_frames(self, link: SimulatedLink, frames: Sequence[Frame]) -> None:
        """Part of the answer; as in `Sync._json`."""
        agent, portion = self._agent, self._portion
        if link is not self._link or agent is None or portion is None:
            return
        if answer := portion.receive(values_of(frames)):
            link.up(answer)
        if agent.closed is not None or agent.stuck:
            self._end("stuck" if agent.stuck else "closed")
        elif agent.caught_up or portion.full:
            self._found += agent.found
            self._take(agent)
            self._end("divided" if portion.full else "answered")
        elif agent.page_ended:
            self._found += agent.found
            agent.found.clear()
            link.up(agent.acknowledge())
            self._heard()

    def _take(self, agent: Agent) -> None:
        begun: dict[str, set[str]] = {}
        for one in self._found:
            if isinstance(one, Registered):
                begun |= {text: set() for text in self._texts(agent, one.begun)}
                for text in self._texts(agent, one.answered):
                    if text in begun:
                        self.members[text] = begun.pop(text)
            elif isinstance(one, Notification):
                self._take_notification(agent, one, begun)
        self.epoch, self.cursor = agent.epoch, agent.cursor
        # Whoever leaves out what was refused says another set the next time.
        self._judge(set(agent.refused))

    def _take_notification(self, agent: Agent, said: Notification, begun: dict[str, set[str]]) -> None:
        for text in self._texts(agent, said.entered):
            for members in (self.members.setdefault(text, set()), begun.get(text, set())):
                members.add(said.name)
        if said.HasField("version"):
            sets = [*self.members.values(), *begun.values()]
            if said.name not in self.names and not said.left and not any(said.name in members for members in sets):
                raise Broken(f"P9: {_NAME} is told a version of {said.name}, and not that it is a member of a query")
            version = said.incarnation, said.version
            self.known[said.name] = max(version, self.known.get(said.name, UNKNOWN))
        for text in self._texts(agent, said.left):
            for members in (self.members.setdefault(text, set()), begun.get(text, set())):
                members.discard(said.name)

    def _texts(self, agent: Agent, hashes: Iterable[int]) -> list[str]:
        return [agent.queries[hash_] for hash_ in hashes if hash_ in agent.queries]

    # ---- what must hold

    def _judge(self, refused: set[str]) -> None:
        world, cursor = self.world, self.cursor
        lost = self._registrations != world.kafka.topics[TOPICS.registrations].id
        if cursor is None or self.epoch != world.promises.epoch or lost:
            return
        self.counts["judged"] += 1
        group = f"{DOMAIN}/{self.group}"
        for text in self.texts - refused:
            wrong = world.groups.wrong(group, text, self.members.get(text, ()), cursor + 1)
            if wrong:
                raise Broken(
                    f"P9: {_NAME} has cursor {cursor} and holds {sorted(self.members.get(text, ()))} as members of "
                    f"{text!r}: {sorted(wrong)} wrong"
                )
            for name in self.members.get(text, ()):
                if world.groups.stable(group, text, name, cursor + 1):
                    self._must_know(name, cursor)
        for name in self.names - refused:
            self._must_know(name, cursor)

    def _must_know(self, name: str, cursor: int) -> None:
        key = f"{DOMAIN}/{self.group}/{name}"
        due, known = self.world.truth.thing(key).due_at(cursor), self.known.get(name, UNKNOWN)
        self.world.ledger.on_returned(f"{DOMAIN}/{self.group}/{_NAME}", name, known)
        if known < due:
            raise Broken(f"P2: {_NAME} has cursor {cursor} and knows {known} of {name}, not {due}")

    def settle(self) -> None:
        """Faults have stopped: it is answered, and each member comes once."""
        if not self.ended:
            return
        self._end("gone")
        self._want_others()
        answered = self.counts["answered"]
        for _ in range(_TRIES_MAX):
            if self._agent is None:
                self._ask()
            self.world.run(_ANSWERED_WITHIN_S / 2)
            if self.counts["answered"] > answered:
                break
        else:
            raise Broken(f"P2: {_NAME} is not answered: {dict(self.counts)}")
        entered = Counter(
            (hash_, one.name) for one in self._found if isinstance(one, Notification) for hash_ in one.entered
        )
        if any(times > 1 for times in entered.values()):
            raise Broken(f"P9: {_NAME} is told members more than once, {entered}")
