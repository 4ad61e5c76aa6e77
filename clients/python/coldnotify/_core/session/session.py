"""One connection, from Hello to its end: bytes in, bytes out. See `docs/protocol.md`, "A session".

A session is in one of four phases (`phases`). What concerns channels as a whole is in `session_channels`, what
an Ack says of either stream in `stream`.

Frames are made when the shell asks for bytes (`data_to_send`), not before, so what waits to be sent is limited and up
to date.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import NamedTuple

from coldnotify_schemas import wire_pb2 as wire
from coldnotify_schemas.frames import FrameBuffer, FrameError, encode, parse_gateway_frame
from coldnotify_schemas.protocol import (
    CLOSE_S_MAX,
    GATEWAY_FRAME_BYTES_MAX,
    WELCOME_S,
)

from coldnotify._core.delivery.delivery import Delivery
from coldnotify._core.delivery.slot import Update
from coldnotify._core.delivery.unsettled import UnsettledTold
from coldnotify._core.document.document import ClientIdentity
from coldnotify._core.interests.interests import (
    ChannelInterest,
    Interest,
    QueryInterest,
    ShareInterest,
    channels_of,
    hashes_of,
    names_of,
    queries_of,
)
from coldnotify._core.interests.registrations import Operation, OperationKind, OperationStage, Registrations
from coldnotify._core.journal import Journal
from coldnotify._core.publishing.publications import Publications
from coldnotify._core.session.hello import SaidHello, capabilities_of, hello_of
from coldnotify._core.session.members_together import MembersTogether
from coldnotify._core.session.names_in_use import NamesInUse
from coldnotify._core.session.phases import NEXT, Phase, PhaseSaid
from coldnotify._core.session.proofs import SessionProofs
from coldnotify._core.session.reg_sync import RegSync
from coldnotify._core.session.session_channels import SessionChannels
from coldnotify._core.session.session_requests import SessionRequests
from coldnotify._core.session.session_shares import SessionShares
from coldnotify._core.settings import OUT_BYTES_MAX, ClientSettings
from coldnotify._core.streams.stream import FIRST, Stream, first_of, streams_of
from coldnotify.errors import DescriptionsUnknown, QueriesUnknown, RegistrationRefused


class SessionEnded(NamedTuple):
    """The end of a session: a close code, or None and the fault in words."""

    code: int | None
    reason: str
    retry_after_s: int = 0
    """As in Close, at most CLOSE_S_MAX; 0: unsaid."""
    not_here_s: int = 0
    silent: bool = False
    """The gateway has not answered a Ping."""


@dataclass(slots=True)
class _Doubt:
    """A doubtful connection: the Pong to this Ping proves that it works, until `due`."""

    ping: int
    due: float


class ClientSession:
    """The client's side of one connection. Over when `ended` is set."""

    def __init__(
        self,
        identity: ClientIdentity,
        journal: Journal,
        registrations: Registrations,
        delivery: Delivery,
        settings: ClientSettings,
        report: Callable[[Exception], None],
        now: float,
        token: str = "",
        publications: Publications | None = None,
        unsettled: UnsettledTold | None = None,
        place: int = 0,
        taken: SaidHello | None = None,
    ) -> None:
        """`place`: the bits of its Hello that say where the client is. `taken`: the Hello of a trial, from which it
        takes over; `take_over` has to follow.
        """
        self._journal = journal
        self._registrations = registrations
        self._delivery = delivery
        self._settings = settings
        self._report = report
        self.phase = Phase.OPENING
        self.caught_up_at: float | None = None
        self.ended: SessionEnded | None = None
        self._frames = FrameBuffer(GATEWAY_FRAME_BYTES_MAX)
        self._out = bytearray()
        self._said_bye = False

        self._crcs = NamesInUse() if taken is None else taken.crcs
        self._members = MembersTogether()
        self._requests = SessionRequests(registrations, settings)
        self._sync: RegSync | None = None

        self.objects = Stream(delivery.cursor if taken is None else taken.cursor)
        self._ack_due: float | None = None
        self._channels = SessionChannels(delivery.channels, registrations, report)
        self._shares = SessionShares(delivery.shares, registrations, report)

        self._sent_at = now
        self._heard_at = now
        """When the gateway was last heard, or asked by a Ping. Repeated requests ask nothing of a gateway."""
        self._ping_unanswered_since: float | None = None
        hello_at = now if taken is None else taken.at
        self._freshness = SessionProofs(delivery, registrations, hello_at)
        self._pings = self._pongs = 0
        """The n-th Pong answers the n-th Ping."""
        self._doubt: _Doubt | None = None
        self._wait_until = now
        self._welcome_due: float | None = hello_at + WELCOME_S
        self._queries = delivery.queries
        self._queries.begin_session()
        self._hello_operations = registrations.begin_session(in_hello=taken is None)
        self._unsettled = (
            UnsettledTold(journal, registrations, delivery, settings, known=True) if unsettled is None else unsettled
        )
        self._says_all_unsettled = self._unsettled.begin(self._hello_operations, in_hello=taken is None)
        has_channels = registrations.has_channels or registrations.has_shares
        many_channels = any(registrations.unanswered(OperationStage.UNSENT)) and has_channels
        self._asks_for_kinds = registrations.has_queries or many_channels
        self._asks_descriptions = self._queries.descriptions.asked
        self._publications = Publications() if publications is None else publications
        self._publications.begin_session()
        self._place = place
        if taken is None:
            self._hello(identity, token, now)
        else:
            self._asks_for_kinds, self._asks_descriptions = taken.asks_for_kinds, taken.asks_descriptions
            self._channels.said_by_trial(taken.frame)

    def take_over(self, kept: bytes, now: float) -> None:
        """Takes all that came in answer to the trial's Hello. The trial has acknowledged the pages."""
        if kept:
            self.receive(kept, now)
        for stream in self._streams:
            stream.page_ended(0)

    # Bytes in

    def receive(self, data: bytes, now: float) -> None:
        """Handles bytes from the gateway. An invalid frame ends the session."""
        self._ping_unanswered_since = None
        self._heard_at = now
        try:
            for body in self._frames.feed(data):
                if self.ended is not None:
                    return
                self._take(parse_gateway_frame(body), now)
        except FrameError as error:
            self._end(None, f"the gateway sent bytes that are no frame: {error}")

    def _take(self, frame: wire.GatewayFrame, now: float) -> None:
        kind = frame.WhichOneof("frame")
        asked_at = None
        if kind == "pong":
            asked_at = self._freshness.pong()
            self._pongs += 1
            if self._doubt is not None and self._pongs >= self._doubt.ping:
                self._doubt = None
        match kind:
            case "close":
                self._on_close(frame.close)
            case "wait":
                self._wait_until = now + frame.wait.seconds
                if self._welcome_due is not None:
                    self._welcome_due = max(self._welcome_due, self._wait_until + WELCOME_S)
            case "welcome":
                self._on_welcome(frame.welcome, now)
            case _ if self.phase is Phase.OPENING:
                pass  # before its Welcome a session has no epoch: nothing it says can be placed
            case "notification":
                self._on_notification(frame.notification)
            case "caught_up":
                self._on_caught_up(frame.caught_up, now)
            case "page_end":
                self._on_page_end(frame.page_end)
            case "pong":
                self._on_pong(frame.pong, asked_at)
            case "message":
                if frame.message.hand_out:
                    self._delivery.shares.handed(frame.message, now)
                else:
                    self._end_if(self._delivery.channels.message(frame.message))
            case "missed":
                if frame.missed.hand_out:
                    self._delivery.shares.handed(frame.missed, now)
                else:
                    self._end_if(self._delivery.channels.missed(frame.missed))
            case "leases":
                self._delivery.shares.answered(frame.leases, now)
            case "registered":
                self._on_registered(frame.registered, now)
            case "unregistered":
                self._on_answer(frame.unregistered.request, (), now)
            case "published":
                self._publications.published(frame.published.request, frame.published.offset)
            case "outcome":
                self._publications.became(frame.outcome)
            case "not_published":
                refusal = frame.not_published
                clock_ms = refusal.clock_ms or None
                self._publications.not_published(refusal.request, refusal.reason, refusal.retry_after_ms, now, clock_ms)

    def _on_welcome(self, welcome: wire.Welcome, now: float) -> None:
        self._welcome_due = None
        self.objects.welcomed()
        if welcome.HasField("epoch"):
            self._delivery.new_epoch(welcome.epoch)
            self.objects.begin_epoch()
            self._ack_due = None
        self._end_if(self._channels.welcomed(welcome))
        sync = self._sync
        operations = sync.operations if sync is not None else self._hello_operations
        if self._asks_for_kinds and self._registrations.has_queries:
            self._know(welcome.kinds)
        if self._asks_descriptions:
            descriptions, told = self._queries.descriptions, bool(welcome.kinds & wire.KINDS_DESCRIPTIONS)
            descriptions.welcomed(told=told)
            if not told and not descriptions.told_unknown:
                descriptions.told_unknown = True
                self._report(DescriptionsUnknown())
        self._channels.learn(welcome, asked=self._asks_for_kinds)
        self._shares.welcomed(welcome, asked=self._asks_for_kinds)
        self._refuse(welcome.refused, operations)
        self._delivery.channels.resolved(first_of(welcome.streams).positions, operations)
        self._sync = None
        self._hello_operations = {}
        if welcome.in_sync:
            if sync is not None and not sync.all_sent:
                # The answer to something earlier: to a set that is being said anew, or to an Open of the gateway's own.
                # It takes no chunks any more. All that they would have said is said by requests; if the sets differ all
                # the same, the next Ping tells.
                self._registrations.resend(operations, OperationStage.SENT)
            self._confirm(operations)
            self._unsettled.welcomed(now)
            self._advance(PhaseSaid.IN_SYNC)
        else:
            self._advance(PhaseSaid.NOT_IN_SYNC)
            self._begin_sync()

    def _on_notification(self, notification: wire.Notification) -> None:
        for one in self._members.take(notification):
            self._arrived(one)

    def _release_members(self, complete: int) -> None:
        """Has members of a set taken in that were waited for with others, once all up to `complete` was sent."""
        for one in self._members.release(complete):
            self._arrived(one)

    def _arrived(self, notification: wire.Notification) -> None:
        name = notification.name or self._crcs.name_of(notification.crc)
        if name is not None:
            version = notification.version if notification.HasField("version") else None
            update = Update(
                notification.incarnation, version, notification.payload, notification.deleted, notification.raw
            )
            description = notification.description if notification.HasField("description") else None
            if notification.entered or notification.left or description is not None:
                self._delivery.changed(
                    name,
                    update,
                    notification.entered,
                    notification.left,
                    answer=notification.answer,
                    description=description,
                )
            else:
                self._delivery.arrived(name, update)
        if not notification.answer and notification.offset >= notification.behind:
            self._delivery.complete(notification.offset - notification.behind)

    def _on_caught_up(self, caught_up: wire.CaughtUp, now: float) -> None:
        if (self.phase, PhaseSaid.CAUGHT_UP) not in NEXT:
            return
        self._advance(PhaseSaid.CAUGHT_UP)
        if caught_up.HasField("complete"):
            self._release_members(caught_up.complete)
        self.objects.caught_up()
        self._unsettled.caught_up(now)
        if caught_up.HasField("sets_digest"):
            self._queries.compare(caught_up.sets_digest)
        self._queries.caught_up()
        if caught_up.HasField("complete"):
            self._delivery.complete(caught_up.complete)
        # What was confirmed before, and has not come, was lost on its way.
        self._registrations.resend(self._channels.caught_up(caught_up), OperationStage.CONFIRMED)
        self._requests.caught_up()
        self._freshness.caught_up(caught_up)
        if self.caught_up_at is None:
            self.caught_up_at = now

    def _on_page_end(self, page_end: wire.PageEnd) -> None:
        if page_end.stream == FIRST:
            self._channels.page_ended(page_end)
            self._freshness.page_ended(page_end)
        elif not page_end.stream:
            self.objects.page_ended(page_end.page)
            if page_end.sets_unknown:
                self._queries.ask_all()
            self._queries.page_end(page_end)

    def _on_pong(self, pong: wire.Pong, asked_at: float | None) -> None:
        if pong.HasField("complete"):
            self._release_members(pong.complete)
            self._delivery.complete(pong.complete)
        log = first_of(pong.streams)
        if log.HasField("complete"):
            self._delivery.channels.complete(log.complete)
        if asked_at is not None:
            self._freshness.answered(asked_at, pong)

    def _end_if(self, problem: str) -> None:
        if problem:
            self._end(None, problem)

    def _on_registered(self, registered: wire.Registered, now: float) -> None:
        self._unsettled.answered(registered.request)
        operations = self._requests.of(registered.request)
        if operations is not None and queries_of(operations):
            self._know(registered.kinds)
        self._end_if(self._channels.registered(registered, operations or {}))
        self._shares.registered(registered.kinds, operations or {})
        self._on_answer(registered.request, registered.refused, now)
        for refusal in registered.refused if operations is None else ():
            if refusal.HasField("interest"):
                membership = self._queries.by_hash.get(refusal.interest)
                if membership is not None and self._registrations.refuse_later(membership.query):
                    self._refused(membership.query, refusal.reason)
        self._queries.begun(registered.begun)
        self._queries.answered(registered.answered)
        self._queries.unchanged(registered.unchanged)

    def _know(self, kinds: int) -> None:
        """Notes the kinds that the service knows."""
        knows = bool(kinds & wire.KINDS_QUERIES)
        self._registrations.know(QueryInterest, known=knows)
        if not knows:
            self._queries.unknown()
        if not knows and not self._queries.told_unknown:
            self._queries.told_unknown = True
            self._report(QueriesUnknown())

    def _confirm(self, operations: dict[Interest, Operation]) -> None:
        confirmed = self._registrations.confirm(operations)
        self._unsettled.confirmed({one: operations[one] for one in confirmed})
        self._queries.confirmed(queries_of(confirmed))
        self._delivery.channels.confirmed(channels_of(confirmed))
        self._delivery.shares.confirmed(confirmed)

    def _on_answer(self, number: int, refused: Collection[wire.Refusal], now: float) -> None:
        operations = self._requests.take(number)
        if operations is None:
            return
        self._refuse(refused, operations)
        self._confirm(operations)
        if self.objects.live:  # else CaughtUp is the limit
            self._requests.await_versions(operations, now)

    def _refuse(self, refused: Collection[wire.Refusal], operations: dict[Interest, Operation]) -> None:
        by_hash: dict[int, Interest] = {}
        if refused:
            by_hash = {one.hash: one for one in operations if not isinstance(one, str)}
        for refusal in refused:
            interest: Interest | None = refusal.object
            if refusal.HasField("interest"):
                interest = by_hash.get(refusal.interest)
            if interest is not None and self._registrations.refuse(interest, operations):
                self._refused(interest, refusal.reason)

    def _refused(self, interest: Interest, reason: str) -> None:
        self._delivery.forget(interest)
        if isinstance(interest, QueryInterest):
            self._report(RegistrationRefused("", reason, query=interest.text))
        elif isinstance(interest, ChannelInterest):
            self._report(RegistrationRefused("", reason, channel=interest.name))
        elif isinstance(interest, ShareInterest):
            self._report(RegistrationRefused("", reason, channel=interest.channel, share=interest.share))
        else:
            self._report(RegistrationRefused(interest, reason))

    def _advance(self, said: PhaseSaid) -> None:
        self.phase = NEXT.get((self.phase, said), self.phase)

    def _on_close(self, close: wire.Close) -> None:
        waits = min(close.retry_after_s, CLOSE_S_MAX), min(close.not_here_s, CLOSE_S_MAX)
        self.ended = self.ended or SessionEnded(close.code, close.reason, *waits)

    def _end(self, code: int | None, reason: str) -> None:
        self.ended = self.ended or SessionEnded(code, reason)

    # Bytes out

    def data_to_send(self, now: float) -> bytes:
        """The next bytes for the gateway, at most a little over OUT_BYTES_MAX. Ask again when these are written."""
        if self.ended is None and not self._said_bye:
            if any(stream.page_end for stream in self._streams):
                self._send_ack(now)
            self._send_chunks(now)
            self._send_holds(now)
            self._send_requests(now)
            self._send_unsettled(now)
            self._send_publications(now)
        data = bytes(self._out)
        self._out.clear()
        self._delivery.shares.leaving()
        return data

    def bye(self, now: float) -> None:
        """The application disconnects: acknowledges what is durably applied, then ends the session."""
        if self._said_bye or self.ended is not None:
            return
        if self._moves:
            self._send_ack(now)
        self._unsettled.hurry(now)
        self._send_unsettled(now)
        if self._takes_requests and (hold := self._delivery.shares.last_hold(now)) is not None:
            self._send(wire.ClientFrame(hold=hold), now)
        self._send(wire.ClientFrame(bye=wire.Bye()), now)
        self._said_bye = True

    def acknowledge(self, stream: Stream, cursor: int | None, now: float) -> None:
        """Acknowledges this cursor of the stream after a while: the document with it is durable. The cursors of all
        streams leave together.
        """
        stream.durable(cursor)
        if stream.acknowledgement is not None and self._ack_due is None:
            self._ack_due = now + self._settings.ack_delay_s

    @property
    def channels(self) -> Stream:
        """Returns the stream of its domain's channels."""
        return self._channels.stream

    @property
    def _streams(self) -> tuple[Stream, ...]:
        return self.objects, self.channels

    @property
    def is_live(self) -> bool:
        """Returns True if versions, and messages of channels, come as they are published."""
        return self.objects.live and self._channels.are_live

    def _hello(self, identity: ClientIdentity, token: str, now: float) -> None:
        operations = self._hello_operations
        if self._asks_for_kinds or not self._crcs.use(
            {*self._registrations.wanted, *names_of(self._registrations.pending)}
        ):
            self._crcs.say_all()
        registered = [one for one, operation in operations.items() if operation.kind is OperationKind.REGISTER]
        unregistered = [one for one, operation in operations.items() if operation.kind is OperationKind.UNREGISTER]
        hello = hello_of(identity, self._registrations, self._delivery, self._settings, token, self._capabilities)
        hello.register.extend(names_of(registered))
        hello.unregister.extend(names_of(unregistered))
        hello.interests.extend(self._said(registered))
        hello.unregister_interests.extend(hashes_of(unregistered))
        self._channels.put_into(hello)
        self._shares.said_in(hello)
        self._send(wire.ClientFrame(hello=hello), now)

    def _said(self, interests: Collection[Interest]) -> list[wire.Interest]:
        """Returns the queries, the channels and the shares among `interests`, for a frame that has them all."""
        streams = self._delivery.channels.said(interests)
        return [*self._queries.said(interests), *streams, *self._shares.said(interests)]

    @property
    def _capabilities(self) -> int:
        bits = capabilities_of(
            self._crcs, self._place, queries=self._asks_for_kinds, descriptions=self._asks_descriptions
        )
        return bits | (wire.CAPABILITY_UNSETTLED if self._says_all_unsettled else wire.CAPABILITY_NONE)

    def _begin_sync(self) -> None:
        self._requests.begin_sync()
        self._delivery.channels.begin_sync()
        self._unsettled.begin_sync()
        operations = self._registrations.begin_sync()
        self._delivery.owe_all()
        self._sync = RegSync(self._journal, self._registrations, operations)

    def _send_chunks(self, now: float) -> None:
        sync = self._sync
        if sync is None or not sync.is_ready:
            return
        while not sync.all_sent and len(self._out) < OUT_BYTES_MAX:
            index, interests, last = sync.next_chunk()
            self._use_or_ask(interests, now)
            chunk = wire.SyncChunk(index=index, last=last, objects=names_of(interests), interests=self._said(interests))
            self._send(wire.ClientFrame(sync=chunk), now)
        if sync.all_sent:
            sync.await_answer(now + self._settings.request_timeout_s)

    @property
    def _takes_requests(self) -> bool:
        """True if the service has this client's set, and accepts changes to it."""
        return self.phase in (Phase.CATCHING, Phase.LIVE)

    @property
    def _says_unsettled(self) -> bool:
        return self._takes_requests and self._settings.say_unsettled

    def _send_requests(self, now: float) -> None:
        if not self._takes_requests:
            return
        while not self._requests.is_full and len(self._out) < OUT_BYTES_MAX:
            asked = self._registrations.next_request()
            if asked is None:
                return
            kind, operations = asked
            request = self._requests.numbered()
            self._use_or_ask(operations, now)
            names = names_of(operations)
            if kind is OperationKind.REGISTER:
                register = wire.Register(request=request, objects=names, interests=self._said(operations))
                frame = wire.ClientFrame(register=register)
            else:
                hashes = hashes_of(operations)
                unregister = wire.Unregister(request=request, objects=names, interests=hashes)
                frame = wire.ClientFrame(unregister=unregister)
            self._send(frame, now)
            self._requests.sent(request, operations, now)

    def _send_holds(self, now: float) -> None:
        while self._takes_requests and (hold := self._delivery.shares.next_hold(now)) is not None:
            self._send(wire.ClientFrame(hold=hold), now)

    def _send_publications(self, now: float) -> None:
        if self._takes_requests:
            while len(self._out) < OUT_BYTES_MAX and (publish := self._publications.next(now)) is not None:
                self._send(wire.ClientFrame(publish=publish), now)
            while len(self._out) < OUT_BYTES_MAX and (question := self._publications.next_question()) is not None:
                self._send(wire.ClientFrame(ask_outcome=question), now)

    def _send_unsettled(self, now: float) -> None:
        if not self._says_unsettled:
            return
        while (unsettled := self._unsettled.next(now, self._requests.next_number)) is not None:
            self._requests.numbered()
            self._send(wire.ClientFrame(unsettled=unsettled), now)

    def _use_or_ask(self, interests: Collection[Interest], now: float) -> None:
        names = names_of(interests)
        has_query = bool(queries_of(interests))
        if not self._crcs.are_said and (has_query or not self._crcs.use(names)):
            self._send(wire.ClientFrame(use_names=wire.UseNames()), now)
            self._crcs.say_all()

    @property
    def _moves(self) -> bool:
        """Returns True if there is a cursor to acknowledge."""
        return any(stream.acknowledgement is not None for stream in self._streams)

    def _send_ack(self, now: float) -> None:
        """Sends both cursors, and the pages that have come."""
        self._ack_due = None
        moves = self._moves
        if moves:
            # What the cursor has passed and the application has not taken is said before.
            self._unsettled.hurry(now)
            self._send_unsettled(now)
        ack, log = wire.Ack(), wire.Stream()
        parts = (self.objects, ack), (self.channels, log)
        if moves and self._says_unsettled and self._unsettled.is_late:
            self._ack_due = now  # as soon as nothing holds that any more
            for stream, said in parts:
                stream.acknowledge_page(said)
        else:
            for stream, said in parts:
                stream.acknowledge(said)
        ack.streams.extend(streams_of(log))
        if ack.ByteSize():
            self._send(wire.ClientFrame(ack=ack), now)

    def _send(self, frame: wire.ClientFrame, now: float) -> None:
        self._out += encode(frame)
        self._sent_at = now

    # Time

    def doubt(self, now: float, stood_still_s: float) -> None:
        """Doubts the connection: asks by a Ping, and gives the answer a short time.

        If that is asked already, and unanswered, only the time for which the client did not stand still counts: so a
        client that is awake for a moment now and then gives up a dead connection, too.
        """
        if self.ended is not None or self._said_bye:
            return
        due = now + self._settings.silence_grace_s if self._doubt is None else self._doubt.due + stood_still_s
        if self._ping_unanswered_since is not None:
            self._ping_unanswered_since += stood_still_s
        self._ping(now)
        self._doubt = _Doubt(self._pings, due)

    @property
    def may_move(self) -> bool:
        """True if a session may take over from this one: no set is under way that the service would get twice."""
        return self.ended is None and self._sync is None and not self._said_bye

    @property
    def fresh_as_of(self) -> float:
        """Everything acknowledged before that time has come, whether it is told yet or not; or it is the begin of the
        session.
        """
        return self._freshness.came_as_of

    @property
    def in_doubt(self) -> bool:
        """True if the connection may be dead, as far as is known."""
        return self._doubt is not None

    def tick(self, now: float) -> None:
        """Does what is due: acknowledges, pings, repeats requests, gives up."""
        if self.ended is not None or self._said_bye:
            return
        if self._queries.descriptions.asked and not self._asks_descriptions:
            self._end(None, "the next session asks for descriptions")
            return
        if self._ack_at() <= now:
            self._send_ack(now)
        if self._delivery.shares.hold_at <= now:
            self._send_holds(now)
        if self._says_unsettled:
            self._unsettled.tick(now, self._overdue(self._unsettled.answer_due))
        self._requests.tick(now, self._overdue)
        if self._sync is not None and self._sync.due is not None and self._overdue(self._sync.due) <= now:
            self._begin_sync()
        if self._ping_at() <= now:
            self._ping(now)
        if self._welcome_due is not None and self._welcome_due <= now:
            self._end(None, f"no Welcome within {WELCOME_S:g} s")
        if self._doubt is not None and self._doubt.due <= now:
            self._end(None, "no answer to a Ping after the client stood still, or its network has changed")
        silent_since = self._ping_unanswered_since
        if silent_since is not None and silent_since + self._settings.silence_s <= now:
            reason = f"nothing heard for {self._settings.silence_s:g} s after a Ping"
            self.ended = self.ended or SessionEnded(None, reason, silent=True)

    def deadline(self) -> float:
        """Returns when `tick` next has something to do."""
        due = [self._ping_at(), self._ack_at(), self._publications.deadline()]
        if self._takes_requests:
            due.append(self._delivery.shares.hold_at)
        if self._says_unsettled:
            due += [self._unsettled.due, self._overdue(self._unsettled.answer_due)]
        due += [] if self._welcome_due is None else [self._welcome_due]
        due += [self._overdue(one) for one in self._requests.due]
        if self._sync is not None and self._sync.due is not None:
            due.append(self._overdue(self._sync.due))
        if self._ping_unanswered_since is not None:
            due.append(self._ping_unanswered_since + self._settings.silence_s)
        if self._doubt is not None:
            due.append(self._doubt.due)
        return min(due)

    def _ack_at(self) -> float:
        if self._ack_due is None or (self._says_unsettled and self._unsettled.is_held):
            return float("inf")
        return self._ack_due

    def _ping_at(self) -> float:
        keepalive_s = self._settings.keepalive_s
        due = min(self._sent_at, self._heard_at) + keepalive_s
        return min(due, self._freshness.ping_due(keepalive_s)) if self.is_live else due

    def _ping(self, now: float) -> None:
        ping = wire.Ping()
        if self.phase in (Phase.CATCHING, Phase.LIVE) and self._registrations.all_confirmed:
            ping.digest = self._registrations.digest
        self._send(wire.ClientFrame(ping=ping), now)
        self._pings += 1
        self._freshness.pinged(now)
        self._heard_at = now
        if self._ping_unanswered_since is None:
            self._ping_unanswered_since = now

    def _overdue(self, due: float) -> float:
        """Returns when a request is to be repeated: not while the gateway sends Wait."""
        return max(due, self._wait_until)
