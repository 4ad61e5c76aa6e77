"""The index of queries: finds those that a change of an object may concern, without evaluating all.

Two things are known of each query.

- Its *atoms* are the smallest conditions in it: Room is the text "410", or Level is below 5. A query's truth changes
  only if an atom's does. The atoms that a change turns are found in dicts, and, if they compare numbers, in the
  stretch of a sorted list between the number before and the one after. Comparisons of an AND that leave a stretch of
  numbers are one atom: among 60,000 queries `Temp > ... AND Temp < ...` a number concerns those whose stretch has it.
- Its *anchors*: at least one of them holds wherever the query is true. An AND has the anchors of one operand, or a
  stretch that its comparisons leave: the one whose anchors the fewest queries have so far. An OR has those of all.

A change concerns the queries with an atom that turns, if one of their anchors holds before or after it. So among a
thousand queries `Kind = lamp AND Room = ...` a lamp that moves concerns two. An OR on top is taken apart: each operand,
a *branch*, has its own atoms and anchors.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Iterator
from itertools import islice, takewhile

from coldnotify_schemas.descriptions import Description, Value

from coldnotify_matcher.engine.interests.by_query.language import number_of
from coldnotify_matcher.engine.interests.by_query.query import CanonicalQuery
from coldnotify_matcher.engine.interests.by_query.stretches import Stretch, Stretches, ordered
from coldnotify_matcher.engine.interests.by_query.tree import (
    And,
    Compare,
    Constant,
    Equal,
    Has,
    Like,
    NameBetween,
    NameEqual,
    NameStartsWith,
    Not,
    Or,
    Text,
    Tree,
)

Atom = tuple[str, str, Value | Stretch | None]
"""(kind, key, value): the kind is "has" or "like", without a value, a type of value, an operator of numbers, or
"within" a stretch of them."""
Anchor = tuple[str, str, Value | Stretch | None]
"""An atom without an operator, or ("name", the name, None), or ("prefix", the beginning of the name, None)."""

ANYWHERE: Anchor = ("anywhere", "", None)
"""The anchor of a query that may be true anywhere."""
_BARE = frozenset(("anywhere", "name", "prefix"))
"""Anchors that may hold for an object without a description."""
PLACES_MAX = 1024
"""Maximum of atoms times anchors of a branch: its places in the index. A branch that needs more is anchored
anywhere."""
_QUERY_BYTES, _TEXT_BYTES, _NODE_BYTES, _ATOM_BYTES, _PLACE_BYTES = 2000, 4, 800, 350, 330
"""Measured for a query and its set; a character; a condition with its function; an atom; an atom at an anchor."""
CROWD = 256
"""A stretch whose middle lies in so many others is the last choice of an AND. More are not counted."""
_NOTHING: Description = {}
_NOT_COMPARED: dict[str, list[float]] = {}
_NOWHERE: set[Stretch] = set()
_KINDS: dict[type, str] = {str: "text", float: "number", bool: "truth"}
_CUTS: dict[str, Callable[[list[float], float], int]] = {
    "<": bisect_right, "<=": bisect_left, ">": bisect_left, ">=": bisect_right,
}  # fmt: skip
"""The cut of a number in the sorted numbers it is compared with: `<` and `<=` are true for those after the cut, the
others for those before it."""


class QueryIndex:
    """The queries of one group of objects."""

    def __init__(self) -> None:
        self._branches: dict[CanonicalQuery, list[tuple[tuple[Atom, ...], tuple[Anchor, ...]]]] = {}
        self._by_atom: dict[Atom, dict[Anchor, dict[CanonicalQuery, None]]] = {}
        self._compared: dict[str, dict[str, list[float]]] = {}
        """By key and operator: the numbers of the existing atoms, sorted."""
        self._stretches: dict[str, Stretches] = {}
        """By key: the stretches of the existing atoms."""
        self._anchored: dict[str, Stretches] = {}
        """By key: the stretches of the existing anchors."""
        self._bare: dict[Anchor, dict[CanonicalQuery, None]] = {}
        """By anchor: the queries that may be true for an object without a description."""
        self._loads: dict[Anchor, int] = {}
        """Number of branches with the anchor."""
        self._prefix_lengths: dict[int, int] = {}
        """Number of prefix anchors by length."""

    def __len__(self) -> int:
        return len(self._branches)

    def add(self, query: CanonicalQuery) -> None:
        """Add a new query."""
        trees = query.tree.operands if isinstance(query.tree, Or) else (query.tree,)
        branches = self._branches[query] = []
        for tree in trees:
            atoms, anchors = tuple(dict.fromkeys(_atoms(tree))), self._anchors(tree)
            if len(atoms) * len(anchors) > PLACES_MAX:
                anchors = (ANYWHERE,)
            branches.append((atoms, anchors))
            self._add_branch(query, atoms, anchors)

    def remove(self, query: CanonicalQuery) -> None:
        """Remove an existing query. The cost is proportional to the query's own places in the index."""
        for atoms, anchors in self._branches.pop(query):
            for atom in atoms:
                places = self._by_atom.get(atom)
                for anchor in anchors if places is not None else ():
                    assert places is not None
                    _discard(places, anchor, query)
                if places is not None and not places:
                    del self._by_atom[atom]
                    self._forget_number(atom)
            for anchor in anchors:
                _discard(self._bare, anchor, query)
                self._unload(anchor)

    def concerned(self, name: str, before: Description | None, after: Description | None) -> list[CanonicalQuery]:
        """Returns the queries that a change of this object may concern: all whose truth it changes, and few others.

        `before`, `after`: its description, empty if it has none; None: there is no such object.
        """
        concerned: dict[CanonicalQuery, None] = {}
        if before is None or after is None:
            if before is after:
                return []
            for anchor in self._held(name):
                concerned.update(self._bare.get(anchor, ()))
        before, after = before or _NOTHING, after or _NOTHING
        held: dict[Anchor, None] | None = None
        for atom in self._turned(before, after):
            places = self._by_atom.get(atom)
            if places is None:
                continue
            if held is None:
                held = dict.fromkeys(self._held(name, before, after))
            for anchor in places if len(places) < len(held) else held:
                if anchor in held and anchor in places:
                    concerned.update(places[anchor])
        return list(concerned)

    def candidates(self, name: str, description: Description) -> list[CanonicalQuery]:
        """Returns the queries that may be true for an object: all that are, and few others."""
        return self.concerned(name, None, description)

    # --- what changes and what holds

    def _turned(self, before: Description, after: Description) -> Iterator[Atom]:
        """Yields the atoms whose truth a change turns, and some others."""
        for key in (*before, *(key for key in after if key not in before)):
            old, new = before.get(key), after.get(key)
            if old is new or (old == new and type(old) is type(new)):
                continue
            if old is None or new is None:
                yield "has", key, None
            for value in (old, new):
                if value is not None:
                    yield _KINDS[type(value)], key, value
            if type(old) is str or type(new) is str:
                yield "like", key, None
            for operator, numbers in self._compared.get(key, _NOT_COMPARED).items():
                for number in _stretch(operator, numbers, old, new):
                    yield operator, key, number
            stretches = self._stretches.get(key)
            if stretches is not None:
                was, is_ = (set(stretches.around(one)) if type(one) is float else _NOWHERE for one in (old, new))
                for stretch in was ^ is_:
                    yield "within", key, stretch

    def _held(self, name: str, *descriptions: Description) -> Iterator[Anchor]:
        """Yields the anchors in use that hold for this name and one of these descriptions; some come twice."""
        loads = self._loads
        if ANYWHERE in loads:
            yield ANYWHERE
        named: Anchor = ("name", name, None)
        if named in loads:
            yield named
        for length in self._prefix_lengths:
            prefix: Anchor = ("prefix", name[:length], None)
            if prefix in loads:
                yield prefix
        for description in descriptions:
            for key, value in description.items():
                has: Anchor = ("has", key, None)
                if has in loads:
                    yield has
                equal: Anchor = (_KINDS[type(value)], key, value)
                if equal in loads:
                    yield equal
                if type(value) is float and key in self._anchored:
                    for stretch in self._anchored[key].around(value):
                        yield "within", key, stretch

    # --- what a query takes

    def _add_branch(self, query: CanonicalQuery, atoms: tuple[Atom, ...], anchors: tuple[Anchor, ...]) -> None:
        for atom in atoms:
            places = self._by_atom.get(atom)
            if places is None:
                places = self._by_atom[atom] = {}
                self._keep_number(atom)
            for anchor in anchors:
                places.setdefault(anchor, {})[query] = None
        for anchor in anchors:
            if anchor[0] in _BARE:
                self._bare.setdefault(anchor, {})[query] = None
            loads = self._loads.get(anchor, 0)
            self._loads[anchor] = loads + 1
            if loads:
                continue
            what, key, stretch = anchor
            if what == "prefix":
                self._prefix_lengths[len(key)] = self._prefix_lengths.get(len(key), 0) + 1
            elif isinstance(stretch, tuple):
                self._anchored.setdefault(key, Stretches()).add(stretch)

    def _unload(self, anchor: Anchor) -> None:
        self._loads[anchor] -= 1
        if self._loads[anchor]:
            return
        del self._loads[anchor]
        what, key, stretch = anchor
        if what == "prefix":
            self._prefix_lengths[len(key)] -= 1
            if not self._prefix_lengths[len(key)]:
                del self._prefix_lengths[len(key)]
        elif isinstance(stretch, tuple):
            self._anchored[key].remove(stretch)
            if not self._anchored[key]:
                del self._anchored[key]

    def _keep_number(self, atom: Atom) -> None:
        operator, key, number = atom
        if isinstance(number, tuple):
            self._stretches.setdefault(key, Stretches()).add(number)
        elif operator in _CUTS and isinstance(number, float):
            insort(self._compared.setdefault(key, {}).setdefault(operator, []), number)

    def _forget_number(self, atom: Atom) -> None:
        operator, key, number = atom
        if isinstance(number, tuple):
            stretches = self._stretches[key]
            stretches.remove(number)
            if not stretches:
                del self._stretches[key]
        elif operator in _CUTS and isinstance(number, float):
            compared = self._compared[key]
            numbers = compared[operator]
            del numbers[bisect_left(numbers, number)]
            if not numbers:
                del compared[operator]
            if not compared:
                del self._compared[key]

    def _anchors(self, tree: Tree) -> tuple[Anchor, ...]:
        if isinstance(tree, Or):
            all_of = dict.fromkeys(anchor for operand in tree.operands for anchor in self._anchors(operand))
            return (ANYWHERE,) if ANYWHERE in all_of else tuple(all_of)
        if isinstance(tree, And):
            stretches = _stretches_of(tree).items()
            within = [(("within", key, stretch),) for key, stretch in stretches if stretch[0] <= stretch[1]]
            return min((*map(self._anchors, tree.operands), *within), key=self._weight)
        if isinstance(tree, Equal):
            return _equal(tree)
        if isinstance(tree, Has | Compare | Like):
            return (("has", tree.key, None),)
        if isinstance(tree, NameEqual):
            return (("name", tree.name, None),)
        if isinstance(tree, NameStartsWith):
            return (("prefix", tree.prefix, None),)
        if isinstance(tree, NameBetween):
            # All names between two that begin with the same begin with that.
            prefix = "".join(one for one, _ in takewhile(_are_same, zip(tree.first, tree.behind, strict=False)))
            return (("prefix", prefix, None),) if tree.first < tree.behind else ()
        return (ANYWHERE,)

    def _weight(self, anchors: tuple[Anchor, ...]) -> tuple[bool, bool, int, int]:
        """Returns a weight: the less, the fewer changes concern a branch with these anchors, as far as one can know."""
        loads = [self._load(anchor) for anchor in anchors]
        vague = any(anchor[0] == "has" or load is None for anchor, load in zip(anchors, loads, strict=True))
        return ANYWHERE in anchors, vague, sum(load or 0 for load in loads), len(anchors)

    def _load(self, anchor: Anchor) -> int | None:
        """Returns the number of branches with the anchor, or, for a stretch, that share its middle; None: these are a
        crowd."""
        _, key, stretch = anchor
        if not isinstance(stretch, tuple):
            return self._loads.get(anchor, 0)
        if key not in self._stretches:
            return 0
        sharing = sum(1 for _ in islice(self._stretches[key].around_place(sum(stretch) // 2), CROWD))
        return None if sharing == CROWD else sharing


def size_bytes_of(query: CanonicalQuery) -> int:
    """Returns the approximate maximum memory of a query: its tree, its place in the index, and its set without members.

    It does not depend on other queries, so it may be more than the query really takes beside them.
    """
    trees = query.tree.operands if isinstance(query.tree, Or) else (query.tree,)
    atoms = places = 0
    for tree in trees:
        of_branch = len(set(_atoms(tree)))
        anchors = _anchors_max(tree)
        atoms += of_branch
        # A branch with more places is anchored anywhere.
        places += of_branch * anchors if of_branch * anchors <= PLACES_MAX else of_branch
    texts_bytes = _TEXT_BYTES * len(query.text)
    return _QUERY_BYTES + texts_bytes + _NODE_BYTES * query.nodes + _ATOM_BYTES * atoms + _PLACE_BYTES * places


def _anchors_max(tree: Tree) -> int:
    """Returns the maximum number of a tree's anchors, whatever other queries there are."""
    if isinstance(tree, Or):
        return sum(map(_anchors_max, tree.operands))
    if isinstance(tree, And):
        return max(map(_anchors_max, tree.operands))
    return max(1, len(_equal(tree))) if isinstance(tree, Equal) else 1


def _atoms(tree: Tree) -> Iterator[Atom]:
    """Yields the atoms of a tree; names have none, because an object's never changes."""
    if isinstance(tree, And):
        stretches = _stretches_of(tree)
        for key, stretch in stretches.items():
            if stretch[0] <= stretch[1]:  # else the AND is never true
                yield "within", key, stretch
        for operand in tree.operands:
            if not (isinstance(operand, Compare) and operand.key in stretches):
                yield from _atoms(operand)
    elif isinstance(tree, Or):
        for operand in tree.operands:
            yield from _atoms(operand)
    elif isinstance(tree, Not):
        yield from _atoms(tree.operand)
    elif isinstance(tree, Has):
        yield "has", tree.key, None
    elif isinstance(tree, Equal):
        yield from _equal(tree)
    elif isinstance(tree, Compare):
        yield tree.operator, tree.key, tree.number
    elif isinstance(tree, Like):
        yield "like", tree.key, None


def _stretches_of(tree: And) -> dict[str, Stretch]:
    """Returns by key the numbers that its comparisons leave, if they are bounded on both sides."""
    bounds: dict[str, tuple[list[int], list[int]]] = {}
    for operand in tree.operands:
        if isinstance(operand, Compare):
            lows, highs = bounds.setdefault(operand.key, ([], []))
            at = ordered(operand.number)
            match operand.operator:
                case ">":
                    lows.append(at + 1)
                case ">=":
                    lows.append(at)
                case "<":
                    highs.append(at - 1)
                case "<=":
                    highs.append(at)
    return {key: (max(lows), min(highs)) for key, (lows, highs) in bounds.items() if lows and highs}


def _are_same(pair: tuple[str, str]) -> bool:
    return pair[0] == pair[1]


def _equal(condition: Equal) -> tuple[Atom, ...]:
    key, literal = condition.key, condition.literal
    if isinstance(literal, Constant):
        return (("truth", key, literal.truth),)
    text: Atom = ("text", key, literal.text)
    number = None if isinstance(literal, Text) else number_of(literal.text)
    return (text,) if number is None else (text, ("number", key, number))


def _stretch(operator: str, numbers: list[float], old: Value | None, new: Value | None) -> Iterable[float]:
    """Returns the numbers for which a comparison with them is true for one of two values, and false for the other."""
    cut = _CUTS[operator]
    cuts = [cut(numbers, value) for value in (old, new) if type(value) is float]
    if len(cuts) == 1:
        return numbers[cuts[0] :] if operator in ("<", "<=") else numbers[: cuts[0]]
    return numbers[min(cuts) : max(cuts)] if cuts else ()


def _discard(places: dict[Anchor, dict[CanonicalQuery, None]], anchor: Anchor, query: CanonicalQuery) -> None:
    queries = places.get(anchor)
    if queries is not None:
        queries.pop(query, None)
        if not queries:
            del places[anchor]
