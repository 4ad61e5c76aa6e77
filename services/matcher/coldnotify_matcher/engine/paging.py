"""Catching a session up: what it lacks, newest only, page by page; with the last page it joins the index."""

from collections.abc import Iterable

from coldnotify_schemas import internal_pb2

from coldnotify_matcher.engine.clients import Client
from coldnotify_matcher.engine.index import Index
from coldnotify_matcher.engine.objects import Obj
from coldnotify_matcher.engine.partition_state import State
from coldnotify_matcher.engine.sessions import NO_CURSOR, Session, SessionState

PAGE_BYTES_MAX = 64 * 1024
"""Of one page, and its size where the gateway names none: what is under way at most, so that the newest is chosen late.
"""
_PAGE_BYTES_MIN = 1024
"""A gateway that names less gets this: each page costs a look at all that its client is registered for."""


def page_bytes_of(asked: int) -> int:
    """The size of a page where a gateway asks for this one; 0: it names none."""
    return min(max(asked, _PAGE_BYTES_MIN), PAGE_BYTES_MAX) if asked else PAGE_BYTES_MAX


class Paging:
    """Computes pages."""

    def __init__(self, state: State, index: Index) -> None:
        self._state = state
        self._index = index

    def begin(
        self, client: Client, session: Session, cursor: int, owed: Iterable[Obj], now_ms: int, *, after_page: int = 0
    ) -> None:
        """Catch the session up from `cursor`, with an answer for each of `owed`."""
        if cursor == NO_CURSOR:
            # It may have lost its state, and what it published with it. So it is told that before anything that gives
            # it a cursor: a cursor says that its client knows what it published, and pages spare it that.
            owed = [*owed, *filter(client.published, client.objects())]
        session.cursor = cursor
        session.page = after_page
        session.owed = list(dict.fromkeys(owed))
        session.state = SessionState.CATCHING
        self.send(client, session, now_ms)

    def send(self, client: Client, session: Session, now_ms: int) -> None:
        """The next page: owed answers that are not among what the client lacks, then what it lacks, by offset."""
        session.page += 1
        bytes_max = page_bytes_of(session.page_bytes)
        page = internal_pb2.Page(session=session.number, ask=session.ask, page=session.page)
        lacking = sorted(client.lacking(session.cursor), key=lambda obj: obj.offset)
        answers: list[Obj] = []
        if session.owed:
            in_turn = set(lacking)
            answers = [obj for obj in session.owed if obj not in in_turn and client.interested(obj)]
        told: set[Obj] = set()
        size = 0
        for obj in (*answers, *lacking):
            answer = len(told) < len(answers)
            newest = obj.newest(now_ms, answer=answer)
            size += newest.ByteSize()
            if size > bytes_max and told:
                session.owed = [obj for obj in session.owed if obj not in told]
                break
            page.newest.append(newest)
            told.add(obj)
            if not answer:
                session.cursor = obj.offset
        else:
            page.last = True
            session.owed = []
            session.cursor = max(session.cursor, self._state.position - 1)
            session.state = SessionState.LIVE
            self._index.join(client)
        if session.cursor != NO_CURSOR:
            page.complete = session.cursor
        session.gateway.tell(internal_pb2.Item(page=page))
        self._state.count("pages")
        self._state.count("paged", len(page.newest))
