"""Which queries ask how their members are described, and what the service says of that: what is told, and asked for.

Where nothing is known of a member, nobody was told: its query was answered before it asked, or by a service that tells
no descriptions. Such a query is answered again.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Protocol

from coldnotify._core.interests import Query
from coldnotify._core.journal import Journal
from coldnotify._core.member_descriptions import Descriptions
from coldnotify._core.membership import Membership


class Keeper(Protocol):
    """What describing needs of those who keep the queries."""

    by_hash: dict[int, Membership]
    of: dict[str, list[Membership]]

    def members(self, query: Query) -> frozenset[str]:
        """As the application sees them."""

    def is_heard(self, query: Query) -> bool:
        """Whether callbacks are told the versions of its members."""

    def miss(self, membership: Membership) -> None:
        """What is said of a member is dropped, as there is no callback for it."""

    def ask_whole(self, membership: Membership) -> None:
        """It is to be answered again, whole."""


class AskedDescriptions:
    """Of all queries of a client."""

    def __init__(self, journal: Journal, keeper: Keeper) -> None:
        self._journal = journal
        self._keeper = keeper
        self.told_unknown = False
        """The application has heard that the service tells no descriptions."""
        self._is_told = False
        """The service tells this session descriptions."""
        self._unasked: set[int] = set()
        """By hash: queries of which the descriptions that are missing have not been asked for in this session."""

    # What the application asks for

    @property
    def asked(self) -> bool:
        """Whether a query asks for descriptions."""
        return any(membership.descriptions is not None for membership in self._keeper.by_hash.values())

    def ask(self, query: Query, *, wanted: bool) -> None:
        """The application wants to be told how the members of this query are described, or does not."""
        membership = self._keeper.by_hash.get(query.hash)
        if membership is None or wanted is not (membership.descriptions is None):
            return
        membership.descriptions = Descriptions({}) if wanted else None
        self._journal.changed()
        if self._is_told and membership.registered:
            self._unasked.add(query.hash)
            self._ask_if_missing(membership)

    def get(self, query: Query) -> Mapping[str, bytes | None]:
        """Of its members, as the service said; None: it said nothing so far."""
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
        """The service says whether it tells this session descriptions. If not, the cursor passes what they become."""
        self._is_told = told
        self._unasked = set(self._keeper.by_hash) if told else set()
        for membership in self._keeper.by_hash.values() if not told else ():
            if membership.descriptions is not None and membership.descriptions.forget_all():
                self._journal.changed()

    def caught_up(self) -> None:
        """The client is complete, but for what nobody has told it."""
        for membership in self._keeper.by_hash.values():
            self._ask_if_missing(membership)

    def say(self, name: str, description: bytes, telling: Callable[[Membership], bytes | None]) -> Sequence[Membership]:
        """The object is described like this. Those whose callbacks are to be told. `telling`: what they are being told
        at this moment; None: nothing."""
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

    def told_as(self, name: str, description: bytes, queries: Collection[Query]) -> None:
        """The callbacks of these queries were told this one. A newer one may have been said meanwhile."""
        for descriptions in self._of_queries(name, queries):
            descriptions.told_as(name, description)
            self._journal.changed()

    def failed(self, name: str, description: bytes, queries: Collection[Query]) -> None:
        """The callbacks of these queries were told this one, and some of them failed."""
        for descriptions in self._of_queries(name, queries):
            descriptions.failed(name, description)

    def told(self, name: str) -> None:
        """Of what was said of the object's description nobody is to be told any more."""
        for membership in self._keeper.of.get(name, ()):
            self._apply(membership, name)

    def of(self, name: str) -> bytes | None:
        """Of a member of a query that asks for it, as the service said last."""
        for membership in self._keeper.of.get(name, ()):
            if membership.descriptions is not None:
                return membership.descriptions.get(name)
        return None

    def _of_queries(self, name: str, queries: Collection[Query]) -> Iterator[Descriptions]:
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
