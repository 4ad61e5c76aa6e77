"""What the gateway asks of the matcher, and what asking does to a session."""

from coldnotify_schemas.close_codes import CloseCode
from coldnotify_schemas.internal_pb2 import Acks, Beat, CatchUp, CheckDigest, Leave, Open, Request
from coldnotify_schemas.wire_pb2 import Register, SyncChunk, Unregister

from coldnotify_gateway.core.counters import Counters
from coldnotify_gateway.core.encoding import NONE
from coldnotify_gateway.core.identified import Identified
from coldnotify_gateway.core.limits import ASK_AGAIN_DOUBLINGS_MAX, CATCH_UPS_BEFORE_OPEN, Limits
from coldnotify_gateway.core.outputs import Output, Produce
from coldnotify_gateway.core.partition import PartitionView
from coldnotify_gateway.core.states import Event, State
from coldnotify_gateway.core.timers import NEVER_S, Timers
from coldnotify_gateway.core.unidentified import Unidentified
from coldnotify_gateway.core.violation import Violation

FORMAT = 1


class Asking:
    """Makes requests. Every Open, CatchUp from anew and CheckDigest gets a new ask; answers to older ones are stale."""

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
        """Open: the first one, once more, or as an announcement of a session whose client has had its Welcome."""
        again = session.ask > 0
        announced = session.welcomed
        if announced and not session.announced:
            self._counters.announcements += 1
        if not again or session.state is not State.OPENING:
            session.wait_due_s = now_s + self._limits.wait_after_s
        session.move(Event.ASK_OPEN)
        session.announced = announced
        agreed = session.agreed
        digest = session.said if not announced or session.check_wanted or agreed is None else agreed
        self._new_ask(session, now_s)
        return self._request(
            session,
            open=Open(
                digest=digest,
                register=session.register,
                unregister=session.unregister,
                epoch=session.epoch,
                cursor=_optional(session.complete),
                ask=session.ask,
                again=again,
                acked=_optional(session.acked) if again else None,
                page_bytes=session.pace.page_bytes,
            ),
        )

    def catch_up(self, session: Identified, now_s: float) -> list[Output]:
        """Everything above what the session is complete to; later, if its connection is full."""
        if session.blocked:
            session.move(Event.BLOCKED)
            session.page_due = session.page_sent = 0
            session.answer_due_s = NEVER_S
            return []
        if session.checking:
            # The matcher may just have found it not in sync, and then it answers nothing but an Open.
            return [self.open(session, now_s)]
        session.move(Event.ASK_CATCH_UP)
        self._new_ask(session, now_s)
        session.page_due = 1
        return [self._request(session, catch_up=_catch_up(session, page=0))]

    def next_page(self, session: Identified, now_s: float) -> Output:
        """The client has the page that was sent: the next one, of the same asking."""
        page, session.page_sent = session.page_sent, 0
        session.page_due = page + 1
        self.wait_for_answer(session, now_s)
        return self._request(session, catch_up=_catch_up(session, page))

    def check_digest(self, session: Identified, now_s: float) -> Output:
        """Are the client's digest and the matcher's the same? The session stays live meanwhile."""
        self._new_ask(session, now_s)
        session.checking = True
        return self._request(session, check_digest=CheckDigest(digest=session.said, ask=session.ask))

    def again(self, session: Identified, now_s: float) -> list[Output]:
        """No answer came: asks once more."""
        self._counters.asked_again += 1
        session.asked_times += 1
        if session.checking:
            session.checking = False
            session.answer_due_s = NEVER_S
            # Operations that came since make the digest that was said a thing of the past; the next Ping says another.
            return [self.check_digest(session, now_s)] if session.check_wanted and session.state is State.LIVE else []
        if session.state is State.CATCHING and session.asked_times <= CATCH_UPS_BEFORE_OPEN:
            return self.catch_up(session, now_s)
        return [self.open(session, now_s)]

    def register(self, session: Identified, register: Register, now_s: float) -> list[Output]:
        """Register is passed on, unless too many are unanswered."""
        return [self._request(session, register=register)] if self._may_request(session, now_s) else []

    def unregister(self, session: Identified, unregister: Unregister, now_s: float) -> list[Output]:
        """Unregister is passed on, unless too many are unanswered."""
        return [self._request(session, unregister=unregister)] if self._may_request(session, now_s) else []

    def check_chunk_index(self, index: int) -> None:
        """Whether a set may have a SyncChunk of this index. Raises Violation."""
        chunks_max = self._limits.sync_chunks_max
        if index >= chunks_max:
            raise Violation(
                CloseCode.PROTOCOL_ERROR, f"sync: chunk {index}, a set of at most {chunks_max} chunks is taken"
            )

    def sync(self, session: Identified, chunk: SyncChunk, now_s: float) -> list[Output]:
        """A SyncChunk is passed on, unless too many were; after the last one an Opened is to come."""
        if now_s - session.sync_began_s > self._limits.sync_chunks_s:
            session.sync_began_s, session.sync_chunks = now_s, 0
        if session.sync_chunks >= self._limits.sync_chunks_max:
            self._counters.requests_dropped += 1
            return []
        session.sync_chunks += 1
        if chunk.last and session.state is State.UNSYNCED and session.answer_due_s == NEVER_S:
            # Not put off by a set that is sent once more: a matcher that loaded the session answers it in vain, by an
            # asking that it does not know, until it is asked anew.
            self.wait_for_answer(session, now_s)
        return [self._request(session, sync=chunk)]

    def leave(self, session: Identified) -> Output:
        """The session has ended."""
        # Before the Opened the client's number may be of another epoch.
        return self._request(session, leave=Leave(complete=_optional(session.acked) if session.opened else None))

    def acks(self, view: PartitionView) -> Output:
        """What the clients of this partition acknowledged since the last time."""
        acks = Acks(sessions=view.acks.keys(), completes=view.acks.values())
        view.acks.clear()
        return self._of_gateway(view, acks=acks)

    def beat(self, view: PartitionView) -> Output:
        """The gateway lives, and has these sessions."""
        beat = Beat(
            sessions=len(view.sessions),
            checksum=view.checksum,
            generation=view.generation,
            number=view.number or 0,
            serial=view.next_beat(),
        )
        return self._of_gateway(view, beat=beat)

    def _new_ask(self, session: Identified, now_s: float) -> None:
        session.ask += 1
        session.checking = False
        session.page_due = session.page_sent = 0
        session.asked_s = now_s
        self.wait_for_answer(session, now_s)

    def wait_for_answer(self, session: Identified, now_s: float) -> None:
        """Something is to come from the matcher; should it not, it is asked again."""
        doublings = min(session.asked_times, ASK_AGAIN_DOUBLINGS_MAX)
        session.answer_due_s = now_s + self._limits.ask_again_s * 2**doublings
        session.asked_s = now_s
        self._timers.look_at(session, now_s)

    def _may_request(self, session: Identified, now_s: float) -> bool:
        session.check_wanted = False
        if now_s - session.requested_s > self._limits.requests_forgotten_s:
            session.unanswered = 0
        if session.unanswered >= self._limits.requests_unanswered_max:
            self._counters.requests_dropped += 1
            return False
        session.unanswered += 1
        session.requested_s = now_s
        return True

    def _request(
        self,
        session: Identified,
        *,
        open: Open | None = None,  # noqa: A002  (the field's name)
        register: Register | None = None,
        unregister: Unregister | None = None,
        sync: SyncChunk | None = None,
        catch_up: CatchUp | None = None,
        check_digest: CheckDigest | None = None,
        leave: Leave | None = None,
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
            check_digest=check_digest,
            leave=leave,
        )
        return self._produce(session.view, session.key, request)

    def _of_gateway(self, view: PartitionView, *, acks: Acks | None = None, beat: Beat | None = None) -> Output:
        request = Request(format=FORMAT, gateway=self._id, inbox=self._inbox, acks=acks, beat=beat)
        return self._produce(view, self._id_key, request)

    def _produce(self, view: PartitionView, key: bytes, request: Request) -> Output:
        self._counters.requests[request.WhichOneof("body") or ""] += 1
        return Produce(view.partition, key, request)


def _catch_up(session: Identified, page: int) -> CatchUp:
    return CatchUp(
        cursor=_optional(session.complete),
        ask=session.ask,
        page=page,
        epoch=session.epoch,
        page_bytes=session.pace.page_bytes,
    )


def _optional(complete: int) -> int | None:
    return None if complete == NONE else complete
