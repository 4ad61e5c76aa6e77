"""A slip in the agent that plays a device, or in what carries it, breaks a promise of a device that wakes by sync.

Stands for: syncing
"""

import sys

import pytest
from coldnotify_common.played.agent import Agent
from coldnotify_gateway.listeners.web.portion import Portion
from coldnotify_simulation.slips import Slip, find, run_alone

SLIPS = {
    "the whole set is not said where another one is known": Slip(
        Agent,
        "_welcome",
        'return b"" if welcome.in_sync else self._whole_set()',
        'return b""',
        33,
    ),
    "an answer ends though not all differences are known": Slip(
        Agent,
        "_caught_up",
        'if caught_up.HasField("sets_digest") and not self._owed:',
        "if False:",
        88,
    ),
    "the answer has a cursor that the service has not said": Slip(
        Agent,
        "_complete_with",
        "self._complete(notification.offset - notification.behind)",
        "self._complete(notification.offset + 1)",
        33,
    ),
    "the cursor covers a notification that was left out": Slip(
        Portion,
        "receive",
        "self.full = True",
        "self.full = bool(self.agent.receive((frame,)) or self.agent.found.pop())",
        31,
    ),
}


@pytest.mark.parametrize("slip", SLIPS)
def test_a_slip_is_found(slip: str) -> None:
    run_alone(__file__, slip)


if __name__ == "__main__":
    sys.exit(find(SLIPS, *sys.argv[1:]))
