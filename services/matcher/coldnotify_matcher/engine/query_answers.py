"""Answers to registrations by query: all members of one, in the order of names, over as many pages as they take.

A set may change while it is told. Who has come is told, or not, as the names come; whatever has come or gone since the
answer began is told behind it once more (`lacking`), as a state and no difference. So it does not matter where in the
answer a change came, nor whether the answer begins anew because pages were lost.
"""

from coldnotify_schemas import internal_pb2, wire_pb2

from coldnotify_matcher.engine.clients import Client
from coldnotify_matcher.engine.index import newest_of
from coldnotify_matcher.engine.interests.by_query.by_query import RegisteredQuery
from coldnotify_matcher.engine.interests.by_query.sets import QuerySet
from coldnotify_matcher.engine.partition_state import State
from coldnotify_matcher.engine.sessions import Answer, Session


class QueryAnswers:
    """Fills them into pages."""

    def __init__(self, state: State) -> None:
        self._state = state

    def owe_all(self, client: Client, session: Session) -> None:
        """The client knows nothing: all its queries are owed an answer. What it says that it holds counts."""
        for hash_ in client.queries:
            if hash_ not in session.answers:
                session.answers[hash_] = Answer(new=False)

    def begin_anew(self, session: Session) -> None:
        """Pages may be lost: what was told of unfinished answers is told again."""
        for answer in session.answers.values():
            if answer.begun:
                answer.begun, answer.reached, answer.at = False, "", None

    def fill(self, page: internal_pb2.Page, client: Client, session: Session, bytes_max: int, now_ms: int) -> bool:
        """Whether all that are owed are in, with this page. One member goes into an empty page however long it is."""
        for registered in list(client.queries.values()):
            # Nobody checked its record.
            if registered.why_never and registered.hash not in session.answers:
                self._refuse(page, client, registered, registered.why_never)
        session.begun.intersection_update(client.queries)
        while session.answers:
            hash_, answer = next(iter(session.answers.items()))
            query = client.queries.get(hash_)
            if query is not None and query.set is not None and query.settled and not query.why_never:
                refusal = self._too_many(client, query) if answer.new else ""
            else:
                refusal = "" if query is None else query.why_never
            if query is None or refusal:
                del session.answers[hash_]
                if query is not None:
                    self._refuse(page, client, query, refusal)
                continue
            set_ = query.set
            assert set_ is not None, "a session waits until its sets are known"
            answer.new = query.is_new = False
            if answer.reached and not answer.begun and not _goes_on(set_, answer.at, session.cursor):
                answer.reached, answer.at = "", None
            if answer.at is None:
                answer.at = self._state.position - 1
            if set_.difference(session.cursor) is None:
                answer.held = None  # it may hold the same members, and lack versions of some that left and came back
            if not self._fill_from(page, client, session, hash_, set_, answer, bytes_max, now_ms):
                if answer.reached:
                    page.query, page.reached, page.reached_at = hash_, answer.reached, answer.at
                return False
            del session.answers[hash_]
            if answer.held is not None:
                # What has come and gone since the cursor is told, also where that comes to the same members.
                page.unchanged.append(hash_)
                self._state.count("queries_held")
                continue
            page.answered.append(hash_)
            session.doubted -= {hash_}
            self._state.count("queries_answered")
            # What it is owed since the answer began is told as if its cursor stood there.
            session.answered_at[hash_] = min(answer.at, session.answered_at.get(hash_, answer.at))
        return True

    def _fill_from(
        self,
        page: internal_pb2.Page,
        client: Client,
        session: Session,
        hash_: int,
        set_: QuerySet,
        answer: Answer,
        bytes_max: int,
        now_ms: int,
    ) -> bool:
        if answer.held is not None and answer.held == set_.digest:
            return True
        answer.held = None
        if not answer.begun:
            answer.begun = True
            if not answer.reached:
                page.begun.append(hash_)
                session.begun.add(hash_)
            answer.names = sorted((name for name in set_.members if name > answer.reached), reverse=True)
        size = sum(newest.ByteSize() for newest in page.newest) if page.newest else 0
        while answer.names:
            name = answer.names[-1]
            if name in set_.members:
                obj = self._state.objects.get(f"{client.group_key}/{name}")
                newest = newest_of(obj, name, now_ms, say=True, answer=True)
                newest.entered.append(hash_)
                if session.descriptions:
                    newest.description = self._state.members.groups.description_said(client.group_key, name)
                size += newest.ByteSize()
                if size > bytes_max and page.newest:
                    return False
                page.newest.append(newest)
            answer.reached = name
            answer.names.pop()
        return True

    def _too_many(self, client: Client, query: RegisteredQuery) -> str:
        """Why a query that was just registered is refused; "": it is not."""
        assert query.set is not None
        most = self._state.registrations_max
        others = client.queries.members() - len(query.set.members) + len(client.objects())
        total = others + len(query.set.members)
        if total <= most:
            return ""
        return f"query: it has {len(query.set.members)} members, with {others} of others at most {most} are allowed"

    def _refuse(self, page: internal_pb2.Page, client: Client, query: RegisteredQuery, reason: str) -> None:
        """The query is registered no more, and the client is told why."""
        self._state.members.forget(client, query)
        client.unregister_query(query)
        self._state.changed[client] = None
        self._state.count("queries_refused")
        page.refused.append(wire_pb2.Refusal(query=query.hash, reason=reason))


def _goes_on(set_: QuerySet, at: int | None, cursor: int) -> bool:
    """Whether an answer of which a part was told as of `at` can go on: what has changed since is known, and is told
    behind the answer. Below the cursor it would be told too late, as the answer's end settles the registration."""
    return at is not None and at >= cursor and set_.difference(at) is not None
