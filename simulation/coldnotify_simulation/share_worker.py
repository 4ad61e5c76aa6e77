"""A worker: a client that is a member of shares, whose callbacks work for a while, and then return or fail."""

from random import Random
from typing import Any, Protocol

from coldnotify._core.delivery.slot import CallbackJob
from coldnotify._core.document.document import Document
from coldnotify._core.driver import AnyJob, ChannelJob, Driver, MembersJob, ShareJob
from coldnotify._core.interests.interests import ShareInterest
from coldnotify._core.session.reconnect import Address
from coldnotify._core.shares.share_member import KeptShare
from coldnotify.message import Missed

from coldnotify_simulation.client import SimulatedClient
from coldnotify_simulation.clock import Clock
from coldnotify_simulation.gateway import SimulatedGateway
from coldnotify_simulation.link import SimulatedLink
from coldnotify_simulation.trace import Trace

_SUBSCRIBER, _MISSED_SUBSCRIBER, _LOST_SUBSCRIBER = 1, 2, 3
OUTCOMES = ("return", "raise", "retry", "reject", "done")


class WorkersJudge(Protocol):
    """The interface of whoever judges what workers are handed."""

    def on_sent(self, worker: "SimulatedWorker", link: SimulatedLink, data: bytes) -> None:
        """It sends these bytes."""

    def on_received(self, worker: "SimulatedWorker", link: SimulatedLink, data: bytes) -> None:
        """These bytes have come, and it takes them in next."""

    def on_begins(self, worker: "SimulatedWorker", job: ShareJob) -> None:
        """A callback is entered."""

    def on_returns(self, worker: "SimulatedWorker", job: ShareJob) -> None:
        """A callback has returned, or raised."""

    def on_settled(self, worker: "SimulatedWorker", job: ShareJob) -> None:
        """The application, whose callback still runs, is told that its message is settled for certain."""

    def on_lost(self, worker: "SimulatedWorker", job: ShareJob) -> None:
        """The application is told that a lease is lost."""

    def on_leaves(self, worker: "SimulatedWorker", interest: ShareInterest) -> None:
        """It is a member no more."""


class QuietTrace(Trace):
    """A trace whose events are none of the history: the checker knows nothing of workers."""

    def __init__(self, plain: Trace) -> None:
        self._plain = plain

    def __call__(self, who: str, *what: object) -> None:
        """Note something."""
        self._plain(who, *what)

    def event(self, event: str, **fields: object) -> int:
        """None of the history."""
        return self._plain.now_us

    def retract(self, event: str, *unless: str, **fields: object) -> None:
        """None of the history."""


class WorkerLink(SimulatedLink):
    """A worker's connection: its judge sees what the worker sends."""

    def __init__(
        self,
        clock: Clock,
        random: Random,
        worker: "SimulatedWorker",
        gateway: SimulatedGateway,
        late_s: float,
    ) -> None:
        super().__init__(clock, random, worker, gateway, late_s)
        self._worker = worker

    def up(self, data: bytes) -> None:
        """The worker sends."""
        self._worker.judge.on_sent(self._worker, self, data)
        super().up(data)


class WorkersSurroundings:
    """client.Surroundings: no other promise than that of shares is judged of workers."""

    def __init__(self, clock: Clock, random: Random, gateways: list[SimulatedGateway], late_s: float) -> None:
        self.clock = clock
        self.random = random
        self.gateways = gateways
        self.late_s = late_s

    def connect(self, client: SimulatedClient, address: Address, number: int) -> None:
        """The connection is established after a moment, or is refused, or nobody answers."""
        gateway, attempt = self.gateways[address.port], client.attempts
        assert isinstance(client, SimulatedWorker)

        def arrive() -> None:
            if not client.is_pending(number, attempt) or gateway.stopped:
                return
            if not gateway.alive or not client.has_net:
                client.not_made(number, "nobody is there")
                return
            link = WorkerLink(self.clock, self.random, client, gateway, self.late_s)
            gateway.accept(link)
            client.link_up(link, number)

        client.later(self.random.uniform(0.001, self.late_s), arrive)

    def ask_directory(self, client: SimulatedClient) -> None:
        """Workers have addresses."""

    def on_moves(self, client: SimulatedClient, link: SimulatedLink) -> None:
        """Nothing to judge."""

    def on_received(self, client: SimulatedClient, link: SimulatedLink, data: bytes) -> None:
        """Nothing to judge: the worker's judge has seen it."""

    def on_told(self, client: SimulatedClient, job: CallbackJob, *, failed: bool) -> None:
        """Workers want no objects."""

    def on_returned(self, client: SimulatedClient, job: CallbackJob) -> None:
        """Workers want no objects."""

    def on_told_members(self, client: SimulatedClient, job: MembersJob, *, failed: bool) -> None:
        """Workers want no queries."""

    def on_told_message(self, client: SimulatedClient, job: ChannelJob, *, failed: bool) -> None:
        """Workers want no channels."""

    def on_starts(self, client: SimulatedClient, document: Document) -> None:
        """Nothing to judge."""

    def on_registers(self, client: SimulatedClient, name: str) -> None:
        """Workers want no objects."""

    def on_registers_query(self, client: SimulatedClient, text: str) -> None:
        """Workers want no queries."""

    def on_subscribes(self, client: SimulatedClient, name: str) -> None:
        """Workers want no channels."""

    def on_saved(self, client: SimulatedClient, document: Document, written_s: float) -> None:
        """Nothing to judge."""

    def on_stopped(self, client: SimulatedClient) -> None:
        """Nothing to judge."""

    def on_caught_up(self, client: SimulatedClient, since: int) -> None:
        """Nothing to judge."""

    def on_wakes(self, client: SimulatedClient, slept_s: float) -> None:
        """Nothing to judge."""

    def on_rest(self, client: SimulatedClient) -> None:
        """Nothing to judge."""


class SimulatedWorker(SimulatedClient):
    """One of them. Whenever it starts, it becomes a member of `wish_shares`."""

    def __init__(
        self, name: str, group: str, clock: Clock, random: Random, trace: Trace, world: WorkersSurroundings,
        judge: WorkersJudge,
    ) -> None:  # fmt: skip
        super().__init__(name, group, clock, random, QuietTrace(trace), world, len(world.gateways))
        self.judge = judge
        self.wish_shares: dict[ShareInterest, KeptShare] = {}
        self.weights = [1.0, 0.0, 0.0, 0.0, 0.0]
        """The weight of each of OUTCOMES."""
        self.retry_s_max = 0.0
        self.gone_for_good = False
        self.has_net = True
        """False: it gets no connection."""
        self.driver_type = self._drive_shares

    def _drive_shares(self, *args: Any, **more: Any) -> Driver:
        driver = Driver(*args, **more)
        for interest, kept in self.wish_shares.items():
            self._join(driver, interest, kept)
        return driver

    def _join(self, driver: Driver, interest: ShareInterest, kept: KeptShare) -> None:
        application = driver.application
        application.register_share(interest, kept)
        application.subscribe(interest, _SUBSCRIBER)
        application.subscribe_missed(interest, _MISSED_SUBSCRIBER)
        application.subscribe_lost(interest, _LOST_SUBSCRIBER)

    def join(self, interest: ShareInterest, kept: KeptShare) -> None:
        """It becomes a member of a share."""
        self.wish_shares[interest] = kept
        if self.driver is not None:
            self.trace(self.name, "becomes a member of", interest.title)
            self._join(self.driver, interest, kept)
            self.drive()

    def leave(self, interest: ShareInterest) -> None:
        """It is a member no more, also if a callback runs."""
        if self.driver is not None and self.wish_shares.pop(interest, None) is not None:
            self.trace(self.name, "leaves", interest.title)
            self.judge.on_leaves(self, interest)
            self.driver.application.unregister_share(interest.channel, interest.share)
            self.drive()

    def works(self, callback_s: float, weights: list[float], retry_s_max: float) -> None:
        """Sets for how long its callbacks work, and how they end."""
        self.callback_s, self.weights, self.retry_s_max = callback_s, weights, retry_s_max

    def has_a_net(self, *, on: bool) -> None:
        """It gets connections from here on, or none."""
        self.has_net = on

    def bury(self) -> None:
        """It dies, and does not come again."""
        self.gone_for_good = True
        self.power_loss()

    def mend(self) -> None:
        """Makes its callbacks quick and successful from now on."""
        self.weights = [1.0, 0.0, 0.0, 0.0, 0.0]
        self.has_net = True
        super().mend()

    def on_bytes(self, link: SimulatedLink, data: bytes) -> None:
        """Bytes came."""
        if self.driver is not None and link in self.links.values():
            self.judge.on_received(self, link, data)
        super().on_bytes(link, data)

    def _call_lost(self, job: ShareJob) -> None:
        self.judge.on_lost(self, job)

    def _call(self, driver: Driver, job: AnyJob) -> None:
        if not isinstance(job, ShareJob):
            super()._call(driver, job)
            return
        (outcome,) = self.random.choices(OUTCOMES, self.weights)
        if isinstance(job.message, Missed) and outcome != "raise":
            outcome = "return"
        took_s = self.random.uniform(0.0, self.callback_s)
        self.judge.on_begins(self, job)
        if outcome == "done":
            self.later(took_s * 0.5, lambda: self._settle(driver, job))
        self.later(took_s, lambda: self._end(driver, job, outcome))

    def _settle(self, driver: Driver, job: ShareJob) -> None:
        def told() -> None:
            if not job.lease.is_lost:
                self.judge.on_settled(self, job)

        self.judge.on_returns(self, job)  # its callback waits for the answer
        driver.application.settle(job.lease, told)
        self.drive()

    def _end(self, driver: Driver, job: ShareJob, outcome: str) -> None:
        self.trace(self.name, "has worked at", job.lease.key.offset, outcome)
        self.judge.on_returns(self, job)
        message = job.message
        failed: dict[int, BaseException] = {}
        if outcome == "raise":
            failed = {number: RuntimeError("the callback raised") for number in job.subscribers}
        elif not isinstance(message, Missed) and outcome == "retry":
            message.retry(self.random.uniform(0.0, self.retry_s_max))
        elif not isinstance(message, Missed) and outcome == "reject":
            message.reject()
        driver.called(job, failed, self.clock.now_s)
        self.drive()
