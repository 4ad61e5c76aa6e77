"""What one partition's engine knows, and the few changes of it that several of its parts make."""

from functools import partial

from coldnotify_schemas import internal_pb2
from coldnotify_schemas.channels import Retention
from coldnotify_schemas.close_codes import CloseCode
from coldnotify_streams.core.partition_turns import Spent, never

from coldnotify_matcher.engine.brief_sessions import BriefSessions
from coldnotify_matcher.engine.ceilings import REGISTRATIONS, Ceiling, DomainTally, RefusedClients
from coldnotify_matcher.engine.channel_logs.channel_log import ChannelLog
from coldnotify_matcher.engine.clients import RegisteredClient
from coldnotify_matcher.engine.description_store import DescriptionStore
from coldnotify_matcher.engine.gateways import GatewayView
from coldnotify_matcher.engine.half_sets import HalfSets
from coldnotify_matcher.engine.interests.by_query.query_places import QueryPlaces
from coldnotify_matcher.engine.memberships import Memberships
from coldnotify_matcher.engine.object_map import ObjectMap
from coldnotify_matcher.engine.objects import Obj
from coldnotify_matcher.engine.rules import Rules
from coldnotify_matcher.engine.sessions import NO_ASK, EngineSession
from coldnotify_matcher.engine.streams.message_stream import MessageStream
from coldnotify_matcher.engine.use import Use

_PAGINGS_BITS = 32
"""Of the number of a row of pages; in front of them stands the generation, so no two matchers use the same."""
At = tuple[str, int] | str | None
"""A record, as (topic, offset); a client, by its key, with all that is stored of it; None: no single one of them."""


class PartitionState:
    """Objects, clients and gateways of one partition."""

    def __init__(self, partition: int, partitions: int, epoch: int, *, registrations_max: int) -> None:
        self.partition = partition
        self.partitions = partitions
        self.epoch = epoch
        self.registrations_max = registrations_max
        self.rules = Rules()
        """The shell sets them before the partition is taken over."""
        self.generation = 0
        self.generation_heard = 0
        """The highest that a gateway has seen."""
        self.outdone = False
        """That has been higher than ours for some time: gateways drop all that we say."""
        self.live = False
        """The partition is owned: what comes in is fanned out, and repaired."""
        self.replay_from = 0
        """The offset from which on the objects topic was not handled by a predecessor."""
        self.position = 0
        """The next offset of the objects topic."""
        self.objects = ObjectMap()
        self.descriptions = DescriptionStore()
        self.query_places = QueryPlaces()
        """Of the clients' registrations."""
        self.members = Memberships(self.objects, self.descriptions, self.query_places, self.count)
        self.clients: dict[str, RegisteredClient] = {}
        self.tallies: dict[str, DomainTally] = {}
        """By domain."""
        self.refused_clients = RefusedClients()
        self.refusals: dict[tuple[str, str], int] = {}
        """By domain and limit of its tenant's agreement, sessions and registrations that were refused since the last
        step; the shell takes it."""
        self.gateways: dict[int, GatewayView] = {}
        self._pagings = 0
        """Rows of pages that were begun."""
        self.half_sets = HalfSets()
        self.brief = BriefSessions()
        self.channel_logs: dict[Retention, ChannelLog] = {}
        """Those that are followed."""
        self.counts: dict[str, int] = {}
        """Events since the last step, by name; the shell turns them into metrics."""
        self.use: dict[str, Use] = {}
        """By domain, what it used since the last step; the shell takes it, and counts it for tenants."""
        self.changed: dict[RegisteredClient, None] = {}
        """Clients whose records are to be written in this step."""
        self.spent: Spent = never
        """Whether the present turn of this partition is over: what can wait for the next one does then."""
        self.at: At = None
        """What is being handled. Should that raise, this is what to set aside."""
        self.dirty_cursors: dict[RegisteredClient, None] = {}
        """Clients whose stored cursor, or time when they were seen last, is old; it may wait."""

    def end_session(self, client: RegisteredClient) -> None:
        """The client is offline from here on."""
        session = client.session
        if session is None:
            return
        stored = client.stored_offline_at
        missed = bool(client.queries) and (stored is None or self.members.missed(client, stored))
        self.members.end_session(client)
        if session.channels is not None:
            missed |= self._end_channels(client, session.channels)
        client.disconnect()
        self.half_sets.forget(session)
        # It may have been silent for long: then it is its gateway that has said that it is there.
        self.see(client, session.gateway.heard_ms)
        session.gateway.remove(session.number, indexed=session.in_an_index)
        if self.brief.end(client) and not missed:
            self.dirty_cursors[client] = None
        elif client.worth_keeping:
            self.changed[client] = None
        self.forget_if_nobody(client)

    def see(self, client: RegisteredClient, now_ms: int) -> None:
        """The client was seen now. Where clocks are apart the latest counts: nobody is forgotten too early."""
        client.last_seen_ms = max(client.last_seen_ms, now_ms + self.rules.clocks.latest_ahead_ms)

    def expires_ms(self, now_ms: int) -> int:
        """What expires before that has expired. Where clocks are apart the earliest counts: nothing does too early."""
        return now_ms + self.rules.clocks.earliest_ahead_ms

    def _end_channels(self, client: RegisteredClient, channels: MessageStream) -> bool:
        """Whether the client was told messages that lie above the stored cursor."""
        log = self.log_of(client)
        if log is None:
            return False
        log.stop(client, channels)
        interests = client.channels
        if interests.cursor == interests.stored_cursor:
            return False
        return any(log.last.of(channel.key) > interests.stored_cursor for channel in interests.values())

    def log_of(self, client: RegisteredClient) -> ChannelLog | None:
        """The log that the client's channels are in; None: it is not followed."""
        if not self.channel_logs:
            return None
        return self.channel_logs.get(self.rules.retentions.of(client.key.partition("/")[0]))

    def acknowledge_channels(self, client: RegisteredClient, complete: int) -> None:
        """The client has applied all messages up to `complete`, at most those that there are."""
        log = self.log_of(client)
        if log is None or not client.channels:
            return
        complete = min(complete, log.position - 1)
        interests = client.channels
        if interests.epoch != log.epoch or complete > interests.cursor:
            interests.epoch, interests.cursor = log.epoch, complete
            self.dirty_cursors[client] = None

    def acknowledge(self, client: RegisteredClient, complete: int) -> None:
        """The client has applied all up to `complete`, at most what there is."""
        complete = min(complete, self.position - 1)
        if complete > client.cursor:
            client.cursor = complete
            self.dirty_cursors[client] = None

    def announce_anew(self, client: RegisteredClient, session: EngineSession) -> None:
        """Its gateway is to open the session once more; until then it is told nothing."""
        session.disagree()
        opened = internal_pb2.Opened(session=session.number, ask=NO_ASK, in_sync=False, digest=client.digest)
        session.gateway.tell(internal_pb2.Item(opened=opened))

    def tell_closed(self, gateway: GatewayView, number: int, code: CloseCode, reason: str) -> None:
        """This session is over, or never was."""
        gateway.tell(internal_pb2.Item(closed=internal_pb2.Closed(session=number, code=code, reason=reason)))
        self.count("closed")

    def next_paging(self) -> int:
        """The number of a row of pages that begins."""
        self._pagings += 1
        return (self.generation << _PAGINGS_BITS) + self._pagings

    def clients_of(self, gateway: GatewayView) -> list[RegisteredClient]:
        """The clients whose current session is one of this gateway's."""
        return [self.clients[key] for key in gateway.sessions.values()]

    def client_of(self, key: str) -> RegisteredClient:
        """The client of this key, made where it is not known."""
        client = self.clients.get(key)
        if client is None:
            domain = key.partition("/")[0]
            tally = self.tallies.get(domain)
            if tally is None:
                tally = self.tallies[domain] = DomainTally(partial(self.ceiling_of, domain), self.query_places)
            client = self.clients[key] = RegisteredClient(key, tally)
            tally.known += 1
        return client

    def drop_client(self, client: RegisteredClient) -> None:
        """It is not known any more; it has no session and no registrations."""
        if self.clients.pop(client.key, None) is None:
            return
        client.tally.known -= 1
        if not client.tally.known:
            del self.tallies[client.key.partition("/")[0]]

    def ceiling_of(self, domain: str) -> Ceiling | None:
        """How many sessions and registrations the domain's tenant may have; None: as many as it likes, or the partition
        is not served here."""
        return self.rules.ceilings.of(domain) if self.live else None

    def object_of(self, key: str) -> Obj:
        """The object of this key, made where it is not known."""
        obj = self.objects.get(key)
        if obj is None:
            obj = self.objects[key] = Obj(key)
        return obj

    def gateway_of(self, id_: int, inbox: int, now_ms: int) -> GatewayView:
        """The gateway with this id, made where it is not known. What is for it goes to the inbox that was said last."""
        gateway = self.gateways.get(id_)
        if gateway is None:
            gateway = self.gateways[id_] = GatewayView(id_, inbox, now_ms)
        # A gateway never changes its inbox. But a stranger may say another one, and would be believed for ever.
        gateway.inbox = inbox
        return gateway

    def forget_if_nobody(self, client: RegisteredClient) -> None:
        """Nothing is kept of a client that is gone and never registered for anything."""
        if client.session is None and not client.worth_keeping:
            self.drop_client(client)

    def forget_if_idle(self, obj: Obj) -> None:
        """Nothing is kept of an object that was never published and that nobody wants."""
        if obj.version < 0 and not obj.registered:
            self.objects.pop(obj.key, None)

    def count(self, name: str, by: int = 1) -> None:
        """Something happened that has a metric."""
        self.counts[name] = self.counts.get(name, 0) + by

    def why_full(self, client: RegisteredClient, what: str) -> str:
        """Why the client may have no registration more, which is counted then; "": it may. `what`: is registered."""
        if client.registered >= self.registrations_max:
            return f"at most {self.registrations_max} {what} a client"
        domain = client.key.partition("/")[0]
        ceiling = self.ceiling_of(domain)
        reason = "" if ceiling is None else ceiling.why_no_registration()
        if reason:
            self.refuse(domain, REGISTRATIONS)
        return reason

    def refuse(self, domain: str, limit: str) -> None:
        """One more session or registration would have been above this limit of the agreement."""
        self.refusals[domain, limit] = self.refusals.get((domain, limit), 0) + 1

    def note_registrations(self, offset: int, client: RegisteredClient) -> None:
        """A request at this offset may have changed what the client is registered for."""
        if client.changed:
            client.registrations_applied = max(client.registrations_applied, offset)
            self.changed[client] = None

    def use_of(self, domain: str) -> Use:
        """What this domain used since the last step, to be added to."""
        use = self.use.get(domain)
        if use is None:
            use = self.use[domain] = Use()
        return use

    def deliver(self, domain: str, deliveries: int, out_bytes: int) -> None:
        """So many sessions are told something of this domain, of so many bytes together."""
        self.use_of(domain).deliver(deliveries, out_bytes)
        allowance = self.rules.allowances.of(domain)
        if allowance is not None:
            allowance.take(deliveries, out_bytes)
