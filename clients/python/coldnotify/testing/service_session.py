"""One connection to the service of tests, as the service sees it: bytes in, bytes out."""

import json
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from coldnotify_schemas import wire_pb2 as wire
from coldnotify_schemas.arrival_versions import arrival_version
from coldnotify_schemas.close_codes import CloseCode
from coldnotify_schemas.digest import object_crc
from coldnotify_schemas.frames import FrameBuffer, FrameError, encode, parse_client_frame
from coldnotify_schemas.protocol import CLIENT_FRAME_BYTES_MAX, OBJECTS_PER_FRAME_MAX, REQUESTS_UNANSWERED_MAX
from coldnotify_schemas.wrong_clocks import clock_fault

from coldnotify._core.publishing.outgoing import PAYLOAD_BYTES_MAX
from coldnotify.testing.channels import Feeds, LoggedMessage
from coldnotify.testing.members import queries_among
from coldnotify.testing.service_ledger import ServiceLedger
from coldnotify.testing.service_partition import Newest
from coldnotify.testing.service_state import Name, ServiceState
from coldnotify.testing.session_client import SessionClient
from coldnotify.testing.session_feeds import SessionFeeds
from coldnotify.testing.session_telling import SessionTelling


class Host(ServiceState, ABC):
    """The service whose sessions these are."""

    sessions: "list[Session]"
    """Those that are open."""
    ledger: ServiceLedger

    @abstractmethod
    def publish(
        self,
        domain: str,
        group: str,
        object_: str,
        payload: object = None,
        *,
        version: int | None = None,
        deleted: bool = False,
    ) -> int:
        """A client publishes a version, which is returned."""

    @abstractmethod
    def patch(self, domain: str, group: str, object_: str, patch: Mapping[str, Any]) -> str:
        """A client describes an object. Returns why it cannot, or ""."""

    @abstractmethod
    def send(
        self,
        domain: str,
        group: str,
        channel: str,
        *,
        data: bytes,
        id: str,  # noqa: A002 - as a message calls it
        source: str,
        to: Collection[str],
        key: str = "",
    ) -> int:
        """A client sends a message to a channel; its offset is returned."""

    @abstractmethod
    def bury(self, domain: str, group: str) -> None:
        """Sends what has become a dead letter of a share."""


class Session:
    """One connection, as the service sees it. After `closed`, `take` returns the last bytes."""

    def __init__(self, service: Host) -> None:
        self._service = service
        self._frames = FrameBuffer(CLIENT_FRAME_BYTES_MAX)
        self._out = bytearray()
        self.received: list[wire.ClientFrame] = []
        self.closed = False
        self.said_bye = False
        self._client = SessionClient(service)
        self._feeds = SessionFeeds(self._client, self._send)
        self._telling = SessionTelling(self._client, self._feeds, self._send)
        self._waiting: list[wire.ClientFrame] = []
        self._refused_publish = 0
        """The request that is to come again before any other."""
        self._crcs: dict[int, str] = {}
        self._agreed: int | None = None
        self._sync: list[wire.SyncChunk] | None = None

    @property
    def hello(self) -> wire.Hello | None:
        """The client's Hello; None before it came."""
        return self._client.hello

    @property
    def name(self) -> Name:
        """The connected client."""
        return self._client.name

    @property
    def feeds(self) -> Feeds | None:
        """Its channels, if the service knows any."""
        return self._feeds.feeds

    @property
    def state(self) -> str:
        """Its progress: unsynced, catching, live."""
        return "live" if self._telling.live else "unsynced" if self._agreed is None else "catching"

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
        """Sends Close, and ends the session."""
        if not self.closed:
            self._send(close=wire.Close(code=code, reason=reason))
            self.drop()

    def drop(self) -> None:
        """The connection is gone."""
        self.closed = True
        if self in self._service.sessions:
            self._service.sessions.remove(self)
            if self.hello is not None:
                self._service.ledger.ended(self.name, said_bye=self.said_bye)
                self._service.shares_of(*self.name[:2]).leave(self.name[2], self._send)

    def forget(self) -> None:
        """The service loses this client's registrations, and does not notice."""
        self._service.registered.pop(self.name, None)
        self._service.queries.pop(self.name, None)
        self._service.channels.pop(self.name, None)
        self._service.shares.pop(self.name, None)

    def resume(self) -> None:
        """The matcher is back: what waited is done."""
        waiting, self._waiting = self._waiting, []
        for frame in waiting:
            if not self.closed:
                self._do(frame)

    # Frames

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
            self._client.names = True
        elif kind == "hello":
            self._client.hello = frame.hello
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
            self._client.unregister(frame.unregister.objects, frame.unregister.interests)
            self._feeds.unregister(frame.unregister.interests)
            self._agreed = self._client.digest
            self._service.ledger.reports(self.name).keep(self._client.reported)
            self._send(unregistered=wire.Unregistered(request=frame.unregister.request))
        elif kind == "sync":
            self._on_sync(frame.sync)
        elif kind == "unsettled":
            self._on_unsettled(frame.unsettled)
        elif kind == "hold":
            self._on_hold(frame.hold)
        elif kind == "publish":
            self._on_publish(frame.publish)
        elif kind == "ask_outcome":
            self._on_ask(frame.ask_outcome)

    def _on_unsettled(self, unsettled: wire.Unsettled) -> None:
        if self._service.answers_unsettled:
            self._service.ledger.reports(self.name).on_report(unsettled, self._now_ms)
            self._send(registered=wire.Registered(request=unsettled.request))

    def _on_hold(self, hold: wire.Hold) -> None:
        if self._service.knows_shares:
            domain, group, client = self.name
            hashes = self._client.shares.hashes
            self._service.shares_of(domain, group).on_hold(client, hold, hashes, self._send)
            self._service.bury(domain, group)

    def _on_ask(self, asked: wire.AskOutcome) -> None:
        partition = self._client.partition
        object_, outcome, incarnation, version = partition.outcomes.get(asked.offset, ("", "unknown", 0, 0))
        said = wire.Outcome(ask=asked.ask, reason="" if object_ else "nothing of this record is remembered")
        if object_ and object_ == asked.object:
            said.kind = getattr(wire, f"OUTCOME_{outcome.upper()}")
            said.version, said.incarnation = version, incarnation
        self._send(outcome=said)

    def _on_publish(self, publish: wire.Publish) -> None:
        reason, retry_ms = self._service.refused_publishes.get(publish.object or publish.channel, ("", 0))
        clock_ms = 0
        if publish.incarnation:
            reason, retry_ms = "incarnation: is not a client's to say", 0
        elif publish.object and len(publish.payload) > PAYLOAD_BYTES_MAX:
            size = len(publish.payload)
            reason, retry_ms = f"payload: has {size} bytes (at most {PAYLOAD_BYTES_MAX} are allowed)", 0
        elif publish.object and publish.clock_ms and publish.version == publish.clock_ms:
            now_ms = self._service.now_ms()
            fault = clock_fault(publish.clock_ms, now_ms)
            if fault is not None and publish.request:
                reason, retry_ms, clock_ms = f"version: {fault}", 0, now_ms
            elif fault is not None:
                publish.version = now_ms
        if self._refused_publish not in (0, publish.request):
            reason, retry_ms = "an earlier publish was refused: it is to come again first", 1
        elif retry_ms:
            self._refused_publish = publish.request
        else:
            self._refused_publish = 0
        if publish.describe and not reason:
            reason = self._service.patch(*self.name[:2], publish.object, json.loads(publish.describe))
        if reason and publish.request:
            said = wire.NotPublished(request=publish.request, reason=reason, retry_after_ms=retry_ms, clock_ms=clock_ms)
            self._send(not_published=said)
        if reason:
            return
        offset = 0 if publish.only_describe else self._publish(publish)
        if publish.request:
            self._send(published=wire.Published(request=publish.request, offset=offset))

    def _publish(self, publish: wire.Publish) -> int:
        domain, group, client = self.name
        if publish.object:
            payload = publish.payload or None
            version = publish.version
            if not publish.HasField("version"):
                newest = self._client.partition.objects.get(publish.object)
                version = arrival_version(-1 if newest is None else newest.version, self._service.now_ms())
            self._service.publish(
                domain,
                group,
                publish.object,
                payload,
                version=version,
                deleted=publish.deleted,
            )
            return self._client.partition.end
        return self._service.send(
            domain,
            group,
            publish.channel,
            data=publish.payload,
            id=publish.id,
            source=client,
            to=list(publish.to),
            key=publish.key,
        )

    def _wrong(self, frame: wire.ClientFrame) -> str:
        """Describes what the protocol forbids in a frame."""
        kind = frame.WhichOneof("frame")
        if (kind == "hello") == (self.hello is not None) and kind not in ("bye", None):
            return "Hello is the first frame, and the only Hello"
        names = {
            "hello": [*frame.hello.register, *frame.hello.unregister],
            "register": frame.register.objects,
            "unregister": frame.unregister.objects,
            "sync": frame.sync.objects,
        }.get(kind or "", [])
        interests = [*frame.hello.interests, *frame.register.interests, *frame.sync.interests]
        gone = len(frame.hello.unregister_interests) + len(frame.unregister.interests)
        if len(names) + len(interests) + gone > OBJECTS_PER_FRAME_MAX:
            return f"more than {OBJECTS_PER_FRAME_MAX} objects in a frame"
        if len(frame.unsettled.entries) + len(frame.unsettled.settled) > OBJECTS_PER_FRAME_MAX:
            return f"more than {OBJECTS_PER_FRAME_MAX} entries in a frame"
        requests = sum(waiting.WhichOneof("frame") in ("register", "unregister") for waiting in self._waiting)
        if kind in ("register", "unregister") and requests >= REQUESTS_UNANSWERED_MAX:
            return f"more than {REQUESTS_UNANSWERED_MAX} requests unanswered"
        if kind == "hello":
            self._client.names = bool(frame.hello.capabilities & wire.CAPABILITY_NAMES)
            asks = bool(frame.hello.capabilities & wire.CAPABILITY_DESCRIPTIONS)
            self._client.describes = asks and self._service.knows_queries and self._service.knows_descriptions
        if queries_among(interests) and not self._client.names and self._service.knows_queries:
            return "a client with a query asks for names"
        if not self._client.names and any(self._crcs.setdefault(object_crc(name), name) != name for name in names):
            return "two names under one CRC"
        return ""

    def _on_hello(self, hello: wire.Hello) -> None:
        for other in list(self._service.sessions):
            if other is not self and other.hello is not None and other.name == self.name:
                other.close(CloseCode.DISPLACED, "connected elsewhere")
        self._service.ledger.began(self.name)
        self._client.unregister(hello.unregister, hello.unregister_interests)
        refused = self._client.register(hello.register, hello.interests)
        same_epoch = hello.HasField("epoch") and hello.epoch == self._service.epoch
        end = self._client.partition.end
        self._telling.cursor = hello.cursor if same_epoch and hello.HasField("cursor") and hello.cursor <= end else None
        streams = self._feeds.open(hello, refused)
        reports = self._service.ledger.reports(self.name)
        says_all = bool(hello.capabilities & wire.CAPABILITY_UNSETTLED)
        reports.on_hello(
            self._client.asked_for(hello.register, hello.interests), says_all=says_all, now_ms=self._now_ms
        )
        in_sync = self._client.digest == hello.digest
        self._welcome(in_sync, refused, streams, new_epoch=not same_epoch)
        if self._agreed is not None:
            self._feeds.catch_up()
            queries = hello.interests if self._telling.cursor is not None else self._client.all_queries
            self._telling.catch_up([name for name in hello.register if name in self._client.registered], queries)

    def _welcome(
        self,
        in_sync: bool,
        refused: Iterable[wire.Refusal] = (),
        streams: Iterable[wire.Stream] = (),
        *,
        new_epoch: bool = False,
    ) -> None:
        self._agreed = self._client.digest if in_sync else None
        self._telling.live = self._telling.live and in_sync
        epoch = self._service.epoch if new_epoch else None
        hello = self.hello
        asks = hello is not None and (
            hello.capabilities & wire.CAPABILITY_QUERIES
            or any(one.kind != wire.INTEREST_QUERY for one in hello.interests)
        )
        kinds = self._client.kinds if asks else wire.KINDS_UNSAID
        welcome = wire.Welcome(in_sync=in_sync, epoch=epoch, refused=refused, kinds=kinds, streams=streams)
        self._send(welcome=welcome)

    def _on_register(self, register: wire.Register) -> None:
        refused = self._client.register(register.objects, register.interests)
        streams = self._feeds.register(register.interests, refused)
        asked = self._client.asked_for(register.objects, register.interests)
        self._service.ledger.reports(self.name).on_register(asked, self._now_ms)
        self._agreed = self._client.digest
        kinds = self._client.kinds if register.interests else wire.KINDS_UNSAID
        registered = wire.Registered(request=register.request, refused=refused, kinds=kinds, streams=streams)
        self._send(registered=registered)
        if self.feeds is not None and streams:
            self.feeds.catch_up()
        for name in register.objects:
            if name in self._client.registered:
                self._telling.notify(name, answer=True)
        if queries_among(register.interests) and self._service.knows_queries:
            self._telling.answer(register.interests)
            if self._telling.live:
                self._send(caught_up=wire.CaughtUp(complete=self._client.partition.end or None))

    def _on_sync(self, chunk: wire.SyncChunk) -> None:
        if chunk.index == 0:
            self._sync = []
        if self._sync is None:
            return
        self._sync.append(chunk)
        if chunk.last:
            before = set(self._client.reported)
            self._client.registered.clear()
            self._client.queries.clear()
            self._client.shares.texts.clear()
            names = [name for one in self._sync for name in one.objects]
            interests = [interest for one in self._sync for interest in one.interests]
            refused = self._client.register(names, interests)
            streams = self._feeds.replace(interests, refused)
            reports = self._service.ledger.reports(self.name)
            reports.keep(self._client.reported)
            reports.on_register([one for one in self._client.reported if one not in before], self._now_ms)
            self._sync = None
            self._telling.cursor = None
            self._welcome(True, refused, streams)
            self._feeds.catch_up()
            unknown = sorted(name for name in self._client.registered if name not in self._client.partition.objects)
            self._telling.catch_up(unknown, self._client.all_queries)

    def _on_ping(self, ping: wire.Ping) -> None:
        complete = self._client.partition.complete if self._telling.live else None
        self._send(pong=wire.Pong(complete=complete, streams=self._feeds.complete))
        if ping.HasField("digest") and self._agreed is not None and ping.digest != self._client.digest:
            self._welcome(False)

    def _on_ack(self, ack: wire.Ack) -> None:
        if ack.HasField("complete"):
            self._service.acknowledged[self.name] = ack.complete
        for stream in ack.streams[:1]:
            if stream.HasField("complete"):
                self._service.acknowledged_channels[self.name] = stream.complete
            if self.feeds is not None and stream.page and stream.page == self.feeds.page and not self.feeds.live:
                self.feeds.next_page()
        if ack.page and ack.page == self._telling.page and not self._telling.live:
            self._telling.next_page()

    @property
    def _now_ms(self) -> int:
        return self._service.now_ms()

    # What happens in the service

    def fan_out(self, domain: str, group: str, name: str, newest: Newest) -> None:
        """A version was published."""
        self._telling.fan_out(domain, group, name, newest)

    def change(self, domain: str, group: str, name: str, entered: set[str], left: set[str]) -> None:
        """The object entered and left queries."""
        self._telling.change(domain, group, name, entered, left)

    def redescribe(self, domain: str, group: str, name: str) -> None:
        """The object is described in another way."""
        self._telling.redescribe(domain, group, name)

    def fan_out_message(self, domain: str, group: str, message: LoggedMessage) -> None:
        """A message was sent."""
        self._feeds.fan_out(domain, group, message)

    def _send(self, **frame: object) -> None:
        self._out += encode(wire.GatewayFrame(**frame))  # type: ignore[arg-type]
