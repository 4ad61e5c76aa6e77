"""Admits publishes: each needs a permit of flow control, and the agreement of its domain's tenant.

No permits are reserved: a single publisher may have all of them. If none are left, publishers that hold few are
admitted nevertheless, so that nobody is refused because of others' requests.
"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from aiohttp import web
from coldnotify.publisher import Published, PublishError, Sent
from coldnotify_common.security.shared import Shared, Who
from coldnotify_common.tenancy.gate import Admitted, GateRefused
from coldnotify_schemas.protocol import PUBLISHES_PER_REQUEST_MAX

from coldnotify_http.flow_control import FLOW_MIN, FlowControl, refused
from coldnotify_http.metrics import ABOVE_AGREEMENT, REFUSED, Metrics
from coldnotify_http.refusals import refusal
from coldnotify_http.settings import HttpSettings

FEW_PERCENT = 10
"""Share of the lowest limit: a publisher with no more than this in progress holds few. Its first request may have any
length.
"""
BEYOND_MAX = 2 * PUBLISHES_PER_REQUEST_MAX
"""Limit on all publishers that hold few, beyond flow control's limit: two of the longest requests,
or many short ones.
"""


class HttpAdmission(Protocol):
    """The interface of coldnotify_common.tenancy.tenancy.Tenancy that is used here."""

    def admit(self, domain: str, publishes: int, size_bytes: int) -> Admitted | GateRefused:
        """Decides whether the domain's tenant may publish so many objects now, of so many bytes together."""


class Entered(NamedTuple):
    """Permits that were taken."""

    who: Who
    publishes: int
    taken_s: float | None
    """When flow control admitted it; None: beyond flow control's limit."""


class Entrance:
    """The entrance of this node. A refusal contains the reason, and when to come back."""

    def __init__(self, settings: HttpSettings, metrics: Metrics, admission: HttpAdmission | None = None) -> None:
        self._flow = FlowControl(settings, metrics)
        self._metrics = metrics
        self._admission = admission
        self._held: Counter[Who] = Counter()
        """The number of permits that each publisher holds."""
        self._few = max(1, FLOW_MIN * FEW_PERCENT // 100)
        self._beyond = Shared(BEYOND_MAX, PUBLISHES_PER_REQUEST_MAX)

    def enter(
        self, who: Who, domain: str, group: str, publishes: int, body_bytes: int, *, at_a_time: int | None = None
    ) -> Entered | web.Response:
        """Those that were let in, for `leave`; or the answer, where they are not.

        `at_a_time`: so many of them are under way at once, so only they have permits; `next` is for the others.
        """
        permits = publishes if at_a_time is None else min(at_a_time, publishes)
        entered = self._take(who, permits)
        if entered is None:
            self._metrics.publishes.labels(REFUSED).inc(publishes)
            return refused()
        if self._admission is not None:
            # As they stand in Kafka, but for white space: each key has domain and group, too.
            size_bytes = body_bytes + publishes * (len(domain) + len(group) + 2)
            answer = self._admission.admit(domain, publishes, size_bytes)
            if isinstance(answer, GateRefused):
                self.leave(entered, ())
                self._metrics.publishes.labels(ABOVE_AGREEMENT).inc(publishes)
                return refusal(answer)
        return entered

    def next(self, before: Entered) -> Entered | None:
        """Takes as many permits as `before` had, which has left; None if there are not enough."""
        return self._take(before.who, before.publishes)

    def leave(self, entered: Entered, outcomes: Sequence[Published | Sent | PublishError]) -> None:
        """Gives the permits back, with the outcomes; no outcomes: unknown."""
        who, publishes, taken_s = entered
        self._held[who] -= publishes
        if not self._held[who]:
            del self._held[who]
        if taken_s is None:
            self._beyond.give_back(who, publishes)
        else:
            self._flow.give_back(taken_s, publishes, outcomes)

    def _take(self, who: Who, publishes: int) -> Entered | None:
        taken_s = self._flow.take(publishes)
        if taken_s is None:
            held = self._held[who]
            few = who is not None and (not held or held + publishes <= self._few)
            if not few or self._beyond.take(who, publishes) is not None:
                self._flow.refused(publishes)
                return None
        self._held[who] += publishes
        return Entered(who, publishes, taken_s)
