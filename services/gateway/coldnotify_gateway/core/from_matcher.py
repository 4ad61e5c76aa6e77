"""Handles the matcher's records, which the gateway reads from its inbox."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from coldnotify_schemas.close_codes import CloseCode
from coldnotify_schemas.internal_pb2 import (
    Answered,
    BeatAnswer,
    Closed,
    CompleteStream,
    Handed,
    Held,
    Inbox,
    Item,
    Opened,
)
from coldnotify_schemas.internal_protocol import FORMAT
from coldnotify_schemas.mqtt.reasons import ReasonCode
from coldnotify_schemas.wire_pb2 import KINDS_DESCRIPTIONS

from coldnotify_gateway.core import encoding
from coldnotify_gateway.core.channels_stream import has_channels, has_shares
from coldnotify_gateway.core.connections import Connections
from coldnotify_gateway.core.counters import Counters
from coldnotify_gateway.core.freshness import Ages
from coldnotify_gateway.core.from_mqtt import FromDevice
from coldnotify_gateway.core.identified import Identified
from coldnotify_gateway.core.outputs import Output, Send
from coldnotify_gateway.core.pages import Pages
from coldnotify_gateway.core.partition_view import PartitionView
from coldnotify_gateway.core.recovery import Recovery
from coldnotify_gateway.core.requests import RequestMaker
from coldnotify_gateway.core.session_publishes import Publishing
from coldnotify_gateway.core.states import SessionPhase
from coldnotify_gateway.core.stream import NONE, OBJECTS_LOG

View = PartitionView[Identified]
_Handle = Callable[[Identified, Item, float], list[Output]]


class RecordIntake(NamedTuple):
    """The outputs of a record's head, and the items of the record that are still to be handled."""

    outputs: list[Output]
    items: Sequence[Item]


NOTHING = RecordIntake([], ())


class FromMatcher:
    """Handles inbox records, step by step: the head of a record, then each of its items.

    A step ends when it returns its outputs. Carrying them out may fill a connection, end it, or fail a request, and the
    shell reports that to the core before the next step: so an item is not written to a connection that the previous
    item has filled. This class keeps no state of an unfinished step or record.
    """

    def __init__(
        self,
        gateway_id: int,
        connections: Connections,
        requests: RequestMaker,
        recovery: Recovery,
        pages: Pages,
        publishing: Publishing,
        from_device: FromDevice,
        counters: Counters,
    ) -> None:
        self._id = gateway_id
        self._connections = connections
        self._requests = requests
        self._recovery = recovery
        self._from_device = from_device
        self._publishing = publishing
        self._counters = counters
        self._of_session: dict[str, _Handle] = {
            "opened": lambda session, item, now_s: self._on_opened(session, item.opened, now_s),
            "answered": lambda session, item, now_s: self._on_answered(session, item.answered, now_s),
            "page": lambda session, item, now_s: pages.on_page(session, session.objects, item.page, now_s),
            "stream_page": lambda session, item, now_s: pages.on_page(
                session, session.channels, item.stream_page, now_s
            ),
            "handed": lambda session, item, now_s: self._on_handed(session, item.handed, now_s),
            "closed": lambda session, item, now_s: self._on_closed(session, item.closed, now_s),
            "there": lambda session, item, now_s: publishing.on_there(
                session, item.there.ask, now_s, there=item.there.there
            ),
            "described": self._on_described,
            "noted": lambda session, item, now_s: from_device.on_noted(session, item.noted, now_s),
            "became": lambda session, item, _now_s: publishing.on_became(session, item.became.outcome),
        }
        """Handlers of items for one session."""

    def on_inbox(self, inbox: Inbox, now_s: float) -> RecordIntake:
        """Handles a record's head. Skips other gateways' records, drops an old matcher's, and asks everything again
        after a gap."""
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
            # A matcher announces its takeover before any other record. Without the announcement, it already owned the
            # partition when this gateway asked.
            has_taken_over = view.generation > 0 or inbox.gateway == 0
            # The number comes first, because this record's own number belongs to the new matcher's numbering.
            view.begin_generation(inbox.generation, now_s)
            if has_taken_over:
                outputs += self._recovery.new_matcher(view, now_s)
            if view.take_said_in_vain():
                # A matcher did not know the highest generation. It has returned with a higher one, and repeats nothing.
                outputs += self._recovery.after_loss(view, now_s)
        if inbox.gateway == 0:
            return RecordIntake(outputs, ())
        if not view.take_number(inbox.number):
            self._counters.gaps += 1
            outputs += self._recovery.after_loss(view, now_s)
        return RecordIntake(outputs, inbox.items)

    def on_item(self, partition: int, item: Item, now_s: float) -> list[Output]:
        """Handles one item of a record of this partition. Fan-outs are handled elsewhere."""
        view = self._connections.views[partition]
        kind = item.WhichOneof("item")
        if kind == "beat":
            return self._on_beat(view, item.beat, now_s)
        handle = self._of_session.get(kind or "")
        session = view.sessions.get(getattr(item, kind).session) if kind and handle else None
        # A session may have ended before the item arrived.
        return [] if session is None or handle is None else handle(session, item, now_s)

    def _on_opened(self, session: Identified, opened: Opened, now_s: float) -> list[Output]:
        unasked = opened.ask != session.question.number or (opened.in_sync and session.phase is SessionPhase.IN_SYNC)
        if unasked and opened.HasField("kept") and session.device is not None and session.device.has_lost(opened.kept):
            # A matcher handles an earlier Open again, and Kafka has lost the record by which another one answered it:
            # this one would begin with what is published from now on. It has to hear where the session is.
            return self._recovery.announce(session, now_s)
        if opened.ask != session.question.number:
            self._counters.stale_answers += 1
            doubts = not opened.ask and session.catching
            if (session.live or doubts) and not opened.in_sync:
                # A new matcher answers an earlier Open again, or doubts the registrations that it has loaded. Until it
                # gets a new question, it sends the session nothing, not even messages of channels, which are live while
                # pages of objects are pending.
                return self._recovery.announce(session, now_s)
            if not opened.in_sync:
                session.doubt()
            return []
        if opened.in_sync and session.phase is SessionPhase.IN_SYNC:
            if session.question.checks:
                session.claim.checked(opened.digest)
                session.question.answered()
            else:
                # The gateway asked nothing. The matcher may hold a different set; the next Ping detects that.
                session.claim.answered(opened.digest)
            return self._recovery.doubt_channels(session, now_s)
        announced = session.question.announces
        if opened.HasField("epoch"):
            if opened.in_sync and announced:
                # Its client has had its Welcome and would keep using a void cursor. Its next Welcome replaces it.
                return self._connections.close(session, CloseCode.UNKNOWN_SESSION, "its cursor is void", now_s)
            session.objects.begin_epoch(opened.epoch)
            if session.device is not None:
                session.device.forget_answers()
        if session.device is not None and not session.device.connected:
            session.begin_kept(opened)
        describes = bool(opened.kinds & KINDS_DESCRIPTIONS)
        if describes is not session.describes and announced and opened.in_sync:
            # A matcher of another release: the client would assume that it knows descriptions that it never received.
            reason = "how members are described is told differently from here on"
            return self._connections.close(session, CloseCode.UNKNOWN_SESSION, reason, now_s)
        session.is_told_descriptions(describes=describes)
        stream = opened.streams[0] if opened.streams else None
        begins = session.device is not None and not session.device.connected
        if stream is not None and stream.HasField("epoch") and not begins:
            if announced:
                reason = "its cursor of channels is void"
                return self._connections.close(session, CloseCode.UNKNOWN_SESSION, reason, now_s)
            session.follow_channels(stream.log).begin_epoch(stream.epoch)
        pending = session.claim.pending.interests
        wanted = session.queries or has_channels(pending) or has_shares(pending)
        encode = session.dialect.encode
        if not opened.in_sync:
            session.not_in_sync(now_s)
            # From here on the matcher sends it no messages. If its channels stayed live, the gateway would trust the
            # positions in BeatAnswers, and would ignore the page that follows the whole set.
            doubted = self._recovery.doubt_channels(session, now_s)
            if session.device is not None:
                return [*self._from_device.sync(session, now_s), *doubted]
            return [Send(session.peer, [encoding.welcome(opened, encode, kinds_wanted=wanted)]), *doubted]
        session.in_sync(opened.digest)
        if stream is not None:
            session.follow_channels(stream.log)
        self._requests.expect_page(session, now_s)  # the first page follows at once
        if session.device is not None:
            return self._from_device.on_opened(session, opened, now_s)
        return [] if announced else [Send(session.peer, [encoding.welcome(opened, encode, kinds_wanted=wanted)])]

    def _on_answered(self, session: Identified, answered: Answered, now_s: float) -> list[Output]:
        if answered.request:
            session.quota.answered()
            session.claim.answered(answered.digest)
        outputs: list[Output]
        if session.device is not None:
            outputs = self._from_device.on_answered(session, answered, now_s)
        else:
            outputs = [Send(session.peer, encoding.answer(answered, session.dialect))]
        if answered.catch_up and session.live:
            # In any other state later pages contain the missing versions.
            outputs += self._recovery.catch_up(session, session.objects, now_s)
        for stream in answered.streams[:1]:
            channels = session.follow_channels(stream.log, answered.request)
            if stream.HasField("epoch") and channels.epoch != stream.epoch:
                channels.begin_epoch(stream.epoch)
            # Pending pages contain the missing messages. A session without channels has not requested any pages yet.
            if stream.catch_up and (channels.live or not channels.number):
                outputs += self._recovery.catch_up(session, channels, now_s)
        if session.device is not None:
            outputs += self._from_device.read(session, session.device, now_s)
        return outputs

    def _on_handed(self, session: Identified, handed: Handed, now_s: float) -> list[Output]:
        """Writes what a member of shares is handed, also if it is slow or behind: it has its prefetch, and no more."""
        if handed.HasField("leases"):
            session.quota.answered()
        if session.device is not None:
            return self._from_device.on_handed(session, handed, now_s)
        if not session.welcomed:
            return []
        return [Send(session.peer, encoding.handed(handed, session.dialect.encode))]

    def _on_described(self, session: Identified, item: Item, now_s: float) -> list[Output]:
        outputs = self._publishing.on_described(session, item.described, now_s)
        return outputs if session.device is None else outputs + self._from_device.on_results(session, now_s)

    def _on_closed(self, session: Identified, closed: Closed, now_s: float) -> list[Output]:
        if closed.code == CloseCode.ABOVE_AGREEMENT and session.opened:
            # A new matcher handles the first Open again, and now counts too many sessions. Admitted sessions stay.
            return self._recovery.announce(session, now_s)
        if session.device is not None and closed.code == CloseCode.DISPLACED:
            self._from_device.displaced(session, now_s)
        if session.device is not None and closed.code == CloseCode.NOT_ALLOWED:
            # Its proof was accepted here: the name is that of a client of the device protocol.
            session.device.blame(ReasonCode.CLIENT_IDENTIFIER_NOT_VALID)
        return self._connections.close(session, closed.code, closed.reason, now_s, leave=False)

    def _on_beat(self, view: View, beat: BeatAnswer, now_s: float) -> list[Output]:
        complete = beat.complete if beat.HasField("complete") else NONE
        streams = {int(one.log): one.complete for one in beat.streams if one.HasField("complete")}
        ages = Ages(
            {OBJECTS_LOG: _age_ms_of(beat), **{int(one.log): _age_ms_of(one) for one in beat.streams}},
            [(one.domain, _age_ms_of(one)) for one in beat.held],
        )
        if not view.beat_answered(beat.serial, agreed=beat.agreed, complete=complete, streams=streams, ages=ages):
            return []
        return [
            output for session in list(view.sessions.values()) for output in self._recovery.announce(session, now_s)
        ]


def _age_ms_of(said: BeatAnswer | CompleteStream | Held) -> int | None:
    return said.age_ms if said.HasField("age_ms") else None
