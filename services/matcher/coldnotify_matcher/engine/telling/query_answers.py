"""Answers to registrations by query: all members of one, in the order of names, over as many pages as they take.

A set may change while its answer is sent. A new member is in the answer, or not, depending on its name; all members
that have entered or left since the answer began come again after it (`lacking`), as a state and not as a difference. So
neither the place of a change in the answer matters, nor whether the answer begins again because pages were lost.
"""

from coldnotify_schemas import internal_pb2, wire_pb2

from coldnotify_matcher.engine.clients.clients import RegisteredClient
from coldnotify_matcher.engine.clients.sessions import EngineSession
from coldnotify_matcher.engine.interests.by_query.by_query import RegisteredQuery
from coldnotify_matcher.engine.interests.by_query.sets import QuerySet
from coldnotify_matcher.engine.partition_state import PartitionState
from coldnotify_matcher.engine.streams.answers import Answer
from coldnotify_matcher.engine.streams.page_room import PageRoom
from coldnotify_matcher.engine.telling.index import newest_of


class QueryAnswers:
    """Fills answers into pages."""

    def __init__(self, state: PartitionState) -> None:
        self._state = state

    def fill(
        self, page: internal_pb2.Page, client: RegisteredClient, session: EngineSession, room: PageRoom, now_ms: int
    ) -> bool:
        """Fill the page. Returns true if all owed answers are complete with it."""
        answers = session.answers
        for registered in list(client.queries.values()):
            # A query from a record was never checked.
            if registered.why_never and registered.hash not in answers.owed:
                self._refuse(page, client, registered, registered.why_never)
        answers.keep(client.queries.keys())
        while answers.owed:
            hash_, answer = answers.first()
            query = client.queries.get(hash_)
            if query is not None and query.set is not None and query.settled and not query.why_never:
                refusal = self._too_many(client, query) if answer.new else ""
            else:
                refusal = "" if query is None else query.why_never
            if query is None or refusal:
                answers.drop(hash_)
                if query is not None:
                    self._refuse(page, client, query, refusal)
                continue
            set_ = query.set
            assert set_ is not None, "a session waits until its sets are known"
            answer.settle_new()
            query.is_new = False
            cursor = session.objects.cursor
            if answer.reached and not answer.begun and not _goes_on(set_, answer.at, cursor):
                answer.restart()
            answer.date(self._state.position - 1)
            if set_.difference(cursor) is None:
                answer.doubt_held()  # it may hold the same members, and lack versions of some that left and came back
            if not self._fill_from(page, client, session, hash_, set_, answer, room, now_ms):
                if answer.reached and answer.at is not None:
                    page.query, page.reached, page.reached_at = hash_, answer.reached, answer.at
                return False
            if answer.held is not None:
                # Members that entered and left since the cursor are sent, even if the members are the same in the end.
                answers.drop(hash_)
                page.unchanged.append(hash_)
                self._state.count("queries_held")
                continue
            answers.end(hash_)
            page.answered.append(hash_)
            self._state.count("queries_answered")
        return True

    def _fill_from(
        self,
        page: internal_pb2.Page,
        client: RegisteredClient,
        session: EngineSession,
        hash_: int,
        set_: QuerySet,
        answer: Answer,
        room: PageRoom,
        now_ms: int,
    ) -> bool:
        if answer.held is not None and answer.held == set_.digest:
            return True
        answer.doubt_held()
        if not answer.begun:
            if not answer.reached:
                page.begun.append(hash_)
                session.answers.note_begun(hash_)
            answer.begin(set_.members)
        while answer.names:
            name = answer.names[-1]
            if name in set_.members:
                obj = self._state.objects.get(f"{client.group_key}/{name}")
                newest = newest_of(obj, name, now_ms, say=True, answer=True)
                newest.entered.append(hash_)
                if session.descriptions:
                    newest.description = self._state.members.groups.description_said(client.group_key, name)
                if not room.take(newest.ByteSize()):
                    return False
                page.newest.append(newest)
            answer.pass_on()
        return True

    def _too_many(self, client: RegisteredClient, query: RegisteredQuery) -> str:
        """Returns the reason to refuse a query that was just registered; "": there is none."""
        assert query.set is not None
        most = self._state.registrations_max
        others = client.queries.members() - len(query.set.members) + len(client.objects())
        total = others + len(query.set.members)
        if total <= most:
            return ""
        return f"query: it has {len(query.set.members)} members, with {others} of others at most {most} are allowed"

    def _refuse(self, page: internal_pb2.Page, client: RegisteredClient, query: RegisteredQuery, reason: str) -> None:
        """Unregister the query, and tell the client the reason."""
        self._state.members.forget(client, query)
        client.unregister_query(query)
        self._state.changed[client] = None
        self._state.count("queries_refused")
        page.refused.append(wire_pb2.Refusal(interest=query.hash, reason=reason))


def _goes_on(set_: QuerySet, at: int | None, cursor: int) -> bool:
    """Returns true if an answer that was partly sent as of `at` can go on: changes since are known, and come after the
    answer. Below the cursor they would come too late, because the answer's end settles the registration."""
    return at is not None and at >= cursor and set_.difference(at) is not None
