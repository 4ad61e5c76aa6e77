"""A slip in what a client does that slept breaks a promise in a random schedule.

Stands for: sleeping, doubts
"""

import sys

import pytest
from coldnotify._core.client import Client
from coldnotify._core.session.session import ClientSession
from coldnotify._core.session.standstill import Standstill
from coldnotify_simulation.slips import Slip, find, run_alone

SLIPS = {
    "its clock stands still while it sleeps": Slip(
        Standstill,
        "look",
        "return passed_s if passed_s > STOOD_STILL_S else 0.0",
        "return 0.0",
        10,
    ),
    "the session is not asked": Slip(
        Client,
        "doubt",
        "self._session.doubt(now, stood_still_s)",
        "pass",
        10,
    ),
    "any Pong ends the doubt, also one that answers a Ping of before": Slip(
        ClientSession,
        "_take",
        "self._doubt is not None and self._pongs >= self._doubt.ping",
        "self._doubt is not None",
        60,
    ),
}


@pytest.mark.parametrize("slip", SLIPS)
def test_a_slip_is_found(slip: str) -> None:
    run_alone(__file__, slip)


if __name__ == "__main__":
    sys.exit(find(SLIPS, *sys.argv[1:]))
