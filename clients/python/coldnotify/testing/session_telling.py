"""Sends a session objects and queries in the service for tests: answers, pages, then live changes."""

from collections.abc import Callable, Iterable

from coldnotify_schemas import wire_pb2 as wire
from coldnotify_schemas.digest import object_crc

from coldnotify.testing.members import hashes, is_held, queries_among
from coldnotify.testing.service_partition import Newest
from coldnotify.testing.session_client import SessionClient
from coldnotify.testing.session_feeds import SessionFeeds


class SessionTelling:
    """The delivery of objects to a session's client."""

    def __init__(self, client: SessionClient, feeds: SessionFeeds, send: Callable[..., None]) -> None:
        self._client = client
        self._feeds = feeds
        self._send = send
        self.live = False
        """It has its last page."""
        self.page = 0
        """The number of the last one."""
        self.cursor: int | None = None
        """Pages begin above it; None: with everything."""
        self._owed: list[str] = []

    def answer(self, interests: Iterable[wire.Interest]) -> None:
        """Tells all members of the queries among these."""
        sets = self._client.partition.sets
        for query in queries_among(interests):
            if query.text in self._client.queries:
                (hash_,) = hashes([query.text])
                if is_held(query, sets.answer(query.text)):
                    self._send(registered=wire.Registered(unchanged=[hash_]))
                    continue
                self._send(registered=wire.Registered(begun=[hash_]))
                for name in sets.answer(query.text):
                    self.notify(name, answer=True, entered=[query.text])
                self._send(registered=wire.Registered(answered=[hash_]))

    def catch_up(self, owed: list[str], interests: Iterable[wire.Interest]) -> None:
        """Answers these, then sends everything above the cursor, in pages."""
        self._owed = owed
        self.page = 0
        self.live = False
        self.answer(interests)
        self.next_page()

    def _lacking(self, cursor: int) -> list[tuple[int, str, list[str], list[str]]]:
        """Returns everything above this offset: each object's last change, the object, and the queries it entered and
        left.
        """
        objects, sets, found = self._client.partition.objects, self._client.partition.sets, []
        for name in {
            *objects,
            *self._client.partition.descriptions,
            *(name for query in self._client.queries for name in sets.changes.get(query, ())),
        }:
            changes = sets.changed(name, self._client.queries)
            offsets = [*changes.values()]
            entered = sets.of(name, self._client.queries)
            if name in objects and (name in self._client.registered or entered):
                offsets.append(objects[name].offset)
            if entered and self._client.describes and name in self._client.partition.descriptions:
                offsets.append(self._client.partition.descriptions[name][1])
            if max(offsets, default=-1) > cursor:
                found.append((max(offsets), name, entered, sorted(set(changes) - set(entered))))
        return sorted(found)

    def next_page(self) -> None:
        """Sends answers first, then what is above the cursor, in the order of its offsets."""
        page_objects = self._client.service.page_objects
        answers, self._owed = self._owed[:page_objects], self._owed[page_objects:]
        for name in answers:
            self.notify(name, answer=True)
        cursor = -1 if self.cursor is None else self.cursor
        lacking = self._lacking(cursor)
        room = page_objects - len(answers)
        for offset, name, entered, left in lacking[:room]:
            self.notify(name, entered=entered, left=left)
            self.cursor = offset
        if self._owed or len(lacking) > room:
            self.page += 1
            self._send(page_end=wire.PageEnd(page=self.page))
        else:
            self.live = True
            complete = self._client.partition.end or None
            self._send(caught_up=wire.CaughtUp(complete=complete, streams=self._feeds.complete))

    def fan_out(self, domain: str, group: str, name: str, newest: Newest) -> None:
        """A version was published."""
        if not self.live or self._client.hello is None or self._client.name[:2] != (domain, group):
            return
        if name in self._client.registered or self._client.partition.sets.of(name, self._client.queries):
            self.notify(name, behind=max(0, newest.offset - self._client.partition.complete))

    def change(self, domain: str, group: str, name: str, entered: set[str], left: set[str]) -> None:
        """The object entered and left queries."""
        if self.live and self._client.hello is not None and self._client.name[:2] == (domain, group):
            entered, left = entered & self._client.queries, left & self._client.queries
            if entered or left or name in self._client.registered:
                self.notify(name, entered=sorted(entered), left=sorted(left))

    def redescribe(self, domain: str, group: str, name: str) -> None:
        """The object is described in another way."""
        is_told = self.live and self._client.describes and self._client.name[:2] == (domain, group)
        if is_told and self._client.partition.sets.of(name, self._client.queries):
            self.notify(name, redescribed=True)

    def notify(
        self,
        name: str,
        *,
        answer: bool = False,
        redescribed: bool = False,
        behind: int = 0,
        entered: Iterable[str] = (),
        left: Iterable[str] = (),
    ) -> None:
        """The newest version of an object, and which queries it entered and left."""
        if answer and self._client.service.loses_answers:
            self._client.service.loses_answers -= 1
            return
        notification = wire.Notification(answer=answer, entered=hashes(entered), left=hashes(left))
        if self._client.names:
            notification.name = name
        else:
            notification.crc = object_crc(name)
        newest = self._client.partition.objects.get(name)
        if newest is not None:
            notification.version = newest.version
            notification.incarnation = newest.incarnation
            if not newest.raw or self._client.raw:
                notification.payload, notification.raw = newest.payload, newest.raw
            notification.deleted = newest.deleted
            # In an answer these two mean nothing; a client that believes them is found out.
            notification.offset = newest.offset
            notification.behind = behind
        if self._client.describes and (entered or redescribed):
            notification.description = self._client.partition.descriptions.get(name, (b"", 0))[0]
        if entered or left or redescribed:
            # The frame is as of the newest offset, whatever that of the version is.
            partition = self._client.partition
            notification.offset = partition.end
            notification.behind = partition.end - partition.complete if self.live else partition.end
        self._send(notification=notification)
