"""Catching a session up: what it lacks, newest only, page by page; with the last page it joins the index.

A page has three parts, in this order. First come answers to registrations by name, as they are owed whatever the cursor
says. Then the members of queries that are owed an answer, each query's in the order of names (`query_answers`). Then,
by offset, what the session lacks: newest versions above its cursor, and what has entered or left its sets since
(`lacking`). Only the last part moves the cursor.

A session of a client with queries waits with its first page until the sets of all of them are known.
"""

from collections.abc import Iterable, Mapping
from itertools import zip_longest

from coldnotify_schemas import internal_pb2, wire_pb2
from coldnotify_schemas.digest import sets_digest

from coldnotify_matcher.engine.clients import Client
from coldnotify_matcher.engine.index import Index
from coldnotify_matcher.engine.lacking import lacking_of_queries
from coldnotify_matcher.engine.objects import Obj
from coldnotify_matcher.engine.partition_state import State
from coldnotify_matcher.engine.query_answers import QueryAnswers
from coldnotify_matcher.engine.sessions import NO_CURSOR, Answer, Session, SessionState

PAGE_BYTES_MAX = 64 * 1024
"""Of one page, and its size where the gateway names none: what is under way at most, so that the newest is chosen late.
"""
_PAGE_BYTES_MIN = 1024
"""A gateway that names less gets this: each page costs a look at all that its client is registered for."""
PAGINGS_BITS = 32
"""Of the number of a row of pages; in front of them stands the generation, so no two matchers use the same."""


def page_bytes_of(asked: int) -> int:
    """The size of a page where a gateway asks for this one; 0: it names none."""
    return min(max(asked, _PAGE_BYTES_MIN), PAGE_BYTES_MAX) if asked else PAGE_BYTES_MAX


class Paging:
    """Computes pages."""

    def __init__(self, state: State, index: Index) -> None:
        self._state = state
        self._index = index
        self._answers = QueryAnswers(state)

    def begin(
        self, client: Client, session: Session, cursor: int, owed: Iterable[Obj], now_ms: int, *, after_page: int = 0
    ) -> None:
        """Catch the session up from `cursor`, with an answer for each of `owed`, and what it owes to queries."""
        if cursor == NO_CURSOR:
            # It may have lost its state, and what it published with it. So it is told that before anything that gives
            # it a cursor: a cursor says that its client knows what it published, and pages spare it that.
            owed = [*owed, *filter(client.published, client.objects())]
            self._answers.owe_all(client, session)
        session.cursor = session.complete = cursor
        session.says_sets = session.unsaid = False
        session.doubted = frozenset()
        session.answered_at.clear()
        session.page = after_page
        self._state.pagings += 1
        session.paging = (self._state.generation << PAGINGS_BITS) + self._state.pagings
        session.owed = dict.fromkeys(owed)
        session.state = SessionState.CATCHING
        if not session.indexed:
            session.gateway.catching.add(session.number)
        self._answers.begin_anew(session)
        self.send(client, session, now_ms)

    def owe(
        self, session: Session, queries: Mapping[int, wire_pb2.Query], new: Iterable[int], *, goes_on: bool
    ) -> None:
        """The members of these queries are to be told, with the next pages. `new`: they were not registered before.

        `goes_on`: what the client says to have reached may count. Where the answer has begun in this session it does
        not: the client may have said so before it heard that.
        """
        fresh = set(new)
        for hash_, query in queries.items():
            reached = query.reached if goes_on and hash_ not in session.begun else ""
            session.answers[hash_] = Answer(
                new=hash_ in fresh,
                held=query.held if query.HasField("held") else None,
                reached=reached,
                at=query.reached_at if reached else None,
            )

    def settle(self, now_ms: int) -> None:
        """Sets become known, and the sessions that wait for them are sent their pages."""
        for client in self._state.members.settle(self._state.position, self._state.spent):
            if client.session is not None and client.session.state is SessionState.CATCHING:
                self.send(client, client.session, now_ms)

    def send(self, client: Client, session: Session, now_ms: int) -> None:
        """The next page; later, if the client has queries whose sets are not known yet."""
        if client.queries and not self._state.members.want(client):
            # Its gateway may hold it for live, if a predecessor had answered: what others are told must not move its
            # cursor then. A page of this number is none, but has such a session ask anew.
            session.gateway.tell(internal_pb2.Item(page=internal_pb2.Page(session=session.number, ask=session.ask)))
            return
        session.page += 1
        page = internal_pb2.Page(session=session.number, ask=session.ask, page=session.page, paging=session.paging)
        if self._fill(page, client, session, page_bytes_of(session.page_bytes), now_ms):
            page.last = True
            session.owed = {}
            session.cursor = max(session.cursor, self._state.position - 1)
            session.state = SessionState.LIVE
            self._index.join(client)
            session.complete = session.cursor
            if session.says_sets:
                self._state.count("sets_digests")
                page.sets_digest = sets_digest((hash_, set_.digest) for hash_, set_ in client.queries.sets())
        elif session.unsaid:
            page.sets_unknown, session.unsaid = True, False
            session.doubted = frozenset(client.queries)
        else:
            session.complete = session.cursor
        if session.complete != NO_CURSOR:
            page.complete = session.complete
        if session.channels is not None and session.channels.clean:
            session.channels.clean = False
            page.channels_complete, page.channels_ask = session.channels.cursor, session.channels.ask
        session.gateway.tell(internal_pb2.Item(page=page))
        self._state.count("pages")
        self._state.count("paged", len(page.newest))

    def _fill(self, page: internal_pb2.Page, client: Client, session: Session, bytes_max: int, now_ms: int) -> bool:
        """Whether nothing is left behind it. One item goes into it however long it is."""
        now_ms = self._state.expires_ms(now_ms)
        lacking = sorted(client.lacking(session.cursor), key=lambda obj: obj.offset)
        size = 0
        if session.owed:
            in_turn = set(lacking)
            for obj in [obj for obj in session.owed if obj not in in_turn and client.interested(obj)]:
                newest = obj.newest(now_ms, answer=True)
                size += newest.ByteSize()
                if size > bytes_max and page.newest:
                    return False
                page.newest.append(newest)
                del session.owed[obj]
        if client.queries or session.answers:
            if not self._answers.fill(page, client, session, bytes_max, now_ms):
                return False
            return self._fill_with_queries(page, client, session, lacking, bytes_max, now_ms)
        for obj in lacking:
            newest = obj.newest(now_ms)
            size += newest.ByteSize()
            if size > bytes_max and page.newest:
                return False
            page.newest.append(newest)
            session.cursor = obj.offset
            session.owed.pop(obj, None)
        return True

    def _fill_with_queries(
        self,
        page: internal_pb2.Page,
        client: Client,
        session: Session,
        by_name: list[Obj],
        bytes_max: int,
        now_ms: int,
    ) -> bool:
        size = sum(newest.ByteSize() for newest in page.newest)
        offset = session.cursor
        items = lacking_of_queries(self._state, client, session, by_name)
        for item, following in zip_longest(items, items[1:]):
            newest = item.newest(now_ms)
            if session.unsaid:
                newest.behind = item.offset - session.complete
            elif following is not None and following.offset == item.offset:
                newest.behind = 1
            size += newest.ByteSize()
            # What lies at one offset is told as one: the cursor says that all up to it was told.
            if size > bytes_max and page.newest and item.offset != offset:
                session.told_up_to(offset)
                return False
            page.newest.append(newest)
            offset = item.offset
            session.cursor = max(session.cursor, offset)
            if item.obj is not None:
                session.owed.pop(item.obj, None)
        session.answered_at.clear()
        return True
