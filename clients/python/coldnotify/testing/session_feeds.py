"""The channels of a session in the service for tests: where they begin, and their delivery."""

from collections.abc import Callable, Iterable

from coldnotify_schemas import wire_pb2 as wire
from coldnotify_schemas.interests import channel_hash

from coldnotify.testing.channels import Feeds, LoggedMessage, registered_text
from coldnotify.testing.session_client import SessionClient


class SessionFeeds:
    """The channels of a session."""

    def __init__(self, client: SessionClient, send: Callable[..., None]) -> None:
        self._client = client
        self._send = send
        self.feeds: Feeds | None = None
        """None: the service knows no channels, or the client has not sent Hello."""

    def open(self, hello: wire.Hello, refused: list[wire.Refusal]) -> list[wire.Stream]:
        """Returns where the channels of this Hello begin, and the log's epoch, if the client does not know it."""
        if not self._client.service.knows_channels:
            return []
        self.unregister(hello.unregister_interests)
        log = self._client.partition.log
        self.feeds = Feeds(self._client.channels, log, self._client.service.page_objects, self._send)
        self.feeds.repeats = self._client.service.repeats_messages
        said = hello.streams[0] if hello.streams else wire.Stream()
        cursor = said.complete if said.HasField("complete") else None
        same_epoch = said.HasField("epoch") and said.epoch == self._client.service.channels_epoch
        void = cursor is not None and not (same_epoch and cursor <= log.complete)
        self.feeds.begin(cursor, void=void)
        positions = self._register(hello.interests, refused, void=void)
        learns = void or (cursor is None and bool(self._client.channels.by_name))
        return self._begun(positions, learns=learns)

    def register(self, interests: Iterable[wire.Interest], refused: list[wire.Refusal]) -> list[wire.Stream]:
        """Registers the client for the channels among these, and returns where each begins. `refused` gets those that
        it may not want, and why.
        """
        had_channels = bool(self._client.channels.by_name)
        positions = self._register(interests, refused)
        return self._begun(positions, learns=bool(positions) and not had_channels)

    def replace(self, interests: list[wire.Interest], refused: list[wire.Refusal]) -> list[wire.Stream]:
        """As `register`, for a reg-sync. It leaves the cursor as it is: each channel begins where the client says."""
        kept = {_hash_of(one) for one in _channels_among(interests)}
        self.unregister([hash_ for hash_ in self._client.channels.hashes if hash_ not in kept])
        positions = self._register(interests, refused)
        hello = self._client.hello
        learns = hello is not None and not any(stream.HasField("complete") for stream in hello.streams)
        return self._begun(positions, learns=bool(positions) and learns)

    def _register(
        self, interests: Iterable[wire.Interest], refused: list[wire.Refusal], *, void: bool = False
    ) -> list[wire.Position]:
        if self.feeds is None:
            return []
        wanted = []
        for said in _channels_among(interests):
            reason = self._client.service.refused_channels.get(said.text)
            if reason is None:
                wanted.append(said)
            else:
                refused.append(wire.Refusal(interest=_hash_of(said), reason=reason))
        return self.feeds.register(wanted, void=void)

    def _begun(self, positions: list[wire.Position], *, learns: bool) -> list[wire.Stream]:
        epoch = self._client.service.channels_epoch if learns else None
        return [wire.Stream(epoch=epoch, positions=positions)] if learns or positions else []

    def unregister(self, hashes_: Iterable[int]) -> None:
        """Unregisters the client from the channels that have these hashes."""
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

    def fan_out(self, domain: str, group: str, message: LoggedMessage) -> None:
        """A message was sent."""
        if self.feeds is not None and self._client.name[:2] == (domain, group):
            self.feeds.fan_out(message)

    @property
    def complete(self) -> list[wire.Stream]:
        """Returns the offset that is reported while they are live."""
        feeds = self.feeds
        if feeds is None or feeds.lost_of is not None or not feeds.live or not self._client.channels.by_name:
            return []
        return [wire.Stream(complete=feeds.log.complete if feeds.log.messages else None)]


def _channels_among(interests: Iterable[wire.Interest]) -> list[wire.Interest]:
    return [one for one in interests if one.kind in (wire.INTEREST_CHANNEL, wire.INTEREST_PATTERN)]


def _hash_of(channel: wire.Interest) -> int:
    return channel_hash(registered_text(channel))
