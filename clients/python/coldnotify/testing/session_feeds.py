"""The channels of a session in the service for tests: where they begin, and their delivery."""

from collections.abc import Callable, Iterable

from coldnotify_schemas import wire_pb2 as wire
from coldnotify_schemas.interests import channel_hash, channel_text

from coldnotify.testing.channels import Feeds, Sent
from coldnotify.testing.session_client import SessionClient


class SessionFeeds:
    """The channels of a session."""

    def __init__(self, client: SessionClient, send: Callable[..., None]) -> None:
        self._client = client
        self._send = send
        self.feeds: Feeds | None = None
        """None: the service knows no channels, or the client has not sent Hello."""

    def open(self, hello: wire.Hello, refused: list[wire.Refusal]) -> tuple[list[wire.ChannelPosition], int | None]:
        """Returns where the channels of this Hello begin, and the log's epoch, if the client does not know it."""
        if not self._client.service.knows_channels:
            return [], None
        self.unregister(hello.unregister_channels)
        log = self._client.partition.log
        self.feeds = Feeds(self._client.channels, log, self._client.service.page_objects, self._send)
        self.feeds.repeats = self._client.service.repeats_messages
        has_cursor = hello.HasField("channels_cursor")
        same_epoch = hello.HasField("channels_epoch") and hello.channels_epoch == self._client.service.channels_epoch
        void = has_cursor and not (same_epoch and hello.channels_cursor <= log.complete)
        self.feeds.begin(hello.channels_cursor if has_cursor else None, void=void)
        positions = self.register(hello.channels, refused, void=void)
        learns = void or (not has_cursor and bool(self._client.channels.by_name))
        return positions, self._client.service.channels_epoch if learns else None

    def register(
        self, channels: Iterable[wire.Channel], refused: list[wire.Refusal], *, void: bool = False
    ) -> list[wire.ChannelPosition]:
        """The client wants these, too: where each begins. `refused` gets which it may not, and why."""
        if self.feeds is None:
            return []
        wanted = []
        for said in channels:
            reason = self._client.service.refused_channels.get(said.name)
            if reason is None:
                wanted.append(said)
            else:
                hash_ = channel_hash(channel_text(said.name, said.attributes))
                refused.append(wire.Refusal(channel=hash_, reason=reason))
        return self.feeds.register(wanted, void=void)

    def replace(self, channels: list[wire.Channel], refused: list[wire.Refusal]) -> list[wire.ChannelPosition]:
        """A reg-sync leaves the cursor of channels unchanged: each one begins where the client says."""
        kept = {channel_hash(channel_text(one.name, one.attributes)) for one in channels}
        self.unregister([hash_ for hash_ in self._client.channels.hashes if hash_ not in kept])
        return self.register(channels, refused)

    def unregister(self, hashes_: Iterable[int]) -> None:
        """The client wants these no more."""
        self._client.channels.unregister(set(hashes_))
        if self.feeds is not None:
            self.feeds.forget()

    def catch_up(self) -> None:
        """Sends pages, if anything is lacking; else CaughtUp reports it."""
        if self.feeds is not None and self._client.channels.by_name:
            if self.feeds.lacks or not self._client.partition.log.messages:
                self.feeds.catch_up()
            else:
                self.feeds.go_live()

    def fan_out(self, domain: str, group: str, message: Sent) -> None:
        """A message was sent."""
        if self.feeds is not None and self._client.name[:2] == (domain, group):
            self.feeds.fan_out(message)

    @property
    def complete(self) -> int | None:
        """Returns the offset that is reported while they are live."""
        feeds = self.feeds
        if (
            feeds is None
            or feeds.lost_of is not None
            or not feeds.live
            or not self._client.channels.by_name
            or not feeds.log.messages
        ):
            return None
        return feeds.log.complete
