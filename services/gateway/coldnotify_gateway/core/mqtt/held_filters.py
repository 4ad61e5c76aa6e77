"""The filters that an MQTT session holds, with their options: what a name is told with is decided here.

Like devices hold equal lists. Equal lists are one object, and it remembers the name that it was asked for last: so a
publish to a thousand like sessions is matched once.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple
from weakref import WeakValueDictionary

from coldnotify_schemas.filters import FilterTrie, can_be_said, fits, no_local_in, qos_in, retain_as_published_in
from coldnotify_schemas.interests import filter_hash, share_hash, share_text
from coldnotify_schemas.mqtt.packets import TopicSubscription
from coldnotify_schemas.wire_pb2 import INTEREST_FILTER, INTEREST_SHARE, Interest

from coldnotify_gateway.core.mqtt.shared_filters import is_shared, text_of, topic_of

QOS_MAX = 1
"""The highest QoS that is granted."""
_TRIE_FROM = 8
"""With fewer filters, asking each of them is cheaper than a trie."""
_MODULUS = 1 << 64


class HeldFilter(NamedTuple):
    """One filter of a session."""

    text: str
    options: int = 0
    """The byte of options as in SUBSCRIBE of MQTT 5.0."""
    identifier: int = 0
    """Its Subscription Identifier; 0: none."""

    @property
    def hash(self) -> int:
        """Returns the hash that names it in the service."""
        return hash_of(self.text)

    @property
    def qos(self) -> int:
        """Returns the granted QoS."""
        return min(qos_in(self.options), QOS_MAX)

    @property
    def no_local(self) -> bool:
        """Returns true if what its own client publishes is not told."""
        return no_local_in(self.options)

    @property
    def retain_as_published(self) -> bool:
        """Returns true if versions of objects are told with the retain flag, live ones, too."""
        return retain_as_published_in(self.options)

    def interest(self) -> Interest:
        """Returns it as it is registered."""
        kind, share, text = INTEREST_FILTER, "", self.text
        if is_shared(text):
            kind, (share, text) = INTEREST_SHARE, topic_of(text)
        return Interest(kind=kind, share=share, text=text, options=self.options, identifier=self.identifier)


def hash_of(text: str) -> int:
    """Returns the hash that names a checked filter in the service: of `$share/NAME/TOPIC` the share's."""
    return share_hash(share_text(*topic_of(text))) if is_shared(text) else filter_hash(text)


def of_subscription(asked: TopicSubscription, identifier: int) -> HeldFilter:
    """Returns the filter of a SUBSCRIBE with its options."""
    return HeldFilter(asked.filter, asked.options, identifier)


def of_interests(interests: Iterable[Interest]) -> "HeldFilters":
    """Returns the filters of a set that the service has kept."""
    return held(
        HeldFilter(
            text_of(one.share, one.text) if one.kind == INTEREST_SHARE else one.text, one.options, one.identifier
        )
        for one in interests
    )


class Manner(NamedTuple):
    """The manner in which one message is told to a session."""

    qos: int
    retain: bool
    identifiers: tuple[int, ...] = ()
    """The identifiers of all subscriptions that it answers."""


def manner(filters: Iterable[HeldFilter], *, retain: bool, qos_max: int = QOS_MAX) -> Manner:
    """Returns the manner of one message for all filters that fit it. `qos_max`: the QoS that it was published with."""
    qos, identifiers = 0, []
    for one in filters:
        qos = max(qos, one.qos)
        if one.identifier:
            identifiers.append(one.identifier)
    return Manner(min(qos, qos_max), retain, tuple(identifiers))


class HeldFilters:
    """A list of filters. It never changes, because sessions share it: `held` makes another one."""

    __slots__ = ("__weakref__", "_by_hash", "_last", "_last_fit", "_trie", "by_text", "digest", "shares")

    def __init__(self, filters: tuple[HeldFilter, ...]) -> None:
        """`filters`: each text once."""
        self.by_text: Mapping[str, HeldFilter] = {one.text: one for one in filters}
        self.shares = tuple(one.hash for one in filters if is_shared(one.text))
        """Hashes of the shares among them."""
        self.digest = sum(one.hash for one in filters) % _MODULUS
        """The digest of the registered set."""
        self._trie: FilterTrie[HeldFilter] | None = None
        if len(filters) >= _TRIE_FROM:
            self._trie = FilterTrie()
            for one in filters:
                self._trie.add(one.text, one)
        self._by_hash: dict[int, HeldFilter] = {}
        self._last = ""
        self._last_fit: tuple[HeldFilter, ...] = ()

    def __len__(self) -> int:
        """The number of filters."""
        return len(self.by_text)

    def fitting(self, name: str) -> tuple[HeldFilter, ...]:
        """Returns the filters that fit a name; none fits a name that MQTT cannot say."""
        if name != self._last:
            self._last, self._last_fit = name, self._fitting(name)
        return self._last_fit

    def _fitting(self, name: str) -> tuple[HeldFilter, ...]:
        if not can_be_said(name):
            return ()
        if self._trie is not None:
            return tuple(sorted(self._trie.of(name)))
        return tuple(one for one in self.by_text.values() if fits(one.text, name))

    def named(self, hashes: Iterable[int]) -> tuple[HeldFilter, ...]:
        """Returns the filters with these hashes. Those that are not held any more are left out."""
        if not self._by_hash:
            self._by_hash = {one.hash: one for one in self.by_text.values()}
        return tuple(found for one in hashes if (found := self._by_hash.get(one)) is not None)

    def with_filters(self, filters: Iterable[HeldFilter]) -> "HeldFilters":
        """Returns these filters and others, which replace those of the same text."""
        return held([*self.by_text.values(), *filters])

    def without(self, texts: Iterable[str]) -> "HeldFilters":
        """Returns these filters without some."""
        gone = set(texts)
        return held(one for one in self.by_text.values() if one.text not in gone)


_SHARED: "WeakValueDictionary[tuple[HeldFilter, ...], HeldFilters]" = WeakValueDictionary()


def held(filters: Iterable[HeldFilter]) -> HeldFilters:
    """Returns the one object for these filters; the last one of a text counts."""
    key = tuple(sorted({one.text: one for one in filters}.values()))
    found = _SHARED.get(key)
    if found is None:
        found = _SHARED[key] = HeldFilters(key)
    return found


NO_FILTERS = held(())
