"""A driver that records its inputs and actions, in the format of `schemas/transcripts/README.md`."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from random import Random
from typing import Any, TypeVar

from coldnotify._core.application import Application
from coldnotify._core.document.document import Document, decode
from coldnotify._core.driver import (
    Action,
    AnyJob,
    AskDirectory,
    CallAction,
    CallbackJob,
    CallCallbacks,
    ChannelJob,
    Close,
    Connect,
    Driver,
    End,
    EndSending,
    Report,
    Save,
    SendBytes,
)
from coldnotify._core.interests.interests import ChannelInterest, Interest, ShareInterest
from coldnotify._core.interests.since import Since
from coldnotify._core.publishing.publications import Publications
from coldnotify._core.session.reconnect import Address, Gateways, gateways_of
from coldnotify._core.settings import ClientSettings
from coldnotify._core.streams.feed import BEGINNING, KeptChannel
from coldnotify.errors import StateError
from coldnotify.message import Missed
from coldnotify_schemas.frames import FrameBuffer, parse_client_frame, parse_gateway_frame
from coldnotify_schemas.protocol import CLIENT_FRAME_BYTES_MAX, GATEWAY_FRAME_BYTES_MAX
from google.protobuf.json_format import MessageToDict

Json = dict[str, Any]
T = TypeVar("T", bound=Action | CallAction | None)
_NAMES = ("register", "unregister", "objects", "settled", "settled_hashes")
"""Fields of frames whose names are in no order that means anything."""


class Half(Random):
    """Always returns the middle of the range, so that a client's random choices are fixed in a transcript."""

    def random(self) -> float:
        """0.5"""
        return 0.5


class _RecordedApplication(Application):
    """Records the calls that have lines in a transcript."""

    def __init__(self, plain: Application, event: Callable[..., None]) -> None:
        super().__init__(plain._registrations, plain._delivery)
        self._plain = plain
        self._event = event

    def register(self, interest: Interest) -> None:
        self._event(register=[interest])
        self._plain.register(interest)

    def unregister(self, interest: Interest) -> None:
        self._event(unregister=[interest])
        self._plain.unregister(interest)

    def register_only(self, names: Iterable[str]) -> None:
        names = sorted(names)
        self._event(register_only=names)
        self._plain.register_only(names)

    def register_channel(self, channel: ChannelInterest, since: Since) -> None:
        said = {"name": channel.name, "attributes": channel.attributes}
        self._event(register_channel=said | _numbers_as_text(since.parts))
        self._plain.register_channel(channel, since)

    def unregister_channel(self, name: str) -> None:
        self._event(unregister_channel=name)
        self._plain.unregister_channel(name)

    def subscribe(self, interest: Interest, subscriber: int) -> None:
        if isinstance(interest, ChannelInterest):
            self._event(subscribe_channel=interest.name, subscriber=subscriber)
        else:
            self._event(subscribe=interest, subscriber=subscriber)
        self._plain.subscribe(interest, subscriber)

    def unsubscribe(self, interest: Interest, subscriber: int) -> None:
        if isinstance(interest, ChannelInterest):
            self._event(unsubscribe_channel=interest.name, subscriber=subscriber)
        else:
            self._event(unsubscribe=interest, subscriber=subscriber)
        self._plain.unsubscribe(interest, subscriber)

    def subscribe_missed(self, channel: ChannelInterest | ShareInterest, subscriber: int) -> None:
        if isinstance(channel, ChannelInterest):
            self._event(subscribe_missed=channel.name, subscriber=subscriber)
        self._plain.subscribe_missed(channel, subscriber)


class RecordedDriver(Driver):
    """Its `lines` are a transcript, but for what the whole of it shows."""

    def __init__(
        self,
        document: Document,
        gateways: Sequence[Address] | Gateways,
        settings: ClientSettings,
        random: Random,
        now: float,
        *,
        publications: Publications | None = None,
        say_unsettled: bool = False,
    ) -> None:
        settings = replace(settings, say_unsettled=say_unsettled, say_errors=False)
        super().__init__(document, gateways, settings, Half(), now, publications=publications)
        self._client.application = _RecordedApplication(self._client.application, self._event)
        self._began_s = now
        self._identity = document.identity
        client = {"domain": document.identity.domain, "group": document.identity.group}
        client["client"] = document.identity.client
        header = {"client": client, "settings": _settings(settings), "document": _document(document)}
        gateways = gateways_of(gateways)
        self._names_gateways = gateways.directory or gateways.home is not None or len(gateways.addresses) > 1
        """True if the transcript says to which gateway the client connects."""
        if self._names_gateways:
            header["gateways"] = _gateways(gateways)
        self.lines: list[Json] = [header]
        self._events: list[Json] = []
        self._acting = False
        self._from_gateway = {number: FrameBuffer(GATEWAY_FRAME_BYTES_MAX) for number in (0, 1)}

    # Events

    def _event(self, **event: object) -> None:
        if self._acting:
            self._finish()
        self._events.append(event)

    def stop(self, *, abandon: bool = False) -> None:
        self._event(stop=True, abandon=abandon)
        super().stop(abandon=abandon)

    def connect_now(self, now: float) -> None:
        self._event(connect_now=True)
        super().connect_now(now)

    def doubt(self, now: float, stood_still_s: float) -> None:
        self._event(doubt=stood_still_s)
        super().doubt(now, stood_still_s)

    def link_up(self, now: float, token: str = "", link: int = 0) -> None:
        self._event(link="up", token=token, **_number(link))
        self._from_gateway[link] = FrameBuffer(GATEWAY_FRAME_BYTES_MAX)
        super().link_up(now, token, link)

    def received(self, data: bytes, now: float, link: int = 0) -> None:
        frames = [_json(parse_gateway_frame(body)) for body in self._from_gateway[link].feed(data)]
        self._event(frames=frames, **_number(link))
        super().received(data, now, link)

    def link_down(self, reason: str, now: float, link: int = 0) -> None:
        self._event(link="down", **_number(link))
        super().link_down(reason, now, link)

    def named(self, address: Address, now: float, home_out_s: float = 0.0) -> None:
        self._event(named=str(address), home_out_s=home_out_s)
        super().named(address, now, home_out_s)

    def unnamed(self, reason: str, now: float, retry_after_s: float = 0.0) -> None:
        self._event(unnamed=True, retry_after_s=retry_after_s)
        super().unnamed(reason, now, retry_after_s)

    def saved(self, save: Save, now: float) -> None:
        self._event(saved=True)
        super().saved(save, now)

    def save_failed(self, save: Save, error: StateError, now: float) -> None:
        self._event(saved=False)
        super().save_failed(save, error, now)

    def called(self, job: AnyJob, failed: Mapping[int, BaseException], now: float) -> None:
        self._event(called=True, failed=sorted(failed))
        super().called(job, failed, now)

    # Actions

    def next(self, now: float) -> Action | None:
        self._act(now)
        return self._done(super().next(now))

    def next_call(self, now: float) -> CallAction | None:
        self._act(now)
        return self._done(super().next_call(now))

    def _act(self, now: float) -> None:
        at = round(now - self._began_s, 6)
        if self._acting and not self._events and self.lines[-1]["at"] != at:
            self._finish()
        if not self._acting:
            self._acting = True
            self.lines.append({"at": at, "do": self._events, "then": [], "reports": []})
            self._events = []

    def _finish(self) -> None:
        """Completes the last line with the state in which these events leave the client."""
        self._acting = False
        deadline = min(self.deadline(), self.next_call_at())
        until = None if deadline == float("inf") else round(max(deadline - self._began_s, self.lines[-1]["at"]), 6)
        at = self._began_s + self.lines[-1]["at"]
        status = self._client.status(at)
        self.lines[-1] |= {"phase": status.phase, "caught_up": status.caught_up, "deadline": until}

    def _done(self, action: T) -> T:
        line = self.lines[-1]
        match action:
            case Report(error):
                line["reports"].append(type(error).__name__)
            case SendBytes(data, number):
                sent = [_json(parse_client_frame(body)) for body in FrameBuffer(CLIENT_FRAME_BYTES_MAX).feed(data)]
                last = line["then"][-1] if line["then"] else {}
                if "frames" not in last or last.get("number", 0) != number:
                    last = _number(number)
                    last["frames"] = []
                    line["then"].append(last)
                last["frames"] += sent
            case CallCallbacks(job):
                line["then"].append({"call": _job(job)})
            case Save(data=data):
                line["then"].append({"save": _document(decode(data, self._identity))})
            case Connect(address, number):
                line["then"].append({"connect": str(address) if self._names_gateways else True} | _number(number))
            case AskDirectory():
                line["then"].append({"ask_directory": True})
            case EndSending(number):
                line["then"].append({"end_sending": True} | _number(number))
            case Close(link=number):
                line["then"].append({"close": True} | _number(number))
            case End():
                line["then"].append({"end": True})
        return action

    def transcript(self, name: str, says: str) -> str:
        """All of it, as JSON lines."""
        if self._acting:
            self._finish()
        lines = [{"transcript": name, "says": says} | self.lines[0], *self.lines[1:]]
        return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)


def _json(frame: Any) -> Json:
    fields: Json = MessageToDict(frame, preserving_proto_field_name=True)
    for message in fields.values():
        for name in _NAMES:
            if isinstance(message.get(name), list):
                message[name].sort()
        if "entries" in message:
            message["entries"].sort(key=lambda entry: (entry.get("name", ""), entry.get("hash", "")))
    return fields


def _job(job: AnyJob) -> Json:
    if isinstance(job, ChannelJob):
        return _channel_job(job)
    assert isinstance(job, CallbackJob), "no transcript has queries"
    said = job.notification
    version = None if said.version is None else str(said.version)
    return {
        "object": said.object_id, "version": version, "payload": said.payload, "deleted": said.deleted,
        "subscribers": list(job.subscribers),
    }  # fmt: skip


def _channel_job(job: ChannelJob) -> Json:
    said, subscribers = job.message, list(job.subscribers)
    if isinstance(said, Missed):
        missed = {"channel": said.channel, "after": _text(said.after), "before": str(said.before)}
        return missed | {"reason": said.reason.name, "subscribers": subscribers}
    return {
        "channel": said.channel, "offset": str(said.offset), "previous": _text(said.previous),
        "position": said.position, "payload": said.payload, "subscribers": subscribers,
    }  # fmt: skip


def _gateways(gateways: Gateways) -> Json:
    said: Json = {"addresses": [[str(address), weight] for address, weight in gateways.addresses]}
    if gateways.home is not None:
        said["home"] = str(gateways.home)
    return said | ({"directory": True} if gateways.directory else {})


def _number(link: int) -> Json:
    """Returns the number of a connection, if it is not 0."""
    return {"number": link} if link else {}


def _settings(settings: ClientSettings) -> Json:
    """Returns the settings without false ones, which a transcript without callbacks need not name."""
    return {name: value for name, value in asdict(settings).items() if value is not False and name != "move_times"}


def _document(document: Document) -> Json:
    fields: Json = {
        "epoch": document.epoch,
        "cursor": _text(document.cursor),
        "wanted": sorted(document.wanted),
        "pending": {name: kind.value for name, kind in sorted(document.pending.items())},
        "applied": {name: [str(n) for n in floor] for name, floor in sorted(document.applied.items())},
    }
    if document.settled:
        fields["settled"] = True
    if document.channels or document.pending_channels:
        fields["channels_epoch"] = document.channels_epoch
        fields["channels_cursor"] = _text(document.channels_cursor)
        fields["channels"] = [_channel(channel) | _kept(kept) for channel, kept in sorted(document.channels.items())]
        pending = sorted(document.pending_channels.items())
        fields["pending_channels"] = [_channel(channel) | {"kind": kind.value} for channel, kind in pending]
    return fields


def _channel(channel: ChannelInterest) -> Json:
    return {"name": channel.name, "attributes": list(channel.attributes)}


def _kept(kept: KeptChannel) -> Json:
    """Returns a channel as in the state file, but with 64-bit numbers as text."""
    fields: Json = {} if kept.since is None else _numbers_as_text(kept.since.parts)
    if kept.since is None and kept.position is not None:
        fields["position"] = None if kept.position == BEGINNING else str(kept.position)
    if kept.told is not None:
        fields["told"] = str(kept.told)
    if kept.lost:
        fields["lost"] = True
    return fields


def _numbers_as_text(parts: Mapping[str, str | int]) -> Json:
    """Converts the numbers in a channel's beginning."""
    return {name: str(part) if name == "at" else part for name, part in parts.items()}


def _text(number: int | None) -> str | None:
    return None if number is None else str(number)
