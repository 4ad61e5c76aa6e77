"""The part of a session that concerns channels as a whole: the epoch, support by the service, pages.

`channels` handles what frames contain about a single channel; `stream` an Ack's part of their log.
"""

from collections.abc import Callable, Mapping

from coldnotify_schemas import wire_pb2 as wire

from coldnotify._core.interests.interests import ChannelInterest, Interest, channels_of
from coldnotify._core.interests.registrations import Operation, OperationStage, Registrations
from coldnotify._core.streams.channels import Channels
from coldnotify._core.streams.stream import Stream, first_of, streams_of
from coldnotify.errors import ChannelsUnknown


class SessionChannels:
    """The channels of a session. Errors are returned in words; "": none."""

    def __init__(self, channels: Channels, registrations: Registrations, report: Callable[[Exception], None]) -> None:
        self._channels = channels
        self._registrations = registrations
        self._report = report
        self._asks = False
        """True if its Hello has channels: then Welcome lists the kinds that the service knows."""
        self._said_cursor = False
        self._said = False
        """True once the service has reported whether it knows channels, or has sent any, or was asked."""
        channels.begin_session()
        self.stream = Stream(channels.cursor)

    @property
    def are_live(self) -> bool:
        """True if messages of channels come live, or there is no channel."""
        return self.stream.live or not self._registrations.channels

    def put_into(self, hello: wire.Hello) -> None:
        """Puts the cursor into the Hello, which has all its interests."""
        epoch, cursor = self._channels.for_hello
        self._said_cursor = cursor is not None
        hello.streams.extend(streams_of(wire.Stream(epoch=epoch, complete=cursor)))
        self._asks = any(
            interest.kind in (wire.INTEREST_CHANNEL, wire.INTEREST_PATTERN) for interest in hello.interests
        )

    def said_by_trial(self, hello: wire.Hello) -> None:
        """Notes the Hello of a trial, which had no interests."""
        log = first_of(hello.streams)
        self._said_cursor = log.HasField("complete")
        self.stream = Stream(log.complete if self._said_cursor else None)

    # What the service says

    def welcomed(self, welcome: wire.Welcome) -> str:
        """Notes the epoch in a Welcome."""
        self.stream.welcomed()
        log = first_of(welcome.streams)
        if not log.HasField("epoch"):
            return ""
        void, self._said_cursor = self._said_cursor, False
        return self._begin_epoch(log.epoch, void=void)

    def learn(self, welcome: wire.Welcome, *, asked: bool) -> None:
        """Notes whether the service knows channels. `asked`: the Hello asked for the kinds."""
        if asked or self._asks or welcome.kinds or first_of(welcome.streams).positions:
            self._know(welcome)
        # A later Welcome of this session answers an Open of the gateway's own, and says no kinds.
        self._asks = False

    def registered(self, registered: wire.Registered, operations: Mapping[Interest, Operation]) -> str:
        """The answer to these operations."""
        problem = ""
        log = first_of(registered.streams)
        if log.HasField("epoch"):
            problem = self._begin_epoch(log.epoch, void=False)
        if channels_of(operations):
            if not self.stream.live:
                self._know(registered)
            self._channels.resolved(log.positions, operations)
        return problem

    def caught_up(self, caught_up: wire.CaughtUp) -> dict[Interest, Operation]:
        """Objects are caught up, and channels, too, if the frame contains that. Returns what was confirmed, and should
        have come by now.
        """
        log = first_of(caught_up.streams)
        if log.HasField("complete"):
            self.stream.caught_up()
            self._said = True
            self._channels.caught_up(log.complete)
        # Pages of channels may come later; but who has said nothing of channels may know none, and is asked.
        lost = self._registrations.unanswered(OperationStage.CONFIRMED)
        if self._said:
            lost = {interest: one for interest, one in lost.items() if not isinstance(interest, ChannelInterest)}
        self._said = True
        return lost

    def page_ended(self, end: wire.PageEnd) -> None:
        """A page of what channels lacked has come."""
        self._said = True
        self.stream.page_ended(end.page)
        complete = end.complete if end.HasField("complete") else None
        if end.last:
            self.stream.caught_up()
            self._channels.caught_up(complete)
        elif complete is not None:
            self._channels.complete(complete)

    def _begin_epoch(self, epoch: int, *, void: bool) -> str:
        if not self._channels.begin_epoch(epoch, void=void):
            return "the log of its channels is another one"
        self.stream.begin_epoch()
        return ""

    def _know(self, answer: wire.Welcome | wire.Registered) -> None:
        # Who says where channels begin knows them, too.
        knows = bool(answer.kinds & wire.KINDS_CHANNELS or first_of(answer.streams).positions)
        self._said = True
        self._registrations.know(ChannelInterest, known=knows)
        if not knows and self._registrations.has_channels and not self._channels.told_unknown:
            self._channels.told_unknown = True
            self._report(ChannelsUnknown())
