"""The state of one partition's engine, and the few changes of it that several of its parts make."""

from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

from coldnotify_schemas import internal_pb2
from coldnotify_schemas.channels import Retention
from coldnotify_schemas.close_codes import CloseCode
from coldnotify_streams.core.partition_turns import Spent, never

from coldnotify_matcher.engine.channel_logs.channel_log import ChannelLog
from coldnotify_matcher.engine.clients.brief_sessions import BriefSessions
from coldnotify_matcher.engine.clients.clients import RegisteredClient
from coldnotify_matcher.engine.clients.half_sets import HalfSets
from coldnotify_matcher.engine.clients.kept_cursors import KeptCursors
from coldnotify_matcher.engine.clients.memberships import Memberships
from coldnotify_matcher.engine.clients.sessions import NO_ASK, EngineSession
from coldnotify_matcher.engine.clients.unreleased import UnreleasedPublishes
from coldnotify_matcher.engine.clients.wills import Wills
from coldnotify_matcher.engine.filtered_groups import FilteredGroups
from coldnotify_matcher.engine.gateways.gateways import GatewayView
from coldnotify_matcher.engine.interests.by_query.query_places import QueryPlaces
from coldnotify_matcher.engine.objects.description_store import DescriptionStore
from coldnotify_matcher.engine.objects.merged_patches import MergedPatches
from coldnotify_matcher.engine.objects.object_map import ObjectMap
from coldnotify_matcher.engine.objects.objects import Obj
from coldnotify_matcher.engine.rules.rules import Rules
from coldnotify_matcher.engine.shares.known_shares import KnownShares
from coldnotify_matcher.engine.streams.end_history import EndHistory
from coldnotify_matcher.engine.streams.message_stream import MessageStream
from coldnotify_matcher.engine.tenants.ceilings import REGISTRATIONS, Ceiling, DomainTally, RefusedClients
from coldnotify_matcher.engine.tenants.use import Use

_PAGINGS_BITS = 32
"""Bits of the number of a row of pages; the generation is above them, so no two matchers use the same."""
At = tuple[str, int] | str | None
"""A record, as (topic, offset); a client, by its key, with all its records; None: no single one of them."""


class MessageWait(NamedTuple):
    """The wait of a version for its message."""

    since_ms: int
    looks: int
    """Ends of the log that had been noted when it began."""


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
        """The highest generation that a gateway has seen."""
        self.outdone = False
        """True if that has been higher than ours for some time: gateways drop all our records."""
        self.live = False
        """True if the partition is owned: publishes are fanned out, and records repaired."""
        self.replay_from = 0
        """The first offset of the objects topic that no predecessor has handled."""
        self.position = 0
        """The next offset of the objects topic."""
        self.ends = EndHistory()
        """The ends of the objects topic at times of the last minutes."""
        self.now_s = 0.0
        """The time of the step, on the clock of these (monotonic)."""
        self.objects = ObjectMap()
        self.descriptions = DescriptionStore()
        self.patches = MergedPatches(self.descriptions)
        self.query_places = QueryPlaces()
        """Places of the queries that clients registered."""
        self.members = Memberships(self.objects, self.descriptions, self.query_places, self.count)
        self.filtered = FilteredGroups(self.objects)
        self.clients: dict[str, RegisteredClient] = {}
        self.tallies: dict[str, DomainTally] = {}
        """By domain."""
        self.refused_clients = RefusedClients()
        self.refusals: dict[tuple[str, str], int] = {}
        """By domain and limit of its tenant's agreement: sessions and registrations refused since the last step; the
        shell takes it."""
        self.gateways: dict[int, GatewayView] = {}
        self._pagings = 0
        """Number of rows of pages that were begun."""
        self.half_sets = HalfSets()
        self.brief = BriefSessions()
        self.kept_cursors = KeptCursors()
        self.wills = Wills()
        self.shares = KnownShares()
        self.unreleased = UnreleasedPublishes(self.objects)
        self.expired: dict[RegisteredClient, None] = {}
        """Clients whose kept sets have ended with their sessions: they are to be forgotten."""
        self.channel_logs: dict[Retention, ChannelLog] = {}
        """The followed logs."""
        self.awaited_messages: dict[Obj, MessageWait] = {}
        """Objects whose newest version names a message that is not read yet (`awaited_messages`)."""
        self.counts: dict[str, int] = {}
        """Events since the last step, by name; the shell turns them into metrics."""
        self.use: dict[str, Use] = {}
        """By domain, its use since the last step; the shell takes it, and counts it for tenants."""
        self.changed: dict[RegisteredClient, None] = {}
        """Clients whose records are to be written in this step."""
        self.spent: Spent = never
        """Returns true if the present turn of this partition is over: then work that can wait is left for the next
        one."""
        self.at: At = None
        """The record or client that is being handled. If that raises, this is to be set aside."""
        self.dirty_cursors: dict[RegisteredClient, None] = {}
        """Clients whose stored cursor, or stored time of being seen, is old; it may wait."""

    @property
    def parked(self) -> int:
        """Number of registrations that clients report as parked because their callbacks raised too often."""
        return sum(tally.parked for tally in self.tallies.values())

    def take_refusals(self) -> dict[tuple[str, str], int]:
        """Returns sessions and registrations refused since the last step, by domain and limit of its tenant's
        agreement."""
        taken, self.refusals = self.refusals, {}
        return taken

    @property
    def steady_ms(self) -> int:
        """The time of the step (ms) on a clock that is never corrected, and counts sleep: it measures leases."""
        return int(self.now_s * 1000)

    def end_session(self, client: RegisteredClient, will: int = internal_pb2.WILL_UNSAID) -> None:
        """End the client's session: it is offline from here on. `will`: a WillEnd."""
        session = client.session
        if session is None:
            return
        self.wills.end(client.key, session.gateway.id, session.number, will, client.filters.expiry_s)
        self.shares.pause(client)
        if client.kept and client.shares:
            self.shares.outlive(client, client.filters.expiry_s, self.steady_ms)
        stored = client.stored_offline_at
        missed = bool(client.queries) and (stored is None or self.members.missed(client, stored))
        missed |= client.kept and (client.cursor != stored or client in self.dirty_cursors)
        self.members.end_session(client)
        self.filtered.end_session(client)
        client.filters.rest()
        if session.channels is not None:
            missed |= self._end_channels(client, session.channels)
        client.disconnect()
        self.half_sets.forget(session)
        # It may have been silent for long: then its gateway has reported its presence.
        self.see(client, session.gateway.heard_ms)
        session.gateway.remove(session.number, indexed=session.in_an_index)
        if self.brief.end(client) and not missed:
            self.dirty_cursors[client] = None
        elif self.is_worth_keeping(client):
            self.changed[client] = None
        if client.kept and not client.filters.expiry_s:
            self.expired[client] = None
        self.forget_if_nobody(client)

    def see(self, client: RegisteredClient, now_ms: int) -> None:
        """Note that the client was seen now. If clocks are apart the latest counts: no client is forgotten too
        early."""
        client.last_seen_ms = max(client.last_seen_ms, now_ms + self.rules.clocks.latest_ahead_ms)

    def expires_ms(self, now_ms: int) -> int:
        """Returns the time for expiry. If clocks are apart the earliest counts: nothing expires too early."""
        return now_ms + self.rules.clocks.earliest_ahead_ms

    def _end_channels(self, client: RegisteredClient, channels: MessageStream) -> bool:
        """End the channels of a session. Returns true if the client was sent messages above the stored cursor."""
        log = self.log_of(client)
        if log is None:
            return False
        log.stop(client, channels)
        interests = client.channels
        if interests.cursor == interests.stored_cursor:
            return False
        return any(log.last_of(channel) > interests.stored_cursor for channel in interests.values())

    def log_of(self, client: RegisteredClient) -> ChannelLog | None:
        """Returns the log of the client's channels; None: it is not followed."""
        if not self.channel_logs:
            return None
        return self.channel_logs.get(self.rules.retentions.of(client.key.partition("/")[0]))

    def acknowledge_channels(self, client: RegisteredClient, complete: int, offset: int) -> None:
        """Note that the client has applied all messages up to `complete`, at most to the end of the log, as the request
        at this offset says."""
        log = self.log_of(client)
        if log is None or not (client.channels or client.kept):
            return
        complete = min(complete, log.position - 1)
        if client.kept:
            kept = client.filters
            if kept.channels_epoch != log.epoch or complete > kept.channels_cursor:
                kept.place_channels(log.epoch, complete)
                self.dirty_cursors[client] = None
                self.kept_cursors.moved(client, offset)
            return
        interests = client.channels
        if interests.epoch != log.epoch or complete > interests.cursor:
            interests.epoch, interests.cursor = log.epoch, complete
            self.dirty_cursors[client] = None

    def acknowledge(self, client: RegisteredClient, complete: int, offset: int) -> None:
        """Note that the client has applied all up to `complete`, at most to the end of the log, as the request at this
        offset says."""
        complete = min(complete, self.position - 1)
        if complete > client.cursor:
            client.cursor = complete
            self.dirty_cursors[client] = None
            if client.kept:
                self.kept_cursors.moved(client, offset)
        session = client.session
        if session is not None and session.filter_answers.ended:
            self.settle_filters(client, session.filter_answers.acknowledge(complete), offset)

    def settle_filters(self, client: RegisteredClient, ended: Mapping[int, int], offset: int = -1) -> None:
        """Note that the answers to these filters are acknowledged, by the request at this offset; by hash: the offset
        up to which each answer has told what the filter fits."""
        for hash_, told_up_to in ended.items():
            one = client.filters.get(hash_)
            if one is not None:
                one.settle(max(told_up_to, one.position), self.epoch)
                client.changed.add(one.bucket)
        self.note_registrations(offset, client)

    def announce_anew(self, client: RegisteredClient, session: EngineSession) -> None:
        """Ask its gateway to open the session again; until then it receives nothing."""
        session.disagree()
        opened = internal_pb2.Opened(session=session.number, ask=NO_ASK, in_sync=False, digest=client.digest)
        session.gateway.tell(internal_pb2.Item(opened=opened))

    def tell_closed(self, gateway: GatewayView, number: int, code: CloseCode, reason: str) -> None:
        """Tell the gateway that this session is over, or never was."""
        gateway.tell(internal_pb2.Item(closed=internal_pb2.Closed(session=number, code=code, reason=reason)))
        self.count("closed")

    def next_paging(self) -> int:
        """Returns the number of a new row of pages."""
        self._pagings += 1
        return (self.generation << _PAGINGS_BITS) + self._pagings

    def clients_of(self, gateway: GatewayView) -> list[RegisteredClient]:
        """Returns the clients whose current session is one of this gateway's."""
        return [self.clients[key] for key in gateway.sessions.values()]

    def client_of(self, key: str) -> RegisteredClient:
        """Returns the client of this key, and makes it if it is not known."""
        client = self.clients.get(key)
        if client is None:
            domain = key.partition("/")[0]
            tally = self.tallies.get(domain)
            if tally is None:
                tally = self.tallies[domain] = DomainTally(
                    partial(self.ceiling_of, domain), self.query_places, self.filtered.registered
                )
            client = self.clients[key] = RegisteredClient(key, tally)
            tally.known += 1
        return client

    def drop_client(self, client: RegisteredClient) -> None:
        """Forget a client without session and registrations."""
        self.kept_cursors.written(client)
        self.expired.pop(client, None)
        if self.clients.pop(client.key, None) is None:
            return
        client.tally.known -= 1
        if not client.tally.known:
            del self.tallies[client.key.partition("/")[0]]

    def ceiling_of(self, domain: str) -> Ceiling | None:
        """Returns the ceiling of the domain's tenant; None: there is no limit, or the partition is not served here."""
        return self.rules.ceilings.of(domain) if self.live else None

    def object_of(self, key: str) -> Obj:
        """Returns the object of this key, and makes it if it is not known."""
        obj = self.objects.get(key)
        if obj is None:
            obj = self.objects[key] = Obj(key)
        return obj

    def gateway_of(self, id_: int, inbox: int, now_ms: int) -> GatewayView:
        """Returns the gateway with this id, and makes it if it is not known. Its records go to the inbox that was named
        last."""
        gateway = self.gateways.get(id_)
        if gateway is None:
            gateway = self.gateways[id_] = GatewayView(id_, inbox, now_ms)
        # A gateway never changes its inbox. But a stranger may name another one, and would be believed for ever.
        gateway.inbox = inbox
        return gateway

    def handles(self, at: At) -> None:
        """Note what is being handled."""
        self.at = at

    def is_worth_keeping(self, client: RegisteredClient) -> bool:
        """Returns true if records of it are kept: of its registrations, or of its will."""
        return client.worth_keeping or self.wills.has(client.key)

    def forget_if_nobody(self, client: RegisteredClient) -> None:
        """Forget a client that is gone and never registered for anything."""
        if client.session is None and not self.is_worth_keeping(client):
            self.drop_client(client)

    def forget_if_idle(self, obj: Obj) -> None:
        """Forget an object that was never published and that no client is registered for."""
        if obj.version < 0 and not obj.registered:
            self.objects.pop(obj.key, None)

    def count(self, name: str, by: int = 1) -> None:
        """Count an event that has a metric."""
        self.counts[name] = self.counts.get(name, 0) + by

    def why_full(self, client: RegisteredClient, what: str) -> str:
        """Returns the reason why the client may not register for more; "": it may. A refusal is counted. `what`: the
        kinds in the limit."""
        if client.registered >= self.registrations_max:
            return f"at most {self.registrations_max} {what} a client"
        domain = client.key.partition("/")[0]
        ceiling = self.ceiling_of(domain)
        reason = "" if ceiling is None else ceiling.why_no_registration()
        if reason:
            self.refuse(domain, REGISTRATIONS)
        return reason

    def refuse(self, domain: str, limit: str) -> None:
        """Count one session or registration that was refused because of this limit of the agreement."""
        self.refusals[domain, limit] = self.refusals.get((domain, limit), 0) + 1

    def note_registrations(self, offset: int, client: RegisteredClient) -> None:
        """Note that a request at this offset may have changed the client's registrations."""
        if client.changed:
            client.registrations_applied = max(client.registrations_applied, offset)
            self.changed[client] = None

    def use_of(self, domain: str) -> Use:
        """Returns the domain's use since the last step, to be added to."""
        use = self.use.get(domain)
        if use is None:
            use = self.use[domain] = Use()
        return use

    def deliver(self, domain: str, deliveries: int, out_bytes: int) -> None:
        """Count deliveries to sessions about this domain, and their total bytes."""
        self.use_of(domain).deliver(deliveries, out_bytes)
        allowance = self.rules.allowances.of(domain)
        if allowance is not None:
            allowance.take(deliveries, out_bytes)
