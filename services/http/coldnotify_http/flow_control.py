"""Limits how many objects this node sends to Kafka at once: each needs a permit from acceptance to acknowledgement or
failure.
"""

import time
from collections.abc import Sequence

from aiohttp import web
from coldnotify.flow.beginnings import HTTP
from coldnotify.flow.flow_limit import FlowLimit
from coldnotify.publisher import Published, PublishError, Sent
from coldnotify_common.http.web import error_response

from coldnotify_http.metrics import Metrics
from coldnotify_http.settings import HttpSettings

FLOW_MIN = 200
"""Objects that may be on their way to Kafka in any case. Fewer would refuse publishers that only happen to come at the
same moment, which is no queue; more are allowed as soon as Kafka is seen to acknowledge them."""
RETRY_AFTER_S = 1
"""By then the publishes in progress are acknowledged, unless Kafka is away."""


class FlowControl:
    """Refuses at once if there is no permit: a queue here would only hide the overload."""

    def __init__(self, settings: HttpSettings, metrics: Metrics) -> None:
        begin = HTTP._replace(first=FLOW_MIN, lowest=FLOW_MIN)
        # Several nodes before one Kafka measure at the same times, by Unix time.
        unix_s = time.time() - time.monotonic()
        self._limit = FlowLimit.named(settings.http_flow, settings.http_publishes_max, begin, unix_s)
        self._metrics = metrics
        metrics.flow_limit.set_function(lambda: self._limit.limit)
        metrics.under_way.set_function(lambda: self._limit.in_flight)

    def take(self, objects: int) -> float | None:
        """Takes permits for so many. Returns the time; None if there are too few."""
        return time.monotonic() if self._limit.take(objects) else None

    def refused(self, objects: int) -> None:
        """So many that found no permits were not let in."""
        self._metrics.flow_refused.inc(objects)

    def give_back(self, taken_s: float, objects: int, outcomes: Sequence[Published | Sent | PublishError]) -> None:
        """Gives back the permits that `take` returned, with the outcomes; no outcomes: unknown."""
        acknowledged = sum(isinstance(outcome, Published | Sent) for outcome in outcomes)
        if acknowledged:
            self._limit.acknowledged(time.monotonic(), taken_s, acknowledged)
        if objects > acknowledged:
            self._limit.failed(objects - acknowledged)


def refused() -> web.Response:
    """Returns the answer for a publish without a permit."""
    response = error_response(503, "too many objects are on their way to Kafka", outcome="not published")
    response.headers["Retry-After"] = str(RETRY_AFTER_S)
    return response
