"""The groups in which clients are registered by filters: their objects by offset, and the live sessions that hear them.

A publish walks one trie, whatever the number of filters. Sessions that have the same filter share its place there.
"""

from collections.abc import Iterable, Iterator

from coldnotify_schemas.filters import FilterTrie, can_be_said

from coldnotify_matcher.engine.clients.clients import RegisteredClient
from coldnotify_matcher.engine.gateways.gateways import GatewayView
from coldnotify_matcher.engine.interests.by_filter import TOLD_BY_CURSOR, RegisteredFilter, spare_own
from coldnotify_matcher.engine.objects.object_map import ObjectMap
from coldnotify_matcher.engine.objects.objects import UNKNOWN, Obj
from coldnotify_matcher.engine.objects.offset_order import OffsetOrder


class _Heard:
    """The live sessions that have one filter."""

    __slots__ = ("by_gateway",)

    def __init__(self) -> None:
        self.by_gateway: dict[GatewayView, set[int]] = {}


class _Hearers:
    """The live sessions of one group, by their filters."""

    __slots__ = ("_by_text", "_trie")

    def __init__(self) -> None:
        self._trie: FilterTrie[_Heard] = FilterTrie()
        self._by_text: dict[str, _Heard] = {}

    def add(self, text: str, gateway: GatewayView, number: int) -> None:
        """Add a session to those that have this filter."""
        heard = self._by_text.get(text)
        if heard is None:
            heard = self._by_text[text] = _Heard()
            self._trie.add(text, heard)
        heard.by_gateway.setdefault(gateway, set()).add(number)

    def remove(self, text: str, gateway: GatewayView, number: int) -> None:
        """Remove a session, if it is there."""
        heard = self._by_text.get(text)
        if heard is None or gateway not in heard.by_gateway:
            return
        numbers = heard.by_gateway[gateway]
        numbers.discard(number)
        if not numbers:
            del heard.by_gateway[gateway]
        if not heard.by_gateway:
            del self._by_text[text]
            self._trie.remove(text, heard)

    def of(self, name: str) -> list[_Heard]:
        """Returns the sessions whose filters fit this name."""
        return self._trie.of(name) if self._by_text and can_be_said(name) else []


class _Group:
    """One group."""

    __slots__ = ("channels_from", "channels_heard", "heard", "order", "unsayable")

    def __init__(self, order: OffsetOrder, unsayable: Iterable[str]) -> None:
        self.order = order
        """All its objects that were published and that a filter can fit."""
        self.unsayable = dict.fromkeys(unsayable)
        """The names of all others that were published."""
        self.heard = _Hearers()
        """Sessions that receive publishes of objects."""
        self.channels_heard = _Hearers()
        """Sessions that receive messages of channels."""
        self.channels_from = TOLD_BY_CURSOR
        """All live sessions hear messages above this offset by all filters."""

    def begin_channels(self, position: int) -> None:
        """Note that a filter begins with messages above this offset."""
        self.channels_from = max(self.channels_from, position)


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
        others: dict[str, list[str]] = {group: [] for group in found}
        if not found:
            return
        for key in self._objects:
            domain, _, rest = key.partition("/")
            group, _, name = rest.partition("/")
            of_group = found.get(f"{domain}/{group}")
            if of_group is None or (offset := self._objects.offset_of(key)) == UNKNOWN:
                continue
            if can_be_said(name):
                of_group.append((name, offset))
            else:
                others[f"{domain}/{group}"].append(name)
        for group, offsets in found.items():
            self._groups[group] = _Group(OffsetOrder(offsets), others[group])

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
        if group is None:
            return
        if can_be_said(obj.name):
            group.order.put(obj.name, obj.offset)
        else:
            group.unsayable[obj.name] = None

    def removed(self, obj: Obj) -> None:
        """Note that the object is removed."""
        group = self._groups.get(_group_of(obj))
        if group is not None:
            group.order.remove(obj.name)
            group.unsayable.pop(obj.name, None)

    def hear(self, client: RegisteredClient) -> None:
        """Send the client's session, whose objects are live, what its filters fit from here on."""
        if (session := client.session) is not None:
            heard = self._group(client.group_key).heard
            for one in client.filters.values():
                heard.add(one.text, session.gateway, session.number)

    def hear_channels(self, client: RegisteredClient) -> None:
        """Send the client's session, whose channels are live, messages of those that its filters fit from here on."""
        if (session := client.session) is not None:
            heard = self._group(client.group_key).channels_heard
            for one in client.filters.values():
                heard.add(one.text, session.gateway, session.number)

    def hear_one(self, client: RegisteredClient, one: RegisteredFilter) -> None:
        """Send the client's session what this filter fits from here on, as far as it is live."""
        session, group = client.session, self._group(client.group_key)
        group.begin_channels(one.channels_position)
        if session is not None and session.indexed:
            group.heard.add(one.text, session.gateway, session.number)
        if session is not None and session.channels is not None and session.channels.live:
            group.channels_heard.add(one.text, session.gateway, session.number)

    def end_session(self, client: RegisteredClient) -> None:
        """Send nothing more to the client's session, which it still has."""
        for one in client.filters.values():
            self.forget(client, one)

    def forget(self, client: RegisteredClient, one: RegisteredFilter) -> None:
        """Send nothing more to the client's session by this filter."""
        session, group = client.session, self._groups.get(client.group_key)
        if session is not None and group is not None:
            group.heard.remove(one.text, session.gateway, session.number)
            group.channels_heard.remove(one.text, session.gateway, session.number)

    def channel_hearers(self, key: str) -> dict[GatewayView, set[int]]:
        """Returns the live sessions that have the channel of this key by a filter."""
        group, name = _split(key)
        there = self._groups.get(group)
        found: dict[GatewayView, set[int]] = {}
        for heard in there.channels_heard.of(name) if there is not None else ():
            for gateway, numbers in heard.by_gateway.items():
                found.setdefault(gateway, set()).update(numbers)
        return found

    def heard(self, obj: Obj) -> bool:
        """Returns true if a live session receives the object's publishes by a filter."""
        return bool(self._heard(obj))

    def hearers(self, obj: Obj) -> Iterator[tuple[GatewayView, set[int]]]:
        """Yields the live sessions that have the object by a filter; some come several times."""
        for heard in self._heard(obj):
            yield from heard.by_gateway.items()

    def channels_from(self, obj: Obj) -> int:
        """Returns the offset above which all live sessions of the object's group hear messages by all their filters."""
        group = self._groups.get(_group_of(obj))
        return TOLD_BY_CURSOR if group is None else group.channels_from

    def spares(self, source: RegisteredClient, obj: Obj) -> bool:
        """Returns true if the client whose version it is wants no such by any of its filters."""
        return spare_own(source.filters.fitting(obj.name))

    def unsayable(self, obj: Obj) -> bool:
        """Returns true if filters of the object's group cannot fit its name, whatever they are."""
        return _group_of(obj) in self._groups and not can_be_said(obj.name)

    def all_unsayable(self) -> list[str]:
        """Returns the keys of these groups' objects that filters cannot fit, because of their names."""
        return [f"{group}/{name}" for group, there in self._groups.items() for name in there.unsayable]

    def _heard(self, obj: Obj) -> list[_Heard]:
        group = self._groups.get(_group_of(obj))
        return [] if group is None else group.heard.of(obj.name)

    def _group(self, group: str) -> _Group:
        if group not in self._groups:
            self.follow((group,))
        return self._groups[group]


def _split(key: str) -> tuple[str, str]:
    """Returns domain/group and the rest of a key."""
    domain, group, name = key.split("/", 2)
    return f"{domain}/{group}", name


def _group_of(obj: Obj) -> str:
    return obj.key[: -len(obj.name) - 1]
