"""The groups in which clients are registered by filters: their objects by offset, and the live sessions that hear them.

A publish walks one trie, whatever the number of filters. Sessions that have the same filter share its place there.
"""

from collections.abc import Iterable, Iterator

from coldnotify_schemas.filters import FilterTrie, can_be_said

from coldnotify_matcher.engine.clients.clients import RegisteredClient
from coldnotify_matcher.engine.gateways.gateways import GatewayView
from coldnotify_matcher.engine.interests.by_filter import RegisteredFilter
from coldnotify_matcher.engine.objects.object_map import ObjectMap
from coldnotify_matcher.engine.objects.objects import UNKNOWN, Obj
from coldnotify_matcher.engine.objects.offset_order import OffsetOrder


class _Heard:
    """The live sessions that have one filter."""

    __slots__ = ("by_gateway",)

    def __init__(self) -> None:
        self.by_gateway: dict[GatewayView, set[int]] = {}


class _Group:
    """One group."""

    __slots__ = ("heard", "order", "trie")

    def __init__(self, order: OffsetOrder) -> None:
        self.order = order
        """All its objects that were published and that a filter can fit."""
        self.trie: FilterTrie[_Heard] = FilterTrie()
        self.heard: dict[str, _Heard] = {}
        """By the texts of filters."""


class FilteredGroups:
    """These groups of one partition."""

    def __init__(self, objects: ObjectMap) -> None:
        self._objects = objects
        self._groups: dict[str, _Group] = {}
        """By domain/group."""
        self.registered: dict[str, int] = {}
        """By domain/group: number of filters of its clients, whether they are connected or not."""

    @property
    def any(self) -> bool:
        """True if there is any. Each publish asks."""
        return bool(self._groups)

    def clear(self) -> None:
        """Forget all groups, because the partition belongs to another."""
        self._groups = {}

    def follow(self, groups: Iterable[str]) -> None:
        """Follow these groups, with one pass over all objects: `changed` is called for their objects from here on."""
        found: dict[str, list[tuple[str, int]]] = {group: [] for group in groups if group not in self._groups}
        if not found:
            return
        for key in self._objects:
            domain, _, rest = key.partition("/")
            group, _, name = rest.partition("/")
            of_group = found.get(f"{domain}/{group}")
            if of_group is not None and (offset := self._objects.offset_of(key)) != UNKNOWN and can_be_said(name):
                of_group.append((name, offset))
        for group, offsets in found.items():
            self._groups[group] = _Group(OffsetOrder(offsets))

    def on_tick(self) -> None:
        """Forget the groups in which no client has a filter any more."""
        for group in [group for group in self._groups if group not in self.registered]:
            del self._groups[group]

    def order(self, group: str) -> OffsetOrder:
        """Returns the group's objects; it is followed from here on."""
        return self._group(group).order

    def changed(self, obj: Obj) -> None:
        """Note that the object has a newer version."""
        group = self._groups.get(_group_of(obj))
        if group is not None and can_be_said(obj.name):
            group.order.put(obj.name, obj.offset)

    def removed(self, obj: Obj) -> None:
        """Note that the object is removed."""
        group = self._groups.get(_group_of(obj))
        if group is not None:
            group.order.remove(obj.name)

    def hear(self, client: RegisteredClient) -> None:
        """Send the client's session, which is live, what its filters fit from here on."""
        for one in client.filters.values():
            self.hear_one(client, one)

    def hear_one(self, client: RegisteredClient, one: RegisteredFilter) -> None:
        """Send the client's session, which is live, what this filter fits from here on."""
        session = client.session
        if session is None:
            return
        group = self._group(client.group_key)
        heard = group.heard.get(one.text)
        if heard is None:
            heard = group.heard[one.text] = _Heard()
            group.trie.add(one.text, heard)
        heard.by_gateway.setdefault(session.gateway, set()).add(session.number)

    def end_session(self, client: RegisteredClient) -> None:
        """Send nothing more to the client's session, which it still has."""
        for one in client.filters.values():
            self.forget(client, one)

    def forget(self, client: RegisteredClient, one: RegisteredFilter) -> None:
        """Send nothing more to the client's session by this filter."""
        session, group = client.session, self._groups.get(client.group_key)
        heard = None if group is None else group.heard.get(one.text)
        if session is None or group is None or heard is None or session.gateway not in heard.by_gateway:
            return
        numbers = heard.by_gateway[session.gateway]
        numbers.discard(session.number)
        if not numbers:
            del heard.by_gateway[session.gateway]
        if not heard.by_gateway:
            del group.heard[one.text]
            group.trie.remove(one.text, heard)

    def heard(self, obj: Obj) -> bool:
        """Returns true if a live session receives the object's publishes by a filter."""
        return bool(self._heard(obj))

    def hearers(self, obj: Obj) -> Iterator[tuple[GatewayView, set[int]]]:
        """Yields the live sessions that have the object by a filter; some come several times."""
        for heard in self._heard(obj):
            yield from heard.by_gateway.items()

    def spares(self, source: RegisteredClient, obj: Obj) -> bool:
        """Returns true if the client whose version it is wants no such by any of its filters."""
        return all(one.no_local for one in source.filters.fitting(obj.name))

    def unsayable(self, obj: Obj) -> bool:
        """Returns true if filters of the object's group cannot fit its name, whatever they are."""
        return _group_of(obj) in self._groups and not can_be_said(obj.name)

    def _heard(self, obj: Obj) -> list[_Heard]:
        group = self._groups.get(_group_of(obj))
        if group is None or not group.heard or not can_be_said(obj.name):
            return []
        return group.trie.of(obj.name)

    def _group(self, group: str) -> _Group:
        if group not in self._groups:
            self.follow((group,))
        return self._groups[group]


def _group_of(obj: Obj) -> str:
    return obj.key[: -len(obj.name) - 1]
