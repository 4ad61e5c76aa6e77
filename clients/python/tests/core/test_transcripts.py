"""What a client does, step by step, is what schemas/transcripts/ says: the runner for this one."""

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest
from coldnotify._core.document.document import ClientIdentity, Document, decode
from coldnotify._core.driver import (
    AnyJob,
    AskDirectory,
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
    Tell,
)
from coldnotify._core.interests.interests import ChannelInterest
from coldnotify._core.interests.registrations import OperationKind
from coldnotify._core.interests.since import since_from
from coldnotify._core.session.reconnect import Address, Gateways
from coldnotify._core.settings import ClientSettings
from coldnotify._core.streams.feed import BEGINNING, KeptChannel
from coldnotify.errors import StateError
from coldnotify.message import Missed
from coldnotify_schemas import frames
from coldnotify_schemas.wire_pb2 import ClientFrame, GatewayFrame
from google.protobuf.json_format import MessageToDict, ParseDict

FILES = sorted((Path(__file__).parents[4] / "schemas" / "transcripts").rglob("*.jsonl"))
ROUNDING_S = 1e-4
"""Times in transcripts are rounded: a deadline that is nearer than this has come."""


class Half(Random):
    def random(self) -> float:
        return 0.5


class Runner:
    def __init__(self, header: dict[str, Any]) -> None:
        self.identity = ClientIdentity(**header["client"])
        given = header["document"] | {"identity": self.identity, "wanted": frozenset(header["document"]["wanted"])}
        given["cursor"] = None if given["cursor"] is None else int(given["cursor"])
        given["pending"] = {name: OperationKind(kind) for name, kind in given["pending"].items()}
        given["applied"] = {name: (int(i), int(v)) for name, (i, v) in given["applied"].items()}
        if "channels" in given:
            given["channels_cursor"] = number(given["channels_cursor"])
            given["channels"] = {channel_of(one): kept_of(one) for one in given["channels"]}
            given["pending_channels"] = {
                channel_of(one): OperationKind(one["kind"]) for one in given["pending_channels"]
            }
        settings = ClientSettings(**{"say_unsettled": False, "say_errors": False} | header["settings"])
        self.names_gateways = "gateways" in header
        gateways = gateways_in(header.get("gateways", {"addresses": [["gateway:1", 1]]}))
        self.driver = Driver(Document(**given), gateways, settings, Half(), 0.0)
        self.save: Save | None = None
        self.job: AnyJob | None = None

    def deadline(self) -> float:
        return min(self.driver.deadline(), self.driver.next_call_at())

    def do(self, event: dict[str, Any], now: float) -> None:
        driver = self.driver
        match event:
            case {"register": [name]}:
                driver.application.register(name)
            case {"unregister": [name]}:
                driver.application.unregister(name)
            case {"register_only": names}:
                driver.application.register_only(names)
            case {"subscribe": name, "subscriber": subscriber}:
                driver.application.subscribe(name, subscriber)
            case {"unsubscribe": name, "subscriber": subscriber}:
                driver.application.unsubscribe(name, subscriber)
            case {"register_channel": said}:
                driver.application.register_channel(channel_of(said), since_from(with_numbers(said)))
            case {"unregister_channel": name}:
                driver.application.unregister_channel(name)
            case {"subscribe_channel": name, "subscriber": subscriber}:
                driver.application.subscribe(ChannelInterest(name, ()), subscriber)
            case {"unsubscribe_channel": name, "subscriber": subscriber}:
                driver.application.unsubscribe(ChannelInterest(name, ()), subscriber)
            case {"subscribe_missed": name, "subscriber": subscriber}:
                driver.application.subscribe_missed(ChannelInterest(name, ()), subscriber)
            case {"stop": True, "abandon": abandon}:
                driver.stop(abandon=abandon)
            case {"connect_now": True}:
                driver.connect_now(now)
            case {"doubt": stood_still_s}:
                driver.doubt(now, stood_still_s)
            case {"link": "up", "token": token}:
                driver.link_up(now, token, event.get("number", 0))
            case {"link": "down"}:
                driver.link_down("it is over", now, event.get("number", 0))
            case {"frames": said}:
                data = b"".join(frames.encode(ParseDict(frame, GatewayFrame())) for frame in said)
                driver.received(data, now, event.get("number", 0))
            case {"named": address, "home_out_s": home_out_s}:
                driver.named(address_of(address), now, home_out_s)
            case {"unnamed": True, "retry_after_s": retry_after_s}:
                driver.unnamed("nobody", now, retry_after_s)
            case {"saved": saved}:
                assert self.save is not None
                save, self.save = self.save, None
                if saved:
                    driver.saved(save, now)
                else:
                    driver.save_failed(save, StateError("no"), now)
            case {"called": True, "failed": failed}:
                assert self.job is not None
                driver.called(self.job, {subscriber: RuntimeError("no") for subscriber in failed}, now)
            case _:
                raise AssertionError(f"no event: {event}")

    def act(self, now: float) -> tuple[list[dict[str, Any]], list[str]]:
        """What the driver does, until there is nothing to do; and what it reports."""
        done: list[dict[str, Any]] = []
        reports: list[str] = []
        while (action := self.driver.next(now)) is not None:
            match action:
                case Report(error):
                    reports.append(type(error).__name__)
                case SendBytes(data, link):
                    bodies = frames.FrameBuffer(frames.CLIENT_FRAME_BYTES_MAX).feed(data)
                    sent = [as_json(frames.parse_client_frame(body)) for body in bodies]
                    if done and "frames" in done[-1] and done[-1].get("number", 0) == link:
                        done[-1]["frames"] += sent
                    else:
                        done.append({"frames": sent} | number_of(link))
                    self.driver.sent(link)
                case Save(data=data):
                    self.save = action
                    done.append({"save": self.document(data)})
                case Connect(address, link):
                    done.append({"connect": str(address) if self.names_gateways else True} | number_of(link))
                case AskDirectory():
                    done.append({"ask_directory": True})
                case EndSending(link):
                    done.append({"end_sending": True} | number_of(link))
                case Close(link=link):
                    done.append({"close": True} | number_of(link))
                case End():
                    done.append({"end": True})
                    break
        while (call := self.driver.next_call(now)) is not None:
            match call:
                case Report(error):
                    reports.append(type(error).__name__)
                case CallCallbacks(job):
                    self.job = job
                    done.append({"call": told_by(job) | {"subscribers": list(job.subscribers)}})
                case Tell() | End():
                    pass
        return done, reports

    def document(self, data: bytes) -> dict[str, Any]:
        document = decode(data, self.identity)
        fields: dict[str, Any] = {
            "epoch": document.epoch,
            "cursor": None if document.cursor is None else str(document.cursor),
            "wanted": sorted(document.wanted),
            "pending": {name: kind.value for name, kind in document.pending.items()},
            "applied": {name: [str(number) for number in floor] for name, floor in document.applied.items()},
        }
        if document.settled:
            fields["settled"] = True
        if document.channels or document.pending_channels:
            pending = document.pending_channels
            fields |= {
                "channels_epoch": document.channels_epoch,
                "channels_cursor": text(document.channels_cursor),
                "channels": [named(one) | as_kept(document.channels[one]) for one in sorted(document.channels)],
                "pending_channels": [named(one) | {"kind": pending[one].value} for one in sorted(pending)],
            }
        return fields


def number_of(link: int) -> dict[str, int]:
    return {"number": link} if link else {}


def address_of(text: str) -> Address:
    host, _, port = text.rpartition(":")
    return Address(host, int(port))


def gateways_in(said: dict[str, Any]) -> Gateways:
    home = said.get("home")
    addresses = [(address_of(address), weight) for address, weight in said["addresses"]]
    return Gateways(addresses, None if home is None else address_of(home), said.get("directory", False))


def number(text: str | None) -> int | None:
    return None if text is None else int(text)


def text(number: int | None) -> str | None:
    return None if number is None else str(number)


def told_by(job: AnyJob) -> dict[str, Any]:
    if isinstance(job, CallbackJob):
        told = job.notification
        said = {"object": told.object_id, "version": text(told.version), "payload": told.payload}
        return said | {"deleted": told.deleted}
    assert isinstance(job, ChannelJob)
    message = job.message
    if isinstance(message, Missed):
        said = {"channel": message.channel, "after": text(message.after), "before": text(message.before)}
        return said | {"reason": message.reason.name}
    said = {"channel": message.channel, "offset": text(message.offset), "previous": text(message.previous)}
    return said | {"position": message.position, "payload": message.payload}


def channel_of(said: dict[str, Any]) -> ChannelInterest:
    return ChannelInterest(said["name"], tuple(said["attributes"]))


def named(channel: ChannelInterest) -> dict[str, Any]:
    return {"name": channel.name, "attributes": list(channel.attributes)}


def with_numbers(said: dict[str, Any]) -> dict[str, Any]:
    return said | {"at": int(said.get("at", 0))}


def kept_of(said: dict[str, Any]) -> KeptChannel:
    since = position = None
    if "since" in said:
        since = since_from(with_numbers(said))
    elif "position" in said:
        position = BEGINNING if said["position"] is None else int(said["position"])
    return KeptChannel(since=since, position=position, told=number(said.get("told")), lost=said.get("lost", False))


def as_kept(kept: KeptChannel) -> dict[str, Any]:
    said: dict[str, Any] = {}
    if kept.since is not None:
        said |= {name: str(part) if name == "at" else part for name, part in kept.since.parts.items()}
    elif kept.position is not None:
        said["position"] = None if kept.position == BEGINNING else str(kept.position)
    if kept.told is not None:
        said["told"] = str(kept.told)
    if kept.lost:
        said["lost"] = True
    return said


def as_json(frame: ClientFrame) -> dict[str, Any]:
    """The order of names within a frame means nothing."""
    fields: dict[str, Any] = MessageToDict(frame, preserving_proto_field_name=True)
    for message in fields.values():
        for field in {"register", "unregister", "objects", "settled", "settled_hashes"} & set(message):
            if isinstance(message[field], list):
                message[field].sort()
        message.get("entries", []).sort(key=lambda entry: (entry.get("name", ""), entry.get("hash", "")))
    return fields


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_transcript(file: Path) -> None:
    header, *lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    runner = Runner(header)
    for number, line in enumerate(lines, 2):
        deadline = runner.deadline()
        now = deadline if line["at"] < deadline <= line["at"] + ROUNDING_S else line["at"]
        for event in line["do"]:
            runner.do(event, now)
        done, reports = runner.act(now)
        assert (done, reports) == (line["then"], line["reports"]), f"{file.name}:{number}"
        status = runner.driver.status(now)
        assert (status.phase, status.caught_up) == (line["phase"], line["caught_up"]), f"{file.name}:{number}"
        until = float("inf") if line["deadline"] is None else line["deadline"]
        assert max(runner.deadline(), now) == pytest.approx(until, abs=ROUNDING_S), f"{file.name}:{number}"


def test_there_are_transcripts() -> None:
    assert len([file for file in FILES if file.parent.name == "transcripts"]) >= 20
    assert {file.stem for file in FILES if file.parent.name == "channels"} >= {"wake-unchanged", "gap", "missed"}
