"""A slip in what an agreement holds back breaks a promise in a random schedule: P2, or P8 of channels.

Each is a bug that somebody could well write: what waits is passed by, or is never told.

Stands for: limiting
"""

import sys

import pytest
from coldnotify_matcher.engine.inputs.followed_logs import FollowedLogs
from coldnotify_matcher.engine.telling.conflation import Conflation
from coldnotify_simulation.slips import Slip, find, run_alone

SLIPS = {
    "what waits for its turn does not hold the cursors": Slip(
        Conflation,
        "publish",
        "elif self._thinning.holds(obj, now_ms) or obj in self._awaited:\n    self._hold(obj, offset)\n",
        "elif self._thinning.holds(obj, now_ms) or obj in self._awaited:\n"
        "    self._hold(obj, self._state.position + 9)\n",
        62,
    ),
    "what waits is never told": Slip(
        Conflation,
        "_leave",
        "self._fan_out(obj, now_ms, *self._interval_of(obj, now_ms))",
        "pass",
        62,
    ),
    "who is not told a message stays live": Slip(
        FollowedLogs,
        "_put_off",
        "self._catching_up.put_off(log, client, session)",
        "pass",
        12,
    ),
}


@pytest.mark.parametrize("slip", SLIPS)
def test_a_slip_is_found(slip: str) -> None:
    run_alone(__file__, slip)


if __name__ == "__main__":
    sys.exit(find(SLIPS, *sys.argv[1:]))
