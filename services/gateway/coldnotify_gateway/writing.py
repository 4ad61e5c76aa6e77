"""Writes to connections: a single frame at once, or all frames of a slice of records together.

A write costs a few microseconds, however many frames it contains.
"""

import time
from collections.abc import Callable, Sequence
from typing import cast

from coldnotify_common.tracing import Span, Tracer

from coldnotify_gateway.core import Frame, Overtake, Peer, SendAll, SendUrgent
from coldnotify_gateway.core.told import size_of
from coldnotify_gateway.device_connection import DeviceConnection
from coldnotify_gateway.latency import Latency

_GATHERED_BYTES_MAX = 16 * 1024
"""Most bytes that are gathered before they are written: few compared with the high-water mark, so that a full
connection is detected soon."""


class Writing:
    """Writes the core's frames. Calls `look_after(connection)` after a write if the connection is full."""

    def __init__(self, latency: Latency, tracer: Tracer | None, look_after: Callable[[DeviceConnection], None]) -> None:
        self._latency = latency
        self._tracer = tracer
        self._look_after = look_after
        self.writes = 0
        """Writes to connections since the last `begin`."""
        self._gathering = False
        self._gathered: dict[Peer, list[Frame]] = {}
        self._gathered_bytes = 0
        self._gathered_published: list[tuple[int, int]] = []
        """Pairs of (time of the publish, number of connections) of the gathered fan-outs."""
        self._gathered_spans: list[Span] = []

    def begin(self, *, gathering: bool) -> None:
        """Begins a slice. `gathering`: keeps its frames until `flush`, or until they are many."""
        self.writes = 0
        self._gathering = gathering

    def end(self) -> None:
        """Ends a slice that no other one follows at once."""
        self.flush()
        self._gathering = False

    def send(self, peer: Peer, frames: Sequence[Frame]) -> None:
        """Writes or gathers frames for one connection."""
        if self._gathering:
            self._gathered.setdefault(peer, []).extend(frames)
            self._note_gathered(size_of(frames))
            return
        self._write(peer, frames)

    def send_all(self, output: SendAll) -> None:
        """Writes or gathers the frame of a fan-out."""
        span = self._begin_span(output) if output.traceparent else None
        self._send_all(output.peers, output.frame)
        if span is not None:
            if self._gathered:
                self._gathered_spans.append(span)
            else:
                span.end()
        if output.published_ms:
            if self._gathered:
                self._gathered_published.append((output.published_ms, len(output.peers)))
            else:
                self._latency.observe(output.published_ms, time.time() * 1000, len(output.peers))

    def _send_all(self, peers: Sequence[Peer], frame: Frame) -> None:
        if self._gathering:
            gathered = self._gathered
            for peer in peers:
                frames = gathered.get(peer)
                if frames is None:
                    gathered[peer] = [frame]
                else:
                    frames.append(frame)
            self._note_gathered(len(frame.data))
            return
        self.writes += len(peers)
        data, remaining = frame.data, iter(cast(Sequence[DeviceConnection], peers))
        while True:
            try:
                for peer in remaining:
                    if peer.waits:
                        peer.wait(frame)
                    else:
                        peer.write(data)
                return
            except (OSError, RuntimeError):
                continue  # that connection is gone, and its connection_lost follows; the others are not

    def send_urgent(self, output: SendUrgent) -> None:
        """Writes a fan-out of high priority."""
        span = self._begin_span(output) if output.traceparent else None
        self.writes += len(output.peers)
        for peer in output.peers:
            # The frames gathered for it come first, and are overtaken if the connection is full.
            self.flush_of(peer)
            try:
                peer.send_urgent(output.urgent)
            except (OSError, RuntimeError):
                continue
            self._look_at(peer)
        if span is not None:
            span.end()
        if output.published_ms:
            self._latency.observe(output.published_ms, time.time() * 1000, len(output.peers))

    def overtake(self, output: Overtake) -> None:
        """Moves the messages of some channels ahead of other waiting frames."""
        for peer in output.peers:
            self.flush_of(peer)  # otherwise the gathered frames would not be among the waiting ones
            try:
                peer.overtake(output.channels, output.repeats)
            except (OSError, RuntimeError):
                continue
            self._look_at(peer)

    def flush(self) -> None:
        """Writes the gathered frames."""
        gathered, self._gathered, self._gathered_bytes = self._gathered, {}, 0
        self.writes += len(gathered)
        for peer, frames in gathered.items():
            self._write(peer, frames)
        published, self._gathered_published = self._gathered_published, []
        for published_ms, deliveries in published:
            self._latency.observe(published_ms, time.time() * 1000, deliveries)
        if self._gathered_spans:
            spans, self._gathered_spans = self._gathered_spans, []
            for span in spans:
                span.end()

    def flush_of(self, peer: Peer) -> None:
        """Writes the frames gathered for one connection."""
        frames = self._gathered.pop(peer, None)
        if frames:
            self._write(peer, frames)

    def _begin_span(self, output: SendAll | SendUrgent) -> Span | None:
        if self._tracer is None:
            return None
        return self._tracer.begin("deliver", output.traceparent, {"coldnotify.deliveries": len(output.peers)})

    def _note_gathered(self, size_bytes: int) -> None:
        self._gathered_bytes += size_bytes
        if self._gathered_bytes > _GATHERED_BYTES_MAX:
            self.flush()

    def _write(self, peer: Peer, frames: Sequence[Frame]) -> None:
        connection = cast(DeviceConnection, peer)
        try:
            connection.send(frames)
        except (OSError, RuntimeError):
            return
        self._look_at(peer)

    def _look_at(self, peer: Peer) -> None:
        connection = cast(DeviceConnection, peer)
        if connection.blocked:
            self._look_after(connection)
