"""Memberships: the sets that clients with a session want, and the live sessions that receive changes of sets.

A session wants its client's sets from the moment it is caught up; it receives changes from its last page on, as it
receives publishes. Both end with the session.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import NamedTuple, Protocol

from coldnotify_schemas.descriptions import Description
from coldnotify_streams.core.partition_turns import Spent

from coldnotify_matcher.engine.clients.clients import RegisteredClient
from coldnotify_matcher.engine.gateways.gateways import GatewayView
from coldnotify_matcher.engine.interests.by_query.by_query import RegisteredQuery
from coldnotify_matcher.engine.interests.by_query.language import InvalidQuery
from coldnotify_matcher.engine.interests.by_query.query import CanonicalQuery, query_of
from coldnotify_matcher.engine.interests.by_query.query_places import QueryPlaces
from coldnotify_matcher.engine.interests.by_query.sets import QuerySet, QuerySets, SetChange
from coldnotify_matcher.engine.objects.description_store import DescriptionStore
from coldnotify_matcher.engine.objects.groups import FollowedGroups
from coldnotify_matcher.engine.objects.object_map import ObjectMap
from coldnotify_matcher.engine.objects.objects import UNKNOWN, Obj

Changes = list[tuple[QuerySet, SetChange]]
"""The changes of sets by one change of an object."""
Hearers = dict[int, tuple[int, ...]]
"""Sessions of one gateway that receive changes of a set, by their number: the hashes of the queries by which their
client has it; several if it has the same query in other words."""
_NOBODY: dict[GatewayView, Hearers] = {}


class Count(Protocol):
    """Counts an event that has a metric."""

    def __call__(self, name: str, by: int = 1) -> None:
        """Count `by` events."""


class ToldMember(NamedTuple):
    """A frame's entry about one object: the hashes of its client's queries."""

    entered: tuple[int, ...]
    left: tuple[int, ...]


class LookedMember(NamedTuple):
    """An object and the queries of one client, for the HTTP views."""

    description: Description | None
    """The object's description, empty if it has none; None: there is no such object."""
    members: dict[str, bool | None]
    """By the text of a query: true if it has the object; None: unknown, because the client has no session."""
    refused: dict[str, str]
    """By text: the reason why it is not a valid query."""


class Memberships:
    """The memberships of one partition."""

    def __init__(self, objects: ObjectMap, descriptions: DescriptionStore, places: QueryPlaces, count: Count) -> None:
        self._count = count
        self._places = places
        self._objects = objects
        self.groups = FollowedGroups(objects, descriptions)
        self.sets = QuerySets(self.groups)
        self._hearers: dict[QuerySet, dict[GatewayView, Hearers]] = {}
        self._describing: dict[GatewayView, set[int]] = {}
        """By gateway: the numbers of live sessions that receive descriptions of members."""
        self._waiting: dict[RegisteredClient, None] = {}
        """Clients whose pages wait for their sets."""
        self._settled: dict[RegisteredClient, None] = {}
        """Clients whose sets are known, and whose turn has not come yet."""

    def clear(self) -> None:
        """Forget everything, because the partition belongs to another: this matcher sends nothing for it any more."""
        self.groups.clear()
        self.sets = QuerySets(self.groups)
        self._hearers.clear()
        self._describing.clear()
        self._waiting.clear()
        self._settled.clear()

    # --- sessions

    def want(self, client: RegisteredClient) -> bool:
        """Subscribe the client's session to its sets. Returns false if they are not known yet; then `settle` yields it
        later."""
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
        """Note that the client has other queries: if its pages wait, they wait for the sets of these."""
        if (client in self._waiting or client in self._settled) and self.want(client):
            self._settled[client] = None

    def hear(self, client: RegisteredClient) -> None:
        """Send the client's session, which is live, changes from here on."""
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
        """End the client's session, which it still has."""
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
        """Unsubscribe the client's session from the set of this query."""
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
        """Returns the object's domain/group, if it is followed; else ""."""
        group = obj.key[: -len(obj.name) - 1]
        return group if group in self.groups else ""

    def published(self, group: str, obj: Obj, before: Description | None, offset: int) -> Changes:
        """Apply a valid record of an object in a followed group. `before`: as in `QuerySets.on_change`."""
        self.groups.changed(group, obj.name, obj.offset)
        return self._on_change(group, obj.name, before, offset)

    def described(self, group: str, name: str, before: Description | None, offset: int) -> Changes:
        """Apply another description of an object in a followed group, or its removal."""
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
        """Returns the reason why a query without registrations gets no set; "": it gets one, or has one."""
        return "" if self.sets.has_set(group, query) else self.sets.why_no_members(group)

    @property
    def unsettled(self) -> bool:
        """True if `settle` has something to do."""
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
        """Forget sets and groups that no client has wanted for long."""
        self.sets.forget_idle(now_ms)
        for group in self.groups.followed():
            if not self.sets.has(group):
                self.groups.forget(group)

    # --- looking in

    def look(self, client: RegisteredClient, name: str) -> "LookedMember":
        """Returns an object's description and its known memberships in a client's queries, without evaluating any."""
        known = {
            one.text: name in one.set.members if one.set is not None and one.set.ready else None
            for one in client.queries.values()
            if not one.refused
        }
        refused = {one.text: one.refused for one in client.queries.values() if one.refused}
        return LookedMember(self.groups.description(client.group_key, name), known, refused)

    # --- who hears what

    def heard(self, obj: Obj) -> bool:
        """Returns true if a live session receives the object's publishes by a query."""
        return any(set_ in self._hearers for set_ in self._sets_of(obj))

    def hearers(self, obj: Obj) -> Iterator[tuple[GatewayView, Iterable[int]]]:
        """Yields the live sessions that have the object by a query; some come twice."""
        for set_ in self._sets_of(obj):
            yield from self._hearers.get(set_, _NOBODY).items()

    def differences(self, changes: Changes) -> dict[GatewayView, dict[int, ToldMember]]:
        """Returns the entry for each live session, by its number, about one change of one object."""
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
        """True if any live session receives descriptions of members."""
        return bool(self._describing)

    def describing(self, gateway: GatewayView) -> Collection[int]:
        """Returns the gateway's live sessions that receive descriptions."""
        return self._describing.get(gateway, ())

    def staying(
        self, group: str, name: str, told: Mapping[GatewayView, Mapping[int, ToldMember]]
    ) -> dict[GatewayView, set[int]]:
        """Returns the live sessions that receive descriptions, have the object, and have no `entered` for it in `told`:
        they have to receive its new description."""
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
        """Returns the offset since which the client knows this object as a member of one of its queries, by all that
        its session was sent. None: it may not have received it.

        The log decides memberships; a session that receives pages learns of them page by page.
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
        """Returns true if the client may lack changes of its sets above this cursor."""
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
        """Returns the members of its sets with a newest version above the cursor: names and offsets."""
        latest_first = self.groups.newest_first(client.group_key)
        return self._above(client, cursor, latest_first, self.groups.offset)

    def redescribed(self, client: RegisteredClient, cursor: int) -> list[tuple[str, int]]:
        """Returns the members of its sets whose description is in force since an offset above the cursor."""
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
        # More objects have changed in the group than its sets have members: a pass over these takes less.
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
