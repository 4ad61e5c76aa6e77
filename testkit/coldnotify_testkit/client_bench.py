"""`ClientBench`: a client core with a disk that is never late, and a gateway that sends what a test tells it to."""

from random import Random
from typing import Any

from coldnotify._core.client import Client
from coldnotify._core.delivery.membership import KeptQuery
from coldnotify._core.delivery.telling import MembersJob
from coldnotify._core.document.document import ClientIdentity, Document, decode
from coldnotify._core.driver import ChannelJob, ShareJob
from coldnotify._core.interests.interests import QueryInterest
from coldnotify._core.session.reconnect import Address
from coldnotify._core.settings import ClientSettings
from coldnotify_schemas import wire_pb2 as wire
from coldnotify_schemas.frames import FrameBuffer, encode, parse_client_frame
from coldnotify_schemas.protocol import CLIENT_FRAME_BYTES_MAX

ME = ClientIdentity("d", "g", "c")
LAMPS, ROOM = QueryInterest("lamps"), QueryInterest("room")


class ClientBench:
    """A client core on a bench. Time advances with each connection, or when a test sets `now`."""

    def __init__(self, document: Document | None = None) -> None:
        self.now = 1000.0
        document = Document(identity=ME) if document is None else document
        self.client = Client(document, [Address("h", 1)], ClientSettings(retry_min_s=1.0), Random(0), self.now)
        self.sent = FrameBuffer(CLIENT_FRAME_BYTES_MAX)

    def save(self) -> Document | None:
        """Saves what is due, and returns the newest document; None if nothing was due."""
        saved = None
        self.client.tick(self.now)
        while (save := self.client.save_due(self.now)) is not None:
            saved = decode(save.data, ME)
            self.client.saved(save, self.now)
        return saved

    def connect(self) -> wire.Hello:
        """Connects the client, and returns its Hello."""
        self.save()
        self.now += 400.0
        assert self.client.connect_due(self.now) is not None
        self.sent = FrameBuffer(CLIENT_FRAME_BYTES_MAX)
        self.client.link_up(self.now)
        (frame,) = self.out()
        return frame.hello

    def out(self) -> list[wire.ClientFrame]:
        """Returns the frames that the client sends now."""
        self.save()
        frames = []
        while data := self.client.data_to_send(self.now):
            frames += [parse_client_frame(body) for body in self.sent.feed(data)]
        return frames

    def say(self, **frame: Any) -> None:
        """Sends a frame from the gateway."""
        self.client.receive(encode(wire.GatewayFrame(**frame)), self.now)

    def answer_pings(self) -> None:
        """Lets the client ping if it is due, and answers."""
        self.client.tick(self.now)
        for frame in self.out():
            if frame.HasField("ping"):
                self.say(pong=wire.Pong())

    def enter(
        self, name: str, query: QueryInterest, *, version: int | None = None, offset: int = 0, answer: bool = False
    ) -> None:
        """Sends a notification from the gateway: the object entered this query."""
        self.say(
            notification=wire.Notification(
                name=name, version=version, offset=offset, answer=answer, entered=[query.hash]
            )
        )

    def tell(self) -> list[object]:
        """Runs all callbacks: the arguments of each."""
        told: list[object] = []
        self.save()
        while (job := self.client.next_job(self.now)) is not None:
            assert not isinstance(job, ChannelJob | ShareJob)
            told.append(job.arguments if isinstance(job, MembersJob) else (job.notification.object_id, job.subscribers))
            self.client.job_done(job, {}, self.now)
            self.save()
        return told


def kept(*members: str, **more: Any) -> Document:
    """Returns the document of a client at cursor 10 that is registered for the lamps and holds these members."""
    queries = {LAMPS.text: KeptQuery(members=frozenset(members), **more)}
    return Document(identity=ME, queries=queries, epoch=1, cursor=10)
