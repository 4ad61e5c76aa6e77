"""What gateways ask, and operators: one handler for each kind of request."""

from collections.abc import Iterable, Iterator, Sequence

from coldnotify_schemas import internal_pb2, wire_pb2
from coldnotify_schemas.close_codes import CloseCode
from coldnotify_schemas.digest import MODULUS, object_digest
from coldnotify_schemas.interests import Interest, Kind, channel_hash, query_hash
from coldnotify_schemas.protocol import QUERIES_MAX
from coldnotify_streams.core.partition_turns import Spent, never

from coldnotify_matcher.engine import operating, unsettled_registrations
from coldnotify_matcher.engine.ceilings import CLIENTS
from coldnotify_matcher.engine.channels.channel_requests import ChannelRequests
from coldnotify_matcher.engine.clients import Client
from coldnotify_matcher.engine.conflation import Conflation
from coldnotify_matcher.engine.gateways import GatewayView
from coldnotify_matcher.engine.half_sets import Said
from coldnotify_matcher.engine.history import History
from coldnotify_matcher.engine.index import Index
from coldnotify_matcher.engine.interests.by_query.language import InvalidQuery
from coldnotify_matcher.engine.interests.by_query.query import query_of
from coldnotify_matcher.engine.interests.said import SaidChannel, said_channel
from coldnotify_matcher.engine.objects import Obj
from coldnotify_matcher.engine.operating import Operating
from coldnotify_matcher.engine.outcome_answers import outcome_answer
from coldnotify_matcher.engine.paging import PAGE_BYTES_MAX, Paging
from coldnotify_matcher.engine.partition_state import State
from coldnotify_matcher.engine.sessions import NO_ASK, Session
from coldnotify_matcher.engine.streams.stream import NO_CURSOR
from coldnotify_matcher.engine.superseded_opens import SupersededOpens

REFUSALS_MAX = 500
"""Named in one Welcome, which must stay a frame that a client takes. The next reg-sync names the others."""

DISAGREES_MS_MAX = 45_000
"""A gateway whose Beats do not agree announces its sessions after ten seconds, and those Opens wait for Kafka. What it
has not announced after this, it does not have: a slow one that is ended in vain comes back at once."""

KINDS = wire_pb2.KINDS_NAMES | wire_pb2.KINDS_QUERIES
"""What clients can be registered for."""

_DISPLACED = "the same client connected elsewhere"


class Requests:
    """Handles requests, in the order of their offsets."""

    def __init__(
        self,
        state: State,
        index: Index,
        paging: Paging,
        conflation: Conflation,
        channels: ChannelRequests,
        operating: Operating,
        history: History,
    ) -> None:
        self._state = state
        self._index = index
        self._paging = paging
        self._conflation = conflation
        self._channels = channels
        self._operating = operating
        self._opens: tuple[int, SupersededOpens] | None = None
        """Of the batch of which some requests are handled, and the others not: the last one's offset, and its Opens."""
        self._history = history

    def on_requests(
        self, requests: Sequence[tuple[int, internal_pb2.Request]], now_ms: int, spent: Spent = never
    ) -> int:
        """A batch of (offset, request), in order. The objects topic has been read up to its end as of now.

        Of several Opens of one client in a row only the last is answered: it says all that the earlier ones said.
        Returns how many are handled: at least one, and all but where the turn is `spent`. The others come again.
        """
        if not requests:
            return 0
        last = requests[-1][0]
        opens = self._opens[1] if self._opens is not None and self._opens[0] == last else SupersededOpens(requests)
        self._opens = None
        handled = 0
        for offset, request in requests:
            if handled and spent():
                self._opens = last, opens
                break
            handled += 1
            self._state.at = self._state.rules.topics.requests, offset
            if offset not in opens.superseded:
                self._on_request(offset, request, now_ms, first_open=offset in opens.first)
                continue
            self._state.count("superseded_opens")
            if offset in opens.displaced:
                gateway = self._state.gateway_of(request.gateway, request.inbox, now_ms)
                self._state.tell_closed(gateway, request.session, CloseCode.DISPLACED, _DISPLACED)
        self._state.at = None
        if self._state.rules.conflation.auto:
            self._look_for_lag(requests[:handled], now_ms)
        return handled

    def _look_for_lag(self, requests: Sequence[tuple[int, internal_pb2.Request]], now_ms: int) -> None:
        for _, request in requests:
            beat = request.beat if request.HasField("beat") else None
            # Others are of the inbox records of a predecessor, or of none: 0 is a gateway that does not know.
            if beat is not None and beat.number and beat.generation == self._state.generation:
                self._conflation.on_beat(self._state.gateways[request.gateway], beat.number, now_ms)

    def _on_request(self, offset: int, request: internal_pb2.Request, now_ms: int, *, first_open: bool) -> None:
        kind = request.WhichOneof("body")
        key = f"{request.domain}/{request.group}/{request.client}"
        if kind in operating.KINDS:
            self._operating.on_request(offset, key, request)
            return
        gateway = self._state.gateway_of(request.gateway, request.inbox, now_ms)
        gateway.heard_ms = max(gateway.heard_ms, now_ms)
        if kind == "beat":
            self._on_beat(gateway, request.beat, now_ms)
            return
        if kind == "acks":
            self._on_acks(gateway, request.acks, now_ms)
            return
        if kind == "open":
            again = request.open.again and not first_open
            self._on_open(offset, gateway, request.session, key, request.open, now_ms, again=again)
            return
        client = self._state.clients.get(key)
        session = client.session if client is not None else None
        if client is None or session is None or session.gateway is not gateway or session.number != request.session:
            if kind != "leave":
                self._state.tell_closed(
                    gateway, request.session, CloseCode.UNKNOWN_SESSION, "this session is not known"
                )
            return
        self._state.see(client, now_ms)
        if request.descriptions:
            session.wants_descriptions()
        if kind == "register":
            self._on_register(offset, client, session, request.register, now_ms)
        elif kind == "unregister":
            self._on_unregister(offset, client, session, request.unregister)
        elif kind == "sync":
            self._on_sync(offset, client, session, request.sync, now_ms)
        elif kind == "catch_up":
            self._on_catch_up(client, session, request.catch_up, now_ms)
        elif kind == "catch_up_channels":
            if not session.in_sync:
                self._channels.asked(client, session, request.catch_up_channels)
                if session.objects.ask == NO_ASK:
                    self._open_again(client, session)
            else:
                self._channels.catch_up(client, session, request.catch_up_channels, now_ms)
        elif kind == "is_there":
            key = f"{client.group_key}/{request.is_there.object}"
            there = bool(self._state.objects.is_published(key))
            said = internal_pb2.There(session=session.number, ask=request.is_there.ask, there=there)
            gateway.tell(internal_pb2.Item(there=said))
        elif kind == "ask_outcome":
            asked = request.ask_outcome
            taken = self._history.outcome(asked.offset)
            gateway.tell(outcome_answer(session.number, asked, f"{client.group_key}/{asked.object}", taken))
        elif kind == "unsettled":
            self._on_unsettled(offset, client, session, request.unsettled, now_ms)
        elif kind == "check_digest":
            self._on_check_digest(client, session, request.check_digest)
        elif kind == "leave":
            if request.leave.HasField("complete") and self._is_ours(request.leave):
                self._state.acknowledge(client, request.leave.complete)
            if request.leave.HasField("channels_complete") and self._channels.are_ours(client, request.leave):
                self._state.acknowledge_channels(client, request.leave.channels_complete)
            self._state.end_session(client)

    def _on_open(
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
        let_in = request.again and not request.never_opened
        if current is None and not let_in and not self._may_connect(gateway, number, client, now_ms):
            return
        if current is not None and not same:
            self._state.tell_closed(current.gateway, current.number, CloseCode.DISPLACED, _DISPLACED)
            self._state.members.end_session(client)
            self._state.half_sets.forget(current)
            self._channels.pause(client, current)
            current.gateway.remove(current.number, indexed=current.in_an_index)
        session = current if same and current is not None else Session(gateway, number)
        client.connect(session)
        self._state.refused_clients.let_in(key)
        client.session_applied = max(client.session_applied, offset)
        self._state.see(client, now_ms)
        gateway.add(number, client.key)
        session.objects.asked(request.ask, page_bytes=request.page_bytes)
        session.announced(now_ms, descriptions=request.descriptions, channels_in_order=request.channels_in_order)
        self._state.half_sets.forget(session)
        self._unregister_all(offset, client, session, request.unregister)
        registered, refused = self._register_all(offset, client, session, request.register)
        if request.queries or request.unregister_queries:
            self._unregister_queries(offset, client, request.unregister_queries)
            # What was reached is as of an offset, which is one of this log only in its epoch.
            goes_on = request.epoch == self._state.epoch
            refused += self._register_queries(offset, client, session, request.queries, goes_on=goes_on)
        positions: list[wire_pb2.ChannelPosition] = []
        if client.channels or request.channels or request.unregister_channels or request.channels_ask:
            refused_channels, positions = self._channels.open(offset, client, session, request)
            refused += refused_channels
            self._note_changed(offset, client)
        self._on_said_in_hello(offset, client, request, registered, now_ms)
        cursor_counts = (
            request.epoch == self._state.epoch and request.HasField("cursor") and request.cursor < self._state.position
        )
        cursor = request.cursor if cursor_counts else NO_CURSOR
        client.cursor = cursor
        if request.again:
            # The cursor is what the client was sent.
            client.cursor = min(cursor, request.acked) if request.HasField("acked") else NO_CURSOR
        if client.worth_keeping and not self._state.brief.begin(client, offset, now_ms):
            self._state.changed[client] = None
        # The client's digest includes what is refused now and then leaves its wanted set. A replayed Open cannot be
        # compared, the client's set is that of later requests, which follow: they came from a client that was in sync.
        with_refused = (client.digest + sum(map(_hash_of, refused))) % MODULUS
        in_sync = with_refused == request.digest or offset < client.registrations_applied
        # Also a cursor above the end of the log, in the same epoch, is void, and the client has to be told so.
        void = request.HasField("cursor") and not cursor_counts
        client_epoch = None if void else request.epoch
        self._tell_opened(
            client, session, in_sync=in_sync, client_epoch=client_epoch, refused=refused, positions=positions
        )
        self._state.count("opens" if in_sync else "opens_not_in_sync")
        if in_sync:
            self._channels.begin(client, session)
            self._paging.begin(client, session, cursor, registered, now_ms)
            self._channels.begin_pages(client, session, now_ms)
        else:
            session.disagree()
            self._channels.await_set(client, session, request)

    def _on_said_in_hello(
        self, offset: int, client: Client, request: internal_pb2.Open, registered: Sequence[Obj], now_ms: int
    ) -> None:
        """What an Open says of what its client's application has not taken."""
        if offset < client.registrations_applied:
            return  # later requests of the client are handled already
        pending = unsettled_registrations.asked_for(client, registered, _hashes_of(request.queries, request.channels))
        if request.all_unsettled:
            unsettled_registrations.tells(client, can=True)
            unsettled_registrations.say_all(client, pending, now_ms)
        elif pending and not request.again:
            # Its library is an older one now, or its gateway is.
            unsettled_registrations.tells(client, can=False)
        self._note_changed(offset, client)

    def _await_settling(
        self,
        offset: int,
        client: Client,
        registered: Sequence[Obj],
        queries: Iterable[wire_pb2.Query],
        channels: Iterable[wire_pb2.Channel],
        now_ms: int,
    ) -> None:
        """The client has registered for these in the middle of its session."""
        if client.tells_unsettled and offset >= client.registrations_applied:
            unsettled_registrations.put(
                client, unsettled_registrations.asked_for(client, registered, _hashes_of(queries, channels)), now_ms
            )
            self._note_changed(offset, client)

    def _on_unsettled(
        self, offset: int, client: Client, session: Session, said: wire_pb2.Unsettled, now_ms: int
    ) -> None:
        if offset >= client.registrations_applied:
            unsettled_registrations.tells(client, can=True)
            unsettled_registrations.on_frame(client, self._state.objects, said, now_ms)
            self._note_changed(offset, client)
        answer = internal_pb2.Answered(session=session.number, request=said.request, digest=client.digest)
        session.gateway.tell(internal_pb2.Item(answered=answer))

    def _may_connect(self, gateway: GatewayView, number: int, client: Client, now_ms: int) -> bool:
        """Whether its tenant may have one client more; if not, it is told why. Who is announced again was let in."""
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

    def _on_register(
        self, offset: int, client: Client, session: Session, request: wire_pb2.Register, now_ms: int
    ) -> None:
        registered, refused = self._register_all(offset, client, session, request.objects)
        if request.queries:
            # A session without a cursor is told all answers unasked: one may have begun, perhaps by a predecessor.
            goes_on = session.objects.complete != NO_CURSOR
            refused += self._register_queries(offset, client, session, request.queries, goes_on=goes_on)
        answer = internal_pb2.Answered(
            session=session.number, request=request.request, refused=refused, digest=client.digest
        )
        if request.queries:
            answer.kinds = self._kinds(client)
            # Pages that are under way to it contain the answers. A predecessor's are asked for once more in any case.
            answer.catch_up = bool(session.answers.owed) and not session.objects.under_way
        if request.channels:
            answer.kinds = self._kinds(client)
            self._channels.register(offset, client, session, request, answer)
            self._note_changed(offset, client)
            answer.digest = client.digest
        self._await_settling(offset, client, registered, request.queries, request.channels, now_ms)
        size = 0
        for obj in registered:
            newest = obj.newest(self._state.expires_ms(now_ms), answer=True)
            newest_bytes = newest.ByteSize()
            if size and size + newest_bytes > PAGE_BYTES_MAX:
                session.gateway.tell(internal_pb2.Item(answered=answer))
                answer = internal_pb2.Answered(session=session.number, digest=client.digest)
                size = 0
            answer.newest.append(newest)
            size += newest_bytes
        session.gateway.tell(internal_pb2.Item(answered=answer))

    def _on_unregister(self, offset: int, client: Client, session: Session, request: wire_pb2.Unregister) -> None:
        self._unregister_all(offset, client, session, request.objects)
        self._unregister_queries(offset, client, request.queries)
        if request.channels:
            self._channels.unregister(offset, client, session, request.channels)
            self._note_changed(offset, client)
        session.gateway.tell(
            internal_pb2.Item(
                answered=internal_pb2.Answered(
                    session=session.number, request=request.request, unregistered=True, digest=client.digest
                )
            )
        )

    def _on_sync(self, offset: int, client: Client, session: Session, chunk: wire_pb2.SyncChunk, now_ms: int) -> None:
        half_sets = self._state.half_sets
        if chunk.index == 0:
            half_sets.forget(session)
        in_order = chunk.index == half_sets.chunks(session)
        if not in_order:
            # The parts before were dropped, or went to a matcher that is no more, or the client began twice.
            half_sets.forget(session)
            if chunk.last:
                session.disagree()
                self._tell_opened(client, session, in_sync=False, client_epoch=self._state.epoch)
            return
        room = self._state.registrations_max + REFUSALS_MAX - len(half_sets.said(session))
        said: list[Said] = [
            *chunk.objects,
            *(Interest(Kind.QUERY, query.text) for query in chunk.queries),
            *map(said_channel, chunk.channels),
        ]
        names = said[: max(room, 0)]
        if not chunk.last:
            dropped = half_sets.add(session, names, self._state.rules.half_sets_bytes_max, now_ms)
            if dropped:
                self._state.count("half_sets_dropped", dropped)
            return
        wanted = dict.fromkeys([*half_sets.forget(session), *names])
        wanted_names = [one for one in wanted if isinstance(one, str)]
        texts = [one.text for one in wanted if isinstance(one, Interest)]
        channels = [one for one in wanted if isinstance(one, SaidChannel)]
        group = client.group_key
        target = {self._state.object_of(f"{group}/{name}"): None for name in wanted_names}
        self._unregister_all(offset, client, session, [obj.name for obj in client.objects() if obj not in target])
        before = set(client.registrations()) if client.tells_unsettled else None
        _, refused = self._register_all(offset, client, session, wanted_names)
        self._unregister_queries(offset, client, client.queries.keys() - set(map(query_hash, texts)))
        queries = [wire_pb2.Query(text=text) for text in texts]
        refused += self._register_queries(offset, client, session, queries, goes_on=False)
        positions: list[wire_pb2.ChannelPosition] = []
        if client.channels or channels or session.channels is not None:
            refused_channels, positions = self._channels.sync(offset, client, session, channels)
            refused += refused_channels
            self._note_changed(offset, client)
        if before is not None and offset >= client.registrations_applied:
            unsettled_registrations.put(client, [one for one in client.registrations() if one not in before], now_ms)
            self._note_changed(offset, client)
        self._state.count("syncs")
        self._tell_opened(
            client, session, in_sync=True, client_epoch=self._state.epoch, refused=refused, positions=positions
        )
        self._channels.begin(client, session)
        self._paging.begin(client, session, NO_CURSOR, client.objects(), now_ms)
        self._channels.begin_pages(client, session, now_ms)

    def _on_catch_up(self, client: Client, session: Session, request: internal_pb2.CatchUp, now_ms: int) -> None:
        if not session.in_sync:
            self._open_again(client, session)
            return
        stream = session.objects
        # A gateway of release 0.1.0 does not name the row.
        is_next = stream.is_next(request.ask, request.page, request.paging or stream.paging)
        stream.asked(request.ask, page_bytes=request.page_bytes)
        if is_next:
            self._paging.next_page(client, session, now_ms)
            return
        cursor_counts = (
            request.HasField("cursor")
            and request.cursor < self._state.position
            and (not request.HasField("epoch") or request.epoch == self._state.epoch)
        )
        cursor = request.cursor if cursor_counts else NO_CURSOR
        # A page above 0 that we did not send, a predecessor did: the next one goes on from there.
        self._paging.begin(client, session, cursor, session.answers.objects, now_ms, after_page=request.page)

    def _open_again(self, client: Client, session: Session) -> None:
        """The answer to a question for pages of a session that is sent none: its gateway did not hear so, or took no
        notice, as the session was slow. Without an answer it would wait, and its client would be deaf meanwhile."""
        self._state.announce_anew(client, session)

    def _on_check_digest(self, client: Client, session: Session, request: internal_pb2.CheckDigest) -> None:
        session.objects.asked(request.ask)
        in_sync = request.digest == client.digest
        if not in_sync:
            session.disagree()
            self._state.half_sets.forget(session)
            self._channels.pause(client, session)
        self._tell_opened(client, session, in_sync=in_sync, client_epoch=self._state.epoch)

    def _on_acks(self, gateway: GatewayView, acks: internal_pb2.Acks, now_ms: int) -> None:
        for number, complete in zip(acks.sessions, acks.completes, strict=False):
            key = gateway.sessions.get(number)
            if key is not None:
                client = self._state.clients[key]
                self._state.see(client, now_ms)
                if self._is_ours(acks):
                    self._state.acknowledge(client, complete)
        if acks.channels_sessions:
            self._channels.acks(gateway, acks, now_ms)

    def _is_ours(self, said: internal_pb2.Acks | internal_pb2.Leave) -> bool:
        """Whether its cursors are of this epoch. A request from before it is handled once more by who owns it now."""
        return not said.HasField("epoch") or said.epoch == self._state.epoch

    def _on_beat(self, gateway: GatewayView, beat: internal_pb2.Beat, now_ms: int) -> None:
        self._state.generation_heard = max(self._state.generation_heard, beat.generation)
        agreed = len(gateway.sessions) == beat.sessions and gateway.checksum == beat.checksum
        if agreed:
            gateway.disagrees_since_ms = None
        elif gateway.disagrees_since_ms is None:
            gateway.disagrees_since_ms = now_ms
        elif now_ms - gateway.disagrees_since_ms >= DISAGREES_MS_MAX:
            self._end_what_is_not_announced(gateway, gateway.disagrees_since_ms)
            gateway.disagrees_since_ms = now_ms
        # Of sessions that only the gateway knows it would not be true that they are complete.
        done = self._conflation.floor
        complete = done - 1 if agreed and done else None
        answer = internal_pb2.BeatAnswer(agreed=agreed, complete=complete, serial=beat.serial)
        if agreed:
            self._channels.complete(answer)
        gateway.tell(internal_pb2.Item(beat=answer))

    def _end_what_is_not_announced(self, gateway: GatewayView, since_ms: int) -> None:
        """Its gateway has announced all sessions that it has. The others are ones that it never had, or lost."""
        for client in self._state.clients_of(gateway):
            if client.session is not None and client.session.announced_ms < since_ms:
                self._state.count("never_announced")
                self._state.end_session(client)

    def _register_all(
        self, offset: int, client: Client, session: Session, names: Iterable[str]
    ) -> tuple[list[Obj], list[wire_pb2.Refusal]]:
        """Register the client: (those of `names` that it is registered for now, the refused ones)."""
        registered, refused = [], []
        group = client.group_key
        replayed = offset < client.registrations_applied
        for name in names:
            obj = self._state.object_of(f"{group}/{name}")
            if not client.interested(obj) and not replayed:
                reason = self._state.why_full(client, "objects")
                if reason:
                    refused.append(wire_pb2.Refusal(object=name, reason=reason))
                    self._state.forget_if_idle(obj)
                    continue
                client.register(obj, self._state.rules.bucket_objects_max)
                self._state.count("registered")
                if session.indexed:
                    self._index.subscribe(obj, session)
            if client.interested(obj):
                registered.append(obj)
            else:
                self._state.forget_if_idle(obj)
        self._note_changed(offset, client)
        return registered, refused

    def _unregister_all(self, offset: int, client: Client, session: Session, names: Iterable[str]) -> None:
        if offset >= client.registrations_applied:
            for name in names:
                obj = self._state.objects.get(f"{client.group_key}/{name}")
                if obj is not None and client.unregister(obj):
                    self._state.count("unregistered")
                    if session.indexed:
                        self._index.unsubscribe(obj, session)
                    self._state.forget_if_idle(obj)
        self._note_changed(offset, client)

    def _register_queries(
        self, offset: int, client: Client, session: Session, queries: Iterable[wire_pb2.Query], *, goes_on: bool
    ) -> list[wire_pb2.Refusal]:
        """Register the client for queries, each of which is then owed an answer. Returns the refused ones.

        `goes_on`: see `Paging.owe`.
        """
        refused, owed, new = [], {}, []
        for query in queries:
            hash_ = query_hash(query.text)
            if hash_ not in client.queries and offset >= client.registrations_applied:
                reason = self._why_not(client, query.text)
                if reason:
                    refused.append(wire_pb2.Refusal(query=hash_, reason=reason))
                    self._state.count("queries_refused")
                    continue
                client.register_query(query.text, self._state.rules.bucket_objects_max)
                client.queries[hash_].is_new = True
                self._state.query_places.price(client.group_key, hash_, query_of(query.text))
                self._state.count("queries_registered")
                new.append(hash_)
            if hash_ in client.queries:
                owed[hash_] = query
        self._note_changed(offset, client)
        self._paging.owe(session, owed, new, goes_on=goes_on)
        self._state.members.changed(client)
        return refused

    def _why_not(self, client: Client, text: str) -> str:
        """Why the client cannot be registered for this query; "": it can."""
        if len(client.queries) >= QUERIES_MAX:
            return f"query: at most {QUERIES_MAX} queries a client"
        try:
            query = query_of(text)
        except InvalidQuery as error:
            return f"query: {error}"
        state = self._state
        full = state.why_full(client, "objects and queries")
        full = full or state.query_places.why_no_room(
            client.group_key, query_hash(text), query, state.rules.query_places
        )
        return f"query: {full}" if full else state.members.why_no_members(client.group_key, query)

    def _unregister_queries(self, offset: int, client: Client, hashes: Iterable[int]) -> None:
        if offset >= client.registrations_applied:
            for hash_ in hashes:
                query = client.queries.get(hash_)
                if query is not None:
                    self._state.members.forget(client, query)
                    client.unregister_query(query)
                    self._state.count("queries_unregistered")
            self._state.members.changed(client)
        self._note_changed(offset, client)

    def _note_changed(self, offset: int, client: Client) -> None:
        if client.changed:
            client.registrations_applied = max(client.registrations_applied, offset)
            self._state.changed[client] = None

    def _kinds(self, client: Client) -> int:
        return KINDS if self._state.log_of(client) is None else KINDS | wire_pb2.KINDS_CHANNELS

    def _tell_opened(
        self,
        client: Client,
        session: Session,
        *,
        in_sync: bool,
        client_epoch: int | None,
        refused: Sequence[wire_pb2.Refusal] = (),
        positions: Sequence[wire_pb2.ChannelPosition] = (),
    ) -> None:
        opened = internal_pb2.Opened(
            session=session.number, ask=session.objects.ask, in_sync=in_sync, digest=client.digest, refused=refused
        )
        if client_epoch != self._state.epoch:
            opened.epoch = self._state.epoch
        opened.kinds = KINDS | wire_pb2.KINDS_DESCRIPTIONS if session.descriptions else KINDS
        if self._state.channel_logs:
            opened.positions.extend(positions)
            self._channels.tell_opened(client, session, opened)
        session.gateway.tell(internal_pb2.Item(opened=opened))


def _hashes_of(queries: Iterable[wire_pb2.Query], channels: Iterable[wire_pb2.Channel]) -> Iterator[int]:
    yield from (query_hash(query.text) for query in queries)
    yield from (channel_hash(said_channel(channel).text) for channel in channels)


def _hash_of(refusal: wire_pb2.Refusal) -> int:
    if refusal.HasField("query"):
        return refusal.query
    return refusal.channel if refusal.HasField("channel") else object_digest(refusal.object)
