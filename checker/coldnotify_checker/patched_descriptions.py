"""Descriptions that are made by merge patches: for each key, the patch that said it last is in force.

Patches are judged where one publisher describes the object, and by patches alone: these are merged in its order. One
that was refused is never in force; one without an answer may be, from when it began. With a version, the patch is in
force once anybody is told that version.
"""

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import product
from typing import Any, NamedTuple

from coldnotify_checker.histories import Describe, Event, Publish, Published, Told
from coldnotify_checker.in_force import InForce, SaidCall
from coldnotify_checker.publishes import CheckedPublishes

ABSENT = object()
"""The value of a key that is not there."""
POSSIBLE_MAX = 64
"""Above this number, the descriptions that may be in force are not listed."""


class _Patch(NamedTuple):
    begun: Describe | Publish
    answered: int | None
    said: dict[str, Any]


class PatchedDescription:
    """The description of one object."""

    def __init__(self, patches: Iterable[_Patch]) -> None:
        self._keys: dict[str, InForce[Any]] = {}
        for begun, answered, said in patches:
            for key, value in said.items():
                # One that was not answered may be merged late, behind others.
                order = None if answered is None else begun.t
                what = ABSENT if value is None else value
                self._keys.setdefault(key, InForce()).add(SaidCall(begun.t, answered, order, what))

    def freeze(self, publishes: CheckedPublishes, object_: str) -> None:
        """All patches are there."""
        for values in self._keys.values():
            values.freeze(partial(publishes.period_of, object_, described=True))

    def allows(self, description: dict[str, Any] | None, since: int, until: int, period: int) -> bool:
        """Returns true if each key may have been as described at some moment from `since` to `until`."""
        said = description or {}
        if not said.keys() <= self._keys.keys():
            return False
        return all(said.get(key, ABSENT) in self._values(key, since, until, period) for key in self._keys)

    def possible(self, since: int, until: int, period: int) -> list[dict[str, Any]] | None:
        """Returns the descriptions that may have been in force then; None: they are too many."""
        values = {key: self._values(key, since, until, period) for key in self._keys}
        number = 1
        for of_key in values.values():
            number *= len(of_key)
        if number > POSSIBLE_MAX:
            return None
        chosen = (zip(values, each, strict=True) for each in product(*values.values()))
        return [{key: value for key, value in one if value is not ABSENT} for one in chosen]

    def _values(self, key: str, since: int, until: int, period: int) -> list[Any]:
        found: list[Any] = []
        for said in self._keys[key].between(since, until, period):
            value = ABSENT if said is None else said.what
            if value not in found:
                found.append(value)
        return found


class PatchedObjects:
    """All patches of a history."""

    def __init__(self, events: Iterable[Event], publishes: CheckedPublishes) -> None:
        events = list(events)
        answers = {(one.publisher, one.id): one for one in events if isinstance(one, Published)}
        self._told: dict[tuple[str, int | None], int] = {}
        """By object and version, when it was told first."""
        for event in events:
            if isinstance(event, Told):
                self._told.setdefault((event.object, event.version), event.t)
        self._with_patch: set[tuple[str, int | None]] = set()
        """Versions that were published with a patch."""
        patches: dict[str, list[_Patch]] = {}
        others: set[str] = set()
        for begun in events:
            if isinstance(begun, Describe) and not begun.merges:
                others.add(begun.object)
                continue
            if not isinstance(begun, Describe | Publish):
                continue
            said = begun.description if isinstance(begun, Describe) else begun.patch
            answer = answers.get((begun.publisher, begun.id))
            if said is not None and (answer is None or answer.outcome != "failed"):
                patches.setdefault(begun.object, []).append(_Patch(begun, self._answered(begun, answer), said))
        self._of: dict[str, PatchedDescription | None] = {}
        """By object; None: it is not judged."""
        for object_, of_object in patches.items():
            judged = object_ not in others and len({one.begun.publisher for one in of_object}) == 1
            found = self._of[object_] = PatchedDescription(of_object) if judged else None
            if found is not None:
                found.freeze(publishes, object_)
        self.all = [(one.begun, one.answered) for of_object in patches.values() for one in of_object]
        """The calls, and when each was in force."""

    def _answered(self, begun: Describe | Publish, answer: Published | None) -> int | None:
        at = answer.t if answer is not None and answer.outcome == "acknowledged" else None
        if isinstance(begun, Publish) and begun.version is not None:
            self._with_patch.add((begun.object, begun.version))
            told = self._told.get((begun.object, begun.version))
            at = told if at is None or (told is not None and told < at) else at
        return at

    def __contains__(self, object_: str) -> bool:
        return object_ in self._of

    def __iter__(self) -> Iterator[str]:
        return iter(self._of)

    def of(self, object_: str) -> PatchedDescription | None:
        """Returns the description of an object that is patched; None: it is not judged."""
        return self._of[object_]

    def told_first(self, event: Told) -> int | None:
        """Returns when a version that was published with a patch was told first; None: it had none."""
        place = event.object, event.version
        return self._told[place] if place in self._with_patch else None
