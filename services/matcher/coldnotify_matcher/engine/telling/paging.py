"""Catches a session up: missing newest versions, page by page; with the last page it joins the index.

A page has three parts, in this order. First come answers to registrations by name, which are owed whatever the cursor.
Then the members of queries that are owed an answer, each query's in the order of names (`query_answers`). Then, by
offset, the missing entries: newest versions above its cursor, and changes of its sets since (`lacking`). Only the last
part moves the cursor.

A session whose client has queries waits with its first page until all their sets are known.

A client whose set is kept has filters alone: `filter_pages` fills its pages.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from operator import attrgetter

from coldnotify_schemas import internal_pb2
from coldnotify_schemas.digest import sets_digest

from coldnotify_matcher.engine.clients.clients import RegisteredClient
from coldnotify_matcher.engine.clients.sessions import EngineSession
from coldnotify_matcher.engine.objects.objects import Obj
from coldnotify_matcher.engine.partition_state import PartitionState
from coldnotify_matcher.engine.streams.page_room import PageRoom
from coldnotify_matcher.engine.streams.stream import NO_CURSOR, FollowedStage
from coldnotify_matcher.engine.telling.filter_pages import FilterPages
from coldnotify_matcher.engine.telling.index import Index
from coldnotify_matcher.engine.telling.lacking import lacking_of_queries
from coldnotify_matcher.engine.telling.query_answers import QueryAnswers
from coldnotify_matcher.engine.telling.whole_groups import WholeGroup, say_completeness, whole_groups

PAGE_BYTES_MAX = 64 * 1024
"""Maximum size of one page, and its size if the gateway names none. It bounds the data under way, so that the newest
version is chosen late."""
_PAGE_BYTES_MIN = 1024
"""Size for a gateway that names less: each page costs a pass over all registrations of its client."""
_ENTRY_FIXED_BYTES = 48
"""Bytes of an entry beside name, payload and properties: tags, lengths and numbers."""


def page_bytes_of(asked: int) -> int:
    """Returns the size of a page for the size that a gateway names; 0: it names none."""
    return min(max(asked, _PAGE_BYTES_MIN), PAGE_BYTES_MAX) if asked else PAGE_BYTES_MAX


class Paging:
    """Computes pages."""

    def __init__(self, state: PartitionState, index: Index) -> None:
        self._state = state
        self._index = index
        self._answers = QueryAnswers(state)
        self._filters = FilterPages(state)

    def begin(
        self,
        client: RegisteredClient,
        session: EngineSession,
        cursor: int,
        owed: Iterable[Obj],
        now_ms: int,
        *,
        after_page: int = 0,
    ) -> None:
        """Catch the session up from `cursor`, with an answer for each of `owed`, and what it owes to queries."""
        if cursor == NO_CURSOR:
            # It may have lost its state, including its own publishes. So these come before anything that gives it a
            # cursor: a cursor means that its client knows its own publishes, and pages omit them.
            owed = [*owed, *filter(client.published, client.objects())]
            session.answers.owe_all(client.queries)
        session.agree()
        session.objects.place(cursor)
        session.objects.begin(self._state.next_paging(), after_page)
        session.answers.begin(owed)
        session.filter_answers.begin()
        if not session.indexed:
            session.gateway.catching.add(session.number)
        self._send(client, session, now_ms)

    def settle(self, now_ms: int) -> None:
        """Go on with sets, and send pages to the sessions whose sets have become known."""
        for client in self._state.members.settle(self._state.position, self._state.spent):
            if client.session is not None and client.session.objects.stage is FollowedStage.DUE:
                self._send(client, client.session, now_ms)

    def next_page(self, client: RegisteredClient, session: EngineSession, offset: int, now_ms: int) -> None:
        """Send the next page of the row, which the gateway has asked for at this offset: it has all before."""
        if session.filter_answers.any:
            self._state.settle_filters(client, session.filter_answers.acknowledge_page(), offset)
        session.objects.next_page()
        self._send(client, session, now_ms)

    def _send(self, client: RegisteredClient, session: EngineSession, now_ms: int) -> None:
        """Send the page that is due; later, if the client has queries whose sets are not known yet."""
        stream, answers = session.objects, session.answers
        if client.queries and not self._state.members.want(client):
            # Its gateway may hold it for live, if a predecessor had answered: then others' frames must not move its
            # cursor. Such a session asks anew.
            page = internal_pb2.Page(session=session.number, ask=stream.ask, kind=internal_pb2.PAGE_WORKING)
            session.gateway.tell(internal_pb2.Item(page=page))
            return
        page = internal_pb2.Page(session=session.number, ask=stream.ask, paging=stream.paging)
        room = PageRoom(page_bytes_of(stream.page_bytes), stream.entries_max)
        if self._fill(page, client, session, room, now_ms):
            page.last = True
            page.page = stream.send_last(self._state.position)
            answers.told_all_objects()
            client.filters.rest()
            self._index.join(client)
            if answers.says_sets:
                self._state.count("sets_digests")
                page.sets_digest = sets_digest((hash_, set_.digest) for hash_, set_ in client.queries.sets())
        else:
            page.sets_unknown = answers.unsaid
            page.page = stream.send(whole=not answers.unsaid)
            if answers.unsaid:
                answers.say_unknown(client.queries)
        if stream.complete != NO_CURSOR:
            page.complete = stream.complete
        channels = session.channels
        if channels is not None and channels.take_clean():
            log = self._state.log_of(client)
            assert log is not None, "its channels are live"
            page.streams.add(log=log.number, complete=channels.complete, ask=channels.ask)
        session.gateway.tell(internal_pb2.Item(page=page))
        self._state.count("pages")
        self._state.count("paged", len(page.newest))

    def _fill(
        self, page: internal_pb2.Page, client: RegisteredClient, session: EngineSession, room: PageRoom, now_ms: int
    ) -> bool:
        """Fill the page. Returns true if nothing is left after it."""
        now_ms = self._state.expires_ms(now_ms)
        if client.kept:
            return self._filters.fill(page, client, session, room, now_ms)
        stream, answers = session.objects, session.answers
        lacking = sorted(client.lacking(stream.cursor), key=attrgetter("offset"))
        if answers.objects:
            in_turn = set(lacking)
            for obj in [obj for obj in answers.objects if obj not in in_turn and client.interested(obj)]:
                newest = obj.newest(now_ms, answer=True)
                if not room.take(newest.ByteSize()):
                    return False
                page.newest.append(newest)
                answers.told(obj)
        if client.queries or answers.owed:
            if not self._answers.fill(page, client, session, room, now_ms):
                return False
            return self._fill_with_queries(page, client, session, lacking, room, now_ms)
        for group in _groups(lacking, stream.cursor):
            entries = [obj.newest(now_ms) for obj in group.entries]
            say_completeness(entries, group.begin, group.end)
            if not room.take_all([entry.ByteSize() for entry in entries]):
                return False
            page.newest.extend(entries)
            stream.cover(group.end)
            for obj in group.entries:
                answers.told(obj)
        return True

    def _fill_with_queries(
        self,
        page: internal_pb2.Page,
        client: RegisteredClient,
        session: EngineSession,
        by_name: list[Obj],
        room: PageRoom,
        now_ms: int,
    ) -> bool:
        stream, answers = session.objects, session.answers
        offset = stream.cursor
        items, unknown = lacking_of_queries(self._state, client, session, by_name)
        answers.note_unknown(unknown)
        for item, following in zip_longest(items, items[1:]):
            newest = item.newest(now_ms)
            if (same := following is not None and following.offset == item.offset) and following.name != item.name:
                newest.more = True
            if answers.unsaid:
                newest.behind = item.offset - stream.complete
            elif same:
                newest.behind = 1
            size_bytes = newest.ByteSize()
            # Entries at one offset go together: the cursor means that all up to it was sent.
            if item.offset != offset and not room.has(size_bytes):
                answers.told_up_to(offset)
                return False
            room.add(size_bytes)
            page.newest.append(newest)
            offset = item.offset
            stream.cover(offset)
            if item.obj is not None:
                answers.told(item.obj)
        answers.told_changes()
        return True


def _groups(lacking: Sequence[Obj], cursor: int) -> Iterator[WholeGroup[Obj]]:
    """Yields what goes together: members of sets, and those that were published again behind one in their newest
    version. Sets that share objects are one group, unless that is larger than a page."""
    if not any(obj.set_last > cursor for obj in lacking):
        yield from (WholeGroup([obj], obj.offset, obj.offset) for obj in lacking)
        return
    groups = list(whole_groups(lacking, lambda obj: obj.span_above(cursor)))
    for at, group in enumerate(groups):
        if sum(map(_entry_bytes, group.entries)) > PAGE_BYTES_MAX:
            # An entry may have its offset behind later groups: so these are in the order of offsets, too.
            rest = [obj for one in groups[at:] for obj in one.entries]
            yield from whole_groups(rest, lambda obj: (obj.offset, obj.offset))
            return
        yield group


def _entry_bytes(obj: Obj) -> int:
    """Returns the approximate size of an object's entry in a page."""
    return _ENTRY_FIXED_BYTES + len(obj.name.encode()) + len(obj.payload) + len(obj.properties)
