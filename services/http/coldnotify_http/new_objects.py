"""Publishes of objects that are not there yet, while their tenant has as many as were agreed (`objects_max`).

How many there are the usage job measures. Which of them a request names only their matcher knows, so it is asked: just
while the tenant is full, and before anything is written. Where no matcher can say, the publishes are let in: better one
object too many than one that is there and cannot be published.
"""

import json
from collections.abc import Sequence
from typing import Protocol

from aiohttp import web
from coldnotify_common.tenancy.gate import Refused

from coldnotify_http.bodies import Named
from coldnotify_http.metrics import ABOVE_AGREEMENT, Metrics
from coldnotify_http.node_client import NobodyAnswers, NodeClient, path
from coldnotify_http.refusals import refusal_of_object


class Fullness(Protocol):
    """What is needed of coldnotify_common.tenancy.tenancy.Tenancy."""

    def full_of_objects(self, domain: str) -> Refused | None:
        """Why one object more would be too many for the domain's tenant; None: it would not."""

    def refuse_objects(self, refused: Refused, publishes: int) -> None:
        """So many publishes were refused for that."""


class NewObjects:
    """Asked before publishes are let in."""

    def __init__(self, tenancy: Fullness, asking: NodeClient, metrics: Metrics) -> None:
        self._tenancy = tenancy
        self._asking = asking
        self._metrics = metrics

    async def refusal(self, domain: str, group: str, records: Sequence[Named]) -> web.Response | None:
        """The answer, if one of these would be an object too many: all of them are refused then. None: none would."""
        full = self._tenancy.full_of_objects(domain)
        if full is None:
            return None
        names = {name for name, record in records if not record.deleted}
        missing = await self._missing(domain, group, sorted(names)) if names else ()
        if not missing:
            return None
        self._tenancy.refuse_objects(full, len(records))
        self._metrics.publishes.labels(ABOVE_AGREEMENT).inc(len(records))
        return refusal_of_object(full, missing[0])

    async def _missing(self, domain: str, group: str, names: Sequence[str]) -> Sequence[str]:
        """Those that are not there; none, where nobody can say, or a matcher of an earlier release is asked."""
        body = json.dumps({"objects": names}).encode()
        try:
            answer = await self._asking.matcher(
                path("domains", domain, "groups", group, "missing"), "POST", body, who=domain
            )
        except NobodyAnswers:
            return ()
        missing = answer.body.get("missing") if answer.status == 200 and isinstance(answer.body, dict) else None
        return missing or ()
