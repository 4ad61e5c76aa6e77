"""Missing entries of a session whose client has queries: newest versions, and changes of its sets, by offset.

An object comes with each change of its sets, and with its newest version if the client has to receive it whatever
became of these sets. The newest version accompanies an entry in `entered`; an entry in `left` comes without its
versions, but says if it was deleted.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from coldnotify_schemas import internal_pb2

from coldnotify_matcher.engine.clients.clients import RegisteredClient
from coldnotify_matcher.engine.clients.sessions import EngineSession
from coldnotify_matcher.engine.objects.objects import Obj
from coldnotify_matcher.engine.partition_state import PartitionState
from coldnotify_matcher.engine.telling.index import newest_of


@dataclass(slots=True)
class Lacked:
    """One missing entry."""

    offset: int
    obj: Obj | None
    """None: it was never published."""
    name: str
    entered: list[int] = field(default_factory=list)
    left: list[int] = field(default_factory=list)
    description: bytes | None = None
    """The description in the entry; None: it has none."""

    def newest(self, now_ms: int) -> internal_pb2.Newest:
        """Returns the entry for gateways."""
        deleted = self.obj is not None and self.obj.deleted
        say = not self.left or bool(self.entered) or deleted
        newest = newest_of(self.obj, self.name, now_ms, say=say)
        newest.offset = self.offset
        newest.entered.extend(self.entered)
        newest.left.extend(self.left)
        if self.description is not None:
            newest.description = self.description
        return newest


def lacking_of_queries(
    state: PartitionState, client: RegisteredClient, session: EngineSession, by_name: Iterable[Obj]
) -> tuple[list[Lacked], list[int]]:
    """Returns all missing entries, in the order of offsets, and the hashes of queries whose changes are not known.

    `by_name`: the missing objects among those registered by name.
    """
    group = client.group_key
    cursor, answered_at = session.objects.cursor, session.answers.answered_at
    changed: dict[tuple[str, int], Lacked] = {}
    """By name and offset: the cursor may come to lie between two changes of an object."""
    unknown: list[int] = []
    unsettled: dict[int, set[str]] = {}
    """By hash: the names that entered or left."""
    for hash_, set_ in client.queries.sets():
        difference = set_.difference(answered_at.get(hash_, cursor))
        if difference is None:
            unknown.append(hash_)
            continue
        unsettled[hash_] = {*difference.entered, *difference.left}
        for told, entered in ((difference.entered, True), (difference.left, False)):
            for name, offset in told.items():
                lacked = changed.get((name, offset))
                if lacked is None:
                    obj = state.objects.get(f"{group}/{name}")
                    lacked = changed[name, offset] = Lacked(offset, obj, name)
                (lacked.entered if entered else lacked.left).append(hash_)
    found = {obj.name: Lacked(obj.offset, obj, obj.name) for obj in by_name}
    for name, offset in state.members.newer(client, cursor):
        having = client.queries.have(name)
        # It is a member by these, and its client knows that already, or hears of it with the version.
        stable = [hash_ for hash_ in having if name not in unsettled.get(hash_, ())]
        if not stable or all(answered_at.get(hash_, -1) >= offset for hash_ in stable):
            continue
        obj = state.objects.get(f"{group}/{name}")
        if obj is None or client.published(obj):
            continue
        lacked = found.setdefault(name, Lacked(offset, obj, name))
        lacked.entered += [hash_ for hash_ in stable if hash_ in unknown]
    for (name, offset), lacked in changed.items():
        value = found.get(name)
        if value is not None and lacked.entered and offset <= value.offset:
            lacked.entered += value.entered
            del found[name]
    described: list[Lacked] = []
    if session.descriptions:
        described = _described(state, client, session, found, changed, unsettled, unknown)
    return sorted((*found.values(), *changed.values(), *described), key=lambda lacked: lacked.offset), unknown


def _described(
    state: PartitionState,
    client: RegisteredClient,
    session: EngineSession,
    found: Mapping[str, Lacked],
    changed: Mapping[tuple[str, int], Lacked],
    unsettled: Mapping[int, Collection[str]],
    unknown: Collection[int],
) -> list[Lacked]:
    """Adds descriptions to entries for members; returns entries for members that miss only a new description.

    An entry contains the description in force now. That one's own offset may lie above: then it comes again after a
    page that ends between the two.
    """
    group, groups = client.group_key, state.members.groups
    said: dict[str, int] = {}
    for lacked in (*found.values(), *changed.values()):
        if lacked.entered or (not lacked.left and client.queries.have(lacked.name)):
            lacked.description = groups.description_said(group, lacked.name)
            said[lacked.name] = min(lacked.offset, said.get(lacked.name, lacked.offset))
    described, answered_at = [], session.answers.answered_at
    for name, offset in state.members.redescribed(client, session.objects.cursor):
        stable = [hash_ for hash_ in client.queries.have(name) if name not in unsettled.get(hash_, ())]
        is_said = name in said and said[name] <= offset
        if is_said or not stable or all(answered_at.get(hash_, -1) >= offset for hash_ in stable):
            continue
        lacked = Lacked(offset, state.objects.get(f"{group}/{name}"), name)
        lacked.description = groups.description_said(group, name)
        lacked.entered += [hash_ for hash_ in stable if hash_ in unknown]
        described.append(lacked)
    return described
