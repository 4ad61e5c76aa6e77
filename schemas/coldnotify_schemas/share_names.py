"""Names of shares, and of their dead letters; limits of both sides."""

from coldnotify_schemas.names import InvalidName, check_name
from coldnotify_schemas.protocol import OBJECT_BYTES_MAX

SHARE_CHARS_MAX = 44
"""Limit on a share's name: with "/" and the longest offset it is the id of a message."""
HELD_MAX = 1_000
"""Messages that one client may hold, of all its shares: its Hold is one frame."""
PREFETCH_MAX = HELD_MAX
LEASE_S_MIN, LEASE_S_MAX = 3, 12 * 3_600
"""Limits on the length of a lease: a member says a Hold each third of it."""
EARLY = 0.05
"""Part of its length by which a lease ends sooner for its holder than for its owner: no two clocks run alike."""
RETRY_S_MAX = 24 * 3_600
"""Limit on the delay of a retry."""
KEPT_SHARES_MAX = 64
"""Shares of one client whose set the service keeps: its gateway names them all in one Hold."""
TOPIC_IS_AN_OBJECT = "share: the topic is an object's, and shares are of channels"
"""Why an MQTT client is not registered for a share."""
SHARES_NOT_SERVED = "share: shares are not served here yet"
"""The same, where Kafka has no topic of shares or of channels."""
DEAD_LETTERS_SUFFIX = ".dead"
"""Ends the name of a channel of dead letters, to which nobody else may send."""


def check_share(share: str, channel: str) -> str:
    """Returns a share's name, if it can be one, and its dead letters have a channel. Raises InvalidName."""
    if len(check_name("share", share)) > SHARE_CHARS_MAX:
        raise InvalidName(f"share: has {len(share)} characters (at most {SHARE_CHARS_MAX} are allowed)")
    size = len(dead_letters_channel(channel, share).encode())
    if size > OBJECT_BYTES_MAX:
        raise InvalidName(f"share: its dead letters' channel has {size} bytes (at most {OBJECT_BYTES_MAX} are allowed)")
    return share


def dead_letters_channel(channel: str, share: str) -> str:
    """Returns the name of the channel that takes what a share's members have failed with."""
    return f"{channel}.{share}{DEAD_LETTERS_SUFFIX}"


def dead_letter_id(share: str, offset: int) -> str:
    """Returns the id of the dead letter of the message at this offset: written twice, it is told once."""
    return f"{share}/{offset}"


def check_no_dead_letters(channel: str) -> str:
    """Returns the name of a channel that anybody may send to. Raises InvalidName for one that takes dead letters."""
    if channel.endswith(DEAD_LETTERS_SUFFIX):
        raise InvalidName(f"channel: {channel[:80]!r} takes dead letters, which matchers alone send")
    return channel
