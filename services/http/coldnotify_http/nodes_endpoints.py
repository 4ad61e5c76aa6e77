"""GET /v1/nodes: processes that run; GET /v1/prometheus-targets: the same for Prometheus' http_sd. For operators."""

import time
from collections.abc import Iterable
from typing import Any, Protocol

from aiohttp import web
from coldnotify_common.http.json_answers import json_answer
from coldnotify_common.http.web import error_response
from coldnotify_common.http.web_auth import IDENTITY
from coldnotify_common.nodes import HTTP, HTTPS, INSIDE, SeenNode
from coldnotify_common.security.inside import may_look

from coldnotify_http.node_addresses import SeenNodes

NODES, TARGETS = "/v1/nodes", "/v1/prometheus-targets"


class ShownNodes(SeenNodes, Protocol):
    """Nodes, and what was passed over."""

    def passed_over(self) -> tuple[int, str]:
        """Returns the number of records passed over, and the reason for the last one."""


class NodesEndpoints:
    """The handlers."""

    def __init__(self, nodes: ShownNodes, *, inside_scheme: str) -> None:
        """`inside_scheme`: of the ports for operators and other nodes."""
        self._nodes = nodes
        self._inside_scheme = inside_scheme

    def routes(self) -> list[web.AbstractRouteDef]:
        """GET /v1/nodes, GET /v1/prometheus-targets."""
        return [web.get(NODES, self.nodes), web.get(TARGETS, self.targets)]

    async def nodes(self, request: web.Request) -> web.Response:
        """All nodes, by role and id; silent ones for a while."""
        return _refusal(request) or json_answer({**self.shown(), "now_ms": time.time_ns() // 1_000_000})

    async def targets(self, request: web.Request) -> web.Response:
        """The ports with /metrics, in the form of Prometheus' http_sd."""
        return _refusal(request) or json_answer(targets(self._nodes.seen(), self._inside_scheme))

    def shown(self) -> dict[str, Any]:
        """Returns the nodes as JSON, and why some may be missing."""
        passed_over, why = self._nodes.passed_over()
        return {
            "items": [_shown(one) for one in self._nodes.seen()],
            "unknown": self._nodes.unknown,
            "passed_over": passed_over,
            "passed_over_why": why or None,
        }


def _refusal(request: web.Request) -> web.Response | None:
    identity = request.get(IDENTITY)
    if identity is None or may_look(identity):
        return None
    return error_response(403, f"{identity.name} is no operator (who may publish to all domains)")


def _shown(seen: SeenNode) -> dict[str, Any]:
    node = seen.node
    return {
        "role": node.role,
        "id": node.id,
        "principal": seen.key.principal,
        "addresses": node.addresses,
        "state": state_of(seen),
        "age_s": round(seen.age_s, 1),
        "connections": node.connections,
        "limit": node.limit,
        "home": node.home,
        "payload_bytes_max": node.payload_bytes_max,
        "weight": node.weight,
        "labels": node.labels,
        "load": node.load,
        "version": node.version,
        "kafka_heard_s": node.kafka_heard_s,
    }


def state_of(seen: SeenNode) -> str:
    """Returns ready, not_ready or silent."""
    if not seen.counts:
        return "silent"
    return "ready" if seen.node.ready else "not_ready"


def targets(seen: Iterable[SeenNode], inside_scheme: str) -> list[dict[str, Any]]:
    """Returns a target for each port with /metrics. A silent node stays one for a while, so that `up` is 0 there; at an
    address that several nodes name, the latest record counts."""
    found: dict[str, dict[str, Any]] = {}
    for one in sorted(seen, key=lambda one: one.age_s):
        address = one.node.addresses.get(INSIDE) or one.node.addresses.get(HTTP)
        if address is None:
            continue
        scheme = inside_scheme if INSIDE in one.node.addresses else "https" if address.startswith(HTTPS) else "http"
        labels = {"job": one.node.role, "__scheme__": scheme, "__meta_coldnotify_id": one.node.id}
        labels |= {f"__meta_coldnotify_label_{name}": value for name, value in one.node.labels.items()}
        found.setdefault(address, {"targets": [address.removeprefix(HTTPS)], "labels": labels})
    return sorted(found.values(), key=lambda one: (one["labels"]["job"], one["targets"]))
