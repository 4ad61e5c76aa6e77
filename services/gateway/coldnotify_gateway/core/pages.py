"""Handles the matcher's pages, of each stream of a session: sends them, or requests others where one cannot be used."""

from coldnotify_schemas.internal_pb2 import PAGE, PAGE_AHEAD, PAGE_WORKING, Page

from coldnotify_gateway.core import encoding
from coldnotify_gateway.core.counters import Counters
from coldnotify_gateway.core.from_client import FromClient
from coldnotify_gateway.core.identified import Identified
from coldnotify_gateway.core.outputs import Output, Overtake, Send
from coldnotify_gateway.core.recovery import Recovery
from coldnotify_gateway.core.requests import RequestMaker
from coldnotify_gateway.core.stream import NONE, Stage, Stream
from coldnotify_gateway.core.to_mqtt import ToDevice
from coldnotify_gateway.core.told import Frame, size_of


class Pages:
    """Handles pages. Those of objects and of channels differ in their frames, and in when they measure the link."""

    def __init__(
        self,
        requests: RequestMaker,
        recovery: Recovery,
        from_client: FromClient,
        to_device: ToDevice,
        counters: Counters,
    ) -> None:
        self._requests = requests
        self._recovery = recovery
        self._from_client = from_client
        self._to_device = to_device
        self._counters = counters

    def on_page(self, session: Identified, stream: Stream | None, page: Page, now_s: float) -> list[Output]:
        """Handles a page of this stream."""
        if stream is None:
            return []  # the session has ended its channels before the page arrived
        if page.kind == PAGE_AHEAD:
            return self._on_ahead(session, stream, page)
        of_objects = stream is session.objects
        if of_objects and page.kind == PAGE_WORKING and page.ask == session.question.number and session.catching:
            self._requests.worked_on(session, now_s)
            return []
        if page.kind != PAGE or not stream.is_due(page.ask, page.page):
            self._counters.stale_answers += 1
            if not stream.live:
                return []
            # A new matcher repeats an answer of the old one, perhaps to one of the session's earlier questions, and
            # assumes that the session is at the end of this page. Its real position is its client's.
            doubted = self._recovery.doubt_channels(session, now_s) if of_objects else []
            return [*doubted, *self._recovery.catch_up(session, stream, now_s)]
        self._counters.pages += 1
        complete = page.complete if page.HasField("complete") else NONE
        complete = max((complete, *map(encoding.complete_of, page.newest)))
        session.arrived(stream, complete, page.paging, last=page.last)
        if session.device is not None:
            return self._to_device_page(session, stream, page, now_s)
        frames = self._of_objects(session, page, now_s) if of_objects else self._of_entries(session, page, now_s)
        outputs: list[Output] = [Send(session.peer, frames)]
        if not page.last:
            self._measure(session, stream, page, frames, now_s)
        elif of_objects:
            outputs += self._from_client.check_digest(session, now_s)
        if page.urgent:
            # The page begins with its urgent messages. Pages of objects may wait ahead of it.
            outputs.append(Overtake([session.peer], tuple(page.urgent)))
        return outputs

    def _to_device_page(self, session: Identified, stream: Stream, page: Page, now_s: float) -> list[Output]:
        """Hands a page over to an MQTT device, which acknowledges other things than pages."""
        outputs: list[Output] = []
        if stream is session.objects:
            self._channels_complete(session, page)
            session.question.answered()
        outputs += self._to_device.on_page(session, stream, page, now_s)
        if page.last and stream is session.objects:
            outputs += self._from_client.check_digest(session, now_s)
        return outputs

    def _of_objects(self, session: Identified, page: Page, now_s: float) -> list[Frame]:
        channels_complete = self._channels_complete(session, page)
        session.question.answered()
        ages = session.ages(now_s)
        return encoding.page(page, session.dialect, channels_complete=channels_complete, ages=ages)

    def _of_entries(self, session: Identified, page: Page, now_s: float) -> list[Frame]:
        return encoding.stream_page(page, session.dialect.encode, session.ages(now_s).channels)

    def _channels_complete(self, session: Identified, page: Page) -> int:
        """Returns the offset up to which nothing lacks in channels, if the page answers the latest question about them;
        else NONE."""
        channels = session.channels
        said = page.streams[0] if page.streams else None
        if channels is None or said is None or not channels.is_due(said.ask, 1):
            return NONE
        session.arrived(channels, said.complete, 0, last=True)
        return said.complete

    @staticmethod
    def _measure(session: Identified, stream: Stream, page: Page, frames: list[Frame], now_s: float) -> None:
        """Measures the link by a page that the client acknowledges. Only one page at a time does."""
        if stream is session.objects:
            # Live frames may still be in transit ahead of the first page of a later question.
            measured_bytes = size_of(frames) if page.page > 1 or page.ask == 1 else 0
            session.link.leaves(measured_bytes, now_s)
        elif page.page > 1 and session.objects.stage is not Stage.SENT:
            # Nothing is ahead of it: its client has the previous page, and no page of objects is in transit.
            session.link.leaves(size_of(frames), now_s)

    def _on_ahead(self, session: Identified, stream: Stream, page: Page) -> list[Output]:
        """Handles messages of one channel that follow the page that is in transit."""
        on_its_way = stream.is_on_its_way(page.ask, page.page)
        if not on_its_way or session.channels_in_order or not page.entries or stream is session.objects:
            self._counters.stale_answers += 1
            return []
        frames = encoding.stream_entries(page, session.dialect.encode)
        self._counters.sent_bytes += size_of(frames)
        return [Overtake([session.peer], (page.entries[0].message.channel,), frames)]
