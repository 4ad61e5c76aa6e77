"""The queries that ask for their members' descriptions: what the service has sent, what was told, and what is missing.

If nothing is known of a member, nobody was told its description: its query was answered before it asked, or by a
service that sends no descriptions. Such a query is answered again.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Protocol

from coldnotify._core.delivery.member_descriptions import MemberDescriptions
from coldnotify._core.delivery.membership import Membership
from coldnotify._core.interests.interests import QueryInterest
from coldnotify._core.journal import Journal


class DescribedQueries(Protocol):
    """The interface of those who keep the queries, for descriptions."""

    by_hash: dict[int, Membership]
    of: dict[str, list[Membership]]

    def members(self, query: QueryInterest) -> frozenset[str]:
        """Returns the members that the application sees."""

    def is_heard(self, query: QueryInterest) -> bool:
        """Returns true if callbacks are told the versions of its members."""

    def miss(self, membership: Membership) -> None:
        """Drops a member's description, because there is no callback for it."""

    def ask_whole(self, membership: Membership) -> None:
        """It is to be answered again, whole."""


class AskedDescriptions:
    """The descriptions of all queries of a client."""

    def __init__(self, journal: Journal, keeper: DescribedQueries) -> None:
        self._journal = journal
        self._keeper = keeper
        self.told_unknown = False
        """True once the application was told that the service sends no descriptions."""
        self._is_told = False
        """True if the service sends this session descriptions."""
        self._unasked: set[int] = set()
        """By hash: queries whose missing descriptions have not been requested in this session."""

    # What the application asks for

    @property
    def asked(self) -> bool:
        """True if a query asks for descriptions."""
        return any(membership.descriptions is not None for membership in self._keeper.by_hash.values())

    def ask(self, query: QueryInterest, *, wanted: bool) -> None:
        """Sets whether the application is told the descriptions of this query's members."""
        membership = self._keeper.by_hash.get(query.hash)
        if membership is None or wanted is not (membership.descriptions is None):
            return
        membership.descriptions = MemberDescriptions({}) if wanted else None
        self._journal.changed()
        if self._is_told and membership.registered:
            self._unasked.add(query.hash)
            self._ask_if_missing(membership)

    def get(self, query: QueryInterest) -> Mapping[str, bytes | None]:
        """Returns its members' descriptions, as the service sent them; None: it has sent none so far."""
        membership = self._keeper.by_hash.get(query.hash)
        if membership is None or membership.descriptions is None:
            return {}
        return {name: membership.descriptions.get(name) for name in self._keeper.members(query)}

    # What a session says

    def begin_session(self) -> None:
        """A new session."""
        self._is_told = False
        self._unasked = set()

    def welcomed(self, *, told: bool) -> None:
        """Notes whether the service sends this session descriptions. If not, the cursor passes changes of them."""
        self._is_told = told
        self._unasked = set(self._keeper.by_hash) if told else set()
        for membership in self._keeper.by_hash.values() if not told else ():
            if membership.descriptions is not None and membership.descriptions.forget_all():
                self._journal.changed()

    def caught_up(self) -> None:
        """The client is complete, except for descriptions that nobody has told it."""
        for membership in self._keeper.by_hash.values():
            self._ask_if_missing(membership)

    def say(self, name: str, description: bytes, telling: Callable[[Membership], bytes | None]) -> Sequence[Membership]:
        """Notes an object's description. Returns the queries whose callbacks must be told. `telling`: returns what they
        are being told at this moment; None: nothing.
        """
        untold = []
        for membership in list(self._keeper.of.get(name, ())):
            if membership.descriptions is None:
                continue
            if not membership.descriptions.say(name, description, telling(membership)):
                continue
            if self._keeper.is_heard(membership.query):
                untold.append(membership)
            else:
                self._keeper.miss(membership)
                self._apply(membership, name)
        return untold

    def told_as(self, name: str, description: bytes, queries: Collection[QueryInterest]) -> None:
        """Notes that the callbacks of these queries were told this description. A newer one may have come meanwhile."""
        for descriptions in self._of_queries(name, queries):
            descriptions.told_as(name, description)
            self._journal.changed()

    def failed(self, name: str, description: bytes, queries: Collection[QueryInterest]) -> None:
        """Notes that the callbacks of these queries were told this description, and that some of them failed."""
        for descriptions in self._of_queries(name, queries):
            descriptions.failed(name, description)

    def told(self, name: str) -> None:
        """Notes that nobody must be told the object's description any more."""
        for membership in self._keeper.of.get(name, ()):
            self._apply(membership, name)

    def of(self, name: str) -> bytes | None:
        """Returns the last description of a member of a query that asks for it."""
        for membership in self._keeper.of.get(name, ()):
            if membership.descriptions is not None:
                return membership.descriptions.get(name)
        return None

    def _of_queries(self, name: str, queries: Collection[QueryInterest]) -> Iterator[MemberDescriptions]:
        for membership in self._keeper.of.get(name, ()):
            if membership.descriptions is not None and membership.query in queries:
                yield membership.descriptions

    def _apply(self, membership: Membership, name: str) -> None:
        if membership.descriptions is not None and membership.descriptions.applied(name):
            self._journal.changed()

    def _ask_if_missing(self, membership: Membership) -> None:
        if membership.query.hash in self._unasked and membership.undescribed:
            self._unasked.discard(membership.query.hash)
            self._keeper.ask_whole(membership)
