"""Pages of a session whose client has filters: first what answers filters, then what the client lacks.

An answer is every object that the filter fits, ascending by the offsets of the newest versions: one that changes
meanwhile moves to the end, and comes with its newest version, once. What is lacked is every object that a filter fits
and whose newest offset is above the cursor, deleted ones included. Both come from one order of the group's objects.
"""

from collections.abc import Sequence

from coldnotify_schemas import internal_pb2

from coldnotify_matcher.engine.clients.clients import RegisteredClient
from coldnotify_matcher.engine.clients.sessions import EngineSession
from coldnotify_matcher.engine.interests.by_filter import RegisteredFilter, spare_own
from coldnotify_matcher.engine.objects.objects import Obj
from coldnotify_matcher.engine.partition_state import PartitionState
from coldnotify_matcher.engine.streams.page_room import PageRoom
from coldnotify_matcher.engine.telling.told_as_message import follows_as_message, told_as_message

LOOKED_AT_A_PAGE_MAX = 50_000
"""Objects that one page looks at, whether they are in it or not: a step that makes one takes a quarter of a second at
most."""


class FilterPages:
    """Fills these pages."""

    def __init__(self, state: PartitionState) -> None:
        self._state = state

    def fill(
        self, page: internal_pb2.Page, client: RegisteredClient, session: EngineSession, room: PageRoom, now_ms: int
    ) -> bool:
        """Fill the page. Returns true if nothing is left after it, and its client has acknowledged all answers."""
        if session.filter_answers.owed and not self._fill_answers(page, client, session, room, now_ms):
            return False
        return self._fill_lacking(page, client, session, room, now_ms) and not session.filter_answers.ended

    def lacking(self, client: RegisteredClient, cursor: int) -> list[tuple[str, int]]:
        """Returns the names and offsets of what a page from this cursor on contains for an offline client."""
        order = self._state.filtered.order(client.group_key)
        return [(name, offset) for name, offset in order.above(cursor) if self._lacked(client, None, name, offset)]

    def _fill_answers(
        self, page: internal_pb2.Page, client: RegisteredClient, session: EngineSession, room: PageRoom, now_ms: int
    ) -> bool:
        state, answers = self._state, session.filter_answers
        reached = min(answer.at for answer in answers.owed.values())
        for looked, (name, offset) in enumerate(state.filtered.order(client.group_key).above(reached)):
            if looked >= LOOKED_AT_A_PAGE_MAX and offset != reached:
                answers.tell(reached)
                return False
            asking = [
                one
                for one in client.filters.fitting(name)
                if (answer := answers.owed.get(one.hash)) is not None and answer.at < offset
            ]
            if asking and self._is_answer(client, asking, obj := self._object(client, name)):
                newest = obj.newest(now_ms, answer=True)
                newest.answers.extend(one.hash for one in asking)
                if not self._put(page, newest, room, offset, reached):
                    answers.tell(reached)
                    return False
            reached = offset
        answers.end(state.position - 1)
        state.count("filters_answered", len(answers.ended))
        if not page.newest:  # nothing of them is on its way
            state.settle_filters(client, answers.acknowledge_page())
        return True

    def _fill_lacking(
        self, page: internal_pb2.Page, client: RegisteredClient, session: EngineSession, room: PageRoom, now_ms: int
    ) -> bool:
        stream = session.objects
        for looked, (name, offset) in enumerate(self._state.filtered.order(client.group_key).above(stream.cursor)):
            if looked >= LOOKED_AT_A_PAGE_MAX and offset != stream.cursor:
                return False
            obj = self._lacked(client, session, name, offset)
            if obj is not None and not self._put(page, obj.newest(now_ms), room, offset, stream.cursor):
                return False
            stream.cover(offset)
        return True

    @staticmethod
    def _put(page: internal_pb2.Page, newest: internal_pb2.Newest, room: PageRoom, offset: int, reached: int) -> bool:
        """Put it in, if it fits; also if not, where `reached`, the offset before it, is its own: those of one offset,
        as of a set, go together."""
        size_bytes = newest.ByteSize()
        if offset != reached and not room.has(size_bytes):
            return False
        room.add(size_bytes)
        if page.newest and page.newest[-1].offset == newest.offset:
            page.newest[-1].behind = 1  # its client lacks this one
        page.newest.append(newest)
        return True

    def _lacked(self, client: RegisteredClient, session: EngineSession | None, name: str, offset: int) -> Obj | None:
        """Returns the object, whose newest offset is above the cursor, if the client is told it by a filter; else None.

        A deletion is told whatever an answer has told: that may have had the object before, and passes deletions over.
        """
        fitting = client.filters.fitting(name)
        if not fitting:
            return None
        obj = self._object(client, name)
        if told_as_message(self._state, client, session, fitting, obj):
            return None
        if not obj.deleted:
            fitting = [one for one in fitting if one.position < offset]
            if session is not None and session.filter_answers.ended:
                fitting = [one for one in fitting if session.filter_answers.told_up_to(one.hash) < offset]
        return obj if fitting and self._may_have(client, fitting, obj) else None

    def _is_answer(self, client: RegisteredClient, asking: Sequence[RegisteredFilter], obj: Obj) -> bool:
        """Returns true if the object's newest version answers these filters."""
        return obj.there and self._may_have(client, asking, obj) and not follows_as_message(self._state, obj)

    def _may_have(self, client: RegisteredClient, filters: Sequence[RegisteredFilter], obj: Obj) -> bool:
        """Returns false if it published the version itself, and wants no such by any of these filters."""
        return not client.published(obj) or not spare_own(filters)

    def _object(self, client: RegisteredClient, name: str) -> Obj:
        return self._state.objects[f"{client.group_key}/{name}"]
