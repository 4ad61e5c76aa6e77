"""The part of a session that concerns shares as a whole: support by the service, and the member's Holds."""

from collections.abc import Callable, Iterable, Mapping

from coldnotify_schemas import wire_pb2 as wire

from coldnotify._core.interests.interests import Interest, ShareInterest, shares_of
from coldnotify._core.interests.registrations import Operation, Registrations
from coldnotify._core.shares.share_member import ShareMember
from coldnotify.errors import SharesUnknown


class SessionShares:
    """The shares of a session."""

    def __init__(self, member: ShareMember, registrations: Registrations, report: Callable[[Exception], None]) -> None:
        self._member = member
        self._registrations = registrations
        self._report = report
        self._asks = False
        """True if its Hello has shares: then Welcome lists the kinds that the service knows."""
        self._told_unknown = False
        member.begin_session()

    def said_in(self, hello: wire.Hello) -> None:
        """Notes the Hello, which has all its interests."""
        self._asks = any(interest.kind == wire.INTEREST_SHARE for interest in hello.interests)

    def said(self, interests: Iterable[Interest]) -> list[wire.Interest]:
        """Returns the shares among `interests`, for a frame that has them all."""
        kept = self._member.kept
        return [
            wire.Interest(
                kind=wire.INTEREST_SHARE,
                text=one.channel,
                share=one.share,
                attributes=one.attributes,
                since=kept[one].since.number,
                at=kept[one].since.at,
            )
            for one in shares_of(interests)
            if one in kept
        ]

    # What the service says

    def welcomed(self, welcome: wire.Welcome, *, asked: bool) -> None:
        """Notes whether the service knows shares. `asked`: the Hello asked for the kinds."""
        if asked or self._asks or welcome.kinds:
            self._know(welcome.kinds)
        self._asks = False
        self._member.welcomed()

    def registered(self, kinds: int, operations: Mapping[Interest, Operation]) -> None:
        """Notes the answer to these operations."""
        if shares_of(operations):
            self._know(kinds)

    def _know(self, kinds: int) -> None:
        knows = bool(kinds & wire.KINDS_SHARES)
        self._registrations.know(ShareInterest, known=knows)
        if not knows and self._registrations.has_shares and not self._told_unknown:
            self._told_unknown = True
            self._report(SharesUnknown())
