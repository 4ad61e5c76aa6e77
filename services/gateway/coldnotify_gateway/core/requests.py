"""Makes the requests that the gateway sends to the matcher, and updates the session that asks."""

from collections import defaultdict
from collections.abc import Mapping
from itertools import zip_longest
from operator import itemgetter

from coldnotify_schemas.close_codes import CloseCode
from coldnotify_schemas.internal_pb2 import (
    WILL_UNSAID,
    Acks,
    AskOutcome,
    Beat,
    CatchUp,
    CheckDigest,
    Describe,
    IsThere,
    Leave,
    Open,
    Receive,
    Request,
)
from coldnotify_schemas.internal_protocol import FORMAT
from coldnotify_schemas.wire_pb2 import Hold, Register, SyncChunk, Unregister, Unsettled

from coldnotify_gateway.core.channels_stream import ChannelsStream, has_channels
from coldnotify_gateway.core.counters import Counters
from coldnotify_gateway.core.identified import Identified
from coldnotify_gateway.core.limits import CATCH_UPS_BEFORE_OPEN, Limits
from coldnotify_gateway.core.outputs import Output, Produce
from coldnotify_gateway.core.partition_view import PartitionView
from coldnotify_gateway.core.question import Asked, QuestionStep
from coldnotify_gateway.core.states import PhaseEvent, SessionPhase
from coldnotify_gateway.core.stream import NONE, OBJECTS, Stream, or_none
from coldnotify_gateway.core.timers import Timers
from coldnotify_gateway.core.unidentified import Unidentified
from coldnotify_gateway.core.violation import Violation

OfEpoch = tuple[int, int | None, list[tuple[int, int]]]
"""Acknowledgements of one epoch: the log, the epoch, and a pair of session number and acknowledged offset for each."""
_NUMBER, _OFFSET = itemgetter(0), itemgetter(1)
UNSENT_S = 1.0
"""Time after which a Hold that could not be sent is tried again."""
ACKS_MAX = 4096
"""Most sessions in one request: about 60 KiB, and a few milliseconds of the matcher's time."""


class RequestMaker:
    """Makes requests. Every Open, first CatchUp of a row and CheckDigest has a new `ask`: `session.question.number`."""

    def __init__(
        self, gateway_id: int, inbox: int, limits: Limits, counters: Counters, timers: Timers[Unidentified | Identified]
    ) -> None:
        self._id = gateway_id
        self._id_key = f"{gateway_id:016x}".encode()
        self._inbox = inbox
        self._limits = limits
        self._counters = counters
        self._timers = timers

    def open(self, session: Identified, now_s: float) -> Output:
        """Makes an Open: the first one, a repeated one, or the announcement of a session whose client has had its
        Welcome."""
        again = session.question.number > 0
        announced = session.welcomed
        if announced and not session.question.announces:
            self._counters.announcements += 1
        session.move(PhaseEvent.ASK_OPEN)
        pending = session.claim.pending
        channels = session.ask_channels(now_s)
        self._expect(session, QuestionStep.ASK_ANNOUNCEMENT if announced else QuestionStep.ASK_OPEN, now_s)
        session.ask_objects(now_s, after_opened=True)
        said = Open(
            digest=session.claim.digest(announced=announced),
            register=pending.register,
            unregister=pending.unregister,
            interests=pending.interests,
            unregister_interests=pending.unregister_interests,
            epoch=session.objects.epoch,
            cursor=or_none(session.objects.complete),
            ask=session.question.number,
            again=again,
            never_opened=again and not session.opened,
            acked=or_none(session.objects.acked) if again else None,
            page_bytes=session.page_bytes,
            descriptions=session.descriptions,
            channels_in_order=session.channels_in_order,
            all_unsettled=session.all_unsettled and not session.opened,
            shares=True,
            kept=None if session.device is None else session.device.kept(again=session.opened),
        )
        if channels is not None:
            said.streams.add(
                log=channels.log or 0,
                epoch=channels.epoch,
                cursor=or_none(channels.complete),
                ask=channels.number,
                acked=or_none(channels.acked) if again else None,
            )
        return self._request(session, open=said)

    def catch_up(self, session: Identified, now_s: float) -> list[Output]:
        """Requests everything above the offset that the session is complete to; later, if its connection is full."""
        if session.blocked:
            session.objects.block_before_asking()
            session.question.give_up()
            return []
        self._expect(session, QuestionStep.ASK_PAGE, now_s)
        session.ask_objects(now_s, after_opened=False)
        return [self._ask_page(session, session.objects, 0)]

    def catch_up_channels(self, session: Identified, now_s: float) -> list[Output]:
        """Requests all messages above the offset that the session's channels are complete to; later, if its connection
        is full."""
        channels = session.channels
        if channels is None:
            return []
        if session.blocked:
            channels.block_before_asking()
            return []
        session.ask_channels(now_s)
        self._timers.look_at(session, now_s)
        return [self._ask_page(session, channels, 0)]

    def channels_again(self, session: Identified, now_s: float) -> list[Output]:
        """Requests channels again, because no page arrived. If only the client knows the positions, repeats the same
        page."""
        channels = session.channels
        if channels is None:
            return []
        channels.expect_again(now_s)
        if not session.opened:
            return []  # its Open requests them, and has its own timer
        if not channels.behind:
            return self.catch_up_channels(session, now_s)
        # A page of a new number would begin at the gateway's position. A page of this number that is in transit is
        # accepted, and its repetition is dropped.
        return [self._ask_page(session, channels, channels.page - 1)]

    def channels_not_taken(self, session: Identified, failed: Request, now_s: float) -> None:
        """Repeats a question about channels sooner, because Kafka may not have accepted this request."""
        if session.channels is not None and failed.HasField("stream_catch_up"):
            session.channels.not_taken(failed.stream_catch_up.ask, now_s + self._limits.ask_again_s)
            self._timers.look_at(session, now_s)

    def next_page(self, session: Identified, stream: Stream, now_s: float) -> Output:
        """Requests the next page by the same number, because the client has acknowledged the one that was sent."""
        page = stream.page
        if isinstance(stream, ChannelsStream):
            stream.expect_next(now_s)
            self._timers.look_at(session, now_s)
        else:
            stream.acknowledged()
            self.expect_page(session, now_s)
        return self._ask_page(session, stream, page)

    def check_digest(self, session: Identified, now_s: float) -> Output:
        """Makes a CheckDigest, which asks if the client's and the matcher's digests are equal. The session stays
        live."""
        self._expect(session, QuestionStep.ASK_CHECK, now_s)
        check = CheckDigest(digest=session.claim.said, ask=session.question.number)
        return self._request(session, check_digest=check)

    def opens_again(self, session: Identified) -> bool:
        """Returns true if an Open repeats the last question."""
        if session.question.checks:
            return False
        return not session.catching or session.question.times >= CATCH_UPS_BEFORE_OPEN

    def again(self, session: Identified, now_s: float) -> list[Output]:
        """Repeats a question that is not an Open, because no answer has arrived."""
        self._counters.asked_again += 1
        session.question.unanswered()
        if session.question.checks:
            session.question.give_up()
            # Operations since then have outdated the client's digest; its next Ping carries another one.
            again = session.claim.to_check and session.live
            return [self.check_digest(session, now_s)] if again else []
        return self.catch_up(session, now_s)

    def register(self, session: Identified, register: Register, now_s: float) -> list[Output]:
        """Forwards a Register, unless too many requests are unanswered."""
        if not self._may_request(session, now_s):
            return []
        if has_channels(register.interests):
            session.say_channels(register.request)
        return [self._request(session, register=register)]

    def unregister(self, session: Identified, unregister: Unregister, now_s: float) -> list[Output]:
        """Forwards an Unregister, unless too many requests are unanswered."""
        if not self._may_request(session, now_s):
            return []
        return [self._request(session, unregister=unregister)]

    def unsettled(self, session: Identified, unsettled: Unsettled, now_s: float) -> list[Output]:
        """Forwards an Unsettled, unless too many requests are unanswered."""
        if session.quota.take_request(now_s, self._limits):
            return [self._request(session, unsettled=unsettled)]
        self._counters.requests_dropped += 1
        return []

    def hold(self, session: Identified, hold: Hold, now_s: float) -> list[Output]:
        """Forwards a Hold, unless too many requests are unanswered, or the client has had no Welcome."""
        if session.opened and session.quota.take_request(now_s, self._limits):
            session.hold()
            return [self._request(session, hold=hold)]
        self._counters.requests_dropped += 1
        return []

    def say_held(self, session: Identified, now_s: float) -> list[Output]:
        """Says what an MQTT device holds of shares, where something of that is due."""
        shares = None if session.device is None else session.device.shares
        if shares is None or not session.opened:
            return []
        hold = shares.hold(now_s)
        outputs = [] if hold is None else self.hold(session, hold, now_s)
        if hold is not None and not outputs:
            shares.not_sent(hold, now_s + UNSENT_S)
        self._timers.look_at(session, now_s)
        return outputs

    def last_hold(self, session: Identified, now_s: float) -> list[Output]:
        """Says what an MQTT device whose session ends has settled."""
        shares = None if session.device is None else session.device.shares
        hold = None if shares is None or not session.opened else shares.last_hold(now_s)
        return [] if hold is None else [self._request(session, hold=hold)]

    def check_chunk_index(self, index: int) -> None:
        """Raises Violation if the index of a SyncChunk exceeds the size of a set."""
        chunks_max = self._limits.sync_chunks_max
        if index >= chunks_max:
            raise Violation(
                CloseCode.PROTOCOL_ERROR, f"sync: chunk {index}, a set of at most {chunks_max} chunks is taken"
            )

    def sync(self, session: Identified, chunk: SyncChunk, now_s: float) -> list[Output]:
        """Forwards a SyncChunk, unless too many were forwarded. Expects an Opened after the last one."""
        if not session.quota.take_chunk(now_s, self._limits):
            self._counters.requests_dropped += 1
            return []
        if chunk.last and session.phase is SessionPhase.UNSYNCED and session.question.asked is Asked.NOTHING:
            # A repeated set does not restart the wait: a matcher that has loaded the session answers the set with an
            # unknown question number, which is ignored, until it gets a new question.
            self._expect(session, QuestionStep.EXPECT_SET, now_s)
        if has_channels(chunk.interests):
            session.say_channels()
        return [self._request(session, sync=chunk)]

    def is_there(self, session: Identified, object_: str, now_s: float) -> Output:
        """Makes an IsThere, which asks if this object is published. The client's publish of it waits for the answer,
        for `is_there_s` at most."""
        ask = session.publishes.ask(now_s + self._limits.is_there_s)
        self._timers.look_at(session, now_s)
        return self._request(session, is_there=IsThere(object=object_, ask=ask))

    def describe(self, session: Identified, object_: str, patch: bytes, now_s: float) -> Output:
        """Makes a Describe, which merges a patch into this object's description. The client's publish of it waits for
        the answer, and is refused for now if none comes within `describe_s`."""
        ask = session.publishes.ask(now_s + self._limits.describe_s, describes=True)
        self._timers.look_at(session, now_s)
        return self._request(session, describe=Describe(object=object_, patch=patch, ask=ask))

    def ask_outcome(self, session: Identified, object_: str, offset: int, ask: int) -> Output:
        """Makes an AskOutcome, which asks for the outcome of the version at this offset in Kafka. `ask` is the
        client's."""
        return self._request(session, ask_outcome=AskOutcome(object=object_, offset=offset, ask=ask))

    def receive(self, session: Identified, said: Receive) -> Output:
        """Makes a Receive, which has the service hold publishes of QoS 2, or hold them no more."""
        return self._request(session, receive=said)

    def message_id(self, session: Identified, number: int) -> str:
        """Returns an id that no other message has. `number`: of the publish in its session."""
        return f"{self._id:016x}.{session.number}.{number}"

    def leave(self, session: Identified, *, bye: bool = False) -> Output:
        """Makes a Leave for a session that has ended. `bye`: its client has said so."""
        # Before the Opened the client's offset may belong to another epoch.
        objects = session.objects
        expiry_s = None if session.device is None else session.device.expiry_s
        will = WILL_UNSAID if session.device is None else session.device.leaves_will
        said = Leave(expiry_s=expiry_s, will=will, bye=bye)
        if session.opened:
            said = Leave(complete=or_none(objects.acked), epoch=objects.epoch, expiry_s=expiry_s, will=will, bye=bye)
        channels = session.channels
        if channels is not None and session.opened and channels.acked != NONE:
            said.streams.add(log=channels.log or 0, epoch=channels.epoch, complete=channels.acked)
        return self._request(session, leave=said)

    def acks(self, view: PartitionView[Identified]) -> list[Output]:
        """Makes Acks of the partition's new acknowledgements, and clears these."""
        objects, others = (_by_epoch(said, view.sessions, place) for place, said in enumerate(view.acks))
        for said in view.acks:
            said.clear()
        outputs: list[Output] = []
        nothing: OfEpoch = (0, None, [])
        for (_, epoch, some), (log, other_epoch, more) in zip_longest(objects, others, fillvalue=nothing):
            acks = Acks(sessions=map(_NUMBER, some), completes=map(_OFFSET, some), epoch=epoch)
            if more:
                acks.streams.add(log=log, epoch=other_epoch, sessions=map(_NUMBER, more), completes=map(_OFFSET, more))
            outputs.append(self._of_gateway(view, acks=acks))
        return outputs

    def beat(self, view: PartitionView[Identified]) -> Output:
        """Makes a Beat, which shows that the gateway is alive and summarizes its sessions."""
        beat = Beat(
            sessions=len(view.sessions),
            checksum=view.checksum,
            generation=view.generation,
            number=view.number or 0,
            serial=view.next_beat(),
        )
        return self._of_gateway(view, beat=beat)

    def expect_page(self, session: Identified, now_s: float) -> None:
        """Expects a page that answers the last question. If it does not arrive, the question is repeated."""
        self._expect(session, QuestionStep.EXPECT_PAGE, now_s)

    def worked_on(self, session: Identified, now_s: float) -> None:
        """Notes that the matcher is working on the last question."""
        session.question.worked_on(now_s, self._limits)
        self._timers.look_at(session, now_s)

    def _ask_page(self, session: Identified, stream: Stream, page: int) -> Output:
        """Requests a page. `page`: the page that the client has acknowledged; 0: begins a row at the client's
        position."""
        cursor, page_bytes = or_none(stream.complete), session.page_bytes
        paging = stream.paging if page else 0
        said = CatchUp(
            cursor=cursor, ask=stream.number, page=page, epoch=stream.epoch, page_bytes=page_bytes, paging=paging
        )
        if stream.place == OBJECTS:
            return self._request(session, catch_up=said)
        return self._request(session, stream_catch_up=said)

    def _expect(self, session: Identified, step: QuestionStep, now_s: float) -> None:
        session.question.step(step, now_s, self._limits, session.view.beats)
        self._timers.look_at(session, now_s)

    def _may_request(self, session: Identified, now_s: float) -> bool:
        session.claim.outdated()
        if session.quota.take_request(now_s, self._limits):
            return True
        self._counters.requests_dropped += 1
        return False

    def _request(
        self,
        session: Identified,
        *,
        open: Open | None = None,  # noqa: A002  (the field's name)
        register: Register | None = None,
        unregister: Unregister | None = None,
        sync: SyncChunk | None = None,
        catch_up: CatchUp | None = None,
        stream_catch_up: CatchUp | None = None,
        check_digest: CheckDigest | None = None,
        is_there: IsThere | None = None,
        ask_outcome: AskOutcome | None = None,
        leave: Leave | None = None,
        unsettled: Unsettled | None = None,
        hold: Hold | None = None,
        receive: Receive | None = None,
        describe: Describe | None = None,
    ) -> Output:
        request = Request(
            format=FORMAT,
            gateway=self._id,
            inbox=self._inbox,
            session=session.number,
            domain=session.domain,
            group=session.group,
            client=session.client,
            open=open,
            register=register,
            unregister=unregister,
            sync=sync,
            catch_up=catch_up,
            stream_catch_up=stream_catch_up,
            check_digest=check_digest,
            is_there=is_there,
            ask_outcome=ask_outcome,
            leave=leave,
            unsettled=unsettled,
            hold=hold,
            receive=receive,
            describe=describe,
            descriptions=(register is not None or sync is not None) and session.descriptions,
            shares=any(one is not None for one in (register, sync, check_digest)),
        )
        return self._produce(session.view, session.key, request)

    def _of_gateway(
        self, view: PartitionView[Identified], *, acks: Acks | None = None, beat: Beat | None = None
    ) -> Output:
        request = Request(format=FORMAT, gateway=self._id, inbox=self._inbox, acks=acks, beat=beat)
        return self._produce(view, self._id_key, request)

    def _produce(self, view: PartitionView[Identified], key: bytes, request: Request) -> Output:
        self._counters.requests[request.WhichOneof("body") or ""] += 1
        return Produce(view.partition, key, request)


def _by_epoch(acks: Mapping[int, int], sessions: Mapping[int, Identified], place: int) -> list[OfEpoch]:
    """Groups acknowledgements by epoch, at most ACKS_MAX in a group. After a takeover they include every session's."""
    by_epoch: defaultdict[tuple[int, int | None], list[tuple[int, int]]] = defaultdict(list)
    for number, complete in acks.items():
        stream = sessions[number].streams[place]
        by_epoch[stream.log or 0, stream.epoch].append((number, complete))
    return [
        (log, epoch, said[start : start + ACKS_MAX])
        for (log, epoch), said in by_epoch.items()
        for start in range(0, len(said), ACKS_MAX)
    ]
