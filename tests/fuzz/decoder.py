"""A coverage-guided fuzzer of what reads bytes from outside: frames of both directions, public records, client states.

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
    match kind % 4:
        case 0 | 1:
            cut = kind // 4 + 1
            parse = parse_client_frame if kind % 4 else parse_gateway_frame
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
        case _:
            with suppress(ColdNotifyError):
                decode(data, ME)


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
