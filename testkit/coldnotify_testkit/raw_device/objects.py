"""Handles what the device receives about objects and queries' members. See docs/protocol.md, "Queries"."""

from collections.abc import Iterable

from coldnotify_schemas import wire_pb2 as wire

from coldnotify_testkit.raw_device.application import DeviceApplication, Version
from coldnotify_testkit.raw_device.hashes import members_digest, query_hash, sets_digest
from coldnotify_testkit.raw_device.operations import Operations, RawStage
from coldnotify_testkit.raw_device.state import QueryState, RawState, object_, query


class RawObjects:
    """Floors, members, answers."""

    def __init__(self, state: RawState, operations: Operations, application: DeviceApplication) -> None:
        self._state = state
        self._operations = operations
        self._application = application
        self._by_hash = {query_hash(text): text for text in state.queries}
        self.doubted = False
        """True if a page reported that not all differences are known."""

    def begin_session(self) -> None:
        """Discards the parts of answers that the service sends again."""
        self.doubted = False
        for one in self._state.queries.values():
            if not one.reached:
                one.answer = None

    # What the application wants

    def want(self, text: str, *, described: bool) -> None:
        """A query is wanted from here on."""
        self._state.queries[text] = QueryState(described=described)
        self._by_hash[query_hash(text)] = text

    def want_no_more(self, text: str) -> None:
        """Unregisters a query."""
        gone = self._state.queries.pop(text)
        del self._by_hash[query_hash(text)]
        self.forget(gone.members)

    def forget(self, names: Iterable[str]) -> None:
        """Discards what was delivered of those of the names that are not wanted for any other reason."""
        for name in names:
            if not self.is_wanted(name):
                self._state.floors.pop(name, None)
                self._state.newest.pop(name, None)
                self._state.again.discard(name)
            if not self._is_described(name):
                self._state.descriptions.pop(name, None)

    def is_wanted(self, name: str) -> bool:
        """Returns true if it is wanted by its name, or as a member of a query."""
        return name in self._state.objects or any(name in one.members for one in self._state.queries.values())

    def _is_described(self, name: str) -> bool:
        return any(one.described and name in one.members for one in self._state.queries.values())

    # What the service says

    def notification(self, name: str, said: wire.Notification) -> None:
        """A Notification of this object."""
        for text in self._texts(said.entered):
            self._enter(text, name)
        self._tell(name, said)
        for text in self._texts(said.left):
            self._leave(text, name)
        if name in self._state.objects and self._operations.stage(object_(name)) is RawStage.CONFIRMED:
            self._operations.settle(object_(name))

    def begun(self, hashes: Iterable[int]) -> None:
        """Their answers begin, whatever has come of them before."""
        for text in self._texts(hashes):
            one = self._state.queries[text]
            one.answer, one.reached = [], ""

    def answered(self, hashes: Iterable[int]) -> None:
        """Completes the answers of these queries. An answer whose beginning has not arrived is not complete."""
        for text in self._texts(hashes):
            one = self._state.queries[text]
            if one.answer is None:
                continue
            gone = set(one.members) - set(one.answer)
            one.answer, one.reached, one.in_doubt = None, "", False
            self._drop(text, gone)
            self._settle(text)

    def unchanged(self, hashes: Iterable[int]) -> None:
        """Settles queries whose members are those that the device reported."""
        for text in self._texts(hashes):
            one = self._state.queries[text]
            one.answer, one.reached, one.in_doubt = None, "", False
            self._settle(text)

    def page_end(self, said: wire.PageEnd) -> None:
        """Notes how far an answer has come, and whether all differences are known."""
        if said.HasField("query") and said.reached:
            for text in self._texts([said.query]):
                one = self._state.queries[text]
                if one.answer is not None:
                    one.reached, one.reached_at = said.reached, said.reached_at
        if said.sets_unknown:
            self.doubted = True
            self._doubt(RawStage.WITHHELD)

    def caught_up(self, said: wire.CaughtUp) -> None:
        """Checks, before the cursor moves, whether the sets equal the service's."""
        registered = [text for text, one in self._state.queries.items() if one.registered]
        if said.HasField("sets_digest"):
            sets = ((text, self._state.queries[text].members) for text in registered)
            if sets_digest(sets) != said.sets_digest:
                self._doubt(RawStage.UNSENT)
            else:
                self._doubt_no_more()
        elif self.doubted:
            self._doubt(RawStage.UNSENT)
        self.doubted = False
        for text in self._state.queries:
            if self._operations.stage(query(text)) is RawStage.CONFIRMED:
                self._operations.ask(query(text))  # its answer was lost

    def confirmed(self, text: str) -> None:
        """The service has it."""
        self._state.queries[text].registered = True

    def void(self) -> None:
        """Discards partial answers: the cursor is gone, and offsets from before mean nothing."""
        for one in self._state.queries.values():
            one.answer, one.reached = None, ""

    def welcomed(self, *, told_descriptions: bool) -> None:
        """Notes whether this session delivers members' descriptions."""
        if not told_descriptions:
            self._state.descriptions.clear()
            return
        for text, one in self._state.queries.items():
            if self._lacks_descriptions(one) and self._operations.stage(query(text)) is None:
                self._operations.ask(query(text))

    # What the device says

    def said(self, text: str) -> wire.Interest:
        """The query, as it is registered."""
        one = self._state.queries[text]
        said = wire.Interest(kind=wire.INTEREST_QUERY, text=text)
        if self._lacks_descriptions(one):
            one.in_doubt, one.reached, one.answer = False, "", None
        elif one.in_doubt:
            said.held = members_digest(one.members)
        elif one.reached:
            said.reached, said.reached_at = one.reached, one.reached_at
        else:
            one.answer = None
        return said

    # One query

    def _lacks_descriptions(self, one: QueryState) -> bool:
        return one.described and not all(name in self._state.descriptions for name in one.members)

    def _texts(self, hashes: Iterable[int]) -> list[str]:
        """Those of them that are known."""
        return [self._by_hash[one] for one in hashes if one in self._by_hash]

    def _doubt(self, stage: RawStage) -> None:
        """All queries that the service has become pending, to be asked for at this stage."""
        for text, one in self._state.queries.items():
            interest = query(text)
            if self._operations.stage(interest) in (None, RawStage.WITHHELD):
                one.in_doubt = True
                self._operations.ask(interest, stage=stage)

    def _doubt_no_more(self) -> None:
        for interest in self._operations.at(RawStage.WITHHELD):
            if interest.kind == "query":
                self._state.queries[interest.text].in_doubt = False
                self._operations.settle(interest)

    def _settle(self, text: str) -> None:
        if self._operations.stage(query(text)) in (RawStage.CONFIRMED, RawStage.WITHHELD):
            self._operations.settle(query(text))

    def _enter(self, text: str, name: str) -> None:
        one = self._state.queries[text]
        if one.answer is not None and name not in one.answer:
            one.answer.append(name)
        if name not in one.members:
            one.members.append(name)
            self._application.members(text, {name}, set())

    def _leave(self, text: str, name: str) -> None:
        one = self._state.queries[text]
        if one.answer is not None and name in one.answer:
            one.answer.remove(name)
        if name in one.members:
            self._drop(text, {name})

    def _drop(self, text: str, names: set[str]) -> None:
        if names:
            one = self._state.queries[text]
            one.members = [name for name in one.members if name not in names]
            self._application.members(text, set(), names)
            self.forget(names)

    # Versions

    def _tell(self, name: str, said: wire.Notification) -> None:
        if not self.is_wanted(name):
            return
        state = self._state
        described = self._is_described(name)
        description = said.description.decode() if said.HasField("description") and described else None
        is_new = self._take_version(name, said)
        asked = self._operations.stage(object_(name)) is RawStage.CONFIRMED
        unknown = not said.HasField("version") and asked and not said.left
        redescribed = description is not None and state.descriptions.get(name) != description
        if description is not None:
            state.descriptions[name] = description
        if unknown and name in state.floors:
            state.again.add(name)
        if not (is_new or unknown or redescribed):
            return
        told = Version(name, None, 0, b"", False, state.descriptions.get(name) if described else None)
        if name in state.floors and not unknown:
            incarnation, version = state.floors[name]
            payload, deleted = state.newest[name]
            told = told._replace(version=version, incarnation=incarnation, payload=payload.encode(), deleted=deleted)
        self._application.told(told)

    def _take_version(self, name: str, said: wire.Notification) -> bool:
        """Stores a version. Returns true if the application has to receive it."""
        if not said.HasField("version"):
            return False
        state = self._state
        key, floor = (said.incarnation, said.version), state.floors.get(name)
        if floor is not None and (key < floor or (key == floor and name not in state.again)):
            return False
        state.floors[name], state.newest[name] = key, (said.payload.decode(), said.deleted)
        state.again.discard(name)
        return True
