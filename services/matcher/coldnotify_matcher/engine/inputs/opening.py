"""Opening: a client's session begins, displaces another, or is announced again; and digests are compared."""

from coldnotify_schemas import internal_pb2
from coldnotify_schemas.close_codes import CloseCode
from coldnotify_schemas.digest import MODULUS

from coldnotify_matcher.engine.channels.channel_requests import ChannelRequests
from coldnotify_matcher.engine.clients.clients import RegisteredClient
from coldnotify_matcher.engine.clients.sessions import EngineSession
from coldnotify_matcher.engine.gateways.gateways import GatewayView
from coldnotify_matcher.engine.inputs.kept_opening import KeptOpening, why_not_allowed
from coldnotify_matcher.engine.inputs.opened_answers import OpenedAnswers
from coldnotify_matcher.engine.inputs.registering.registration_requests import RegistrationRequests
from coldnotify_matcher.engine.inputs.stream_requests import StreamRequests
from coldnotify_matcher.engine.interests.kinds import refused_hash
from coldnotify_matcher.engine.partition_state import PartitionState
from coldnotify_matcher.engine.streams.stream import NO_CURSOR
from coldnotify_matcher.engine.tenants.ceilings import CLIENTS

_DISPLACED = "the same client connected elsewhere"


class Opening:
    """Handles Opens and CheckDigests."""

    def __init__(
        self,
        state: PartitionState,
        channels: ChannelRequests,
        registrations: RegistrationRequests,
        opened: OpenedAnswers,
        streams: StreamRequests,
        kept: KeptOpening,
    ) -> None:
        self._state = state
        self._channels = channels
        self._registrations = registrations
        self._opened = opened
        self._streams = streams
        self._kept = kept

    def displaced(self, gateway: GatewayView, number: int) -> None:
        """Close a session whose client has opened another one since. It does not come back: its Hello is outdated."""
        gateway.retire(number)
        self._state.tell_closed(gateway, number, CloseCode.DISPLACED, _DISPLACED)

    def on_open(
        self,
        offset: int,
        gateway: GatewayView,
        number: int,
        key: str,
        request: internal_pb2.Open,
        now_ms: int,
        *,
        again: bool,
    ) -> None:
        """Handle an Open of the client of this key. `again`: its gateway announces it, and no other session came
        first."""
        client = self._state.client_of(key)
        current = client.session
        same = current is not None and current.gateway is gateway and current.number == number
        outdone = offset < client.session_applied or (again and current is not None) or gateway.has_retired(number)
        if outdone and not same:
            self._state.tell_closed(
                gateway, number, CloseCode.UNKNOWN_SESSION, "the client has, or had, another session"
            )
            self._state.forget_if_nobody(client)
            return
        if reason := why_not_allowed(client, request):
            self._state.tell_closed(gateway, number, CloseCode.NOT_ALLOWED, reason)
            self._state.forget_if_nobody(client)
            return
        if self._kept.has_lost_its_will(client, gateway.id, number, request):
            words = "the will of this session was published, or is not known"
            self._state.tell_closed(gateway, number, CloseCode.UNKNOWN_SESSION, words)
            if same:
                self._state.end_session(client)
            self._state.forget_if_nobody(client)
            return
        let_in = request.again and not request.never_opened
        if current is None and not let_in and not self._may_connect(gateway, number, client, now_ms):
            return
        expired = self._kept.has_expired(client, displaced=not same, now_ms=now_ms)
        if current is not None and not same:
            self.displaced(current.gateway, current.number)
            self._state.members.end_session(client)
            self._state.filtered.end_session(client)
            self._state.half_sets.forget(current)
            self._channels.pause(client, current)
            self._state.shares.pause(client)
            current.gateway.remove(current.number, indexed=current.in_an_index)
        session = current if same and current is not None else EngineSession(gateway, number)
        client.connect(session)
        self._state.refused_clients.let_in(key)
        client.session_applied = max(client.session_applied, offset)
        self._state.see(client, now_ms)
        gateway.add(number, client.key)
        session.objects.asked(request.ask, page_bytes=request.page_bytes)
        session.announced(
            now_ms,
            descriptions=request.descriptions,
            channels_in_order=request.channels_in_order or request.HasField("kept"),
            shares=request.shares,
        )
        self._state.half_sets.forget(session)
        kept = request.kept if request.HasField("kept") else None
        # Nothing that its gateway says of the set counts before it has heard what is kept.
        unheard = kept is not None and (not request.again or request.never_opened)
        if kept is None:
            self._state.unreleased.drop_all(client)
            client.keep_no_more()
        elif not request.again or (request.never_opened and not same):
            self._kept.begin(offset, client, session, kept, ended=expired or kept.clean, known=same)
        else:
            self._kept.go_on(offset, client, session, kept)
        if kept is not None:
            self._channels.open_kept(client, session, request, begins=unheard)
        outcome = self._registrations.open(offset, client, session, request)
        self._registrations.on_said_in_hello(offset, client, request, outcome, now_ms)
        cursor_counts = (
            request.epoch == self._state.epoch and request.HasField("cursor") and request.cursor < self._state.position
        )
        cursor = request.cursor if cursor_counts else NO_CURSOR
        if kept is None:
            client.place(cursor)
            if request.again:
                # The cursor is what the client was sent.
                client.place(min(cursor, request.acked) if request.HasField("acked") else NO_CURSOR)
        elif unheard or not cursor_counts:
            cursor = client.cursor
        elif request.HasField("acked"):
            client.place(max(client.cursor, min(cursor, request.acked)))
        if self._state.is_worth_keeping(client) and not self._state.brief.begin(client, offset, now_ms):
            self._state.changed[client] = None
        # The client's digest includes interests that are refused now and then leave its wanted set. A replayed Open
        # cannot be compared, because the client's set is that of later requests, which follow: they came from a client
        # that was in sync.
        with_refused = (client.digest + sum(map(refused_hash, outcome.refused))) % MODULUS
        in_sync = with_refused == request.digest or offset < client.registrations_applied or unheard
        if kept is not None and with_refused == request.digest and not unheard:
            client.filters.make_whole()  # its gateway has them all
        # A cursor above the end of the log, in the same epoch, is void, too, and the client has to hear so.
        void = request.HasField("cursor") and not cursor_counts
        client_epoch = None if void else request.epoch
        self._opened.tell(
            client,
            session,
            in_sync=in_sync,
            client_epoch=client_epoch,
            refused=outcome.refused,
            positions=outcome.positions,
            kept=None if kept is None else self._kept.said(client, session),
        )
        self._state.count("opens" if in_sync else "opens_not_in_sync")
        if in_sync:
            self._streams.begin(client, session, cursor, outcome.registered, now_ms)
        else:
            session.disagree()
            session.objects.place(cursor)
            self._channels.await_set(client, session, request)

    def on_check_digest(
        self, client: RegisteredClient, session: EngineSession, request: internal_pb2.CheckDigest
    ) -> None:
        """Compare the client's digest with ours, for a gateway that asks."""
        session.objects.asked(request.ask)
        in_sync = request.digest == client.digest
        if in_sync and client.kept:
            client.filters.make_whole()
        elif not in_sync:
            session.disagree()
            self._state.half_sets.forget(session)
            self._channels.pause(client, session)
        self._opened.tell(client, session, in_sync=in_sync, client_epoch=self._state.epoch)

    def _may_connect(self, gateway: GatewayView, number: int, client: RegisteredClient, now_ms: int) -> bool:
        """Returns true if its tenant may have one client more; else the client is closed with the reason. Sessions that
        are announced again were admitted before."""
        domain = client.key.partition("/")[0]
        ceiling = self._state.ceiling_of(domain)
        reason = "" if ceiling is None else ceiling.why_no_client()
        if not reason:
            return True
        self._state.refuse(domain, CLIENTS)
        self._state.refused_clients.refuse(client.key, now_ms, reason)
        self._state.tell_closed(gateway, number, CloseCode.ABOVE_AGREEMENT, reason)
        self._state.forget_if_nobody(client)
        return False
