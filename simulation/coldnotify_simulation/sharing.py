"""The shares of a random schedule: workers in groups of their own, their tasks, and what befalls both.

Each machine has a steady clock of its own. A separate random generator draws all of it, so that schedules without
shares stay unchanged.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from random import Random
from unittest.mock import patch

from coldnotify._core.interests.interests import ShareInterest, share_by
from coldnotify._core.interests.since import Since
from coldnotify._core.session.reconnect import Address
from coldnotify._core.shares.share_member import KeptShare
from coldnotify_matcher.engine.handing import share_steps
from coldnotify_matcher.engine.rules.channel_bounds import ChannelBounds
from coldnotify_matcher.engine.shares.share_rule import BOUNDS, ShareRule
from coldnotify_schemas.channels import MessageHeaders, message_headers
from coldnotify_schemas.topics import TopicNames

from coldnotify_simulation.drifting_clock import DriftingClock
from coldnotify_simulation.group import SESSION_TIMEOUT_S
from coldnotify_simulation.kafka import PARTITIONS
from coldnotify_simulation.matcher import Matcher
from coldnotify_simulation.promises import Broken, group_partition
from coldnotify_simulation.share_witness import DrawnShare, ShareWitness
from coldnotify_simulation.share_worker import SimulatedWorker, WorkersSurroundings
from coldnotify_simulation.world import SETTLED_WITHIN_S, World

TOPICS = TopicNames()

NOT_WITH_SHARES = ("log lost", "truncated", "topic lost", "state lost", "state of logs lost", "blackout")
"""Kinds by which a topic is lost, and with it who has what."""
_GROUPS = [next(f"work-{i}" for i in range(100) if group_partition(f"work-{i}") == p) for p in range(PARTITIONS)]
_CHANNEL = "jobs"
_KEYS = ("", "", "k0", "k1")
_LOOK_S = 5.0
_NEVER = float("inf")


class Sharing:
    """The shares of one schedule."""

    def __init__(self, seed: int, world: World, *, on: bool, clocks_are_right: bool) -> None:
        """`on`: there are any. `clocks_are_right`: else nothing expires, as nobody could know when."""
        self.random = Random(seed ^ 0x5A4E)
        self.on = on
        self._world = world
        self._expires = clocks_are_right
        self._sent = 0
        self._calm = False
        self.counts: Counter[str] = Counter()
        """Counters of workers, and of what they were handed."""
        self.workers: list[SimulatedWorker] = []
        if not on:
            return
        draw = self.random.choice
        self._bounds = BOUNDS._replace(
            attempts_max=draw([2, 3, BOUNDS.attempts_max]),
            looked_max=draw([6, BOUNDS.looked_max]),
            ahead_max=draw([1, 4, BOUNDS.ahead_max]),
        )
        if self.random.random() < 0.3:
            self._bounds = self._bounds._replace(table_bytes_max=400, reserve_bytes=140)
        self._at_once = draw([1, 3, share_steps.HANDED_A_STEP_MAX])
        self._step_bytes_max = draw([1, share_steps.STEP_BYTES_MAX])
        self._item_bytes_max = draw([1, share_steps.HANDED_BYTES_MAX])
        shares = [share for group in self._draw_groups() for share in self._draw_shares(group)]
        self.witness = ShareWitness(world, shares, self._bounds.attempts_max)
        self.counts = self.witness.counts
        world.look_at_records(self.witness.on_record)
        self._set_matchers()
        surroundings = WorkersSurroundings(world.clock, self.random, world.gateways, draw([0.005, 0.05, 0.5]))
        for group in dict.fromkeys(share.group for share in shares):
            of_group = [share for share in shares if share.group == group]
            for number in range(draw([2, 2, 3, 4])):
                self.workers.append(self._draw_worker(f"w{number}", of_group, surroundings))

    def _draw_groups(self) -> list[str]:
        return self.random.sample(_GROUPS, self.random.choice([1, 1, len(_GROUPS)]))

    def _draw_shares(self, group: str) -> Iterator[DrawnShare]:
        for name in ("a", "b")[: self.random.choice([1, 1, 2])]:
            attributes = ("camera",) if self.random.random() < 0.3 else ()
            interest = share_by(name, _CHANNEL, attributes)
            yield DrawnShare(group, interest, oldest=self.random.random() < 0.5)

    def _set_matchers(self) -> None:
        draw = self.random.choice
        for matcher in self._world.matchers:
            bounds = None
            if not matcher.channels:
                bounds = ChannelBounds(tail_messages_max=draw([1, 3, 100]), blocks_bytes_max=draw([1, 3_000, 1 << 24]))
            rate = self.random.uniform(0.995, 1.005)
            clock = DriftingClock(self._world.clock, rate, self.random.uniform(-1e6, 1e6))
            matcher.serve_shares(clock, bounds)

    def _draw_worker(self, name: str, shares: list[DrawnShare], surroundings: WorkersSurroundings) -> SimulatedWorker:
        clock = DriftingClock(self._world.clock, self.random.uniform(0.98, 1.02), self.random.uniform(-1e6, 1e6))
        worker = SimulatedWorker(
            name, shares[0].group, clock, self.random, self._world.trace, surroundings, self.witness
        )
        for share in shares:
            if name == "w0" or self.random.random() < 0.8:
                worker.wish_shares[share.interest] = self._draw_kept(share)
        if self.random.random() < 0.3:  # its machine knows one gateway alone
            worker.know([Address("127.0.0.1", self.random.randrange(len(self._world.gateways)))])
        self._set_callbacks(worker)
        return worker

    def _draw_kept(self, share: DrawnShare) -> KeptShare:
        return KeptShare(
            since=Since("oldest" if share.oldest else "now"),
            lease_s=self.random.choice([3, 4, 8, 20]),
            prefetch=self.random.choice([1, 1, 2, 5]),
        )

    def _set_callbacks(self, worker: SimulatedWorker) -> None:
        """Draws how long its callbacks work, and how they end."""
        callback_s = self.random.choice([0.01, 0.3, 2.0, 12.0])
        weights = [4.0, *(self.random.choice([0.0, 0.5, 4.0]) for _ in range(4))]
        weights[3] /= 4
        worker.works(callback_s, weights, self.random.choice([0.0, 1.0, 6.0]))

    @contextmanager
    def bounds(self) -> Iterator[None]:
        """While the schedule is played: little fits into a record, a step, or an item, and few attempts are many."""
        if not self.on:
            yield
            return
        with ExitStack() as stack:
            for function in (ShareRule.__init__, ShareRule.load.__func__):  # type: ignore[attr-defined]
                stack.enter_context(patch.object(function, "__defaults__", (self._bounds, 0)))
            stack.enter_context(patch.object(share_steps, "HANDED_A_STEP_MAX", self._at_once))
            stack.enter_context(patch.object(share_steps, "STEP_BYTES_MAX", self._step_bytes_max))
            stack.enter_context(patch.object(share_steps, "HANDED_BYTES_MAX", self._item_bytes_max))
            yield

    def start(self) -> None:
        """Workers get power, most of them."""
        if not self.on:
            return
        for worker in self.workers:
            if worker.name == "w0" or self.random.random() < 0.8:
                worker.start()
        self.witness.look_again()

    def kinds(self) -> dict[str, tuple[float, Callable[[], None]]]:
        """Returns the actions, each with its weight among all others."""
        if not self.on:
            return {}
        kinds: dict[str, tuple[float, Callable[[], None]]] = {
            "send task": (14, self._send),
            "send tasks": (4, self._send_many),
            "callbacks of a worker": (3, lambda: self._set_callbacks(self._worker())),
            "worker cut": (2, self._cut),
            "worker stalls": (1, self._stall),
            "worker killed": (2, self._kill),
            "worker dies for good": (0.5, self._bury),
            "worker shut down": (1.5, self._shut_down),
            "worker suspended": (1.5, self._suspend),
            "worker leaves": (0.7, self._leave),
            "worker without net": (2, self._lose_net),
            "owner ends, worker away": (3, self._end_both),
            "owner ends behind a hand-out": (4, self._end_behind_hand_out),
            "inboxes late": (1.5, self._delay_inboxes),
            "tasks removed": (0.5, self._trim),
            "unreadable task": (0.3, self._write_unreadable),
        }
        return {name: one for name, one in kinds.items() if name.startswith("send") or self.random.random() < 0.7}

    def end(self) -> None:
        """Faults stop: callbacks return soon, and who is not dead for good works."""
        if not self.on:
            return
        self._calm = True
        for gateway in self._world.gateways:
            gateway.hold_inbox(on=False)
        for worker in self.workers:
            worker.mend()
            if worker.link is not None:
                worker.link.read_on()
            if not worker.gone_for_good:
                self._power_on(worker)

    def settle(self) -> None:
        """Waits until everything is settled, dead or missing. Raises Broken."""
        if not self.on:
            return
        end_s = self._world.clock.now_s + SETTLED_WITHIN_S
        while (wrong := self.witness.at_rest()) and self._world.clock.now_s < end_s:
            self._world.run(_LOOK_S)
            for worker in self.workers:
                if not worker.gone_for_good:
                    self._power_on(worker)  # it was about to disconnect
        if wrong:
            raise Broken("; ".join(wrong))

    # ---- senders

    def _send(self) -> None:
        share = self.random.choice(list(self.witness.shares.values()))
        self._sent += 1
        expires_at = None
        if self._expires and self.random.random() < 0.1:
            expires_at = self._world.clock.now_ms + self.random.choice([500, 5_000])
        headers = MessageHeaders(
            id=f"t{self._sent}" if self.random.random() < 0.3 else "",
            expires_at=expires_at,
            to=(self.random.choice(["camera", "solar"]),) if self.random.random() < 0.2 else (),
            key=self.random.choice(_KEYS),
        )
        partition = self.random.randrange(PARTITIONS) if self.random.random() < 0.05 else None
        payload = b'"task %d"' % self._sent
        self._world.send(share.key, payload, message_headers(headers), partition=partition)

    def _send_many(self) -> None:
        for _ in range(self.random.randint(2, 8)):
            self._send()

    # ---- workers

    def _worker(self) -> SimulatedWorker:
        return self.random.choice(self.workers)

    def _power_on(self, worker: SimulatedWorker) -> None:
        if not worker.alive and not worker.gone_for_good:
            worker.start()

    def _back(self, worker: SimulatedWorker) -> None:
        after_s = self.random.choice([0.0, 1.0, 10.0])
        self._world.clock.later(after_s, lambda: self._power_on(worker))

    def _cut(self) -> None:
        link = self._worker().link
        if link is not None:
            link.cut(
                "cut",
                client_notices_s=self.random.choice([0.0, 0.5, _NEVER]),
                gateway_notices_s=self.random.choice([0.0, 0.5, 5.0, _NEVER]),
            )

    def _stall(self) -> None:
        link = self._worker().link
        if link is not None:
            link.stall(self.random.choice([0.5, 3.0, 12.0]))

    def _kill(self, worker: SimulatedWorker | None = None) -> None:
        worker = worker or self._worker()
        worker.power_loss()
        self._back(worker)

    def _bury(self) -> None:
        """A worker dies, and does not come again. One of each group stays, which is a member of all shares."""
        worker = self._worker()
        if worker.name != "w0":
            worker.bury()

    def _shut_down(self) -> None:
        worker = self._worker()
        worker.shut_down()
        self._back(worker)

    def _lose_net(self) -> None:
        """A worker loses its connection, which was slow at the end, and gets no other one for a while."""
        holders = self.witness.holders()
        if not holders:
            return
        worker = self.random.choice(holders)
        link = worker.link
        if link is None:
            return
        slow_s = self.random.choice([0.0, 2.0, 3.0])
        link.stall(slow_s)

        def cut() -> None:
            if not self._calm:
                worker.has_a_net(on=False)
            link.cut("no net")

        self._world.clock.later(slow_s + self.random.choice([0.1, 0.6]), cut)
        self._world.clock.later(slow_s + self.random.choice([2.0, 8.0, 25.0]), lambda: worker.has_a_net(on=True))

    def _suspend(self, worker: SimulatedWorker | None = None) -> None:
        worker = worker or self._worker()
        if worker.alive and not worker.stopped:
            worker.stop()
            self._world.trace(worker.name, "is suspended")
            self._world.clock.later(self.random.choice([1.0, 5.0, 25.0]), worker.go_on)

    def _leave(self) -> None:
        worker = self._worker()
        if not worker.wish_shares:
            return
        interest: ShareInterest = self.random.choice(list(worker.wish_shares))
        kept = worker.wish_shares[interest]
        worker.leave(interest)
        self._world.clock.later(self.random.choice([0.0, 1.0, 8.0]), lambda: self._join(worker, interest, kept))

    def _join(self, worker: SimulatedWorker, interest: ShareInterest, kept: KeptShare) -> None:
        worker.join(interest, kept)

    # ---- the service

    def _owner_of(self, group: str) -> Matcher | None:
        owner = self._world.group.owners[group_partition(group)]
        return next((one for one in self._world.matchers if one.run is owner), None)

    def _end_behind_hand_out(self) -> None:
        """An owner stops or dies between two writes of a step that hands out. One that was stopped goes on when another
        one may have claimed."""
        matcher = self._owner_of(self.random.choice(list(self.witness.shares.values())).group)
        if matcher is None:
            return
        matcher.is_doomed((self.random.randint(0, 4), self.random.choice(["stop", "kill"])))
        self._send_many()
        self._world.clock.later(SESSION_TIMEOUT_S + self.random.uniform(0.0, 2.5), lambda: self._go_on(matcher))

    def _go_on(self, matcher: Matcher) -> None:
        if not self._calm:
            matcher.is_doomed(None)
        matcher.go_on()
        if not matcher.alive:
            matcher.start()

    def _end_both(self) -> None:
        """An owner ends, mostly in order, while a worker that holds something is suspended or dead: the next owner must
        wait for its lease."""
        holders = self.witness.holders()
        if not holders:
            return
        worker = self.random.choice(holders)
        matcher = self._owner_of(worker.identity.group)
        if matcher is None:
            return
        self._suspend(worker) if self.random.random() < 0.5 else self._kill(worker)
        self._send_many()
        self.random.choice([matcher.kill, matcher.shut_down, matcher.shut_down])()
        self._world.clock.later(self.random.choice([0.5, 5.0]), lambda: self._go_on(matcher))

    def _delay_inboxes(self) -> None:
        """A gateway is behind with its inbox: it does not know yet who has taken over."""
        gateway = self.random.choice(self._world.gateways)
        gateway.hold_inbox(on=True)
        self._world.trace(gateway.name, "reads nothing of its inbox")
        self._world.clock.later(self.random.choice([0.5, 2.0, 6.0]), lambda: gateway.hold_inbox(on=False))

    def _trim(self) -> None:
        """Retention removes some of what is there, settled or not."""
        partition = group_partition(self.random.choice(list(self.witness.shares.values())).group)
        log = self._world.kafka.log(TOPICS.channels_1d, partition)
        self._world.trim(partition, self.random.randint(log.start, log.end))

    def _write_unreadable(self) -> None:
        partition = group_partition(self.random.choice(list(self.witness.shares.values())).group)
        offset = self._world.kafka.log(TOPICS.channels_1d, partition).append_unreadable()
        self._world.trace("stranger", "unreadable", TOPICS.channels_1d, partition, offset)
