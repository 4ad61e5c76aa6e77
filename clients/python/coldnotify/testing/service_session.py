"""One connection to the service of tests, as the service sees it: bytes in, bytes out."""

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING

from coldnotify_schemas import wire_pb2 as wire
from coldnotify_schemas.close_codes import CloseCode
from coldnotify_schemas.digest import object_crc
from coldnotify_schemas.frames import FrameBuffer, FrameError, encode, parse_client_frame
from coldnotify_schemas.interests import channel_hash, channel_text
from coldnotify_schemas.protocol import CLIENT_FRAME_BYTES_MAX, OBJECTS_PER_FRAME_MAX, REQUESTS_UNANSWERED_MAX

from coldnotify.testing.channels import Feeds, Registrations, Sent
from coldnotify.testing.members import digest_of, hashes, is_held
from coldnotify.testing.service_partition import Newest, Partition

if TYPE_CHECKING:
    from coldnotify.testing.service import Service

Name = tuple[str, str, str]
"""A client's: domain, group, client."""


class Session:
    """One connection, seen from the service. Over when `closed`: what is in `take` then is the last."""

    def __init__(self, service: "Service") -> None:
        self._service = service
        self._frames = FrameBuffer(CLIENT_FRAME_BYTES_MAX)
        self._out = bytearray()
        self.received: list[wire.ClientFrame] = []
        self.hello: wire.Hello | None = None
        self.closed = False
        self.said_bye = False
        self._waiting: list[wire.ClientFrame] = []
        self._refused_publish = 0
        """The request that is to come again before any other."""
        self._names = False
        self._describes = False
        """The client is told descriptions."""
        self._crcs: dict[int, str] = {}
        self._live = False
        self._agreed: int | None = None
        self._sync: list[wire.SyncChunk] | None = None
        self._cursor: int | None = None
        self._owed: list[str] = []
        self._page = 0
        self.feeds: Feeds | None = None
        """Its channels, if the service knows any."""

    # Bytes

    def receive(self, data: bytes) -> None:
        """Bytes from the client."""
        try:
            for body in self._frames.feed(data):
                if not self.closed:
                    frame = parse_client_frame(body)
                    self.received.append(frame)
                    self._take(frame)
        except FrameError as error:
            self.close(CloseCode.PROTOCOL_ERROR, str(error))

    def take(self, limit: int | None = None) -> bytes:
        """Bytes for the client, at most `limit`."""
        data = bytes(self._out[:limit])
        del self._out[: len(data)]
        return data

    def close(self, code: int, reason: str = "") -> None:
        """Say Close, and be over."""
        if not self.closed:
            self._send(close=wire.Close(code=code, reason=reason))
            self.drop()

    def drop(self) -> None:
        """The connection is gone."""
        self.closed = True
        if self in self._service.sessions:
            self._service.sessions.remove(self)

    def forget(self) -> None:
        """The service loses this client's registrations, and does not notice."""
        self._service.registered.pop(self.name, None)
        self._service.queries.pop(self.name, None)
        self._service.channels.pop(self.name, None)

    # Frames

    @property
    def name(self) -> Name:
        """Who is connected."""
        assert self.hello is not None
        return self.hello.domain, self.hello.group, self.hello.client

    @property
    def _partition(self) -> Partition:
        assert self.hello is not None
        return self._service.partition(self.hello.domain, self.hello.group)

    @property
    def _registered(self) -> set[str]:
        return self._service.registered.setdefault(self.name, set())

    @property
    def _queries(self) -> set[str]:
        return self._service.queries.setdefault(self.name, set())

    @property
    def _digest(self) -> int:
        return digest_of(self._registered, self._queries, self._channels.hashes)

    @property
    def _channels(self) -> Registrations:
        return self._service.channels.setdefault(self.name, Registrations())

    def resume(self) -> None:
        """The matcher is back: what waited is done."""
        waiting, self._waiting = self._waiting, []
        for frame in waiting:
            if not self.closed:
                self._do(frame)

    def _take(self, frame: wire.ClientFrame) -> None:
        wrong = self._wrong(frame)
        if wrong:
            self.close(CloseCode.PROTOCOL_ERROR, wrong)
        else:
            self._do(frame)

    def _do(self, frame: wire.ClientFrame) -> None:
        kind = frame.WhichOneof("frame")
        if kind == "ping":
            self._on_ping(frame.ping)
        elif kind == "bye":
            self.said_bye = True
            self.drop()
        elif kind == "use_names":
            self._names = True
        elif kind == "hello":
            self.hello = frame.hello
            if self._service.away:
                self._waiting.append(frame)
                self._send(wait=wire.Wait(seconds=1))
            else:
                self._on_hello(frame.hello)
        elif kind == "ack":
            self._on_ack(frame.ack)
        elif self._service.away:
            self._waiting.append(frame)
        elif kind == "register":
            self._on_register(frame.register)
        elif kind == "unregister":
            self._unregister(frame.unregister.objects, frame.unregister.queries)
            self._unregister_channels(frame.unregister.channels)
            self._agreed = self._digest
            self._send(unregistered=wire.Unregistered(request=frame.unregister.request))
        elif kind == "sync":
            self._on_sync(frame.sync)
        elif kind == "publish":
            self._on_publish(frame.publish)

    def _on_publish(self, publish: wire.Publish) -> None:
        reason, retry_ms = self._service.refused_publishes.get(publish.object or publish.channel, ("", 0))
        if self._refused_publish not in (0, publish.request):
            reason, retry_ms = "an earlier publish was refused: it is to come again first", 1
        elif retry_ms:
            self._refused_publish = publish.request
        else:
            self._refused_publish = 0
        if reason and publish.request:
            said = wire.NotPublished(request=publish.request, reason=reason, retry_after_ms=retry_ms)
            self._send(not_published=said)
        if reason:
            return
        offset = self._publish(publish)
        if publish.request:
            self._send(published=wire.Published(request=publish.request, offset=offset))

    def _publish(self, publish: wire.Publish) -> int:
        domain, group, client = self.name
        if publish.object:
            payload = json.loads(publish.payload) if publish.payload else None
            incarnation = publish.incarnation or None
            self._service.publish(
                domain,
                group,
                publish.object,
                payload,
                version=publish.version,
                incarnation=incarnation,
                deleted=publish.deleted,
            )
            return self._partition.end
        return self._service.send(
            domain,
            group,
            publish.channel,
            data=publish.payload,
            id=publish.id,
            source=client,
            to=list(publish.to),
        )

    def _wrong(self, frame: wire.ClientFrame) -> str:
        """What the protocol forbids, in words."""
        kind = frame.WhichOneof("frame")
        if (kind == "hello") == (self.hello is not None) and kind not in ("bye", None):
            return "Hello is the first frame, and the only Hello"
        names = {
            "hello": [*frame.hello.register, *frame.hello.unregister],
            "register": frame.register.objects,
            "unregister": frame.unregister.objects,
            "sync": frame.sync.objects,
        }.get(kind or "", [])
        queries = {
            "hello": [*frame.hello.queries, *frame.hello.unregister_queries],
            "register": frame.register.queries,
            "unregister": frame.unregister.queries,
            "sync": frame.sync.queries,
        }.get(kind or "", [])
        channels = {
            "hello": [*frame.hello.channels, *frame.hello.unregister_channels],
            "register": frame.register.channels,
            "unregister": frame.unregister.channels,
            "sync": frame.sync.channels,
        }.get(kind or "", [])
        if len(names) + len(queries) + len(channels) > OBJECTS_PER_FRAME_MAX:
            return f"more than {OBJECTS_PER_FRAME_MAX} objects in a frame"
        requests = sum(waiting.WhichOneof("frame") in ("register", "unregister") for waiting in self._waiting)
        if kind in ("register", "unregister") and requests >= REQUESTS_UNANSWERED_MAX:
            return f"more than {REQUESTS_UNANSWERED_MAX} requests unanswered"
        if kind == "hello":
            self._names = bool(frame.hello.capabilities & wire.CAPABILITY_NAMES)
            asks = bool(frame.hello.capabilities & wire.CAPABILITY_DESCRIPTIONS)
            self._describes = asks and self._service.knows_queries and self._service.knows_descriptions
        if queries and not self._names and self._service.knows_queries:
            return "a client with a query asks for names"
        if not self._names and any(self._crcs.setdefault(object_crc(name), name) != name for name in names):
            return "two names under one CRC"
        return ""

    def _on_hello(self, hello: wire.Hello) -> None:
        for other in list(self._service.sessions):
            if other is not self and other.hello is not None and other.name == self.name:
                other.close(CloseCode.DISPLACED, "connected elsewhere")
        self._unregister(hello.unregister, hello.unregister_queries)
        refused = self._register(hello.register, hello.queries)
        same_epoch = hello.HasField("epoch") and hello.epoch == self._service.epoch
        end = self._partition.end
        self._cursor = hello.cursor if same_epoch and hello.HasField("cursor") and hello.cursor <= end else None
        positions, channels_epoch = self._open_channels(hello, refused)
        in_sync = self._digest == hello.digest
        self._welcome(in_sync, refused, positions, new_epoch=not same_epoch, channels_epoch=channels_epoch)
        if self._agreed is not None:
            self._catch_up_channels()
            queries = hello.queries if self._cursor is not None else self._all_queries
            self._catch_up([name for name in hello.register if name in self._registered], queries)

    def _open_channels(
        self, hello: wire.Hello, refused: list[wire.Refusal]
    ) -> tuple[list[wire.ChannelPosition], int | None]:
        """Where the channels of this Hello begin, and the log's epoch, if the client does not know it."""
        if not self._service.knows_channels:
            return [], None
        self._unregister_channels(hello.unregister_channels)
        log = self._partition.log
        self.feeds = Feeds(self._channels, log, self._service.page_objects, self._send)
        self.feeds.repeats = self._service.repeats_messages
        has_cursor = hello.HasField("channels_cursor")
        same_epoch = hello.HasField("channels_epoch") and hello.channels_epoch == self._service.channels_epoch
        void = has_cursor and not (same_epoch and hello.channels_cursor <= log.complete)
        self.feeds.begin(hello.channels_cursor if has_cursor else None, void=void)
        positions = self._register_channels(hello.channels, refused, void=void)
        learns = void or (not has_cursor and bool(self._channels.by_name))
        return positions, self._service.channels_epoch if learns else None

    def _register_channels(
        self, channels: Iterable[wire.Channel], refused: list[wire.Refusal], *, void: bool = False
    ) -> list[wire.ChannelPosition]:
        if self.feeds is None:
            return []
        wanted = []
        for said in channels:
            reason = self._service.refused_channels.get(said.name)
            if reason is None:
                wanted.append(said)
            else:
                hash_ = channel_hash(channel_text(said.name, said.attributes))
                refused.append(wire.Refusal(channel=hash_, reason=reason))
        return self.feeds.register(wanted, void=void)

    def _unregister_channels(self, hashes_: Iterable[int]) -> None:
        self._channels.unregister(set(hashes_))
        if self.feeds is not None:
            self.feeds.forget()

    def _catch_up_channels(self) -> None:
        """In pages, if anything lacks; else CaughtUp says so."""
        if self.feeds is not None and self._channels.by_name:
            if self.feeds.lacks or not self._partition.log.messages:
                self.feeds.catch_up()
            else:
                self.feeds.go_live()

    def fan_out_message(self, domain: str, group: str, message: Sent) -> None:
        """A message was sent."""
        if self.feeds is not None and self.name[:2] == (domain, group):
            self.feeds.fan_out(message)

    @property
    def _channels_complete(self) -> int | None:
        """What is said while they are live."""
        feeds = self.feeds
        if (
            feeds is None
            or feeds.lost_of is not None
            or not feeds.live
            or not self._channels.by_name
            or not feeds.log.messages
        ):
            return None
        return feeds.log.complete

    def _welcome(
        self,
        in_sync: bool,
        refused: Iterable[wire.Refusal] = (),
        positions: Iterable[wire.ChannelPosition] = (),
        *,
        new_epoch: bool = False,
        channels_epoch: int | None = None,
    ) -> None:
        self._agreed = self._digest if in_sync else None
        self._live = self._live and in_sync
        epoch = self._service.epoch if new_epoch else None
        hello = self.hello
        asks = hello is not None and (hello.capabilities & wire.CAPABILITY_QUERIES or hello.channels)
        kinds = self._kinds if asks else wire.KINDS_UNSAID
        self._send(
            welcome=wire.Welcome(
                in_sync=in_sync,
                epoch=epoch,
                refused=refused,
                kinds=kinds,
                channels_epoch=channels_epoch,
                positions=positions,
            )
        )

    @property
    def _kinds(self) -> int:
        if not self._service.knows_queries:
            return wire.KINDS_UNSAID
        channels = wire.KINDS_CHANNELS if self._service.knows_channels else wire.KINDS_UNSAID
        descriptions = wire.KINDS_DESCRIPTIONS if self._describes else wire.KINDS_UNSAID
        return wire.KINDS_NAMES | wire.KINDS_QUERIES | channels | descriptions

    @property
    def _all_queries(self) -> list[wire.Query]:
        return [wire.Query(text=query) for query in sorted(self._queries)]

    def _on_register(self, register: wire.Register) -> None:
        refused = self._register(register.objects, register.queries)
        had_channels = bool(self._channels.by_name)
        positions = self._register_channels(register.channels, refused)
        self._agreed = self._digest
        kinds = self._kinds if register.queries or register.channels else wire.KINDS_UNSAID
        learns = positions and not had_channels
        channels_epoch = self._service.channels_epoch if learns else None
        self._send(
            registered=wire.Registered(
                request=register.request,
                refused=refused,
                kinds=kinds,
                positions=positions,
                channels_epoch=channels_epoch,
            )
        )
        if self.feeds is not None and positions:
            self.feeds.catch_up()
        for name in register.objects:
            if name in self._registered:
                self._notify(name, answer=True)
        if register.queries and self._service.knows_queries:
            self._answer(register.queries)
            if self._live:
                self._send(caught_up=wire.CaughtUp(complete=self._partition.end or None))

    def _answer(self, queries: Iterable[wire.Query]) -> None:
        """Tell all members of these."""
        sets = self._partition.sets
        for query in queries:
            if query.text in self._queries:
                (hash_,) = hashes([query.text])
                if is_held(query, sets.answer(query.text)):
                    self._send(registered=wire.Registered(unchanged=[hash_]))
                    continue
                self._send(registered=wire.Registered(begun=[hash_]))
                for name in sets.answer(query.text):
                    self._notify(name, answer=True, entered=[query.text])
                self._send(registered=wire.Registered(answered=[hash_]))

    def _unregister(self, names: Iterable[str], unregistered: Iterable[int]) -> None:
        self._registered.difference_update(names)
        gone = set(unregistered)
        self._queries.difference_update([query for query in self._queries if hashes([query])[0] in gone])

    def _register(self, names: Iterable[str], queries: Iterable[wire.Query] = ()) -> list[wire.Refusal]:
        refused = []
        for query in queries if self._service.knows_queries else ():
            reason = self._service.refused_queries.get(query.text)
            if reason is None:
                self._queries.add(query.text)
            else:
                refused.append(wire.Refusal(query=hashes([query.text])[0], reason=reason))
        for name in names:
            if name not in self._registered and len(self._registered) >= self._service.registrations_max:
                refused.append(wire.Refusal(object=name, reason="too many objects"))
            else:
                self._registered.add(name)
        return refused

    def _on_sync(self, chunk: wire.SyncChunk) -> None:
        if chunk.index == 0:
            self._sync = []
        if self._sync is None:
            return
        self._sync.append(chunk)
        if chunk.last:
            self._registered.clear()
            self._queries.clear()
            names = [name for one in self._sync for name in one.objects]
            refused = self._register(names, [query for one in self._sync for query in one.queries])
            channels = [channel for one in self._sync for channel in one.channels]
            positions = self._replace_channels(channels, refused)
            self._sync = None
            self._cursor = None
            learns = bool(positions) and self.hello is not None and not self.hello.HasField("channels_cursor")
            epoch = self._service.channels_epoch if learns else None
            self._welcome(True, refused, positions, channels_epoch=epoch)
            self._catch_up_channels()
            unknown = sorted(name for name in self._registered if name not in self._partition.objects)
            self._catch_up(unknown, self._all_queries)

    def _replace_channels(
        self, channels: list[wire.Channel], refused: list[wire.Refusal]
    ) -> list[wire.ChannelPosition]:
        """A reg-sync leaves the cursor of channels as it is: each one begins where the client says."""
        kept = {channel_hash(channel_text(one.name, one.attributes)) for one in channels}
        self._unregister_channels([hash_ for hash_ in self._channels.hashes if hash_ not in kept])
        return self._register_channels(channels, refused)

    def _on_ping(self, ping: wire.Ping) -> None:
        complete = self._partition.complete if self._live else None
        self._send(pong=wire.Pong(complete=complete, channels_complete=self._channels_complete))
        if ping.HasField("digest") and self._agreed is not None and ping.digest != self._digest:
            self._welcome(False)

    def _on_ack(self, ack: wire.Ack) -> None:
        if ack.HasField("complete"):
            self._service.acknowledged[self.name] = ack.complete
        if ack.HasField("channels_complete"):
            self._service.acknowledged_channels[self.name] = ack.channels_complete
        if (
            self.feeds is not None
            and ack.channels_page
            and ack.channels_page == self.feeds.page
            and not self.feeds.live
        ):
            self.feeds.next_page()
        if ack.page and ack.page == self._page and not self._live:
            self._next_page()

    def _catch_up(self, owed: list[str], queries: Iterable[wire.Query]) -> None:
        self._owed = owed
        self._page = 0
        self._live = False
        self._answer(queries)
        self._next_page()

    def _lacking(self, cursor: int) -> list[tuple[int, str, list[str], list[str]]]:
        """What stands above this offset: each object's last change, the object, and where it stands in the queries."""
        objects, sets, found = self._partition.objects, self._partition.sets, []
        for name in {
            *objects,
            *self._partition.descriptions,
            *(name for query in self._queries for name in sets.changes.get(query, ())),
        }:
            changes = sets.changed(name, self._queries)
            offsets = [*changes.values()]
            entered = sets.of(name, self._queries)
            if name in objects and (name in self._registered or entered):
                offsets.append(objects[name].offset)
            if entered and self._describes and name in self._partition.descriptions:
                offsets.append(self._partition.descriptions[name][1])
            if max(offsets, default=-1) > cursor:
                found.append((max(offsets), name, entered, sorted(set(changes) - set(entered))))
        return sorted(found)

    def _next_page(self) -> None:
        """Answers first, then what is above the cursor, in the order of its offsets."""
        answers, self._owed = self._owed[: self._service.page_objects], self._owed[self._service.page_objects :]
        for name in answers:
            self._notify(name, answer=True)
        cursor = -1 if self._cursor is None else self._cursor
        lacking = self._lacking(cursor)
        room = self._service.page_objects - len(answers)
        for offset, name, entered, left in lacking[:room]:
            self._notify(name, entered=entered, left=left)
            self._cursor = offset
        if self._owed or len(lacking) > room:
            self._page += 1
            self._send(page_end=wire.PageEnd(page=self._page))
        else:
            self._live = True
            complete, channels_complete = self._partition.end or None, self._channels_complete
            self._send(caught_up=wire.CaughtUp(complete=complete, channels_complete=channels_complete))

    def fan_out(self, domain: str, group: str, name: str, newest: Newest) -> None:
        """A version was published."""
        if not self._live or self.hello is None or self.name[:2] != (domain, group):
            return
        if name in self._registered or self._partition.sets.of(name, self._queries):
            self._notify(name, behind=max(0, newest.offset - self._partition.complete))

    def change(self, domain: str, group: str, name: str, entered: set[str], left: set[str]) -> None:
        """The object entered and left queries."""
        if self._live and self.hello is not None and self.name[:2] == (domain, group):
            entered, left = entered & self._queries, left & self._queries
            if entered or left or name in self._registered:
                self._notify(name, entered=sorted(entered), left=sorted(left))

    def redescribe(self, domain: str, group: str, name: str) -> None:
        """The object is described in another way."""
        is_told = self._live and self._describes and self.name[:2] == (domain, group)
        if is_told and self._partition.sets.of(name, self._queries):
            self._notify(name, redescribed=True)

    def _notify(
        self,
        name: str,
        *,
        answer: bool = False,
        redescribed: bool = False,
        behind: int = 0,
        entered: Iterable[str] = (),
        left: Iterable[str] = (),
    ) -> None:
        if answer and self._service.loses_answers:
            self._service.loses_answers -= 1
            return
        notification = wire.Notification(answer=answer, entered=hashes(entered), left=hashes(left))
        if self._names:
            notification.name = name
        else:
            notification.crc = object_crc(name)
        newest = self._partition.objects.get(name)
        if newest is not None:
            notification.version = newest.version
            notification.incarnation = newest.incarnation
            notification.payload = newest.payload
            notification.deleted = newest.deleted
            # In an answer these two mean nothing; a client that believes them is found out.
            notification.offset = newest.offset
            notification.behind = behind
        if self._describes and (entered or redescribed):
            notification.description = self._partition.descriptions.get(name, (b"", 0))[0]
        if entered or left or redescribed:
            # The frame is as of the newest offset, whatever that of the version is.
            notification.offset = self._partition.end
            notification.behind = self._partition.end - self._partition.complete if self._live else self._partition.end
        self._send(notification=notification)

    def _send(self, **frame: object) -> None:
        self._out += encode(wire.GatewayFrame(**frame))  # type: ignore[arg-type]
