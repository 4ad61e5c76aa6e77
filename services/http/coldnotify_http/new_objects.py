"""Publishes of new objects while their tenant has as many as agreed (`objects_max`).

The usage job counts the objects. Only the matcher knows which of a request's objects are new, so it is asked: only
while the tenant is full, and before anything is written. If no matcher can answer, the publishes are admitted, because
one object too many is better than an existing one that cannot be published.
"""

import json
from collections.abc import Sequence
from typing import Protocol

from aiohttp import web
from coldnotify_common.tenancy.gate import GateRefused

from coldnotify_http.bodies import Named
from coldnotify_http.metrics import ABOVE_AGREEMENT, Metrics
from coldnotify_http.node_client import NobodyAnswers, NodeClient, path
from coldnotify_http.refusals import refusal_of_object


class Fullness(Protocol):
    """The interface of coldnotify_common.tenancy.tenancy.Tenancy that is used here."""

    def full_of_objects(self, domain: str) -> GateRefused | None:
        """Why one object more would be too many for the domain's tenant; None: it would not."""

    def refuse_objects(self, refused: GateRefused, publishes: int) -> None:
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
        """Returns those that do not exist; none, if no matcher answers, or one of an earlier release is asked."""
        body = json.dumps({"objects": names}).encode()
        try:
            answer = await self._asking.matcher(
                path("domains", domain, "groups", group, "missing"), "POST", body, who=domain
            )
        except NobodyAnswers:
            return ()
        missing = answer.body.get("missing") if answer.status == 200 and isinstance(answer.body, dict) else None
        return missing or ()
