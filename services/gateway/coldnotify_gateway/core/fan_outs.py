"""Fan-outs: one publish, or one channel message, for many sessions, each in its dialect."""

import sys
from array import array
from itertools import repeat

from coldnotify_schemas.internal_pb2 import FanOut

from coldnotify_gateway.core import encoding, overtaking
from coldnotify_gateway.core.counters import Counters
from coldnotify_gateway.core.dialects import MQTT
from coldnotify_gateway.core.identified import Identified
from coldnotify_gateway.core.outputs import Output, Overtake, Peer, SendAll, SendUrgent
from coldnotify_gateway.core.partition_view import PartitionView
from coldnotify_gateway.core.to_mqtt import ToDevice
from coldnotify_gateway.core.told import Dialect, Frame

_SESSION_BYTES = 4
View = PartitionView[Identified]


class FanOuts:
    """Turns the matcher's fan-outs into writes to connections."""

    def __init__(self, counters: Counters, to_device: ToDevice) -> None:
        self._counters = counters
        self._to_device = to_device

    def of_object(self, view: View, fan_out: FanOut) -> list[Output]:
        """Sends a publish to the sessions of this partition that the fan-out lists."""
        newest, numbers = fan_out.newest, self._numbers(fan_out.sessions)
        if numbers is None:
            return []
        devices = view.live[MQTT]
        of_devices = [number for number in numbers if number in devices] if devices else []
        told = self._to_device.of_object(view, fan_out, of_devices) if of_devices else []
        if fan_out.urgent:
            return told + self._urgent(view, fan_out, numbers)
        # This is the hot path: per session one dict lookup, then one write by the shell.
        outputs: list[Output] = told
        delivered = 0
        for dialect, live in view.live.items():
            if dialect is MQTT:
                continue
            peers = [peer for peer in map(live.get, numbers) if peer is not None] if live else None
            if peers:
                delivered += len(peers)
                outputs.append(self._to_all(peers, fan_out, dialect))
        counters = self._counters
        counters.fan_outs += 1
        counters.deliveries += delivered
        counters.live_dropped += len(numbers) - delivered - len(of_devices)
        view.fanned_out(newest.offset, encoding.complete_of(newest))
        return outputs

    def _to_all(self, peers: list[Peer], fan_out: FanOut, dialect: Dialect) -> SendAll:
        frame = encoding.notification(fan_out.newest, dialect)
        self._counters.sent_bytes += len(frame.data) * len(peers)
        return SendAll(peers, frame, fan_out.published_ms, fan_out.traceparent)

    def _urgent(self, view: View, fan_out: FanOut, numbers: "array[int]") -> list[Output]:
        """Sends a publish of high priority, also to sessions that still wait for pages, because it waits for no page.

        It never precedes the frame that announces its object's entry into the session's queries.
        """
        newest, by_query = fan_out.newest, bool(fan_out.pagings)
        if by_query and not len(fan_out.pagings) == len(fan_out.known_since) == len(numbers):
            self._counters.malformed_records += 1
            return []
        known = zip(fan_out.pagings, fan_out.known_since, strict=True) if by_query else repeat((0, 0))
        told: dict[tuple[Dialect, bool], list[Peer]] = {}
        in_turn: dict[Dialect, list[Peer]] = {}
        counters = self._counters
        counters.fan_outs += 1
        for session, (paging, since) in zip(map(view.sessions.get, numbers), known, strict=False):
            if session is not None and session.device is not None:
                continue  # it is told nothing ahead of its place
            if session is None or not session.welcomed:
                counters.live_dropped += 1
                continue
            # For a session that it sends pages, the matcher marks this as an answer, whatever the gateway knows of it.
            live = session.live and not newest.answer
            if by_query and not session.knows_member(paging, since):
                counters.live_dropped += not live
                if live:
                    in_turn.setdefault(session.dialect, []).append(session.peer)
                continue
            counters.deliveries += live
            told.setdefault((session.dialect, live), []).append(session.peer)
        if not newest.answer:
            view.fanned_out(newest.offset, encoding.complete_of(newest))
        outputs: list[Output] = []
        for dialect, peers in in_turn.items():
            counters.deliveries += len(peers)
            outputs.append(self._to_all(peers, fan_out, dialect))
        for (dialect, live), peers in told.items():
            urgent = overtaking.urgent(newest, dialect, live=live, by_query=by_query)
            # A connection writes both frames if something is overtaken; only the connections know how often that is.
            counters.sent_bytes += len(urgent.alone.data) * len(peers)
            outputs.append(SendUrgent(peers, urgent, fan_out.published_ms, fan_out.traceparent))
        return outputs

    def of_stream(self, view: View, fan_out: FanOut) -> list[Output]:
        """Sends a channel message, or a Missed, to the sessions of this partition that the fan-out lists."""
        entry, numbers = fan_out.entry, self._numbers(fan_out.sessions)
        if numbers is None:
            return []
        outputs: list[Output] = []
        delivered = 0
        for encode, live in view.channels_live.items():
            if encode is MQTT.encode:
                of_devices = [number for number in numbers if number in live] if live else []
                outputs += self._to_device.of_message(view, fan_out, of_devices) if of_devices else []
                delivered += len(of_devices)
                continue
            sessions = [session for session in map(live.get, numbers) if session is not None] if live else None
            if sessions:
                delivered += len(sessions)
                outputs += self._message_to_all(sessions, fan_out, encoding.stream_entry(entry, encode))
        self._counters.live_dropped += len(numbers) - delivered
        return outputs

    def _message_to_all(self, sessions: list[Identified], fan_out: FanOut, frame: Frame) -> list[Output]:
        for session in sessions:
            if session.channels is not None and not fan_out.entry.message.paged and not fan_out.entry.missed.paged:
                session.channels.told(frame.told.offset)
        self._counters.sent_bytes += len(frame.data) * len(sessions)
        peers = [session.peer for session in sessions]
        outputs: list[Output] = [SendAll(peers, frame, fan_out.entry.message.published_ms)]
        if fan_out.urgent:
            overtaking = [session.peer for session in sessions if not session.channels_in_order]
            if overtaking and frame.told.channel is not None:
                outputs.append(Overtake(overtaking, (frame.told.channel,)))
        return outputs

    def _numbers(self, packed: bytes) -> "array[int] | None":
        """Returns the sessions' numbers; None if they are malformed, which is counted."""
        if len(packed) % _SESSION_BYTES:
            self._counters.malformed_records += 1
            return None
        numbers = array("I", packed)
        if sys.byteorder == "big":
            numbers.byteswap()
        return numbers
