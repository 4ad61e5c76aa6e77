"""Catching a session up: what it lacks, newest only, page by page; with the last page it joins the index."""

from collections.abc import Iterable

from coldnotify_schemas import internal_pb2

from coldnotify_matcher.engine.clients import NO_CURSOR, Client, Session, SessionState
from coldnotify_matcher.engine.index import Index
from coldnotify_matcher.engine.objects import Obj
from coldnotify_matcher.engine.state import State

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
        session.cursor = cursor
        session.page = after_page
        session.owed = list(owed)[::-1]
        session.state = SessionState.CATCHING
        self.send(client, session, now_ms)

    def send(self, client: Client, session: Session, now_ms: int) -> None:
        """The next page: owed answers that the cursor hides, then what lies above the cursor, by offset."""
        session.page += 1
        bytes_max = page_bytes_of(session.page_bytes)
        page = internal_pb2.Page(session=session.number, ask=session.ask, page=session.page)
        size = 0
        full = False
        while session.owed and not full:
            obj = session.owed[-1]
            if obj in client.where and obj.offset <= session.cursor:
                newest = obj.newest(now_ms, answer=True)
                size += newest.ByteSize()
                full = size > bytes_max and bool(page.newest)
                if full:
                    break
                page.newest.append(newest)
            session.owed.pop()
        if not full:
            lacking = sorted((o for o in client.where if o.offset > session.cursor), key=lambda o: o.offset)
            for obj in lacking:
                newest = obj.newest(now_ms)
                size += newest.ByteSize()
                full = size > bytes_max and bool(page.newest)
                if full:
                    break
                page.newest.append(newest)
                session.cursor = obj.offset
        if not full:
            page.last = True
            session.cursor = max(session.cursor, self._state.position - 1)
            session.state = SessionState.LIVE
            self._index.join(client)
        if session.cursor != NO_CURSOR:
            page.complete = session.cursor
        session.gateway.tell(internal_pb2.Item(page=page))
        self._state.count("pages")
        self._state.count("paged", len(page.newest))
