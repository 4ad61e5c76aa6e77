"""Handles the frames of an identified client."""

from coldnotify_schemas.close_codes import CloseCode
from coldnotify_schemas.frames import FrameError, parse_client_frame
from coldnotify_schemas.protocol import AGE_UNKNOWN_S
from coldnotify_schemas.wire_pb2 import Ack, ClientFrame, Hold, Ping, Register, SyncChunk, Unregister, Unsettled

from coldnotify_gateway.core import encoding
from coldnotify_gateway.core.connections import Connections
from coldnotify_gateway.core.freshness import AgesSaid
from coldnotify_gateway.core.identified import Identified
from coldnotify_gateway.core.outputs import Finish, HighWater, Output, Send
from coldnotify_gateway.core.requests import RequestMaker
from coldnotify_gateway.core.session_publishes import Publishing
from coldnotify_gateway.core.states import SessionPhase
from coldnotify_gateway.core.stream import NONE, Stage, Stream
from coldnotify_gateway.core.told import Frame
from coldnotify_gateway.core.violation import (
    Violation,
    check_hold,
    check_objects,
    check_session,
    check_unsettled,
    of_frame_error,
)


class FromClient:
    """Handles the frames after the Hello. Raises Violation for invalid ones."""

    def __init__(self, connections: Connections, requests: RequestMaker, publishing: Publishing) -> None:
        self._connections = connections
        self._requests = requests
        self._publishing = publishing

    def on_frame(self, session: Identified, body: bytes, now_s: float) -> list[Output]:
        """Handles one frame. Skips unknown kinds, because devices and gateways are not upgraded at the same time."""
        try:
            frame: ClientFrame = parse_client_frame(body)
        except FrameError as error:
            raise of_frame_error(error) from None
        check_session(frame)
        match frame.WhichOneof("frame"):
            case "ack":
                return self._on_ack(session, frame.ack, now_s)
            case "ping":
                return self._on_ping(session, frame.ping, now_s)
            case "register":
                return self._on_register(session, frame.register, now_s)
            case "unregister":
                return self._on_unregister(session, frame.unregister, now_s)
            case "sync":
                return self._on_sync(session, frame.sync, now_s)
            case "unsettled":
                return self._on_unsettled(session, frame.unsettled, now_s)
            case "hold":
                return self._on_hold(session, frame.hold, now_s)
            case "publish":
                return self._publishing.on_publish(session, frame.publish, now_s)
            case "ask_outcome":
                return self._publishing.on_ask(session, frame.ask_outcome, now_s)
            case "use_names":
                session.use_names()
                return []
            case "bye":
                return [Finish(session.peer), *self._connections.remove(session, now_s, bye=True)]
            case "hello":
                raise Violation(CloseCode.PROTOCOL_ERROR, "hello: came a second time")
            case _:
                return []

    def _on_ack(self, session: Identified, ack: Ack, now_s: float) -> list[Output]:
        if ack.HasField("complete"):
            session.applied(session.objects, ack.complete)
        outputs: list[Output] = []
        for stream, said in zip(session.streams[1:], ack.streams, strict=False):
            if said.HasField("complete"):
                session.applied(stream, said.complete)
            if said.page:
                outputs += self.on_page_arrived(session, stream, said.page, now_s)
        if ack.page and session.catching:
            outputs += self.on_page_arrived(session, session.objects, ack.page, now_s)
        return outputs

    def on_page_arrived(self, session: Identified, stream: Stream, page: int, now_s: float) -> list[Output]:
        """Requests the next page, because the client has acknowledged this one."""
        if not stream.is_on_its_way(stream.number, page):
            return []
        # Pages of objects measure the link if there are any.
        measured = stream is session.objects or session.objects.stage is not Stage.SENT
        high_water_bytes = session.link.reached(now_s) if measured else None
        outputs = [self._requests.next_page(session, stream, now_s)]
        if high_water_bytes is not None:
            outputs.append(HighWater(session.peer, high_water_bytes))
        return outputs

    def _on_ping(self, session: Identified, ping: Ping, now_s: float) -> list[Output]:
        pong = _pong(session, now_s)
        outputs: list[Output] = [Send(session.peer, [pong])]
        if ping.HasField("digest"):
            session.claim.say(ping.digest)
            outputs += self.check_digest(session, now_s)
        return outputs

    def check_digest(self, session: Identified, now_s: float) -> list[Output]:
        """Sends CheckDigest if the digests differ and no other question is open; otherwise later."""
        if session.claim.review() and session.live and not session.question.checks:
            return [self._requests.check_digest(session, now_s)]
        return []

    def _on_register(self, session: Identified, register: Register, now_s: float) -> list[Output]:
        check_objects("register", register.objects, register.interests)
        return self._requests.register(session, register, now_s)

    def _on_unregister(self, session: Identified, unregister: Unregister, now_s: float) -> list[Output]:
        check_objects("unregister", unregister.objects, unregister.interests)
        return self._requests.unregister(session, unregister, now_s)

    def _on_unsettled(self, session: Identified, unsettled: Unsettled, now_s: float) -> list[Output]:
        check_unsettled(unsettled)
        return self._requests.unsettled(session, unsettled, now_s)

    def _on_hold(self, session: Identified, hold: Hold, now_s: float) -> list[Output]:
        check_hold(hold)
        return self._requests.hold(session, hold, now_s)

    def _on_sync(self, session: Identified, chunk: SyncChunk, now_s: float) -> list[Output]:
        check_objects("sync", chunk.objects, chunk.interests)
        self._requests.check_chunk_index(chunk.index)
        # In any other phase it belongs to a finished reg-sync.
        if session.phase is SessionPhase.IN_SYNC:
            return []
        return self._requests.sync(session, chunk, now_s)


def _pong(session: Identified, now_s: float) -> Frame:
    if not session.welcomed:
        return encoding.pong(NONE, session.dialect.encode, ages=AgesSaid(AGE_UNKNOWN_S))
    channels = session.channels
    live = channels is not None and channels.live
    of_channels = session.complete_in(channels) if channels is not None and live else NONE
    return encoding.pong(session.complete_in(session.objects), session.dialect.encode, of_channels, session.ages(now_s))
