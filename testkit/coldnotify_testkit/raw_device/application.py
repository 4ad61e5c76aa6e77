"""The application that a raw device runs: its callbacks, which have done their work when they return."""

from typing import NamedTuple, Protocol


class Version(NamedTuple):
    """A version of an object, as the application receives it."""

    name: str
    version: int | None
    """None: nothing of it is known."""
    incarnation: int
    payload: bytes
    deleted: bool
    description: str | None
    """JSON; "": it has none. None: nobody has asked."""


class ChannelGap(NamedTuple):
    """Between these offsets of a channel messages may be missing."""

    after: int | None
    before: int
    reason: str
    """retention, expired, lost, unreadable or unsaid."""


class DeviceApplication(Protocol):
    """A callback that cannot do its work now tries again by itself before it returns."""

    def told(self, told: Version) -> None:
        """A version of an object, or how it is described."""

    def members(self, text: str, added: set[str], removed: set[str]) -> None:
        """Receives the objects that have entered a query, and those that have left it."""

    def message(self, channel: str, offset: int, id_: str, payload: bytes) -> None:
        """A message of a channel, by the channel's name."""

    def missed(self, channel: str, gap: ChannelGap) -> None:
        """Messages of a channel may be missing."""

    def refused(self, kind: str, text: str, reason: str) -> None:
        """A registration was refused."""

    def published(self, id_: str, offset: int | None, reason: str) -> None:
        """Receives the outcome of a message. `offset` None: it was refused, for the reason."""
