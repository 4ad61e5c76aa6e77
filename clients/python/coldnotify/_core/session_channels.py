"""The part of a session that concerns channels as a whole: epoch, support by the service, pages, Acks.

`channels` handles what frames contain about a single channel.
"""

from collections.abc import Callable, Iterable, Mapping

from coldnotify_schemas import wire_pb2 as wire

from coldnotify._core.channels import Channels
from coldnotify._core.interests import Channel, Interest, channels_of
from coldnotify._core.registrations import Operation, Registrations, Stage
from coldnotify.errors import ChannelsUnknown


class SessionChannels:
    """The channels of a session. Errors are returned in words; "": none."""

    def __init__(self, channels: Channels, registrations: Registrations, report: Callable[[Exception], None]) -> None:
        self._channels = channels
        self._registrations = registrations
        self._report = report
        self._live = False
        """Messages of channels come as they are sent."""
        self._asks = False
        """True if its Hello has channels: then Welcome lists the kinds that the service knows."""
        self._said_cursor = False
        self._said = False
        """True once the service has reported whether it knows channels, or has sent any, or was asked."""
        channels.begin_session()
        self._acknowledged = channels.cursor
        self.acknowledgeable: int | None = None
        """The cursor in the durable document."""
        self.page_end = 0
        """The page to acknowledge with the next bytes that leave; 0: none."""

    @property
    def are_live(self) -> bool:
        """True if messages of channels come live, or there is no channel."""
        return self._live or not self._registrations.channels

    # What the client says

    def put_into(self, hello: wire.Hello, registered: Iterable[Interest], unregistered: Iterable[Interest]) -> None:
        """Adds the fields of channels to the Hello."""
        epoch, cursor = self._channels.for_hello
        self._said_cursor = cursor is not None
        if epoch is not None:
            hello.channels_epoch = epoch
        if cursor is not None:
            hello.channels_cursor = cursor
        hello.channels.extend(self._channels.said(registered))
        hello.unregister_channels.extend(channel.hash for channel in channels_of(unregistered))
        self._asks = bool(hello.channels)

    @property
    def acknowledgement(self) -> int | None:
        """The cursor to acknowledge; None: the service knows it."""
        return None if self.acknowledgeable == self._acknowledged else self.acknowledgeable

    def acknowledge(self, ack: wire.Ack) -> None:
        """Adds the cursor, and the page that has come, to this Ack."""
        complete = self.acknowledgement
        if complete is not None:
            self._acknowledged = ack.channels_complete = complete
        self.acknowledge_page(ack)

    def acknowledge_page(self, ack: wire.Ack) -> None:
        """Adds the page that has come to this Ack, if one has."""
        ack.channels_page, self.page_end = self.page_end, 0

    # What the service says

    def welcomed(self, welcome: wire.Welcome) -> str:
        """Notes the epoch in a Welcome."""
        self._live = False
        if not welcome.HasField("channels_epoch"):
            return ""
        void, self._said_cursor = self._said_cursor, False
        return self._begin_epoch(welcome.channels_epoch, void=void)

    def learn(self, welcome: wire.Welcome, *, asked: bool) -> None:
        """Notes whether the service knows channels. `asked`: the Hello asked for the kinds."""
        if asked or self._asks or welcome.kinds or welcome.positions:
            self._know(welcome)
        # A later Welcome of this session answers an Open of the gateway's own, and says no kinds.
        self._asks = False

    def registered(self, registered: wire.Registered, operations: Mapping[Interest, Operation]) -> str:
        """The answer to these operations."""
        problem = ""
        if registered.HasField("channels_epoch"):
            problem = self._begin_epoch(registered.channels_epoch, void=False)
        if channels_of(operations):
            if not self._live:
                self._know(registered)
            self._channels.resolved(registered.positions, operations)
        return problem

    def caught_up(self, caught_up: wire.CaughtUp) -> dict[Interest, Operation]:
        """Objects are caught up, and channels, too, if the frame contains that. Returns what was confirmed, and should
        have come by now.
        """
        if caught_up.HasField("channels_complete"):
            self._live = self._said = True
            self._channels.caught_up(caught_up.channels_complete)
        # Pages of channels may come later; but who has said nothing of channels may know none, and is asked.
        lost = self._registrations.unanswered(Stage.CONFIRMED)
        if self._said:
            lost = {interest: one for interest, one in lost.items() if not isinstance(interest, Channel)}
        self._said = True
        return lost

    def page_ended(self, end: wire.ChannelsEnd) -> None:
        """A page of what channels lacked has come."""
        self._said = True
        self.page_end = end.page
        complete = end.complete if end.HasField("complete") else None
        if end.last:
            self._live = True
            self._channels.caught_up(complete)
        elif complete is not None:
            self._channels.complete(complete)

    def _begin_epoch(self, epoch: int, *, void: bool) -> str:
        if not self._channels.begin_epoch(epoch, void=void):
            return "the log of its channels is another one"
        self._acknowledged = self.acknowledgeable = None
        return ""

    def _know(self, answer: wire.Welcome | wire.Registered) -> None:
        # Who says where channels begin knows them, too.
        knows = bool(answer.kinds & wire.KINDS_CHANNELS or answer.positions)
        self._said = True
        self._registrations.know(Channel, known=knows)
        if not knows and self._registrations.has_channels and not self._channels.told_unknown:
            self._channels.told_unknown = True
            self._report(ChannelsUnknown())
