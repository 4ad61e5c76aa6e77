"""Handles the matcher's records, which the gateway reads from its inbox."""

from collections.abc import Sequence
from typing import NamedTuple

from coldnotify_schemas.close_codes import CloseCode
from coldnotify_schemas.internal_pb2 import (
    Answered,
    BeatAnswer,
    ChannelPage,
    Closed,
    Inbox,
    Item,
    Opened,
    Page,
    There,
)
from coldnotify_schemas.internal_protocol import FORMAT
from coldnotify_schemas.wire_pb2 import KINDS_DESCRIPTIONS

from coldnotify_gateway.core import encoding, interests
from coldnotify_gateway.core.channels_stream import ChannelsStream
from coldnotify_gateway.core.connections import Connections
from coldnotify_gateway.core.counters import Counters
from coldnotify_gateway.core.from_client import FromClient
from coldnotify_gateway.core.identified import Identified
from coldnotify_gateway.core.limits import Limits
from coldnotify_gateway.core.outputs import Output, Overtake, Send
from coldnotify_gateway.core.partition_view import PartitionView
from coldnotify_gateway.core.requests import RequestMaker
from coldnotify_gateway.core.session_publishes import Publishing
from coldnotify_gateway.core.states import SessionPhase
from coldnotify_gateway.core.stream import NONE, Stage
from coldnotify_gateway.core.told import size_of

View = PartitionView[Identified]


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
        from_client: FromClient,
        publishing: Publishing,
        limits: Limits,
        counters: Counters,
    ) -> None:
        self._id = gateway_id
        self._connections = connections
        self._requests = requests
        self._from_client = from_client
        self._publishing = publishing
        self._limits = limits
        self._counters = counters

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
                outputs += self._on_new_matcher(view, now_s)
            if view.take_said_in_vain():
                # A matcher did not know the highest generation. It has returned with a higher one, and repeats nothing.
                outputs += self.after_loss(view, now_s)
        if inbox.gateway == 0:
            return RecordIntake(outputs, ())
        if not view.take_number(inbox.number):
            self._counters.gaps += 1
            outputs += self.after_loss(view, now_s)
        return RecordIntake(outputs, inbox.items)

    def on_item(self, partition: int, item: Item, now_s: float) -> list[Output]:
        """Handles one item of a record of this partition. Fan-outs are handled elsewhere."""
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
            case "channel_page":
                return self._on_channel_page(view, item.channel_page, now_s)
            case "there":
                return self._on_there(view, item.there, now_s)
            case "became":
                session = view.sessions.get(item.became.session)
                return [] if session is None else self._publishing.on_became(session, item.became.outcome)
        return []

    def after_loss(self, view: View, now_s: float) -> list[Output]:
        """Announces every session of this partition again, because records are lost or the matcher had forgotten this
        gateway."""
        outputs: list[Output] = []
        for session in list(view.sessions.values()):
            if session.slow:
                session.doubt()
            else:
                outputs += self.announce(session, now_s)
        return outputs

    def announce(self, session: Identified, now_s: float) -> list[Output]:
        """Sends Open again. Closes the session instead if only its client knows the positions of its channels."""
        if session.opened and session.channels is not None and session.channels.behind:
            reason = "only the client knows how far its channels are"
            return self._connections.close(session, CloseCode.UNKNOWN_SESSION, reason, now_s)
        return [self._requests.open(session, now_s)]

    def _on_new_matcher(self, view: View, now_s: float) -> list[Output]:
        """Repeats unanswered questions to the new matcher, because the old one may have lost them."""
        outputs: list[Output] = []
        for session in list(view.sessions.values()):
            session.question.other_matcher()
            session.claim.other_matcher()
            session.other_matcher()
            if session.question.waits_since_s(now_s) > self._limits.wait_after_s:
                outputs += self.again(session, now_s)
            elif session.opened and session.channels is not None and not session.channels.live:
                # The row of pages is lost with the old matcher.
                outputs += self.announce(session, now_s)
        return outputs

    def catch_up(self, session: Identified, now_s: float) -> list[Output]:
        """Requests everything above the offset that the session is complete to; later, if its connection is full."""
        if (session.question.checks or session.doubted) and not session.blocked:
            # The matcher may just have found it not in sync, or forgotten it: only an Open helps then.
            return self.announce(session, now_s)
        return self._requests.catch_up(session, now_s)

    def again(self, session: Identified, now_s: float) -> list[Output]:
        """Asks again, because no answer has arrived."""
        if self._requests.opens_again(session):
            self._counters.asked_again += 1
            session.question.unanswered()
            return self.announce(session, now_s)
        return self._requests.again(session, now_s)

    def _on_opened(self, view: View, opened: Opened, now_s: float) -> list[Output]:
        session = view.sessions.get(opened.session)
        if session is None:
            return []
        if opened.ask != session.question.number:
            self._counters.stale_answers += 1
            doubts = not opened.ask and session.catching
            if (session.live or doubts) and not opened.in_sync:
                # A new matcher answers an earlier Open again, or doubts the registrations that it has loaded. Until it
                # gets a new question, it sends the session nothing, not even messages of channels, which are live while
                # pages of objects are pending.
                return self.announce(session, now_s)
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
            return self._channels_doubted(session, now_s)
        announced = session.question.announces
        if opened.HasField("epoch"):
            if opened.in_sync and announced:
                # Its client has had its Welcome and would keep using a void cursor. Its next Welcome replaces it.
                return self._connections.close(session, CloseCode.UNKNOWN_SESSION, "its cursor is void", now_s)
            session.objects.begin_epoch(opened.epoch)
        describes = bool(opened.kinds & KINDS_DESCRIPTIONS)
        if describes is not session.describes and announced and opened.in_sync:
            # A matcher of another release: the client would assume that it knows descriptions that it never received.
            reason = "how members are described is told differently from here on"
            return self._connections.close(session, CloseCode.UNKNOWN_SESSION, reason, now_s)
        session.is_told_descriptions(describes=describes)
        if opened.HasField("channels_epoch"):
            if announced:
                reason = "its cursor of channels is void"
                return self._connections.close(session, CloseCode.UNKNOWN_SESSION, reason, now_s)
            session.has_channels(opened.retention).begin_epoch(opened.channels_epoch)
        wanted = session.queries or interests.has_channels(session.claim.pending.interests)
        encode = session.dialect.encode
        if not opened.in_sync:
            session.not_in_sync()
            # From here on the matcher sends it no messages. If its channels stayed live, the gateway would trust the
            # positions in BeatAnswers, and would ignore the page that follows the whole set.
            doubted = self._channels_doubted(session, now_s)
            return [Send(session.peer, [encoding.welcome(opened, encode, kinds_wanted=wanted)]), *doubted]
        session.in_sync(opened.digest)
        if opened.retention:
            session.has_channels(opened.retention)
        self._requests.expect_page(session, now_s)  # the first page follows at once
        return [] if announced else [Send(session.peer, [encoding.welcome(opened, encode, kinds_wanted=wanted)])]

    def _on_page(self, view: View, page: Page, now_s: float) -> list[Output]:
        session = view.sessions.get(page.session)
        if session is None:
            return []  # it left before the page arrived
        objects = session.objects
        if not page.page and page.ask == session.question.number and session.catching:
            self._requests.worked_on(session, now_s)
            return []
        if not objects.is_due(page.ask, page.page):
            self._counters.stale_answers += 1
            if objects.live:
                # A new matcher repeats an answer of the old one, perhaps to one of the session's earlier questions, and
                # assumes that the session is at the end of this page. Its real position is its client's.
                return [*self._channels_doubted(session, now_s), *self.catch_up(session, now_s)]
            return []
        self._counters.pages += 1
        channels_complete = self._channels_complete(session, page)
        frames = encoding.page(page, session.dialect, channels_complete=channels_complete)
        complete = page.complete if page.HasField("complete") else NONE
        session.question.answered()
        complete = max((complete, *map(encoding.complete_of, page.newest)))
        session.arrived(objects, complete, page.paging, last=page.last)
        if page.last:
            outputs: list[Output] = [Send(session.peer, frames)]
            return outputs + self._from_client.check_digest(session, now_s)
        # Live frames may still be in transit ahead of the first page of a later question.
        measured_bytes = size_of(frames) if page.page > 1 or page.ask == 1 else 0
        session.link.leaves(measured_bytes, now_s)
        return [Send(session.peer, frames)]

    def _channels_doubted(self, session: Identified, now_s: float) -> list[Output]:
        """Requests channels that are live here, because a new matcher has answered an earlier Open again: it expects to
        send pages of channels, perhaps after BeatAnswers, which would wrongly report that everything has been sent."""
        channels = session.channels
        if channels is None or not channels.live:
            return []
        return self._requests.catch_up_channels(session, now_s)

    def _channels_complete(self, session: Identified, page: Page) -> int:
        """Returns the page's `channels_complete` if the page answers the latest question about channels; else NONE."""
        channels = session.channels
        if channels is None or not page.HasField("channels_complete") or not channels.is_due(page.channels_ask, 1):
            return NONE
        session.arrived(channels, page.channels_complete, 0, last=True)
        return page.channels_complete

    def _on_channel_page(self, view: View, page: ChannelPage, now_s: float) -> list[Output]:
        session = view.sessions.get(page.session)
        if session is None or session.channels is None:
            return []  # it left before the page arrived
        if page.ahead:
            return self._on_ahead(session, session.channels, page)
        if not session.channels.is_due(page.ask, page.page):
            self._counters.stale_answers += 1
            # As for objects: the matcher assumes a position that differs from the client's.
            return self._requests.catch_up_channels(session, now_s) if session.channels.live else []
        self._counters.pages += 1
        complete = page.complete if page.HasField("complete") else NONE
        session.arrived(session.channels, complete, page.paging, last=page.last)
        self._counters.messages += len(page.entries)
        frames = encoding.channel_page(page, session.dialect.encode)
        if page.page > 1 and not page.last and session.objects.stage is not Stage.SENT:
            # Nothing is ahead of it: its client has the previous page, and no page of objects is in transit.
            session.link.leaves(size_of(frames), now_s)
        outputs: list[Output] = [Send(session.peer, frames)]
        if page.urgent:
            # The page begins with its urgent messages. Pages of objects may wait ahead of it.
            outputs.append(Overtake([session.peer], tuple(page.urgent)))
        return outputs

    def _on_ahead(self, session: Identified, channels: ChannelsStream, page: ChannelPage) -> list[Output]:
        """Handles messages of one channel that follow the page that is in transit."""
        if not channels.is_on_its_way(page.ask, page.page) or session.channels_in_order or not page.entries:
            self._counters.stale_answers += 1
            return []
        frames = encoding.channel_entries(page, session.dialect.encode)
        self._counters.messages += len(page.entries)
        self._counters.urgent_messages += 1
        self._counters.sent_bytes += size_of(frames)
        return [Overtake([session.peer], (page.entries[0].message.channel,), frames)]

    def _on_answered(self, view: View, answered: Answered, now_s: float) -> list[Output]:
        session = view.sessions.get(answered.session)
        if session is None:
            return []
        if answered.request:
            session.quota.answered()
            session.claim.answered(answered.digest)
        outputs: list[Output] = [Send(session.peer, encoding.answer(answered, session.dialect))]
        if answered.catch_up and session.live:
            # In any other state later pages contain the missing versions.
            outputs += self.catch_up(session, now_s)
        if answered.retention:
            channels = session.has_channels(answered.retention, answered.request)
            if answered.HasField("channels_epoch") and channels.epoch != answered.channels_epoch:
                channels.begin_epoch(answered.channels_epoch)
            # Pending pages contain the missing messages. A session without channels has not requested any pages yet.
            if answered.catch_up_channels and (channels.live or not channels.number):
                outputs += self._requests.catch_up_channels(session, now_s)
        return outputs

    def _on_there(self, view: View, there: There, now_s: float) -> list[Output]:
        session = view.sessions.get(there.session)
        return [] if session is None else self._publishing.on_there(session, there.ask, now_s, there=there.there)

    def _on_closed(self, view: View, closed: Closed, now_s: float) -> list[Output]:
        session = view.sessions.get(closed.session)
        if session is None:
            return []
        if closed.code == CloseCode.ABOVE_AGREEMENT and session.opened:
            # A new matcher handles the first Open again, and now counts too many sessions. Admitted sessions stay.
            return self.announce(session, now_s)
        return self._connections.close(session, closed.code, closed.reason, now_s, leave=False)

    def _on_beat(self, view: View, beat: BeatAnswer, now_s: float) -> list[Output]:
        complete = beat.complete if beat.HasField("complete") else NONE
        channels = {int(log.retention): log.complete for log in beat.channels}
        if not view.beat_answered(beat.serial, agreed=beat.agreed, complete=complete, channels=channels):
            return []
        return [output for session in list(view.sessions.values()) for output in self.announce(session, now_s)]
