"""The clients' surroundings: passes their events to the trace and to the judges."""

from collections.abc import Callable
from functools import partial
from random import Random
from typing import NamedTuple

from coldnotify._core.delivery.slot import CallbackJob
from coldnotify._core.document.document import Document
from coldnotify._core.driver import ChannelJob, MembersJob
from coldnotify._core.session.reconnect import Address
from coldnotify_schemas.topics import TopicNames

from coldnotify_simulation.client import SimulatedClient
from coldnotify_simulation.clock import Clock
from coldnotify_simulation.doubts import Doubts
from coldnotify_simulation.fresh_clients import FreshClients
from coldnotify_simulation.gateway import SimulatedGateway
from coldnotify_simulation.heard import Heard
from coldnotify_simulation.kafka import Kafka
from coldnotify_simulation.ledger_look import LedgerLook
from coldnotify_simulation.link import SimulatedLink
from coldnotify_simulation.memberships import SimulatedMemberships
from coldnotify_simulation.messages import SimulatedMessages
from coldnotify_simulation.promises import SimulatedPromises, group_partition
from coldnotify_simulation.sets import SimulatedSets
from coldnotify_simulation.trace import Trace

TOPICS = TopicNames()


class _Wake(NamedTuple):
    """The state when a client's connection was established."""

    since_s: float
    wanted: set[str]
    queries: set[str]
    epoch: int
    end: int
    """The end of the client's partition of the objects topic."""
    logs_lost: int
    """Logs of channels."""


class Witness:
    """client.Surroundings."""

    def __init__(
        self,
        clock: Clock,
        random: Random,
        trace: Trace,
        kafka: Kafka,
        gateways: list[SimulatedGateway],
        judges: tuple[SimulatedPromises, SimulatedMemberships, SimulatedMessages],
        groups: SimulatedSets,
        ledger: LedgerLook,
        late_s: float,
    ) -> None:
        """`late_s`: the longest time for a connection to be established, and for bytes to arrive."""
        self.clock = clock
        self.random = random
        self.trace = trace
        self.kafka = kafka
        self.gateways = gateways
        self.promises, self.memberships, self.messages = judges
        self._doubts = Doubts(clock)
        self.freshness = FreshClients(trace, self.messages)
        self.ledger = ledger
        self.late_s = late_s
        self._wanted_at: dict[str, _Wake] = {}
        self._beside: dict[str, _Wake] = {}
        """The same for connections beside sessions."""
        self.heard = Heard(self.promises, self.memberships, groups)
        self.received: Callable[[SimulatedClient, SimulatedLink, bytes], None] | None = None
        """For whoever looks at what clients receive."""

    def connect(self, client: SimulatedClient, address: Address, number: int) -> None:
        """The connection is established after a moment, or is refused, or nobody answers."""
        gateway = self.gateways[address.port]
        self.promises.on_online(client.key)
        attempt = client.attempts

        def arrive() -> None:
            if not client.is_pending(number, attempt) or gateway.stopped:
                return
            if not gateway.alive:
                client.not_made(number, "nobody is there")
                return
            link = SimulatedLink(self.clock, self.random, client, gateway, self.late_s)
            gateway.accept(link)
            end = self.kafka.log(TOPICS.objects, group_partition(client.identity.group)).end
            wake = _Wake(
                self.clock.now_s, client.wanted, client.queries, self.promises.epoch, end, self.messages.losses
            )
            if client.main_link == number:
                self._wanted_at[client.key] = wake
                self.heard.connects(client, link)
            else:
                self._beside[client.key] = wake
                self.heard.connects_beside(client)
            client.link_up(link, number)

        client.later(self.random.uniform(0.001, self.late_s), arrive)

    def on_moves(self, client: SimulatedClient, link: SimulatedLink) -> None:
        """This connection has its session from now on."""
        self._wanted_at[client.key] = self._beside.pop(client.key)
        self.heard.moves(client, link)

    def ask_directory(self, client: SimulatedClient) -> None:
        """Any gateway that runs is named after a moment."""
        serving = [number for number, gateway in enumerate(self.gateways) if gateway.alive and not gateway.stopped]
        found = Address("127.0.0.1", self.random.choice(serving)) if serving else None
        client.later(self.random.uniform(0.001, self.late_s), lambda: client.directory_says(found))

    def on_received(self, client: SimulatedClient, link: SimulatedLink, data: bytes) -> None:
        """It has taken in these bytes."""
        self.heard.on_received(client, link, data)
        if self.received is not None:
            self.received(client, link, data)

    def on_told(self, client: SimulatedClient, job: CallbackJob, *, failed: bool) -> None:
        """A callback is entered."""
        said, update = job.notification, job.update
        self.trace(
            client.name, "is told", said.object_id, (update.incarnation, said.version), "fails" if failed else ""
        )
        more: dict[str, object] = {"failed": True} if failed else {}
        if client.described:
            more["described"], more["description"] = True, said.description
            self.memberships.on_told_description(client, said, failed=failed)
        self.trace.event(
            "told", client=client.key, object=client.key_of(said.object_id), version=said.version,
            incarnation=update.incarnation, payload=said.payload, deleted=said.deleted, **more,
        )  # fmt: skip
        self.memberships.on_told_version(client, said.object_id)
        came_back = partial(self.memberships.came_back, client, said.object_id)
        self.promises.on_told(client, job, failed=failed, came_back=came_back)

    def on_returned(self, client: SimulatedClient, job: CallbackJob) -> None:
        """A callback has returned."""
        version = job.update.version
        if version is not None:
            key = f"{client.identity.domain}/{client.identity.group}/{client.name}"  # a twin has the same
            self.ledger.on_returned(key, job.notification.object_id, (job.update.incarnation, version))

    def on_told_members(self, client: SimulatedClient, job: MembersJob, *, failed: bool) -> None:
        """A members callback is entered."""
        added, removed = sorted(job.added), sorted(job.removed)
        text = job.query.text
        self.trace(client.name, "is told of", repr(text), "added", added, "removed", removed, "fails" if failed else "")
        more = {"failed": True} if failed else {}
        self.trace.event("members", client=client.key, query=text, added=added, removed=removed, **more)
        self.memberships.on_told(client, job, failed=failed)

    def on_told_message(self, client: SimulatedClient, job: ChannelJob, *, failed: bool) -> None:
        """A callback of a channel is entered."""
        self.trace(client.name, "is told", job.message, "fails" if failed else "")
        self.messages.on_told(client, job, failed=failed)

    def on_registers(self, client: SimulatedClient, name: str) -> None:
        """Its application asks for the object by its name."""
        self.heard.registers(client, name)

    def on_registers_query(self, client: SimulatedClient, text: str) -> None:
        """Its application asks for a query that it did not want."""
        self.heard.registers_query(client, text)

    def on_subscribes(self, client: SimulatedClient, name: str) -> None:
        """Its application subscribes to the channel."""
        attributes, since = client.wish_channels[name]
        self.messages.subscribes(client, name, frozenset(attributes), since)

    def on_starts(self, client: SimulatedClient, document: Document) -> None:
        """Its process begins with this document."""
        self.freshness.starts(client)
        self.messages.starts(client, document)
        self.memberships.starts(client, document)
        self.heard.starts(client, document)

    def on_saved(self, client: SimulatedClient, document: Document, written_s: float) -> None:
        """A document is durable."""
        self.promises.on_saved(client, document)
        self.memberships.on_saved(client, document, self.promises.epoch)
        self.messages.on_saved(client, document, written_s)

    def on_caught_up(self, client: SimulatedClient, since: int) -> None:
        """The library reports that it is complete."""
        self.trace(client.name, "is caught up")
        assert client.driver is not None
        parked = client.driver.status(self.clock.now_s).parked
        self.trace.event("caught_up", client=client.key, since=since, **({"parked": list(parked)} if parked else {}))
        wake = self._wanted_at[client.key]
        self.promises.on_caught_up(client, wake.since_s, wake.wanted)
        self.messages.on_caught_up(client, wake.since_s, wake.logs_lost)
        if wake.epoch == self.promises.epoch:
            self.memberships.on_caught_up(client, wake.since_s, wake.queries, wake.end)

    def on_wakes(self, client: SimulatedClient, slept_s: float) -> None:
        """Its machine was asleep for so long."""
        self.trace(client.name, "wakes")
        self._doubts.on_wakes(client, slept_s)

    def on_rest(self, client: SimulatedClient) -> None:
        """It has done what there was to do."""
        self._doubts.on_rest(client)
        self.freshness.on_rest(client)

    def on_stopped(self, client: SimulatedClient) -> None:
        """It disconnected in order."""
        self.promises.on_offline(client.key)
