"""What one partition's engine knows, and the few changes of it that several of its parts make."""

from coldnotify_schemas import internal_pb2
from coldnotify_schemas.close_codes import CloseCode

from coldnotify_matcher.engine.brief_sessions import BriefSessions
from coldnotify_matcher.engine.clients import Client
from coldnotify_matcher.engine.description_store import Descriptions
from coldnotify_matcher.engine.gateways import GatewayView
from coldnotify_matcher.engine.half_sets import HalfSets
from coldnotify_matcher.engine.memberships import Memberships
from coldnotify_matcher.engine.object_map import ObjectMap
from coldnotify_matcher.engine.objects import Obj
from coldnotify_matcher.engine.rules import Rules

At = tuple[str, int] | str | None
"""A record, as (topic, offset); a client, by its key, with all that is stored of it; None: no single one of them."""


class State:
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
        self.descriptions = Descriptions()
        self.members = Memberships(self.objects, self.descriptions, self.count)
        self.clients: dict[str, Client] = {}
        self.gateways: dict[int, GatewayView] = {}
        self.pagings = 0
        """Rows of pages that were begun."""
        self.half_sets = HalfSets()
        self.brief = BriefSessions()
        self.counts: dict[str, int] = {}
        """Events since the last step, by name; the shell turns them into metrics."""
        self.changed: dict[Client, None] = {}
        """Clients whose records are to be written in this step."""
        self.at: At = None
        """What is being handled. Should that raise, this is what to set aside."""
        self.dirty_cursors: dict[Client, None] = {}
        """Clients whose stored cursor, or time when they were seen last, is old; it may wait."""

    def end_session(self, client: Client) -> None:
        """The client is offline from here on."""
        session = client.session
        if session is None:
            return
        stored = client.stored_offline_at
        missed = bool(client.queries) and (stored is None or self.members.missed(client, stored))
        self.members.end_session(client)
        client.session = None
        self.half_sets.forget(session)
        # It may have been silent for long: then it is its gateway that has said that it is there.
        client.last_seen_ms = max(client.last_seen_ms, session.gateway.heard_ms)
        session.gateway.remove(session.number, indexed=session.indexed)
        if self.brief.end(client) and not missed:
            self.dirty_cursors[client] = None
        elif client.worth_keeping:
            self.changed[client] = None
        self.forget_if_nobody(client)

    def acknowledge(self, client: Client, complete: int) -> None:
        """The client has applied all up to `complete`, at most what there is."""
        complete = min(complete, self.position - 1)
        if complete > client.cursor:
            client.cursor = complete
            self.dirty_cursors[client] = None

    def tell_closed(self, gateway: GatewayView, number: int, code: CloseCode, reason: str) -> None:
        """This session is over, or never was."""
        gateway.tell(internal_pb2.Item(closed=internal_pb2.Closed(session=number, code=code, reason=reason)))
        self.count("closed")

    def clients_of(self, gateway: GatewayView) -> list[Client]:
        """The clients whose current session is one of this gateway's."""
        return [self.clients[key] for key in gateway.sessions.values()]

    def client_of(self, key: str) -> Client:
        """The client of this key, made where it is not known."""
        client = self.clients.get(key)
        if client is None:
            client = self.clients[key] = Client(key)
        return client

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

    def forget_if_nobody(self, client: Client) -> None:
        """Nothing is kept of a client that is gone and never registered for anything."""
        if client.session is None and not client.worth_keeping:
            self.clients.pop(client.key, None)

    def forget_if_idle(self, obj: Obj) -> None:
        """Nothing is kept of an object that was never published and that nobody wants."""
        if obj.version < 0 and not obj.registered:
            self.objects.pop(obj.key, None)

    def count(self, name: str, by: int = 1) -> None:
        """Something happened that has a metric."""
        self.counts[name] = self.counts.get(name, 0) + by
