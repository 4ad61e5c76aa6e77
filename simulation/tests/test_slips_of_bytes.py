"""A slip with payloads of bytes breaks P4 in a random schedule: somebody is told the base64, or nothing."""

import sys

import pytest
from coldnotify_matcher.engine.writing import repairs
from coldnotify_matcher.engine.writing.strays import Strays
from coldnotify_simulation.slips import Slip, find, run_alone

SLIPS = {
    "what is written again has no header": Slip(
        repairs.Repairs,
        "_write",
        "*record_headers(said),",
        "*record_headers(said)[:0],",
        4,
    ),
    "what is moved has no header": Slip(
        Strays,
        "add",
        "if record.raw:",
        "if record.raw and record.arrival:",
        34,
    ),
}


@pytest.mark.parametrize("slip", SLIPS)
def test_a_slip_is_found(slip: str) -> None:
    run_alone(__file__, slip)


if __name__ == "__main__":
    sys.exit(find(SLIPS, *sys.argv[1:]))
