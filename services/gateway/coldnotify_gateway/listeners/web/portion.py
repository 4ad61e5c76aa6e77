"""Portion: what of a session's results fits into one answer of POST /v1/sync. Pure.

A device says how long an answer may be. A frame that would make it longer is not handed to the agent, so the agent's
cursor is that of a device which has taken the answer. The next request begins there.
What a query answers is not divided: the cursor does not say which of its members the device was told.
What a share hands out, and has no room in the answer, is given back.
"""

from collections.abc import Iterable

from coldnotify_common.played.agent import Agent
from coldnotify_schemas.wire_pb2 import GatewayFrame

from coldnotify_gateway.listeners.web import sync_body
from coldnotify_gateway.listeners.web.sync_shares import size_of_handed

_OF_CHANNELS = ("message", "missed")


class Portion:
    """One answer. `receive` takes frames until the answer is full, `show` returns what it has since the last call."""

    def __init__(self, agent: Agent, bytes_max: int | None) -> None:
        """`bytes_max`: most bytes of all notifications, but at least one is taken; None: no frame is left out, and the
        answer ends behind the page with which it has SYNC_ANSWER_BYTES_MAX."""
        self.agent = agent
        self.full = False
        """True once a frame did not fit: the session's further frames are dropped."""
        self.shown = 0
        """Number of notifications that `show` has returned."""
        self._divided = bytes_max is not None
        self._bytes_max = sync_body.SYNC_ANSWER_BYTES_MAX if bytes_max is None else bytes_max
        self._shown_bytes = 0
        self._taken_bytes = 0
        """Bytes of all that can be divided."""

    @property
    def ended(self) -> bool:
        """True if the answer has its size, and the session can go on from the cursor."""
        return self.agent.objects_caught_up and self._shown_bytes >= self._bytes_max

    def receive(self, frames: Iterable[GatewayFrame]) -> bytes:
        """Takes the gateway's frames, and returns the agent's reply."""
        if not self._divided and not self.agent.device.shares:
            return self.agent.receive(frames)
        reply = b""
        for frame in frames:
            if self._is_of_shares(frame):
                self._take_handed(frame)
            elif self.full or (self._divided and not self._fits(frame)):
                self.full = True
            else:
                reply += self.agent.receive((frame,))
        return reply

    def _is_of_shares(self, frame: GatewayFrame) -> bool:
        """Returns true for what concerns shares, which is never dropped: leases go on whatever the answer has."""
        match frame.WhichOneof("frame"):
            case "message":
                return self.agent.shares.takes(frame.message.channel)
            case "missed":
                return self.agent.shares.takes(frame.missed.channel)
            case kind:
                return self.full and kind in ("leases", "close")

    def _take_handed(self, frame: GatewayFrame) -> None:
        shares, kind = self.agent.shares, frame.WhichOneof("frame")
        if kind not in _OF_CHANNELS:
            self.agent.receive((frame,))
            return
        entry = frame.message if kind == "message" else frame.missed
        size_bytes = size_of_handed(entry)
        first = not self.shown and not self.agent.found and not shares.handed
        if first or self._taken_bytes + size_bytes <= self._bytes_max:
            self._taken_bytes += size_bytes
            shares.told(entry)
        else:
            shares.decline(entry)

    def _fits(self, frame: GatewayFrame) -> bool:
        kind, agent = frame.WhichOneof("frame"), self.agent
        if kind == "notification":
            if agent.queries:
                return True
            size_bytes = len(sync_body.show(frame.notification, agent))
        elif kind in _OF_CHANNELS and (agent.objects_caught_up or not agent.queries):
            entry = frame.message if kind == "message" else frame.missed
            if entry.channel not in agent.device.channels:
                return True
            size_bytes = len(sync_body.show(entry, agent))
        else:
            return True
        first = not self.shown and not agent.found
        self._taken_bytes += size_bytes + 1  # a comma
        return first or self._taken_bytes <= self._bytes_max

    def show(self) -> bytes:
        """Returns the next part of the answer, which continues after it."""
        agent = self.agent
        begin = b"" if self.shown else b'{"notifications":['
        separator = b"," if self.shown and agent.found else b""
        part = begin + separator + b",".join(sync_body.show(one, agent) for one in agent.found)
        self.shown += len(agent.found)
        self._shown_bytes += len(part)
        agent.found.clear()
        return part
