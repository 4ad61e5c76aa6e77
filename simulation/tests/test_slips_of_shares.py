"""A slip in shares breaks P13 in a random schedule.

Stands for: sharing, share_witness, share_worker, drifting_clock
"""

import sys

import pytest
from coldnotify._core.shares.share_member import ShareMember
from coldnotify_matcher.engine.handing.share_steps import ShareSteps
from coldnotify_matcher.engine.shares.known_shares import KnownShares
from coldnotify_matcher.engine.shares.share_rule import ShareRule, _Delivery
from coldnotify_matcher.matcher_partition import MatcherPartition
from coldnotify_simulation.slips import Slip, find, run_alone

SLIPS = {
    "a lease is not inherited": Slip(
        ShareRule,
        "_load",
        "if delivery.is_held:",
        "delivery.wait(now_ms, given_back=True)\n        if delivery.is_held:",
        3,
        shares=True,
    ),
    "a lease ends with its session": Slip(
        ShareRule,
        "leave",
        "self._members.pop(member, None)",
        "self._members.pop(member, None)\n    self.give_back_all(member, self._as_of_ms)",
        9,
        shares=True,
    ),
    "an old hand-out settles": Slip(
        ShareRule,
        "settle",
        "if not delivery.is_lease(member, number) or",
        "if",
        24,
        shares=True,
    ),
    "a retry lets others with its key pass": Slip(
        ShareRule,
        "_may_go",
        "self._keys[delivery.key][0] == delivery.offset",
        "not self._deliveries[self._keys[delivery.key][0]].is_held",
        8,
        shares=True,
    ),
    "an attempt counts when its message is handed out": Slip(
        _Delivery,
        "lend",
        "self.state = HandOutState.HELD",
        "self.state = HandOutState.HELD\n    self.attempts += 1",
        1,
        shares=True,
    ),
    "a hand-out leaves a step before its record": Slip(
        ShareSteps,
        "_take_step",
        "if share.rule.take_changed() or share.dirty:\n        self._write(share, steady_ms)",
        "if share.dirty:\n        self._write(share, steady_ms)\n    share.dirty = share.rule.take_changed()",
        17,
        shares=True,
    ),
    "a grant counts from its answer": Slip(
        ShareMember,
        "answered",
        "lease.extend(hold.at)",
        "lease.extend(now)",
        8,
        shares=True,
    ),
    "a hand-out counts from when it comes": Slip(
        ShareMember,
        "handed",
        "Lease(said, hold.at, ",
        "Lease(said, now, ",
        9,
        shares=True,
    ),
    "leases end by the wall clock": Slip(
        MatcherPartition,
        "take_step",
        "self.engine.state.shares.as_of_ms = self.engine.state.steady_ms - age_ms",
        "self.engine.state.shares.as_of_ms = now_ms",
        1,
        shares=True,
    ),
    "who is handed nothing more gives back what it works at": Slip(
        KnownShares,
        "close",
        "share.rule.leave(name)",
        "share.rule.leave(name)\n        share.rule.give_back_all(name, self.as_of_ms)",
        9,
        shares=True,
    ),
}


@pytest.mark.parametrize("name", SLIPS)
def test_a_slip_in_shares_is_found(name: str) -> None:
    run_alone(__file__, name)


if __name__ == "__main__":
    sys.exit(find(SLIPS, sys.argv[1]))
