"""The fields for channels in the document, if there are any:

"channels_epoch": 7 or null, "channels_cursor": 1234 or null,
"channels": {text: {"since": "oldest", ...             until the service has sent the position
                    "position": 1200 or null,          while pending: everything up to there is known
                    "told": 1210, "lost": true}},
"pending_channels": {text: "register"}

The text of a pattern begins with U+0000.
"""

from collections.abc import Mapping

from coldnotify._core.document.stored_fields import U64_MAX, Fields, number_of, operations_of, table
from coldnotify._core.interests.interests import ChannelInterest, channel_from
from coldnotify._core.interests.registrations import OperationKind
from coldnotify._core.interests.since import since_from
from coldnotify._core.streams.feed import BEGINNING, KeptChannel
from coldnotify.errors import StateDamaged


def encode_channels(
    channels: Mapping[ChannelInterest, KeptChannel],
    pending: Mapping[ChannelInterest, OperationKind],
    epoch: int | None,
    cursor: int | None,
) -> Fields:
    """Returns the document's fields."""
    return {
        "channels_epoch": epoch,
        "channels_cursor": cursor,
        "channels": {channel.text: _encode_kept(channels[channel]) for channel in sorted(channels)},
        "pending_channels": {channel.text: kind.value for channel, kind in pending.items()},
    }


def decode_channels(fields: Fields) -> Fields:
    """Parses the document's fields. Returns those of a Document. Raises StateDamaged."""
    epoch = number_of(fields, "channels_epoch", (1 << 32) - 1)
    cursor = number_of(fields, "channels_cursor", U64_MAX)
    if cursor is not None and epoch is None:
        raise StateDamaged("channels_cursor: given without an epoch")
    entries = table(fields, "channels", _channel_text)
    channels = {channel_from(text): _decode_kept(entry) for text, entry in entries}
    texts = {text for text, _ in entries}
    if len({channel.name for channel in channels}) < len(channels):
        raise StateDamaged("channels: has one name twice")
    operations = operations_of("pending_channels", table(fields, "pending_channels", _channel_text), texts, "channels")
    pending = {channel_from(text): kind for text, kind in operations.items()}
    for channel, kept in channels.items():
        if channel not in pending and (cursor is None or kept.since is not None or kept.position is not None):
            raise StateDamaged(f"channels: {channel.title!r} is behind the cursor, and not pending")
    return {
        "channels": channels, "pending_channels": pending, "channels_epoch": epoch, "channels_cursor": cursor
    }  # fmt: skip


def _channel_text(text: str) -> str:
    return channel_from(text).text


def _encode_kept(kept: KeptChannel) -> dict[str, object]:
    """A channel's entry."""
    entry: dict[str, object] = {} if kept.since is None else dict(kept.since.parts)
    if kept.since is None and kept.position is not None:
        entry["position"] = None if kept.position == BEGINNING else kept.position
    if kept.told is not None:
        entry["told"] = kept.told
    if kept.lost:
        entry["lost"] = True
    return entry


def _decode_kept(entry: object) -> KeptChannel:
    if not isinstance(entry, dict):
        raise StateDamaged("channels: has an entry that is not an object")
    lost = entry.get("lost", False)
    if not isinstance(lost, bool):
        raise StateDamaged("channels: lost is not true or false")
    since = position = None
    if "since" in entry:
        try:
            since = since_from(entry)
        except ValueError as error:
            raise StateDamaged(f"channels: {error}") from None
    elif "position" in entry:
        position = number_of(entry, "position", U64_MAX)
        position = BEGINNING if position is None else position
    return KeptChannel(since=since, position=position, told=number_of(entry, "told", U64_MAX), lost=lost)
