"""A coverage-guided fuzzer of what reads bytes from outside: frames and MQTT, both ways, public records, client states.

Run by `make fuzz ARGS="--seconds 60"`. The seeds are the vectors of `schemas/vectors.json`. Anything that is raised but
the errors that are defined is a finding: atheris stops, and writes the input to a file.
"""

import argparse
import json
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["coldnotify", "coldnotify_schemas"]):
    from coldnotify._core.document.document import ClientIdentity, decode
    from coldnotify.errors import ColdNotifyError
    from coldnotify_schemas.frames import FrameBuffer, FrameError, parse_client_frame, parse_gateway_frame
    from coldnotify_schemas.mqtt.encoding import encode as encode_packet
    from coldnotify_schemas.mqtt.errors import MqttError
    from coldnotify_schemas.mqtt.packet_kinds import ProtocolVersion, Side
    from coldnotify_schemas.mqtt.packets import (
        Connect,
        Disconnect,
        Packet,
        PubAck,
        Publish,
        Subscribe,
        TopicSubscription,
        Unsubscribe,
        Will,
    )
    from coldnotify_schemas.mqtt.parsing import PacketBuffer
    from coldnotify_schemas.mqtt.properties import Properties
    from coldnotify_schemas.records import InvalidRecord, encode_public_record, parse_public_record

VECTORS = Path(__file__).parents[2] / "schemas" / "vectors.json"
FRAME_BYTES_MAX = 1024
ME = ClientIdentity("animal.observer", "region-1", "observer-1")
DEFAULT_S = 60


def test_one_input(data: bytes) -> None:
    """The first byte says what the others are, and how they are cut."""
    if not data:
        return
    kind, data = data[0], data[1:]
    match kind % 8:
        case 0 | 1:
            cut = kind // 8 + 1
            parse = parse_client_frame if kind % 8 else parse_gateway_frame
            buffer = FrameBuffer(FRAME_BYTES_MAX)
            with suppress(FrameError):
                for start in range(0, len(data), cut):
                    for body in buffer.feed(data[start : start + cut]):
                        assert len(body) <= FRAME_BYTES_MAX
                        frame = parse(body)
                        assert parse(frame.SerializeToString()) == frame or b"\xff" in body
                    assert len(buffer) <= FRAME_BYTES_MAX + 5
        case 2:
            with suppress(InvalidRecord):
                record = parse_public_record(data)
                assert parse_public_record(encode_public_record(record)) == record
        case 3:
            with suppress(ColdNotifyError):
                decode(data, ME)
        case 4:
            read_packets(PacketBuffer(FRAME_BYTES_MAX), data, kind // 8 + 1)
        case side:
            protocol = ProtocolVersion.MQTT_3_1_1 if side == 5 else ProtocolVersion.MQTT_5
            sender = Side.SERVER if side == 7 or kind & 8 else Side.CLIENT
            read_packets(PacketBuffer(FRAME_BYTES_MAX, protocol, sender), data, kind // 8 + 1)


def read_packets(buffer: PacketBuffer, data: bytes, cut: int) -> None:
    """Reads the bytes as MQTT; each packet that is found can be said."""
    with suppress(MqttError):
        for start in range(0, len(data), cut):
            for packet in buffer.feed(data[start : start + cut]):
                assert buffer.protocol is not None
                encode_packet(packet, buffer.protocol)
            assert len(buffer) <= FRAME_BYTES_MAX


def seeds(directory: Path) -> None:
    """Writes the vectors as a corpus."""
    frames = json.loads(VECTORS.read_text())["frames"]
    found = [b"\xf9" + bytes.fromhex(one["hex"]) for one in frames.get("client", [])]
    found += [b"\xf8" + bytes.fromhex(one["hex"]) for one in frames.get("gateway", [])]
    found += [
        b'\x02{"version":7,"source":"a","payload":{"b":[1,null]},"deleted":true,"incarnation":1,"expires_at":5}',
        b'\x03{"format":1,"domain":"animal.observer","group":"region-1","client":"observer-1","epoch":7,"cursor":1,'
        b'"wanted":["a"],"pending":{"a":"register"},"applied":{"a":[0,1]}}',
    ]
    held = Properties(1, 7, "text", "r", b"c", user_properties=(("a", "b"),))
    behind: tuple[Packet, ...] = (
        Subscribe(1, (TopicSubscription("a/+", 1, True), TopicSubscription("#", 2)), Properties(subscription_ids=(1,))),
        Publish("a/b", b"payload", 1, True, packet_id=2, properties=held),
        PubAck(3, properties=Properties(reason_string="why")),
        Unsubscribe(4, ("#",)),
        Disconnect(properties=Properties(session_expiry_s=1)),
    )
    for protocol in ProtocolVersion:
        connect = Connect(
            protocol, "c", True, 60, "u", b"p", Will("w", b"gone", 1, True, held), Properties(receive_max=3)
        )
        found.append(b"\xfc" + b"".join(encode_packet(packet, protocol) for packet in (connect, *behind)))
        found += [b"\xf5" + encode_packet(packet, protocol) for packet in behind]
        found += [b"\xf6" + encode_packet(packet, protocol) for packet in behind]
    for i, seed in enumerate(found):
        (directory / f"seed-{i}").write_bytes(seed)


def main() -> None:
    """`--seconds N`, and any of libFuzzer's own flags."""
    # libFuzzer's flags begin with one dash, -help=1 among them.
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0] if __doc__ else "",
        epilog="Any other flag is libFuzzer's, which -help=1 lists.",
        add_help=False,
        allow_abbrev=False,
    )
    parser.add_argument("--help", action="help", help="says this")
    parser.add_argument("--seconds", type=int, default=DEFAULT_S, help=f"how long (default: {DEFAULT_S}; 0: no end)")
    arguments, others = parser.parse_known_args()
    with tempfile.TemporaryDirectory() as corpus:
        seeds(Path(corpus))
        flags = [f"-max_total_time={arguments.seconds}", "-max_len=4096", "-print_final_stats=1"]
        atheris.Setup([sys.argv[0], *flags, *others, corpus], test_one_input)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
