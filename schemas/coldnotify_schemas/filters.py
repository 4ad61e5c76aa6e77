"""MQTT's topic filters: `fits` says whether a filter fits a name, and a `FilterTrie` finds all filters that fit one.

A name is a topic: levels between `/`. `+` stands for one level; `#`, as the last one, for all levels that follow, or
none: `a/#` fits `a`. Neither fits a first level that begins with `$`. Names are compared as they are, without any
normalization.
"""

from itertools import pairwise
from typing import Generic, TypeVar

FILTER_BYTES_MAX = 255
"""Bytes of UTF-8, as of a name."""
FILTERS_MAX = 1000
"""Filters of one client. Each is compared with the names of all that changed while it was away."""
_SHARED = "$share/"
_WILDCARDS = ("+", "#")

V = TypeVar("V")


class InvalidFilter(ValueError):
    """A text is not a topic filter; the words name the fault."""


class SharedFilter(InvalidFilter):
    """A text begins with `$share/`: a shared subscription, which is not served."""


def check_filter(text: str) -> str:
    """Returns the text, if it is a topic filter of 1 to FILTER_BYTES_MAX bytes of UTF-8. Raises InvalidFilter, and of a
    shared subscription SharedFilter.
    """
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise InvalidFilter(f"filter: {text[:80]!r} is not valid UTF-8") from None
    if not 0 < size <= FILTER_BYTES_MAX:
        raise InvalidFilter(f"filter: {text[:80]!r} has {size} bytes of UTF-8 (1 to {FILTER_BYTES_MAX} are allowed)")
    if "\x00" in text:
        raise InvalidFilter(f"filter: {text[:80]!r} has the character U+0000")
    if text.startswith(_SHARED):
        raise SharedFilter(f"filter: {text[:80]!r} is a shared subscription, which is not served")
    *before, last = text.split("/")
    if any("#" in level for level in before) or ("#" in last and last != "#"):
        raise InvalidFilter(f"filter: {text[:80]!r} has a # that is not its last level alone")
    if any("+" in level and level != "+" for level in (*before, last)):
        raise InvalidFilter(f"filter: {text[:80]!r} has a + beside other characters of a level")
    return text


def is_exact(filter_: str) -> bool:
    """Returns true if a filter fits one name alone, which is its text."""
    return "+" not in filter_ and "#" not in filter_


def can_be_said(name: str) -> bool:
    """Returns true if MQTT can say a name: it has no `+`, `#` or U+0000, and does not begin with `$`."""
    return not ("+" in name or "#" in name or "\x00" in name or name.startswith("$"))


def fits(filter_: str, name: str) -> bool:
    """Returns true if a filter that was checked fits a name."""
    if is_exact(filter_):
        return filter_ == name
    if name.startswith("$") and filter_[0] in "+#":
        return False
    asked, levels = filter_.split("/"), name.split("/")
    if asked[-1] == "#":
        asked.pop()
        if len(levels) < len(asked):
            return False
        del levels[len(asked) :]
    return len(asked) == len(levels) and all(one in ("+", level) for one, level in zip(asked, levels, strict=True))


def options_of(qos: int, *, no_local: bool, retain_as_published: bool, retain_handling: int) -> int:
    """Returns the byte of a subscription's options as in SUBSCRIBE of MQTT 5.0."""
    return qos | no_local << 2 | retain_as_published << 3 | retain_handling << 4


def qos_in(options: int) -> int:
    """Returns the QoS that such a byte asks for."""
    return options & 3


def no_local_in(options: int) -> bool:
    """Returns true if the subscriber is not told what it publishes itself."""
    return bool(options & 4)


def retain_as_published_in(options: int) -> bool:
    """Returns true if the retain flag is told as it was published."""
    return bool(options & 8)


def retain_handling_in(options: int) -> int:
    """Returns when a subscription is answered with what is retained. 0: always; 1: if it is new; 2: never."""
    return options >> 4 & 3


class _Node(Generic[V]):
    """A place in the trie, one or more levels below its parent. It has values, or several children, or is the root."""

    __slots__ = ("children", "levels", "values")

    def __init__(self, levels: list[str]) -> None:
        self.levels = levels
        """The levels between its parent and it. `#` can be the last one of a node without children."""
        self.children: dict[str, _Node[V]] = {}
        """By the first of their levels."""
        self.values: dict[V, None] = {}
        """The values of the filter that ends here."""

    def in_common(self, levels: list[str], at: int) -> int:
        """Returns how many of its levels are those of a filter from `at` on."""
        same = 0
        for mine, other in zip(self.levels, levels[at:], strict=False):
            if mine != other:
                break
            same += 1
        return same

    def put_below(self, between: "_Node[V]") -> None:
        """Becomes a child of a node that has its first levels."""
        self.levels = self.levels[len(between.levels) :]
        between.children[self.levels[0]] = self

    def shrink(self, parent: "_Node[V]") -> None:
        """Leaves the trie if it has neither values nor several children."""
        if self.values or len(self.children) > 1:
            return
        if self.children:
            (child,) = self.children.values()
            child.replace(self, parent)
        else:
            del parent.children[self.levels[0]]

    def replace(self, between: "_Node[V]", parent: "_Node[V]") -> None:
        """Becomes a child of `parent` in the place of its own parent, `between`."""
        self.levels = between.levels + self.levels
        parent.children[self.levels[0]] = self

    def end_in(self, levels: list[str], at: int) -> int | None:
        """Returns the place in a name at which its levels end, if they fit from `at` on; None: they do not.

        The first one was found to fit. Behind `#` it is the end of the name.
        """
        mine = self.levels
        open_ended = mine[-1] == "#"
        end = at + len(mine) - open_ended
        if end > len(levels):
            return None
        for i in range(1, end - at):
            if mine[i] != "+" and mine[i] != levels[at + i]:
                return None
        return len(levels) if open_ended else end


class FilterTrie(Generic[V]):
    """Values by their filters, found by a name. `of` costs by the levels of the name and by what fits, not by the
    number of filters. A filter without values leaves nothing; one with values has at most two nodes.

    Filters and names were checked. Filters with `+` that all fit the beginning of a name are all walked.
    """

    __slots__ = ("_count", "_root")

    def __init__(self) -> None:
        self._root: _Node[V] = _Node([])
        self._count = 0

    def __len__(self) -> int:
        """Pairs of a filter and a value."""
        return self._count

    def add(self, filter_: str, value: V) -> None:
        """Adds a value to a filter; again is no change."""
        levels = filter_.split("/")
        node, at = self._root, 0
        while at < len(levels):
            child = node.children.get(levels[at])
            if child is None:
                child = node.children[levels[at]] = _Node(levels[at:])
            same = child.in_common(levels, at)
            if same < len(child.levels):
                between: _Node[V] = _Node(child.levels[:same])
                child.put_below(between)
                child = node.children[levels[at]] = between
            node, at = child, at + same
        if value not in node.values:
            node.values[value] = None
            self._count += 1

    def remove(self, filter_: str, value: V) -> bool:
        """Removes a value from a filter, and returns whether it was there."""
        levels = filter_.split("/")
        path, at = [self._root], 0
        while at < len(levels):
            child = path[-1].children.get(levels[at])
            if child is None or child.in_common(levels, at) < len(child.levels):
                return False
            path.append(child)
            at += len(child.levels)
        if value not in path[-1].values:
            return False
        del path[-1].values[value]
        self._count -= 1
        # When it has left, its parent may have one child.
        for parent, node in list(pairwise(path))[-1:-3:-1]:
            node.shrink(parent)
        return True

    def of(self, name: str) -> list[V]:
        """Returns the values of all filters that fit the name, once for each filter, in an order that is the same for
        the same adds and removes.
        """
        levels = name.split("/")
        end = len(levels)
        found: list[V] = []
        waiting = [(self._root, 0)]
        while waiting:
            node, at = waiting.pop()
            children = node.children
            if at == end:
                found += node.values
                if rest := children.get("#"):
                    found += rest.values
                continue
            level = levels[at]
            if at or not name.startswith("$"):
                if rest := children.get("#"):
                    found += rest.values
                if (child := children.get("+")) and (to := child.end_in(levels, at)) is not None:
                    waiting.append((child, to))
            if level not in _WILDCARDS and (child := children.get(level)):
                to = child.end_in(levels, at)
                if to is not None:
                    waiting.append((child, to))
        return found
