"""The agreements of a random schedule: the rate at which the domain's publishes may be told changes now and then.

A separate random generator draws all of it, at times of its own: the rest of the schedule stays unchanged. Each matcher
has its own allowance, as processes have.
"""

from dataclasses import replace
from random import Random

from coldnotify_matcher.engine.tenants.allowances import Allowances, OutAgreement

from coldnotify_simulation.world import DOMAIN, World

_SHARE = 0.4
"""The share of schedules in which the tenant is limited."""
_RATES = (0.05, 0.5, 2.0, 20.0, None)
"""Deliveries a second: from such that nothing leaves but after the longest wait, to such that hardly anything waits."""


class Limiting:
    """The agreements of one schedule."""

    def __init__(self, seed: int, world: World) -> None:
        self.random = Random(seed ^ 0xA112)
        self.world = world
        self.on = self.random.random() < _SHARE
        if not self.on:
            return
        for matcher in world.matchers:
            matcher.rules = replace(matcher.rules, allowances=Allowances())
        self.agree()

    def agree(self) -> None:
        """Another agreement counts, at one matcher or at all; and some time later again another one."""
        if not self.on:
            return
        self.world.clock.later(self.random.uniform(1, 15), self.agree)
        per_s = self.random.choice(_RATES)
        matchers = self.world.matchers
        for matcher in matchers if self.random.random() < 0.7 else [self.random.choice(matchers)]:
            agreed = [] if per_s is None else [OutAgreement(DOMAIN, per_s, None, self.random.choice([0.5, 2.0]))]
            matcher.rules.allowances.agree(agreed, self.world.clock.now_ms)
        self.world.trace("tenant", "may be told", per_s)

    def end(self) -> None:
        """The rate is back: what waits leaves."""
        if self.on:
            self.on = False
            for matcher in self.world.matchers:
                matcher.rules.allowances.agree([], self.world.clock.now_ms)
