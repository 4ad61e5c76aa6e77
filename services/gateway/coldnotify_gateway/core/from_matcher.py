"""What the matcher says: the records of the inbox."""

import sys
from array import array
from collections.abc import Sequence
from typing import NamedTuple

from coldnotify_schemas.close_codes import CloseCode
from coldnotify_schemas.internal_pb2 import Answered, BeatAnswer, Closed, FanOut, Inbox, Item, Opened, Page
from coldnotify_schemas.internal_protocol import FORMAT

from coldnotify_gateway.core import encoding
from coldnotify_gateway.core.connections import Connections
from coldnotify_gateway.core.counters import Counters
from coldnotify_gateway.core.encoding import NONE
from coldnotify_gateway.core.from_client import FromClient
from coldnotify_gateway.core.identified import Identified
from coldnotify_gateway.core.limits import Limits
from coldnotify_gateway.core.outputs import Output, Send, SendAll
from coldnotify_gateway.core.partition_view import PartitionView
from coldnotify_gateway.core.requests import Requests
from coldnotify_gateway.core.states import State

_SESSION_BYTES = 4
View = PartitionView[Identified]


class Intake(NamedTuple):
    """What a record's head leads to, and which of its items are to be handled."""

    outputs: list[Output]
    items: Sequence[Item]


NOTHING = Intake([], ())


class FromMatcher:
    """Handles inbox records, step by step: the head of a record, then each of its items.

    A step has ended when its outputs are handed out. Doing them may fill a connection, end it, or fail a request, and
    the core hears of that before the next step: so an item is not written to a connection that the item before it has
    filled. Nothing of a step that is left undone, or of a record, is kept here.
    """

    def __init__(
        self,
        gateway_id: int,
        connections: Connections,
        requests: Requests,
        from_client: FromClient,
        limits: Limits,
        counters: Counters,
    ) -> None:
        self._id = gateway_id
        self._connections = connections
        self._requests = requests
        self._from_client = from_client
        self._limits = limits
        self._counters = counters

    def on_inbox(self, inbox: Inbox, now_s: float) -> Intake:
        """A record's head. Another gateway's is skipped, an old matcher's dropped; behind a gap, all is asked anew."""
        if inbox.gateway not in (0, self._id):
            self._counters.foreign_records += 1
            return NOTHING
        if inbox.format != FORMAT or inbox.partition >= len(self._connections.views):
            self._counters.malformed_records += 1
            return NOTHING
        view = self._connections.views[inbox.partition]
        if inbox.generation < view.generation:
            self._counters.stale_records += 1
            if inbox.gateway == self._id:
                view.speaks_in_vain()
            return NOTHING
        outputs: list[Output] = []
        if inbox.generation > view.generation:
            # The number first: what follows in this very record is counted from the new matcher's 1.
            view.begin_generation(inbox.generation, now_s)
            outputs += self._on_new_matcher(view, now_s)
            if view.take_said_in_vain():
                # A matcher that did not know how high the generations were; it came back, and repeats nothing.
                outputs += self.after_loss(view, now_s)
        if inbox.gateway == 0:
            return Intake(outputs, ())
        if not view.take_number(inbox.number):
            self._counters.gaps += 1
            outputs += self.after_loss(view, now_s)
        return Intake(outputs, inbox.items)

    def on_item(self, partition: int, item: Item, now_s: float) -> list[Output]:
        """One item of a record of this partition; but for fan-outs."""
        view = self._connections.views[partition]
        match item.WhichOneof("item"):
            case "opened":
                return self._on_opened(view, item.opened, now_s)
            case "answered":
                return self._on_answered(view, item.answered, now_s)
            case "page":
                return self._on_page(view, item.page, now_s)
            case "closed":
                return self._on_closed(view, item.closed, now_s)
            case "beat":
                return self._on_beat(view, item.beat, now_s)
        return []

    def after_loss(self, view: View, now_s: float) -> list[Output]:
        """Records of this partition are lost, or the matcher had lost sight of us: every session is announced anew."""
        # A slow one asks once it is drained.
        there = [session for session in view.sessions.values() if session.state is not State.SLOW]
        return [self._requests.open(session, now_s) for session in there]

    def _on_new_matcher(self, view: View, now_s: float) -> list[Output]:
        """Those that wait for an answer ask the new matcher: the old one may have taken the question with it."""
        outputs: list[Output] = []
        for session in view.sessions.values():
            session.question.other_matcher()
            session.claim.other_matcher()
            if session.question.waits_since_s(now_s) > self._limits.wait_after_s:
                outputs += self._requests.again(session, now_s)
        return outputs

    def on_fan_out(self, partition: int, fan_out: FanOut) -> list[Output]:
        """A publish, and the sessions of this partition that are to be told."""
        view = self._connections.views[partition]
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

    def _on_opened(self, view: View, opened: Opened, now_s: float) -> list[Output]:
        session = view.sessions.get(opened.session)
        if session is None:
            return []
        if opened.ask != session.question.number:
            self._counters.stale_answers += 1
            if session.state is State.LIVE and not opened.in_sync:
                # A new matcher answers an earlier Open once more; until asked anew, it tells the session nothing.
                return [self._requests.open(session, now_s)]
            return []
        if opened.in_sync and session.state not in (State.OPENING, State.UNSYNCED):
            if session.question.checks:
                session.claim.checked(opened.digest)
                session.question.answered()
            else:
                # Nobody here asked. What the matcher holds may be another set; the next Ping finds out.
                session.claim.answered(opened.digest)
            return []
        announced = session.question.announces
        if opened.HasField("epoch"):
            if opened.in_sync and announced:
                # Its client has had its Welcome and would go on with a cursor that is void. Its next Hello tells it.
                return self._connections.close(session, CloseCode.UNKNOWN_SESSION, "its cursor is void", now_s)
            session.begin_epoch(opened.epoch)
        if not opened.in_sync:
            session.not_in_sync()
            return [Send(session.peer, encoding.welcome(opened, queries=session.queries))]
        session.in_sync(opened.digest)
        self._requests.expect_page(session, now_s)  # the first page comes right behind
        return [] if announced else [Send(session.peer, encoding.welcome(opened, queries=session.queries))]

    def _on_page(self, view: View, page: Page, now_s: float) -> list[Output]:
        session = view.sessions.get(page.session)
        if session is None:
            return []  # it left while it was asked for
        asked = session.question.number, session.pages.due
        if (page.ask, page.page) != asked or not page.page or session.state is not State.CATCHING:
            self._counters.stale_answers += 1
            if session.state is State.LIVE:
                # A new matcher answers once more what the old one had answered, perhaps one of the session's earlier
                # askings, and believes the session to be where this page ends. It is where its client stands.
                return self._requests.catch_up(session, now_s)
            return []
        self._counters.pages += 1
        data = encoding.page(page, names=session.names)
        complete = page.complete if page.HasField("complete") else NONE
        session.page_arrived([complete, *map(encoding.complete_of, page.newest)], page.paging, last=page.last)
        if page.last:
            outputs: list[Output] = [Send(session.peer, data)]
            return outputs + self._from_client.check_digest(session, now_s)
        # In front of the first page of a later asking, what was sent live may still be under way.
        measured_bytes = len(data) if page.page > 1 or page.ask == 1 else 0
        session.pages.leaves(measured_bytes, self._limits.high_water_bytes, now_s)
        return [Send(session.peer, data)]

    def _on_answered(self, view: View, answered: Answered, now_s: float) -> list[Output]:
        session = view.sessions.get(answered.session)
        if session is None:
            return []
        if answered.request:
            session.quota.answered()
            session.claim.answered(answered.digest)
        outputs: list[Output] = [Send(session.peer, encoding.answer(answered, names=session.names))]
        if answered.catch_up and session.state is State.LIVE:
            # In any other state pages are to come that contain what is owed.
            outputs += self._requests.catch_up(session, now_s)
        return outputs

    def _on_closed(self, view: View, closed: Closed, now_s: float) -> list[Output]:
        session = view.sessions.get(closed.session)
        if session is None:
            return []
        return self._connections.close(session, closed.code, closed.reason, now_s, leave=False)

    def _on_beat(self, view: View, beat: BeatAnswer, now_s: float) -> list[Output]:
        complete = beat.complete if beat.HasField("complete") else NONE
        if not view.beat_answered(beat.serial, agreed=beat.agreed, complete=complete):
            return []
        return [self._requests.open(session, now_s) for session in view.sessions.values()]
