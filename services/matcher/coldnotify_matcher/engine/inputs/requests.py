"""Requests of gateways, and of operators, in the order of their offsets: each goes to the handler of its kind."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from coldnotify_schemas import internal_pb2
from coldnotify_schemas.close_codes import CloseCode
from coldnotify_streams.core.partition_turns import Spent, never

from coldnotify_matcher.engine.channels.channel_requests import ChannelRequests
from coldnotify_matcher.engine.clients.clients import RegisteredClient
from coldnotify_matcher.engine.clients.sessions import EngineSession
from coldnotify_matcher.engine.handing.holds import Holds
from coldnotify_matcher.engine.inputs import operating
from coldnotify_matcher.engine.inputs.kept_opening import KeptOpening
from coldnotify_matcher.engine.inputs.opened_answers import OpenedAnswers
from coldnotify_matcher.engine.inputs.opening import Opening
from coldnotify_matcher.engine.inputs.operating import Operating
from coldnotify_matcher.engine.inputs.patch_requests import PatchRequests
from coldnotify_matcher.engine.inputs.receiving import Receiving
from coldnotify_matcher.engine.inputs.registering.filter_registering import FilterRegistering
from coldnotify_matcher.engine.inputs.registering.registration_requests import RegistrationRequests
from coldnotify_matcher.engine.inputs.stream_requests import StreamRequests
from coldnotify_matcher.engine.inputs.superseded_opens import SupersededOpens
from coldnotify_matcher.engine.objects.history import History
from coldnotify_matcher.engine.partition_state import PartitionState
from coldnotify_matcher.engine.telling.conflation import Conflation
from coldnotify_matcher.engine.telling.index import Index
from coldnotify_matcher.engine.telling.outcome_answers import outcome_answer
from coldnotify_matcher.engine.telling.paging import Paging


class _Asked(NamedTuple):
    """A request of a client's current session."""

    offset: int
    client: RegisteredClient
    session: EngineSession
    body: internal_pb2.Request
    now_ms: int

    @property
    def where(self) -> tuple[int, RegisteredClient, EngineSession]:
        """Its offset in the log, its client and its session."""
        return self.offset, self.client, self.session


Handler = Callable[[_Asked], None]


class RequestHandler:
    """Handles requests, in the order of their offsets."""

    def __init__(
        self,
        state: PartitionState,
        index: Index,
        paging: Paging,
        conflation: Conflation,
        channels: ChannelRequests,
        operating: Operating,
        history: History,
        describing: PatchRequests,
    ) -> None:
        self._state = state
        self._conflation = conflation
        self._operating = operating
        self._history = history
        opened = OpenedAnswers(state, channels)
        streams = self._streams = StreamRequests(state, paging, conflation, channels)
        filters = FilterRegistering(state)
        receiving = Receiving(state)
        holds = Holds(state)
        registrations = self._registrations = RegistrationRequests(state, index, channels, opened, streams, filters)
        self._opening = Opening(state, channels, registrations, opened, streams, KeptOpening(state, filters))
        self._opens: tuple[int, SupersededOpens] | None = None
        """The last offset of a batch that is partly handled; and its Opens."""
        self._of_session: dict[str | None, Handler] = {
            "register": lambda asked: registrations.on_register(*asked.where, asked.body.register, asked.now_ms),
            "unregister": lambda asked: registrations.on_unregister(*asked.where, asked.body.unregister),
            "sync": lambda asked: registrations.on_sync(*asked.where, asked.body.sync, asked.now_ms),
            "unsettled": lambda asked: registrations.on_unsettled(*asked.where, asked.body.unsettled, asked.now_ms),
            "catch_up": lambda asked: streams.catch_up(
                asked.client, asked.session, asked.body.catch_up, asked.offset, asked.now_ms
            ),
            "stream_catch_up": lambda asked: streams.catch_up_channels(
                asked.client, asked.session, asked.body.stream_catch_up, asked.now_ms
            ),
            "check_digest": lambda asked: self._opening.on_check_digest(
                asked.client, asked.session, asked.body.check_digest
            ),
            "hold": lambda asked: holds.on_hold(*asked.where, asked.body.hold),
            "receive": lambda asked: receiving.on_receive(*asked.where, asked.body.receive, asked.now_ms),
            "describe": lambda asked: describing.on_describe(*asked.where, asked.body.describe, asked.now_ms),
            "is_there": self._on_is_there,
            "ask_outcome": self._on_ask_outcome,
            "leave": lambda asked: streams.on_leave(asked.client, asked.body.leave, asked.offset),
        }

    def on_requests(
        self, requests: Sequence[tuple[int, internal_pb2.Request]], now_ms: int, spent: Spent = never
    ) -> int:
        """Handle a batch of (offset, request), in order. The objects topic has been read up to its end as of now.

        Of several Opens of one client in a row only the last is answered: it contains all that the earlier ones do.
        Returns the number of handled requests: at least one, and all unless the turn is `spent`. The others come again.
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
            self._state.wills.handles(offset)
            self._state.descriptions.handles(offset)
            if offset not in opens.superseded:
                self._on_request(offset, request, now_ms, first_open=offset in opens.first)
                continue
            self._state.count("superseded_opens")
            if offset in opens.displaced:
                gateway = self._state.gateway_of(request.gateway, request.inbox, now_ms)
                self._opening.displaced(gateway, request.session)
        self._state.at = None
        if self._state.rules.conflation.auto:
            self._look_for_lag(requests[:handled], now_ms)
        return handled

    def _look_for_lag(self, requests: Sequence[tuple[int, internal_pb2.Request]], now_ms: int) -> None:
        for _, request in requests:
            beat = request.beat if request.HasField("beat") else None
            # Ignore Beats that refer to a predecessor's inbox records; 0 means that the gateway has seen none.
            if beat is not None and beat.number and beat.generation == self._state.generation:
                self._conflation.on_beat(self._state.gateways[request.gateway], beat.number, now_ms)

    def _on_request(self, offset: int, request: internal_pb2.Request, now_ms: int, *, first_open: bool) -> None:
        kind = request.WhichOneof("body")
        key = f"{request.domain}/{request.group}/{request.client}"
        if kind in operating.KINDS:
            self._operating.on_request(offset, key, request)
            return
        gateway = self._state.gateway_of(request.gateway, request.inbox, now_ms)
        gateway.heard(now_ms)
        if kind == "beat":
            self._streams.on_beat(gateway, request.beat, now_ms)
            return
        if kind == "acks":
            self._streams.on_acks(gateway, request.acks, offset, now_ms)
            return
        if kind == "open":
            again = request.open.again and not first_open
            self._opening.on_open(offset, gateway, request.session, key, request.open, now_ms, again=again)
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
        if request.shares:
            session.takes_hand_outs()
        handler = self._of_session.get(kind)
        if handler is not None:
            handler(_Asked(offset, client, session, request, now_ms))

    def _on_is_there(self, asked: _Asked) -> None:
        key = f"{asked.client.group_key}/{asked.body.is_there.object}"
        there = bool(self._state.objects.is_published(key))
        said = internal_pb2.There(session=asked.session.number, ask=asked.body.is_there.ask, there=there)
        asked.session.gateway.tell(internal_pb2.Item(there=said))

    def _on_ask_outcome(self, asked: _Asked) -> None:
        said = asked.body.ask_outcome
        taken = self._history.outcome(said.offset)
        key = f"{asked.client.group_key}/{said.object}"
        asked.session.gateway.tell(outcome_answer(asked.session.number, said, key, taken))
