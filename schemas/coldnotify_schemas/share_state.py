"""The matcher's state of a share in a compacted topic, as JSON: one record holds all that is known of one share.

Its key is domain/group/share/channel: a channel's name may contain "/", and a share's may not. Records of one key merge
as those in `matcher_state`. A member that is not in a list any more is dropped from it, so lists are as short as what
is in hand.
"""

from enum import IntEnum
from typing import NamedTuple

import msgspec

from coldnotify_schemas.names import check_name
from coldnotify_schemas.share_names import check_share

SHARE_FORMAT = 1
SHARE_BYTES_MAX = 64 * 1024
"""Limit on a share's record: it is written whenever something is handed out or settled. At the limit nothing more is
handed out."""
SHARE_HEAD_BYTES_MAX = 4 * 1024
"""Limit on the part of a share's record beside its table: the definition has at most 16 attributes of 64 characters."""
NOBODY = -1
"""Stands in the place of a member."""


class HandOutState(IntEnum):
    """The states of a message of a share that was handed out and is not settled."""

    WAITS = 0
    """It is in nobody's hand; a retry may be due later."""
    HELD = 1
    """A member holds it under a lease, and its callback has not begun, as far as is known."""
    BEGUN = 2
    """A member holds it, and its callback has begun."""
    DYING = 3
    """Its dead letter is being written."""


class StoredHandOut(msgspec.Struct, frozen=True, array_like=True):
    """One message of a share that was handed out and is not settled."""

    offset: int
    number: int
    """The number of its latest hand-out, from 1."""
    attempts: int
    """Number of its hand-outs whose callback has begun."""
    state: HandOutState
    member: int = NOBODY
    """Place, in the record's members, of who holds it; else NOBODY."""
    seconds: int = 0
    """Length of the lease of what is held, or of what was left of a retry's delay. Its owner begins it whole."""
    reason: int = 0
    """For a notice of what is missing: as in `wire.Reason`; 0: it is a message."""
    through: int = -1
    """For a notice: messages from `offset` up to this one may be missing."""


class ShareTable(NamedTuple):
    """The part of a share's record that changes with each hand-out and settlement."""

    base: int
    """All up to this offset of the log is settled; -1: nothing is."""
    settled: list[int]
    """First and last offsets of runs above the base in which everything is settled but what is in `handed_out`, in
    turns, rising."""
    members: list[str]
    """Those that are named in `handed_out`."""
    handed_out: list[StoredHandOut]


class ShareRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """One share; key domain/group/share/channel."""

    format: int
    generation: int
    applied: int
    """The offset in the requests topic up to which requests are in here."""
    epoch: int
    """Epoch of the log of channels that offsets are of."""
    base: int
    """This field and the next three are as in ShareTable."""
    settled: list[int] = []
    members: list[str] = []
    handed_out: list[StoredHandOut] = []
    since: int = 0
    """As the first member has said it: `wire.Since`."""
    at: int = 0
    """As in `wire.Interest`."""
    attributes: list[str] = []
    """Sorted: the share takes messages that are sent to one of these, and those that are sent to all."""
    empty_since: int = 0
    """Unix time in ms since which it has no members; 0: it has some."""
    numbers_from: int = 0
    """Hand-outs have higher numbers: those of a former log may still be in hands."""
    undefined: bool = False
    """True if an earlier record is lost: the attributes are known by members' registrations, and `since` is not until
    a member says it."""

    @property
    def table(self) -> ShareTable:
        """Returns the part of the record that the share's rule loads."""
        return ShareTable(self.base, self.settled, self.members, self.handed_out)


def share_key(domain: str, group: str, share: str, channel: str) -> str:
    """Returns the key of a share's record; `channel` is a channel's name, checked. Raises InvalidName."""
    return f"{check_name('domain', domain)}/{check_name('group', group)}/{check_share(share, channel)}/{channel}"
