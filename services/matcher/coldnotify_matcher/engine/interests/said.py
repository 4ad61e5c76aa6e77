"""Said: what a frame says of an interest that its client registers."""

from typing import NamedTuple

from coldnotify_schemas import wire_pb2

_BETWEEN = "\x00"


class SaidChannel(NamedTuple):
    """A channel that a part of a reg-sync names."""

    text: str
    """Its name and attributes, as they were said, joined as `channel_text` does."""
    since: wire_pb2.Since
    at: int


def said_channel(channel: wire_pb2.Channel) -> SaidChannel:
    """What a frame says of a channel."""
    return SaidChannel(_BETWEEN.join([channel.name, *channel.attributes]), channel.since, channel.at)
