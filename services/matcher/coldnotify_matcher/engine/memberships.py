"""Who is told what of queries: the sets that clients with a session want, and the live sessions that hear of changes.

A session wants its client's sets from the moment it is caught up; it hears of changes from its last page on, as it
hears of publishes. Both end with the session.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import NamedTuple, Protocol

from coldnotify_schemas.descriptions import Description
from coldnotify_streams.core.partition_turns import Spent

from coldnotify_matcher.engine.clients import RegisteredClient
from coldnotify_matcher.engine.description_store import DescriptionStore
from coldnotify_matcher.engine.gateways import GatewayView
from coldnotify_matcher.engine.groups import FollowedGroups
from coldnotify_matcher.engine.interests.by_query.by_query import RegisteredQuery
from coldnotify_matcher.engine.interests.by_query.language import InvalidQuery
from coldnotify_matcher.engine.interests.by_query.query import CanonicalQuery, query_of
from coldnotify_matcher.engine.interests.by_query.query_places import QueryPlaces
from coldnotify_matcher.engine.interests.by_query.sets import QuerySet, QuerySets, SetChange
from coldnotify_matcher.engine.object_map import ObjectMap
from coldnotify_matcher.engine.objects import UNKNOWN, Obj

Changes = list[tuple[QuerySet, SetChange]]
"""What one change of an object changes in sets."""
Hearers = dict[int, tuple[int, ...]]
"""Sessions of one gateway that hear of a set, by their number: the hashes of the queries by which their client has it;
several if it has the same query in other words."""
_NOBODY: dict[GatewayView, Hearers] = {}


class Count(Protocol):
    """Notes that something happened that has a metric."""

    def __call__(self, name: str, by: int = 1) -> None:
        """So often."""


class ToldMember(NamedTuple):
    """What a session is to be told of one object: the hashes of its client's queries."""

    entered: tuple[int, ...]
    left: tuple[int, ...]


class LookedMember(NamedTuple):
    """An object and the queries of one client, for who looks in."""

    description: Description | None
    """The object's, empty if it has none; None: there is no such object."""
    members: dict[str, bool | None]
    """By the text of a query: whether it has the object; None: that is not known, as the client is away."""
    refused: dict[str, str]
    """By text: why it is no query."""


class Memberships:
    """Those of one partition."""

    def __init__(self, objects: ObjectMap, descriptions: DescriptionStore, places: QueryPlaces, count: Count) -> None:
        self._count = count
        self._places = places
        self._objects = objects
        self.groups = FollowedGroups(objects, descriptions)
        self.sets = QuerySets(self.groups)
        self._hearers: dict[QuerySet, dict[GatewayView, Hearers]] = {}
        self._describing: dict[GatewayView, set[int]] = {}
        """The live sessions that are told how members are described, by their numbers."""
        self._waiting: dict[RegisteredClient, None] = {}
        """Clients whose pages wait for their sets."""
        self._settled: dict[RegisteredClient, None] = {}
        """Those that wait for them no more, and whose turn has not come yet."""

    def clear(self) -> None:
        """The partition is another's: nobody is told anything by this matcher any more."""
        self.groups.clear()
        self.sets = QuerySets(self.groups)
        self._hearers.clear()
        self._describing.clear()
        self._waiting.clear()
        self._settled.clear()

    # --- sessions

    def want(self, client: RegisteredClient) -> bool:
        """The client's session wants its sets. False: they are not known yet; it is among the next `settled`."""
        for query in client.queries.values():
            if query.set is None and not query.refused:
                self._subscribe(client.group_key, query)
        self._settled.pop(client, None)
        if client.queries.settled:
            self._waiting.pop(client, None)
            return True
        self._waiting[client] = None
        return False

    def changed(self, client: RegisteredClient) -> None:
        """The client has other queries: if its pages wait, they wait for the sets of these."""
        if (client in self._waiting or client in self._settled) and self.want(client):
            self._settled[client] = None

    def hear(self, client: RegisteredClient) -> None:
        """The client's session is live: it hears of changes from here on."""
        session = client.session
        if session is not None:
            if session.descriptions:
                self._describing.setdefault(session.gateway, set()).add(session.number)
            for hash_, set_ in client.queries.sets():
                hearers = self._hearers.setdefault(set_, {}).setdefault(session.gateway, {})
                hashes = hearers.get(session.number, ())
                if hash_ not in hashes:
                    hearers[session.number] = (*hashes, hash_)

    def end_session(self, client: RegisteredClient) -> None:
        """The client's session, which it still has, is over."""
        self._waiting.pop(client, None)
        self._settled.pop(client, None)
        session = client.session
        if session is not None and session.gateway in self._describing:
            self._describing[session.gateway].discard(session.number)
            if not self._describing[session.gateway]:
                del self._describing[session.gateway]
        for query in client.queries.values():
            self.forget(client, query)

    def forget(self, client: RegisteredClient, query: RegisteredQuery) -> None:
        """The client's session wants the set of this query no more."""
        set_, query.set, query.refused, query.is_new = query.set, None, "", False
        if set_ is None:
            return
        session, by_gateway = client.session, self._hearers.get(set_)
        if session is not None and by_gateway is not None and session.gateway in by_gateway:
            hearers = by_gateway[session.gateway]
            hashes = tuple(hash_ for hash_ in hearers.pop(session.number, ()) if hash_ != query.hash)
            if hashes:
                hearers[session.number] = hashes
            elif not hearers:
                del by_gateway[session.gateway]
                if not by_gateway:
                    del self._hearers[set_]
        self.sets.unsubscribe(set_)

    # --- changes and time

    def group_of(self, obj: Obj) -> str:
        """The object's domain/group, if it is followed; else ""."""
        group = obj.key[: -len(obj.name) - 1]
        return group if group in self.groups else ""

    def published(self, group: str, obj: Obj, before: Description | None, offset: int) -> Changes:
        """A record of an object of a group that is followed counts. `before`: as `Sets.on_change` has it."""
        self.groups.changed(group, obj.name, obj.offset)
        return self._on_change(group, obj.name, before, offset)

    def described(self, group: str, name: str, before: Description | None, offset: int) -> Changes:
        """An object of a group that is followed has another description, or none any more."""
        self.groups.changed(group, name, self._objects.offset_of(f"{group}/{name}", UNKNOWN))
        self.groups.redescribed(group, name, offset)
        return self._on_change(group, name, before, offset)

    def _on_change(self, group: str, name: str, before: Description | None, offset: int) -> Changes:
        after = self.groups.description(group, name)
        if before is after:
            return []
        changes = self.sets.on_change(group, name, before, after, offset)
        for _, change in changes:
            self._count("entered" if change.entered else "left")
        self._count("evaluated", self.sets.take_evaluated())
        return changes

    def why_no_members(self, group: str, query: CanonicalQuery) -> str:
        """Why a query that nobody is registered for gets no set; "": it does, or has one."""
        return "" if self.sets.has_set(group, query) else self.sets.why_no_members(group)

    @property
    def unsettled(self) -> bool:
        """Whether `settle` has something to do."""
        return self.sets.computing or bool(self._settled)

    def settle(self, position: int, spent: Spent) -> Iterator[RegisteredClient]:
        """Go on with sets that are not known yet, until the turn is `spent`.

        Yields clients whose pages waited for the last of theirs; the others' turn comes later.
        """
        if self.sets.computing:
            computed = self.sets.compute(position, spent)
            if computed:
                self._count("sets_computed", len(computed))
                settled = [client for client in self._waiting if client.queries.settled]
                for client in settled:
                    del self._waiting[client]
                    self._settled[client] = None
        while self._settled:
            client = next(iter(self._settled))
            del self._settled[client]
            yield client
            if spent():
                return

    def on_tick(self, now_ms: int) -> None:
        """Forget what nobody has wanted for long."""
        self.sets.forget_idle(now_ms)
        for group in self.groups.followed():
            if not self.sets.has(group):
                self.groups.forget(group)

    # --- looking in

    def look(self, client: RegisteredClient, name: str) -> "LookedMember":
        """What is known of an object and a client's queries without holding one against the other."""
        known = {
            one.text: name in one.set.members if one.set is not None and one.set.ready else None
            for one in client.queries.values()
            if not one.refused
        }
        refused = {one.text: one.refused for one in client.queries.values() if one.refused}
        return LookedMember(self.groups.description(client.group_key, name), known, refused)

    # --- who hears what

    def heard(self, obj: Obj) -> bool:
        """Whether a live session hears of the object's publishes by a query."""
        return any(set_ in self._hearers for set_ in self._sets_of(obj))

    def hearers(self, obj: Obj) -> Iterator[tuple[GatewayView, Iterable[int]]]:
        """The live sessions that have the object by a query; some come twice."""
        for set_ in self._sets_of(obj):
            yield from self._hearers.get(set_, _NOBODY).items()

    def differences(self, changes: Changes) -> dict[GatewayView, dict[int, ToldMember]]:
        """What each live session is to be told of one change of one object, by its number."""
        told: dict[GatewayView, dict[int, ToldMember]] = {}
        for set_, change in changes:
            for gateway, hearers in self._hearers.get(set_, _NOBODY).items():
                of_gateway = told.setdefault(gateway, {})
                for number, hashes in hearers.items():
                    entered, left = of_gateway.get(number, _NONE)
                    of_gateway[number] = (
                        ToldMember(entered + hashes, left) if change.entered else ToldMember(entered, left + hashes)
                    )
        return told

    @property
    def describes(self) -> bool:
        """Whether any live session is told how members are described."""
        return bool(self._describing)

    def describing(self, gateway: GatewayView) -> Collection[int]:
        """The gateway's live sessions that are."""
        return self._describing.get(gateway, ())

    def staying(
        self, group: str, name: str, told: Mapping[GatewayView, Mapping[int, ToldMember]]
    ) -> dict[GatewayView, set[int]]:
        """The live sessions that are told how members are described, have the object, and do not hear in `told` that it
        has entered: they are to be told its new description."""
        found: dict[GatewayView, set[int]] = {}
        if not self._describing:
            return found
        for set_ in self.sets.sets_of(group, name):
            for gateway, hearers in self._hearers.get(set_, _NOBODY).items():
                of_gateway = told.get(gateway, {})
                numbers = {
                    number for number in self.describing(gateway)
                    if number in hearers and not (number in of_gateway and of_gateway[number].entered)
                }  # fmt: skip
                if numbers:
                    found.setdefault(gateway, set()).update(numbers)
        return found

    def known_since(self, client: RegisteredClient, name: str) -> int | None:
        """Since which offset the client knows this object as a member of one of its queries, by all that its session
        was sent. None: it may not have been told of it.

        The log says who is a member; a session that is sent pages is told that by page and page.
        """
        session = client.session
        if session is None or not session.in_sync:
            return None
        known: list[int] = []
        stream, answers = session.objects, session.answers
        for hash_ in client.queries.have(name):
            set_ = client.queries[hash_].set
            assert set_ is not None, "it has members"
            since = self.sets.member_since(set_, name)
            answer = answers.owed.get(hash_)
            if answer is not None:
                told = answer.knows(name, since)
            elif stream.live:
                told = True
            else:
                cursor = answers.known_up_to(hash_, stream.cursor)
                told = cursor is not None and since <= cursor
            if told:
                known.append(since)
        return min(known, default=None)

    def missed(self, client: RegisteredClient, cursor: int) -> bool:
        """Whether the client, which has a session, may not have been told something of its sets that lies above."""
        if not client.queries:
            return False
        if not client.queries.settled or (client.session is None or not client.session.objects.live):
            return True
        for _, set_ in client.queries.sets():
            difference = set_.difference(cursor)
            if difference is None or difference.entered or difference.left:
                return True
        if client.session.descriptions and self.redescribed(client, cursor):
            return True
        return bool(self.newer(client, cursor))

    def newer(self, client: RegisteredClient, cursor: int) -> list[tuple[str, int]]:
        """The members of its sets with a newest version above the cursor: names and offsets."""
        latest_first = self.groups.newest_first(client.group_key)
        return self._above(client, cursor, latest_first, self.groups.offset)

    def redescribed(self, client: RegisteredClient, cursor: int) -> list[tuple[str, int]]:
        """The members of its sets that are described in another way since an offset above the cursor."""
        latest_first = self.groups.redescribed_first(client.group_key)
        return self._above(client, cursor, latest_first, self.groups.redescribed_at)

    def _above(
        self,
        client: RegisteredClient,
        cursor: int,
        latest_first: Iterator[tuple[str, int]],
        offset_of: Callable[[str, str], int],
    ) -> list[tuple[str, int]]:
        group, queries = client.group_key, client.queries
        steps_max = queries.members()
        if not steps_max:
            return []
        found: list[tuple[str, int]] = []
        for step, (name, offset) in enumerate(latest_first):
            if offset <= cursor:
                return found
            if step >= steps_max:
                break
            if queries.have(name):
                found.append((name, offset))
        else:
            return found
        # More has changed in the group than its members: to look at them takes less.
        members = {name for _, set_ in queries.sets() for name in set_.members}
        offsets = ((name, offset_of(group, name)) for name in members)
        return [(name, offset) for name, offset in offsets if offset > cursor]

    def _subscribe(self, group: str, query: RegisteredQuery) -> None:
        try:
            parsed = query_of(query.text)
        except InvalidQuery as error:
            query.refused = str(error)
            return
        self._places.price(group, query.hash, parsed)
        self.groups.follow(group)
        query.set = self.sets.subscribe(group, parsed, new=query.is_new)

    def _sets_of(self, obj: Obj) -> Iterator[QuerySet]:
        return self.sets.sets_of(obj.key[: -len(obj.name) - 1], obj.name)


_NONE = ToldMember((), ())
