"""A random schedule: its seed determines which faults it has, and when each strikes."""

from collections.abc import Callable
from random import Random
from typing import Any

import msgspec
from coldnotify_matcher.engine.rules.rules import Intervals, Rules
from coldnotify_matcher.engine.rules.tuning import Bounds
from coldnotify_schemas.internal_pb2 import Acks, Beat, CatchUp, Inbox, Open, Request
from coldnotify_schemas.matcher_state import BUCKET_OBJECTS_MAX, GenerationRecord
from coldnotify_schemas.topics import TopicNames
from coldnotify_schemas.wire_pb2 import Register
from coldnotify_streams.core.run import RunLimits

from coldnotify_simulation import second_opinion
from coldnotify_simulation.arriving import Arriving
from coldnotify_simulation.atomic_sets_drawn import AtomicSetsDrawn
from coldnotify_simulation.chatting import Chatting
from coldnotify_simulation.client import SimulatedClient
from coldnotify_simulation.clock_faults import ClockFaults
from coldnotify_simulation.conditioning import NOT_WITH_CONDITIONS, Conditioning
from coldnotify_simulation.crowding import Crowding
from coldnotify_simulation.describing import Describing
from coldnotify_simulation.gateway import SimulatedGateway
from coldnotify_simulation.group import SESSION_TIMEOUT_S
from coldnotify_simulation.holding import SimulatedHolding
from coldnotify_simulation.limiting import Limiting
from coldnotify_simulation.matcher import Matcher
from coldnotify_simulation.metering import Metering
from coldnotify_simulation.operating import SimulatedOperator
from coldnotify_simulation.patching import Patching
from coldnotify_simulation.poison import POISONS
from coldnotify_simulation.promises import Broken
from coldnotify_simulation.removing import Removing
from coldnotify_simulation.sharing import NOT_WITH_SHARES, Sharing
from coldnotify_simulation.sleeping import Sleeping
from coldnotify_simulation.syncing import Syncing
from coldnotify_simulation.world import CLAIMS, DOMAIN, GROUPS, OBJECTS, World

TOPICS = TopicNames()

ROUGH_S = 40.0
"""How long publishes and faults continue, in virtual time."""
_NEVER = float("inf")
_UNREADABLE = 0.25
"""The share of schedules with unreadable bytes."""
_NOT_WITH_METERS = ("truncated", "topic lost", "state lost", "blackout")
"""Kinds that do not go with versions by arrival; and those by which all records of kept sessions are lost: their
devices are then not always told that their sessions are other ones.
"""
_HARMLESS = frozenset(("publish", "want", "change of mind", "shut down", "power loss", "wipe", "cut", "stall", "send"))
"""Kinds that no MQTT device feels."""
_READ_BY_MATCHERS = (
    TOPICS.objects,
    TOPICS.requests,
    TOPICS.registrations,
    TOPICS.sessions,
    TOPICS.channels_1d,
    TOPICS.channels_state,
)


class Schedule:
    """One seed's world and what happens to it."""

    def __init__(self, seed: int, *, meters: bool = False, conditions: bool = False, shares: bool = False) -> None:
        """`meters`: with MQTT devices, and without what counts clients or sets clocks. `conditions`: with publishes
        that have some. `shares`: with workers that are members of shares. Without them, a seed's schedule is what it
        was.
        """
        self.seed = seed
        self.random = Random(seed ^ 0xC01D)
        self.world = World(
            seed,
            clients=self.random.choice([1, 2, 3, 4]),
            late_s=self.random.choice([0.005, 0.05, 0.5]),
            in_bytes=seed % 5 == 4,
        )
        kinds: dict[str, tuple[float, Callable[[], None]]] = {
            "publish": (8, self._publish),
            "race": (2, self._publish_racing),
            "repeat": (1, self._publish_again),
            "stale": (1, self._publish_stale),
            "misplaced": (1, self._publish_misplaced),
            "incarnation": (0.5, self._publish_incarnation),
            "nonsense": (0.5, self._publish_nonsense),
            "nonsense request": (0.3, self._request_nonsense),
            "nonsense in an inbox": (0.3, self._tell_nonsense),
            "stranger claims": (0.2, self._claim),
            "want": (4, self._want),
            "change of mind": (2, self._change_mind),
            "shut down": (2, self._shut_down),
            "power loss": (2, self._power_loss),
            "wipe": (0.7, self._wipe),
            "cut": (3, self._cut),
            "stall": (2, self._stall),
            "twin": (0.5, self._half_open),
            "gateway killed": (1, self._kill_gateway),
            "gateway stopped": (1, self._stop_gateway),
            "requests held": (1, self._hold_requests),
            "requests fail": (0.7, self._fail_requests),
            "matcher killed": (1, self._kill_matcher),
            "nobody serves": (2, self._leave_unserved),
            "matcher doomed": (2, self._doom_matcher),
            "matcher stopped": (1.5, self._stop_matcher),
            "matcher shut down": (0.5, self._shut_down_matcher),
            "matcher lags": (1, self._lag),
            "commits held": (1, self._hold_commits),
            "blackout": (0.6, self._black_out),
            "inbox expires": (0.5, self._expire_inbox),
            "open transaction": (1.5, self._open_transaction),
            "poison": (0.5, self._poison),
            "later release": (0.2, self._write_newer_state),
            "compaction": (1, self.world.compact),
            "topic lost": (0.1, self._lose_topic),
            "state lost": (0.3, self._lose_state),
            "truncated": (0.1, self._truncate),
        }
        always = {"publish", "want"}
        intervals = Intervals()
        if self.random.random() < 0.5:
            intervals = Intervals(others_ms=self.random.choice([300, 3000]))
            own = Random(seed ^ 0xA1D)  # so that the rest of the schedule stays what it is
            if own.random() < 0.5:
                intervals = Intervals(auto=frozenset({"*"}), bounds=Bounds(own.choice([0, 300]), 3000))
        # Few objects in a record: a client's registrations stand in several, and a step may be cut between any two.
        bucket_objects_max = Random(seed ^ 0xB0C).choice([1, 2, BUCKET_OBJECTS_MAX])
        own = Random(seed ^ 0x57EA)
        standby = own.random() < 0.7
        limits = RunLimits(
            pending_requests_max=own.choice([0, 2, 20_000]),
            barrier_timeout_s=own.choice([0.5, 2.0, 60.0]),
            newer_retry_s=own.choice([1.0, 30.0]),
        )
        self.removing = Removing(
            seed, key=self._key, highest=lambda key: self.world.highest.get(key, 0), append=self.world.write_null
        )
        self.world.retention = self.removing.retention
        for matcher in self.world.matchers:
            matcher.standby, matcher.limits = standby, limits
            matcher.rules = Rules(
                conflation=intervals, bucket_objects_max=bucket_objects_max, retention=self.removing.retention
            )
        self._sources = Random(seed ^ 0x50CE)
        self._by_clients = self._sources.choice([0.0, 0.3, 0.7])
        """The share of publishes that clients make."""
        self._priorities = Random(seed ^ 0x4169)  # so that the rest of the schedule stays what it is
        self._high = self._priorities.choice([0.0, 0.2, 0.6])
        """The share of publishes that are of high priority."""
        self._calm = False
        self._choose_homes(seed)
        # A different mix in each: faults that come alone go deeper than all of them at once.
        chance = self.random.choice([0.2, 0.5, 0.9])
        self.kinds = {name: one for name, one in kinds.items() if name in always or self.random.random() < chance}
        self.describing = Describing(seed, self.world)
        self.chatting = Chatting(seed, self.world)
        self.limiting = Limiting(seed, self.world)
        self.operating = SimulatedOperator(seed, self.world)
        self.crowding = Crowding(seed, self.world)
        self.sleeping = Sleeping(seed, self.world)
        self.kinds |= self.describing.kinds() | self.removing.kinds() | self.chatting.kinds()
        self.arriving = Arriving(seed, self.world, self._key, self._is_high)
        self.kinds |= self.arriving.kinds()
        if self.arriving.on:
            self.kinds.pop("truncated", None)  # a backup may have lost what says which version a record was
        self._unreadable = Random(seed ^ 0xBADD)  # so that the rest of the schedule stays what it is
        if self._unreadable.random() < _UNREADABLE:
            self.kinds["unreadable"] = (self._unreadable.choice([0.5, 2]), self._write_unreadable)
        self.clock_faults = ClockFaults(
            seed,
            self.world,
            all_at_once=not self.removing.on and not self.chatting.on,
            forgets_nobody="poison" not in self.kinds,
            possible=not meters,
        )
        self.kinds |= self.clock_faults.kinds()
        names_only = not self.describing.on and not self.chatting.on
        loses = ("truncated", "topic lost", "blackout")
        possible = not (self.removing.on or meters or any(kind in self.kinds for kind in loses))
        self.patching = Patching(seed, self.world, possible=possible)
        self.kinds |= self.patching.kinds()
        self.holding = SimulatedHolding(
            seed, self.world, self.kinds, names_only=names_only, possible=not (meters or shares)
        )
        self.syncing = Syncing(seed, self.world, possible=self.describing.on and not self.holding.on)
        self.metering = Metering(seed, self.world, on=meters)
        if meters:
            for kind in _NOT_WITH_METERS:
                self.kinds.pop(kind, None)
        self.conditioning = Conditioning(seed, self.world, on=conditions and not self.removing.on)
        if self.conditioning.on:
            for kind in NOT_WITH_CONDITIONS:
                self.kinds.pop(kind, None)
            self.kinds |= self.conditioning.kinds()
        possible = self.conditioning.on and not (meters or self.holding.on)
        self.atomic_sets = AtomicSetsDrawn(seed, self.world, possible=possible)
        self.kinds |= self.atomic_sets.kinds()
        self.sharing = Sharing(seed, self.world, on=shares, clocks_are_right=not self.clock_faults.on)
        if shares:
            for kind in NOT_WITH_SHARES:
                self.kinds.pop(kind, None)
            self.kinds |= self.sharing.kinds()
        self.clock_faults.restarts = not self.holding.on  # what has gone would be counted on until both serve again

    def _choose_homes(self, seed: int) -> None:
        """Some clients have a home, and some a directory in place of addresses."""
        own = Random(seed ^ 0x803E)
        for client in self.world.clients:
            home = own.choice(client.addresses) if own.random() < 0.5 else None
            directory = own.random() < 0.2
            listed = client.addresses[: own.choice([0, 1])] if directory else client.addresses
            client.know(listed, home, directory=directory)

    def play(self) -> None:
        """Plays from the beginning until everything has come to rest. Raises Broken, and whatever a part raises."""
        with self.chatting.bounds(), self.atomic_sets.bounds(), self.describing.bounds(), self.sharing.bounds():
            self._play()

    def _play(self) -> None:
        world, random = self.world, self.random
        world.trace("schedule", "seed", self.seed, "with", ", ".join(self.kinds))
        world.start()
        for client in world.clients:
            client.wish = {name for name in OBJECTS if random.random() < 0.6}
            self.describing.wish(client)
            self.chatting.wish(client)
            self.atomic_sets.wish(client.wish)
            client.callback_s = random.choice([0.001, 0.01, 1.0])
            client.failing = random.choice([0.0, 0.0, 0.2])
            world.start_client(client)
        self.metering.start()
        self.conditioning.start()
        self.atomic_sets.start()
        self.sharing.start()
        world.run(random.choice([0.0, 3.0]))
        names, weights = list(self.kinds), [weight for weight, _ in self.kinds.values()]
        end_s = world.clock.now_s + ROUGH_S
        pace_s = random.choice([0.1, 0.5, 1.5])
        while world.clock.now_s < end_s:
            world.run(random.expovariate(1 / pace_s))
            kind = random.choices(names, weights)[0]
            self.kinds[kind][1]()
            if kind not in _HARMLESS:
                self.metering.note_fault(kind)
        self._calm = True
        self.limiting.end()
        self.operating.end()
        self.crowding.end()
        self.syncing.end()
        self.sleeping.end()
        self.clock_faults.end()
        self.metering.end()
        self.sharing.end()
        world.removes_in_calm = self.removing.goes_on
        world.calm()
        online = []
        for client in world.clients:
            if client.alive and world.registrations_lost and client.link is not None:
                client.link.cut("to have a contact")  # the next contact finds out that registrations were lost
            if client.alive or random.random() < 0.7:
                world.start_client(client)
                online.append(client)
        self.holding.end(len(world.clients))  # those that are off now may be about to start
        world.settle(online)
        if self.patching.on:
            self.patching.settle()
        else:
            second_opinion.ask(world)  # at once: retention goes on
        self.syncing.settle()
        self.metering.settle()
        self.conditioning.settle()
        self.atomic_sets.settle()
        self.sharing.settle()

    # ---- publishers

    def _key(self) -> str:
        return f"{DOMAIN}/{self.random.choice(GROUPS[: len(self.world.clients)])}/{self.random.choice(OBJECTS)}"

    def _publish(self) -> None:
        key = self._key()
        group = key.split("/")[1]
        source = None
        if self._sources.random() < self._by_clients:
            source = self._sources.choice([c.identity.client for c in self.world.clients if c.identity.group == group])
        self.world.publish_next(key, acknowledged=None, source=source, high=self._is_high())

    def _is_high(self) -> bool:
        return self._priorities.random() < self._high

    def _publish_racing(self) -> None:
        key = self._key()
        first = self.world.highest.get(key, 0) + 1
        self.world.publish(key, first + 1, high=self._is_high())
        self.world.publish(key, first, high=self._is_high())

    def _publish_again(self) -> None:
        key = self._key()
        if key in self.world.highest:
            self.world.publish(key, self.world.highest[key], high=self._is_high())

    def _publish_stale(self) -> None:
        key = self._key()
        if key in self.world.highest:
            self.world.publish(key, self.random.randint(0, self.world.highest[key]))

    def _publish_misplaced(self) -> None:
        group = self.random.choice(GROUPS)
        key = f"{DOMAIN}/{group}/{self.random.choice(OBJECTS)}"
        wrong = 1 - GROUPS.index(group)
        version = self.world.highest.get(key, 0) + 1
        self.world.publish(key, version, partition=wrong, high=self._is_high())

    def _publish_incarnation(self) -> None:
        key = self._key()
        newest = self.world.truth.thing(key).newest
        if newest:
            self.world.publish(key, self.random.randint(0, 3), incarnation=newest[-1][1][0] + 1)

    def _publish_nonsense(self) -> None:
        self.world.publish_nonsense(self._key(), self.random.choice([None, b"nonsense", b'{"verson":1}']))

    def _request_nonsense(self) -> None:
        """Somebody who may write to the requests topic writes what no gateway of ours would."""
        gateway = self.random.choice(self.world.gateways).core
        wrong = self.random.choice(
            [
                Request(catch_up=CatchUp(page=2**32 - 1, ask=1)),
                Request(register=Register(request=1, objects=["x" * 5000])),
                Request(open=Open(ask=1), inbox=2**32 - 1),
                Request(open=Open(ask=1), client="@generation"),
                Request(beat=Beat(generation=2**63, number=1)),
                Request(acks=Acks(sessions=[1, 2], completes=[2**62])),
                # Nothing is wrong with it, but that its gateway has no such session.
                Request(open=Open(ask=1), client="made-up", session=2**32 - 1),
            ]
        )
        number = self.random.randrange(len(GROUPS))
        request = Request(
            format=1, gateway=gateway.id, inbox=gateway.inbox, session=1,
            domain=DOMAIN, group=GROUPS[number], client="c0",
        )  # fmt: skip
        request.MergeFrom(wrong)
        self.world.trace("stranger", "requests", wrong.WhichOneof("body"))
        self.world.kafka.append(TOPICS.requests, number, self.world.clock.now_ms, b"", request.SerializeToString())

    def _poison(self) -> None:
        """A request that makes its handler raise, or its step, or that leads to a record that Kafka does not take."""
        gateway = self.random.choice(self.world.gateways).core
        number = self.random.randrange(len(GROUPS))
        client = self.random.choice(POISONS)
        self.world.trace("stranger", "requests", client, "in", number)
        request = Request(
            format=1, gateway=gateway.id, inbox=gateway.inbox, session=2**32 - 1,
            domain=DOMAIN, group=GROUPS[number], client=client, open=Open(ask=1),
        )  # fmt: skip
        self.world.kafka.append(TOPICS.requests, number, self.world.clock.now_ms, b"", request.SerializeToString())

    def _write_unreadable(self) -> None:
        """Somebody writes bytes that Kafka takes, and that no reader can read."""
        topic = self._unreadable.choice(_READ_BY_MATCHERS)
        number = self._unreadable.randrange(len(GROUPS))
        for _ in range(self._unreadable.choice([1, 1, 3])):
            offset = self.world.kafka.log(topic, number).append_unreadable()
            self.world.trace("stranger", "unreadable", topic, number, offset)

    def _tell_nonsense(self) -> None:
        """Somebody who may write to inboxes writes as no matcher of ours would, or as one that comes far later."""
        gateway = self.random.choice(self.world.gateways).core
        for_all: dict[str, Any] = {"format": 1, "partition": self.random.randrange(len(GROUPS))}
        inbox = self.random.choice(
            [
                Inbox(**for_all, generation=2**62),
                Inbox(**for_all, generation=self.random.randint(1000, 900_000)),
                Inbox(**for_all, gateway=gateway.id, generation=1, number=2**60),
                Inbox(**for_all | {"format": 2}, generation=1),
            ]
        )
        self.world.trace("stranger", "tells a gateway of generation", inbox.generation)
        self.world.kafka.append(
            TOPICS.notifications, gateway.inbox, self.world.clock.now_ms, None, inbox.SerializeToString()
        )

    def _claim(self) -> None:
        """Somebody who may write state claims a partition as another matcher would, and serves nobody."""
        number = self.random.randrange(len(GROUPS))
        claims = [e.value for e in self.world.kafka.log(TOPICS.sessions, number).entries if e.key == CLAIMS and e.value]
        if not claims:
            return
        last = msgspec.json.decode(claims[-1], type=GenerationRecord)
        generation = last.generation + self.random.choice([0, 1, 1000])
        forged = msgspec.structs.replace(last, generation=generation, owner="stranger")
        self.world.trace("stranger", "claims", number, "generation", generation)
        value = msgspec.json.encode(forged)
        self.world.kafka.append(TOPICS.sessions, number, self.world.clock.now_ms, CLAIMS, value)

    # ---- clients

    def _client(self) -> SimulatedClient:
        return self.random.choice(self.world.clients)

    def _want(self) -> None:
        client, name = self._client(), self.random.choice(OBJECTS)
        if name in client.wish:
            client.unregister(name)
        else:
            self.world.register(client, name)

    def _change_mind(self) -> None:
        """Moves what a client wants from one record of its registrations to another, often in one step, which may be
        cut.
        """
        client = self._client()
        wanted = self.random.sample(OBJECTS, self.random.randint(1, 3))
        for gateway in self.world.gateways:
            gateway.requests_held = True

        def cut_the_step() -> None:
            for gateway in self.world.gateways:
                gateway.requests_held = False
            for matcher in self.world.matchers:
                if not self._calm:
                    matcher.doom = self.random.randint(0, 4), "kill"
                    self._back(matcher)

        client.unregister(*sorted(client.wish))
        self.world.clock.later(0.1, lambda: self.world.register(client, *wanted))
        self.world.clock.later(0.5, cut_the_step)

    def _later(self, client: SimulatedClient) -> None:
        only = self.random.random() < 0.3
        self.world.clock.later(
            self.random.choice([0.0, 1.0, 20.0]),
            lambda: None if client.alive else self.world.start_client(client, only=only),
        )

    def _shut_down(self) -> None:
        client = self._client()
        self.world.shut_down(client)
        self._later(client)

    def _power_loss(self) -> None:
        client = self._client()
        self.world.power_loss(client)
        self._later(client)

    def _wipe(self) -> None:
        client = self._client()
        self.world.power_loss(client, wiped=True)
        self._later(client)

    def _cut(self) -> None:
        link = self._client().link
        if link is not None:
            link.cut(
                "cut",
                client_notices_s=self.random.choice([0.0, 0.5, _NEVER]),
                gateway_notices_s=self.random.choice([0.0, 0.5, 5.0, _NEVER]),
            )

    def _half_open(self) -> None:
        link = self._client().link
        if link is not None:
            link.cut("half open", client_notices_s=0.0, gateway_notices_s=_NEVER)

    def _stall(self) -> None:
        link = self._client().link
        if link is not None:
            link.stall(self.random.choice([0.5, 3.0, 12.0]))

    # ---- gateways

    def _gateway(self) -> SimulatedGateway:
        return self.random.choice(self.world.gateways)

    def _kill_gateway(self) -> None:
        gateway = self._gateway()
        gateway.kill()
        self.world.clock.later(self.random.choice([0.2, 5.0]), lambda: None if gateway.alive else gateway.start())

    def _stop_gateway(self) -> None:
        gateway = self._gateway()
        if gateway.alive:
            gateway.stop()
            self.world.trace(gateway.name, "stopped")
            self.world.clock.later(self.random.choice([1.0, 9.0, 25.0]), gateway.go_on)

    def _hold_requests(self) -> None:
        gateway = self._gateway()
        gateway.requests_held = True
        self.world.trace(gateway.name, "writes no requests")

        def let_go() -> None:
            gateway.requests_held = False

        self.world.clock.later(self.random.choice([1.0, 4.0, 12.0]), let_go)

    def _fail_requests(self) -> None:
        gateway = self._gateway()
        gateway.requests_fail = 0.3

        def recover() -> None:
            gateway.requests_fail = 0.0

        self.world.clock.later(5.0, recover)

    # ---- matchers

    def _matcher(self) -> Matcher:
        return self.random.choice(self.world.matchers)

    def _back(self, matcher: Matcher) -> None:
        after_s = self.random.choice([0.1, 3.0, 10.0])
        self.world.clock.later(after_s, lambda: None if matcher.alive else matcher.start())

    def _kill_matcher(self) -> None:
        matcher = self._matcher()
        matcher.kill()
        self._back(matcher)

    def _leave_unserved(self) -> None:
        """A matcher dies soon after a publish. Until the group notices, nobody serves; the other one follows on.

        So its successor, who has read more than it had handled, gets what it held back.
        """
        key = self._key()
        owner = self.world.group.owners[GROUPS.index(key.split("/")[1])]
        matcher = next((one for one in self.world.matchers if one.run is owner), None) or self._matcher()
        for _ in range(2):  # the second one is held back, where publishes are
            self.world.publish_next(key, acknowledged=None)

        def publish() -> None:
            if not self._calm:
                self.random.choice([self._publish, self._publish_misplaced])()

        def die() -> None:
            if self._calm:
                return
            matcher.kill()
            for _ in range(self.random.randint(1, 3)):
                self.world.clock.later(self.random.uniform(0.0, SESSION_TIMEOUT_S), publish)
            self.world.clock.later(2 * SESSION_TIMEOUT_S, lambda: None if matcher.alive else matcher.start())

        self.world.clock.later(self.random.uniform(0.0, 2.0), die)

    def _shut_down_matcher(self) -> None:
        matcher = self._matcher()
        matcher.shut_down()
        self._back(matcher)

    def _doom_matcher(self) -> None:
        matcher = self._matcher()
        fate = self.random.choice(["kill", "kill", "stop", "fail"])
        matcher.doom = self.random.randint(0, 6), fate
        after_s = self.random.choice([2.0, 9.0, 15.0])
        self.world.clock.later(after_s, lambda: matcher.go_on() if matcher.alive else matcher.start())

    def _stop_matcher(self) -> None:
        matcher = self._matcher()
        matcher.stop()
        self.world.clock.later(self.random.choice([1.0, 8.0, 15.0]), matcher.go_on)

    def _lag(self) -> None:
        matcher = self._matcher()
        matcher.lag = self.random.choice([0.7, 1.0])

        def recover() -> None:
            matcher.lag = 0.0

        self.world.clock.later(8.0, recover)

    def _hold_commits(self) -> None:
        self._commits_held(held=True)
        self.world.clock.later(self.random.choice([2.0, 8.0]), lambda: self._commits_held(held=False))

    def _commits_held(self, *, held: bool) -> None:
        for matcher in self.world.matchers:
            matcher.commits_held = held

    def _black_out(self) -> None:
        """All matchers die, with much that is not committed; while none runs, much happens, also to a topic."""
        self._commits_held(held=True)
        if self.random.random() < 0.5:
            client = self._client()
            self.world.shut_down(client)
            self.world.clock.later(1.0, lambda: self.world.start_client(client))

        def begin() -> None:
            if self._calm:
                return
            for matcher in self.world.matchers:
                matcher.kill()
            self._commits_held(held=False)
            for _ in range(self.random.randint(0, 4)):
                self._publish()
            if self.random.random() < 0.5:
                self._lose_state()
            self.world.clock.later(self.random.choice([0.5, 4.0, 9.0]), end)

        def end() -> None:
            for matcher in self.world.matchers:
                if not matcher.alive:
                    matcher.start()

        self.world.clock.later(self.random.uniform(0.0, 4.0), begin)

    # ---- Kafka

    def _open_transaction(self) -> None:
        self.world.open_transaction(self.random.randrange(len(GROUPS)), self.random.choice([0.3, 2.0, 12.0]))

    def _write_newer_state(self) -> None:
        """Its partition is served by nobody until somebody has written over it."""
        number = self.random.randrange(len(GROUPS))
        self.world.write_newer_state(number)
        self.world.clock.later(self.random.choice([0.5, 6.0]), lambda: self.world.write_over_newer_state(number))

    def _expire_inbox(self) -> None:
        """Retention takes what a gateway that is behind has not read."""
        for gateway in self.world.gateways:
            if gateway.alive:
                self.world.kafka.log(TOPICS.notifications, gateway.core.inbox).expire()

    def _lose_topic(self) -> None:
        self.world.lose_topic(self.random.choice([TOPICS.objects, TOPICS.requests]))

    def _lose_state(self) -> None:
        names = [TOPICS.registrations, TOPICS.sessions, TOPICS.sessions, TOPICS.notifications]
        self.world.lose_topic(self.random.choice(names))

    def _truncate(self) -> None:
        partition = self.random.randrange(len(GROUPS))
        end = self.world.kafka.log(TOPICS.objects, partition).end
        self.world.truncate_objects(partition, self.random.randint(end // 2, end), new_epoch=True)


def play(seed: int, *, meters: bool = False, conditions: bool = False, shares: bool = False) -> Schedule:
    """Plays one schedule from its seed. Raises Failed with the details."""
    schedule = Schedule(seed, meters=meters, conditions=conditions, shares=shares)
    try:
        schedule.play()
    except Exception as error:
        raise ScheduleFailed(schedule, error) from error
    return schedule


class ScheduleFailed(Exception):
    """A schedule broke a promise, or a part raised an exception that it must not raise."""

    def __init__(self, schedule: Schedule, error: Exception) -> None:
        what = str(error) if isinstance(error, Broken) else repr(error)
        super().__init__(f"seed {schedule.seed}: {what}")
        self.schedule = schedule
