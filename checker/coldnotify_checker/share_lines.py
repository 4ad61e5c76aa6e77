"""Lines of a history in which members of shares say what they have in hand, and what becomes of it.

All members of a share write them, or none. `hand_out` is the number of the hand-out, as the service says it: those of a
channel's next log are higher than all of the one before.
"""

from typing import Any, Literal

from coldnotify_checker.histories import Event, add_kinds


class ShareJoined(Event, kw_only=True, frozen=True, omit_defaults=True, tag_field="event", tag="share_joined"):
    """The application is about to become a member of a share."""

    client: str
    channel: str
    """domain/group/channel."""
    share: str
    since: Literal["now", "oldest", "newest"] | int = "now"
    attributes: tuple[str, ...] = ()


class ShareHeld(Event, kw_only=True, frozen=True, omit_defaults=True):
    """A line about one message in a member's hand."""

    client: str
    channel: str
    share: str
    offset: int
    hand_out: int


class ShareBegun(ShareHeld, kw_only=True, frozen=True, omit_defaults=True, tag_field="event", tag="share_begun"):
    """The callback is entered."""

    attempts: int = 0
    """The attempts before this one, by the service's word."""
    message: str | None = None
    """The message's id; None: it has none."""
    key: str | None = None
    payload: Any = None
    until: int | None = None
    """The end of the lease by the member's own monotonic clock, as `t`: `t` and the time that is left at `t`."""


class ShareHolding(ShareHeld, kw_only=True, frozen=True, omit_defaults=True, tag_field="event", tag="share_holding"):
    """The member looked at its lease, which has not ended."""

    until: int
    """As of `ShareBegun`."""


class ShareSettling(ShareHeld, kw_only=True, frozen=True, omit_defaults=True, tag_field="event", tag="share_settling"):
    """The application is about to settle it: to return, or to call `done`. The line is written before."""


class ShareSettled(ShareHeld, kw_only=True, frozen=True, omit_defaults=True, tag_field="event", tag="share_settled"):
    """The settlement is answered."""


class ShareGivenBack(
    ShareHeld, kw_only=True, frozen=True, omit_defaults=True, tag_field="event", tag="share_given_back"
):
    """The application is about to give it back. The line is written before."""

    how: Literal["failed", "retry", "rejected"] = "failed"


class ShareLeaseLost(
    ShareHeld, kw_only=True, frozen=True, omit_defaults=True, tag_field="event", tag="share_lease_lost"
):
    """The application was told that another member may have it."""


class ShareMissed(Event, kw_only=True, frozen=True, omit_defaults=True, tag_field="event", tag="share_missed"):
    """The callback for missing messages is entered: those between these offsets may be missing."""

    client: str
    channel: str
    share: str
    after: int | None = None
    before: int
    reason: str


add_kinds(
    (
        *(ShareJoined, ShareBegun, ShareHolding, ShareSettling),
        *(ShareSettled, ShareGivenBack, ShareLeaseLost, ShareMissed),
    )
)
