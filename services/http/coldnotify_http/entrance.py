"""What lets publishes in: a permit of flow control for each, and what their domain's tenant has agreed."""

from collections.abc import Sequence
from typing import Protocol

from aiohttp import web
from coldnotify.publisher import Published, PublishError, Sent
from coldnotify_common.tenancy.gate import Admitted, Refused

from coldnotify_http.flow_control import FlowControl, refused
from coldnotify_http.metrics import ABOVE_AGREEMENT, REFUSED, Metrics
from coldnotify_http.refusals import refusal
from coldnotify_http.settings import HttpSettings


class Admission(Protocol):
    """What is needed of coldnotify_common.tenancy.tenancy.Tenancy."""

    def admit(self, domain: str, publishes: int, size_bytes: int) -> Admitted | Refused:
        """Whether the domain's tenant may publish so many objects now, of so many bytes together."""


class Entrance:
    """The one of this node. Whoever is not let in is told why, and when to come back."""

    def __init__(self, settings: HttpSettings, metrics: Metrics, admission: Admission | None = None) -> None:
        self._flow = FlowControl(settings, metrics)
        self._metrics = metrics
        self._admission = admission

    def enter(self, domain: str, group: str, publishes: int, body_bytes: int) -> float | web.Response:
        """When these were let in, for `leave`; or the answer, where they are not."""
        taken_s = self._flow.take(publishes)
        if taken_s is None:
            self._metrics.publishes.labels(REFUSED).inc(publishes)
            return refused()
        if self._admission is not None:
            # As they stand in Kafka, but for white space: each key has domain and group, too.
            size_bytes = body_bytes + publishes * (len(domain) + len(group) + 2)
            answer = self._admission.admit(domain, publishes, size_bytes)
            if isinstance(answer, Refused):
                self._flow.give_back(taken_s, publishes, ())
                self._metrics.publishes.labels(ABOVE_AGREEMENT).inc(publishes)
                return refusal(answer)
        return taken_s

    def leave(self, taken_s: float, publishes: int, outcomes: Sequence[Published | Sent | PublishError]) -> None:
        """What became of those that were let in then; no outcomes: nobody knows."""
        self._flow.give_back(taken_s, publishes, outcomes)
