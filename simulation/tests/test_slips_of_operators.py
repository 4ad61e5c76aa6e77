"""A slip in how a client is forgotten that an operator names breaks a promise in a random schedule.

Stands for: operating
"""

import sys

import pytest
from coldnotify_matcher.engine.inputs.operating import Operating
from coldnotify_matcher.engine.upkeep.forgetting import Forgetting
from coldnotify_simulation.slips import Slip, find, run_alone

SLIPS = {
    "whose session is ended is not told": Slip(
        Operating,
        "_disconnect",
        "self._state.tell_closed(session.gateway, session.number, CloseCode.DISCONNECTED, reason)",
        "pass",
        645,
    ),
    "a record of its registrations stays": Slip(
        Forgetting,
        "forget",
        "for bucket in range(len(client.buckets)):",
        "for bucket in range(1, len(client.buckets)):",
        18,
    ),
    "what it had changed is written behind its removal": Slip(
        Forgetting,
        "forget",
        "state.changed.pop(client, None)",
        "pass",
        3,
    ),
}


@pytest.mark.parametrize("slip", SLIPS)
def test_a_slip_is_found(slip: str) -> None:
    run_alone(__file__, slip)


if __name__ == "__main__":
    sys.exit(find(SLIPS, *sys.argv[1:]))
