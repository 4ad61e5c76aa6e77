"""The objects of the groups in which somebody has registered a query, by their newest versions and descriptions.

A group's objects are those that are published or described, and not deleted. Most groups have no query: nothing is
kept of them, and the first query of one costs a look at all objects of the partition.
"""

from collections.abc import Iterator

from coldnotify_schemas.descriptions import Description, encode_description

from coldnotify_matcher.engine.description_store import NEVER, DescriptionStore
from coldnotify_matcher.engine.object_map import ObjectMap
from coldnotify_matcher.engine.objects import UNKNOWN

_NOTHING: Description = {}


class FollowedGroups:
    """Those of one partition that are followed."""

    def __init__(self, objects: ObjectMap, descriptions: DescriptionStore) -> None:
        self._objects = objects
        self._descriptions = descriptions
        self._followed: dict[str, dict[str, int]] = {}
        """By domain/group: its objects' names and offsets, the newest last; UNKNOWN: it was never published."""
        self._redescribed: dict[str, dict[str, int]] = {}
        """The same by the offset since which they are there and described as they are: a client may remember another
        description of one that was deleted meanwhile. Never published and never described, they are not there."""
        self.any = False
        """Whether any group is followed. Each publish asks."""

    def __contains__(self, group: object) -> bool:
        return group in self._followed

    def follow(self, group: str) -> None:
        """Somebody wants to know: from here on `changed` is to be told of its objects."""
        if group in self._followed:
            return
        prefix = f"{group}/"
        at = len(prefix)
        found = [(self._objects.offset_of(key), key[at:]) for key in self._objects if key.startswith(prefix)]
        found += [(UNKNOWN, name) for name in self._descriptions.of_group(group) if prefix + name not in self._objects]
        found.sort()
        self._followed[group] = {name: offset for offset, name in found if self.description(group, name) is not None}
        since = {name: offset for name, offset in self._followed[group].items() if offset != UNKNOWN}
        for name, one in self._descriptions.of_group(group).items():
            if one.offset != NEVER and name in self._followed[group]:
                since[name] = one.offset
        self._redescribed[group] = dict(sorted(since.items(), key=lambda item: item[1]))
        self.any = True

    def forget(self, group: str) -> None:
        """Nobody wants to know any more."""
        self._followed.pop(group, None)
        self._redescribed.pop(group, None)
        self.any = bool(self._followed)

    def clear(self) -> None:
        """Nobody wants to know of any."""
        self._followed.clear()
        self._redescribed.clear()
        self.any = False

    def followed(self) -> list[str]:
        """The groups that somebody wants to know of."""
        return list(self._followed)

    def changed(self, group: str, name: str, offset: int) -> None:
        """The object has a newer version, or another description; `offset`: of its newest version."""
        order = self._followed.get(group)
        if order is None:
            return
        if self.description(group, name) is None:
            order.pop(name, None)
            self._redescribed[group].pop(name, None)
        elif order.get(name) != offset:
            if order.pop(name, None) is None and offset != UNKNOWN:
                self._redescribed[group][name] = offset
            order[name] = offset

    def redescribed(self, group: str, name: str, offset: int) -> None:
        """The object has another description since `offset`, or none any more."""
        order = self._redescribed.get(group)
        if order is not None:
            order.pop(name, None)
            if self.description(group, name) is not None:
                order[name] = offset

    def names(self, group: str) -> list[str]:
        """All there are at present."""
        return list(self._followed.get(group, ()))

    def description(self, group: str, name: str) -> Description | None:
        """Of one object, empty if it has none; None: there is no such object."""
        described = self._descriptions.of(group, name)
        description = None if described is None else described.description
        published = self._objects.is_published(f"{group}/{name}")
        if published is None:
            return description
        return (_NOTHING if description is None else description) if published else None

    def newest_first(self, group: str) -> Iterator[tuple[str, int]]:
        """Names and offsets of what was published, the newest first."""
        for name, offset in reversed(self._followed.get(group, {}).items()):
            if offset == UNKNOWN:
                # A description of what was never published may come late; all others in front of it are older.
                continue
            yield name, offset

    def offset(self, group: str, name: str) -> int:
        """Of the newest version of one of its objects; UNKNOWN: it was never published."""
        return self._followed[group].get(name, UNKNOWN)

    def redescribed_first(self, group: str) -> Iterator[tuple[str, int]]:
        """Names, and since which offset their descriptions are what they are; the latest first."""
        return reversed(self._redescribed.get(group, {}).items())

    def redescribed_at(self, group: str, name: str) -> int:
        """Since which offset the object is described as it is; UNKNOWN: it never was."""
        return self._redescribed[group].get(name, UNKNOWN)

    def description_said(self, group: str, name: str) -> bytes:
        """As sessions are told it: JSON; empty, if the object has none."""
        described = self._descriptions.of(group, name)
        description = None if described is None else described.description
        return b"" if description is None else encode_description(description)
