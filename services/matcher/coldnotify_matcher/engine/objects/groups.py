"""The objects of the groups in which a client has registered a query, by their newest versions and descriptions.

A group's objects are those that are published or described, and not deleted. Most groups have no query: nothing is kept
of them, and the first query of one costs a pass over all objects of the partition.
"""

from collections.abc import Iterator

from coldnotify_schemas.descriptions import Description, encode_description

from coldnotify_matcher.engine.objects.description_store import NEVER, DescriptionStore
from coldnotify_matcher.engine.objects.object_map import ObjectMap
from coldnotify_matcher.engine.objects.objects import UNKNOWN

_NOTHING: Description = {}


class FollowedGroups:
    """The followed groups of one partition."""

    def __init__(self, objects: ObjectMap, descriptions: DescriptionStore) -> None:
        self._objects = objects
        self._descriptions = descriptions
        self._followed: dict[str, dict[str, int]] = {}
        """By domain/group: its objects' names and offsets, the newest last; UNKNOWN: it was never published."""
        self._redescribed: dict[str, dict[str, int]] = {}
        """The same by the offset since which they exist with their present description: a client may remember
        another description of one that was deleted meanwhile. It omits objects that were never published and never
        described."""
        self.any = False
        """True if any group is followed. Each publish asks."""

    def __contains__(self, group: object) -> bool:
        return group in self._followed

    def follow(self, group: str) -> None:
        """Begin to follow a group: from here on `changed` must be called for its objects."""
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
        """Stop following a group."""
        self._followed.pop(group, None)
        self._redescribed.pop(group, None)
        self.any = bool(self._followed)

    def clear(self) -> None:
        """Stop following all groups."""
        self._followed.clear()
        self._redescribed.clear()
        self.any = False

    def followed(self) -> list[str]:
        """Returns the followed groups."""
        return list(self._followed)

    def changed(self, group: str, name: str, offset: int) -> None:
        """Note that the object has a newer version, or another description; `offset`: of its newest version."""
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
        """Note that the object has another description since `offset`, or none any more."""
        order = self._redescribed.get(group)
        if order is not None:
            order.pop(name, None)
            if self.description(group, name) is not None:
                order[name] = offset

    def names(self, group: str) -> list[str]:
        """Returns the names of the group's objects at present."""
        return list(self._followed.get(group, ()))

    def description(self, group: str, name: str) -> Description | None:
        """Returns the description of one object, empty if it has none; None: there is no such object."""
        described = self._descriptions.of(group, name)
        description = None if described is None else described.description
        published = self._objects.is_published(f"{group}/{name}")
        if published is None:
            return description
        return (_NOTHING if description is None else description) if published else None

    def newest_first(self, group: str) -> Iterator[tuple[str, int]]:
        """Yields names and offsets of published objects, the newest first."""
        for name, offset in reversed(self._followed.get(group, {}).items()):
            if offset == UNKNOWN:
                # A description of an object that was never published may come late; all others in front of it are
                # older.
                continue
            yield name, offset

    def offset(self, group: str, name: str) -> int:
        """Returns the offset of the newest version of one of its objects; UNKNOWN: it was never published."""
        return self._followed[group].get(name, UNKNOWN)

    def redescribed_first(self, group: str) -> Iterator[tuple[str, int]]:
        """Yields names, and the offsets since which their descriptions are in force; the latest first."""
        return reversed(self._redescribed.get(group, {}).items())

    def redescribed_at(self, group: str, name: str) -> int:
        """Returns the offset since which the object's description is in force; UNKNOWN: it never had one."""
        return self._redescribed[group].get(name, UNKNOWN)

    def description_said(self, group: str, name: str) -> bytes:
        """Returns the description for sessions: JSON; empty, if the object has none."""
        described = self._descriptions.of(group, name)
        description = None if described is None else described.description
        return b"" if description is None else encode_description(description)
