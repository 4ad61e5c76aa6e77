"""What the matcher says: the records of the inbox."""

import sys
from array import array
from collections.abc import Iterator

from coldnotify_schemas.close_codes import CloseCode
from coldnotify_schemas.internal_pb2 import Answered, BeatAnswer, Closed, FanOut, Inbox, Item, Opened, Page

from coldnotify_gateway.core import encoding
from coldnotify_gateway.core.asking import FORMAT, Asking
from coldnotify_gateway.core.connections import Connections
from coldnotify_gateway.core.counters import Counters
from coldnotify_gateway.core.encoding import NONE
from coldnotify_gateway.core.from_client import FromClient
from coldnotify_gateway.core.identified import Identified
from coldnotify_gateway.core.limits import Limits
from coldnotify_gateway.core.outputs import Output, Send, SendAll
from coldnotify_gateway.core.partition import PartitionView
from coldnotify_gateway.core.states import Event, State
from coldnotify_gateway.core.timers import NEVER_S

_SESSION_BYTES = 4


class FromMatcher:
    """Handles inbox records.

    Outputs come lazily, item by item: so a connection that a fan-out fills is known to be full before the next item.
    All that an output rests on is done before it is handed out. The caller consumes them all, in order.
    """

    def __init__(
        self,
        gateway_id: int,
        connections: Connections,
        asking: Asking,
        from_client: FromClient,
        limits: Limits,
        counters: Counters,
    ) -> None:
        self._id = gateway_id
        self._connections = connections
        self._asking = asking
        self._from_client = from_client
        self._limits = limits
        self._counters = counters

    def on_inbox(self, inbox: Inbox, now_s: float) -> Iterator[Output]:
        """One record. Another gateway's is skipped, an old matcher's dropped; behind a gap, all is asked anew first."""
        if inbox.gateway not in (0, self._id):
            self._counters.foreign_records += 1
            return
        if inbox.format != FORMAT or inbox.partition >= len(self._connections.views):
            self._counters.malformed_records += 1
            return
        view = self._connections.views[inbox.partition]
        if inbox.generation < view.generation:
            self._counters.stale_records += 1
            view.said_in_vain = view.said_in_vain or inbox.gateway == self._id
            return
        if inbox.generation > view.generation:
            # The number first: what follows in this very record is counted from the new matcher's 1.
            view.begin_generation(inbox.generation, now_s)
            yield from self._on_new_matcher(view, now_s)
            if view.said_in_vain:
                # A matcher that did not know how high the generations were; it came back, and repeats nothing.
                view.said_in_vain = False
                yield from self.after_loss(view, now_s)
        if inbox.gateway == 0:
            return
        if not view.take_number(inbox.number):
            self._counters.gaps += 1
            yield from self.after_loss(view, now_s)
        for item in inbox.items:
            if item.HasField("fan_out"):
                yield from self._on_fan_out(view, item.fan_out)
            else:
                yield from self._on_item(view, item, now_s)

    def after_loss(self, view: PartitionView, now_s: float) -> Iterator[Output]:
        """Records of this partition are lost, or the matcher had lost sight of us: every session is announced anew."""
        for session in list(view.sessions.values()):
            if session.state is not State.SLOW:  # that one asks once it is drained
                yield self._asking.open(session, now_s)

    def _on_new_matcher(self, view: PartitionView, now_s: float) -> Iterator[Output]:
        """Those that wait for an answer ask the new matcher: the old one may have taken the question with it."""
        for session in list(view.sessions.values()):
            session.asked_times = 0
            # Registrations can be lost without notice only where they are loaded. The client's next Ping is passed on.
            session.doubted = session.agreed is not None
            if session.answer_due_s != NEVER_S and now_s - session.asked_s > self._limits.wait_after_s:
                yield from self._asking.again(session, now_s)

    def _on_item(self, view: PartitionView, item: Item, now_s: float) -> Iterator[Output]:
        match item.WhichOneof("item"):
            case "opened":
                yield from self._on_opened(view, item.opened, now_s)
            case "answered":
                yield from self._on_answered(view, item.answered, now_s)
            case "page":
                yield from self._on_page(view, item.page, now_s)
            case "closed":
                yield from self._on_closed(view, item.closed, now_s)
            case "beat":
                yield from self._on_beat(view, item.beat, now_s)

    def _on_fan_out(self, view: PartitionView, fan_out: FanOut) -> list[Output]:
        newest, sessions = fan_out.newest, fan_out.sessions
        if len(sessions) % _SESSION_BYTES:
            self._counters.malformed_records += 1
            return []
        numbers = array("I", sessions)
        if sys.byteorder == "big":
            numbers.byteswap()
        # This is the hot path: per session one dict lookup, then one write by the shell.
        peers = [peer for peer in map(view.live.get, numbers) if peer is not None]
        named = [peer for peer in map(view.live_names.get, numbers) if peer is not None] if view.live_names else []
        delivered = len(peers) + len(named)
        counters = self._counters
        counters.fan_outs += 1
        counters.deliveries += delivered
        counters.live_dropped += len(numbers) - delivered
        view.fanned_out(newest.offset, encoding.complete_of(newest))
        outputs: list[Output] = []
        if peers:
            frame = encoding.notification(newest, names=False)
            counters.sent_bytes += len(frame) * len(peers)
            outputs.append(SendAll(peers, frame, fan_out.published_ms, fan_out.traceparent))
        if named:
            frame = encoding.notification(newest, names=True)
            counters.sent_bytes += len(frame) * len(named)
            outputs.append(SendAll(named, frame, fan_out.published_ms, fan_out.traceparent))
        return outputs

    def _on_opened(self, view: PartitionView, opened: Opened, now_s: float) -> Iterator[Output]:
        session = view.sessions.get(opened.session)
        if session is None:
            return
        if opened.ask != session.ask:
            self._counters.stale_answers += 1
            if session.state is State.LIVE and not opened.in_sync:
                # A new matcher answers an earlier Open once more; until asked anew, it tells the session nothing.
                yield self._asking.open(session, now_s)
            return
        if opened.in_sync and session.state not in (State.OPENING, State.UNSYNCED):
            if session.checking:
                session.checking = session.check_wanted = session.doubted = False
                session.agreed = opened.digest
                session.answered()
            return
        if opened.HasField("epoch"):
            if opened.in_sync and session.announced:
                # Its client has had its Welcome and would go on with a cursor that is void. Its next Hello tells it.
                yield from self._connections.close(session, CloseCode.UNKNOWN_SESSION, "its cursor is void", now_s)
                return
            session.epoch, session.complete, session.acked = opened.epoch, NONE, NONE
        if opened.in_sync:
            yield from self._on_in_sync(session, opened, now_s)
            return
        session.move(Event.OPENED_NOT_IN_SYNC)
        session.opened, session.announced = True, False
        session.register = session.unregister = ()
        session.checking = session.check_wanted = False
        session.page_due = session.page_sent = 0
        session.answered()
        yield Send(session.peer, encoding.welcome(opened))

    def _on_in_sync(self, session: Identified, opened: Opened, now_s: float) -> Iterator[Output]:
        welcome = not session.announced
        if session.state is State.UNSYNCED:
            # All that the client is registered for is to come; asking again for the rest, it must not begin further on.
            session.complete = NONE
        session.move(Event.OPENED_IN_SYNC)
        session.opened, session.announced = True, False
        session.register = session.unregister = ()
        session.agreed = opened.digest
        session.doubted = False
        session.unanswered = 0
        session.answered()
        session.page_due = 1
        self._asking.wait_for_answer(session, now_s)  # the first page comes right behind
        if welcome:
            yield Send(session.peer, encoding.welcome(opened))

    def _on_page(self, view: PartitionView, page: Page, now_s: float) -> Iterator[Output]:
        session = view.sessions.get(page.session)
        if session is None:
            return  # it left while it was asked for
        if page.ask != session.ask or page.page != session.page_due or session.state is not State.CATCHING:
            self._counters.stale_answers += 1
            if session.state is State.LIVE:
                # A new matcher answers once more what the old one had answered, perhaps one of the session's earlier
                # askings, and believes the session to be where this page ends. It is where its client stands.
                yield from self._asking.catch_up(session, now_s)
            return
        self._counters.pages += 1
        frames = encoding.notifications(list(page.newest), names=session.names)
        completes = [encoding.complete_of(newest) for newest in page.newest]
        complete = page.complete if page.HasField("complete") else NONE
        session.complete = max([session.complete, complete, *completes])
        session.answered()
        session.page_due = 0
        if not page.last:
            session.page_sent = page.page
            data = frames + encoding.page_end(page.page)
            # In front of the first page of a later asking, what was sent live may still be under way.
            session.pace.begin(len(data) if page.page > 1 or page.ask == 1 else 0, now_s)
            yield Send(session.peer, data)
            return
        session.page_sent = 0
        session.move(Event.BLOCKED if session.blocked else Event.LAST_PAGE)
        yield Send(session.peer, frames + encoding.caught_up(complete))
        yield from self._from_client.check_digest(session, now_s)

    def _on_answered(self, view: PartitionView, answered: Answered, now_s: float) -> Iterator[Output]:
        session = view.sessions.get(answered.session)
        if session is None:
            return
        if answered.request:
            session.unanswered = max(0, session.unanswered - 1)
            session.agreed = answered.digest
        yield Send(session.peer, encoding.answer(answered, names=session.names))

    def _on_closed(self, view: PartitionView, closed: Closed, now_s: float) -> Iterator[Output]:
        session = view.sessions.get(closed.session)
        if session is not None:
            yield from self._connections.close(session, closed.code, closed.reason, now_s, leave=False)

    def _on_beat(self, view: PartitionView, beat: BeatAnswer, now_s: float) -> Iterator[Output]:
        complete = beat.complete if beat.HasField("complete") else NONE
        if view.beat_answered(beat.serial, agreed=beat.agreed, complete=complete):
            for session in list(view.sessions.values()):
                yield self._asking.open(session, now_s)
