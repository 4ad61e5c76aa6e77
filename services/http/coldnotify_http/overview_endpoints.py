"""An overview of deliveries, added up over all matchers and gateways: requested when somebody looks, once for all
viewers.
"""

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from aiohttp import web
from coldnotify_common.http.event_streams import event_stream
from coldnotify_common.http.json_answers import encoded, json_answer
from coldnotify_common.http.web import error_response
from coldnotify_common.http.web_auth import IDENTITY
from coldnotify_common.http.web_port import has_no_end
from coldnotify_common.security.identity import Identity
from coldnotify_common.security.shared import Full, Shared

from coldnotify_http.metric_samples import Figures, growth, largest, quantile, read
from coldnotify_http.node_client import NodeAnswer, NodeClient, good, path

REFRESH_S = 2.0
"""How old an answer may be: all viewers within this time get the same one."""
WINDOW_S = 60.0
"""Rates and latencies are of so long, or of as long as somebody has been looking."""
VIEWERS_MAX = 100
VIEWERS_PER_IDENTITY_MAX = 5
"""Viewers of one identity: a few tabs and machines of one back-end. So it takes twenty identities to keep others from
looking.
"""
_WRITE_TIMEOUT_S = 60.0
"""How long a viewer that stops reading keeps its slot."""
_LOOKING_EVERY_S = 5.0
"""The longest silence of a stream, however long matchers may take to answer: the page gives it up after 10 s."""
_GROUPS_MAX = 200
_SHOWN_MAX = 20
_ROWS = ("groups", "slowest", "oldest")
_SEEN = ("seen_1h", "seen_1d", "seen_7d")
"""A matcher of the previous release does not report them."""
_SUMS = ("clients", "online", "lacking", "overdue", "objects", "groups_count", *_SEEN)


class HttpOverview:
    """GET /v1/overview, and GET /v1/console/events: the same again and again, as server-sent events."""

    def __init__(
        self, asking: NodeClient, overdue_s: int, holds: Callable[[Identity], bool] = lambda identity: True
    ) -> None:
        """`holds`: whether an identity that was good at the request is good still."""
        self._asking = asking
        self._holds = holds
        self._overdue_s = overdue_s
        self._lock = asyncio.Lock()
        self._samples: deque[tuple[float, dict[str, Figures]]] = deque()
        self._history: deque[list[float | None]] = deque(maxlen=round(15 * 60 / REFRESH_S))
        self._latest: dict[str, Any] | None = None
        self._latest_s = 0.0
        self._answered = AnsweredPartitions()
        self._viewers = Shared(VIEWERS_MAX, VIEWERS_PER_IDENTITY_MAX)
        self._stopping = asyncio.Event()

    def routes(self) -> list[web.AbstractRouteDef]:
        """The endpoints' routes."""
        return [web.get("/v1/overview", self.overview), web.get("/v1/console/events", self.events, allow_head=False)]

    def stop(self) -> None:
        """Ends the streams."""
        self._stopping.set()

    async def overview(self, request: web.Request) -> web.Response:
        """GET /v1/overview, without the history."""
        shown = _allowed(await self._now(), request.get(IDENTITY))
        return json_answer({name: value for name, value in shown.items() if name != "history"})

    async def events(self, request: web.Request) -> web.StreamResponse:
        """GET /v1/console/events: the history with the first event, then only its newest point.

        A token that expires or is revoked ends it: the page asks again, with another one.
        """
        identity: Identity | None = request.get(IDENTITY)
        who = None if identity is None else identity.who
        full = self._viewers.take(who)
        if full is Full.OF_ONE and identity is not None:
            return error_response(429, f"{identity.name} is looking {VIEWERS_PER_IDENTITY_MAX} times already")
        if full is not None:
            return error_response(503, f"{VIEWERS_MAX} are looking already")
        try:
            response = event_stream()
            has_no_end(request)
            await response.prepare(request)
            first = True
            end_s = float("inf") if identity is None else identity.expires_at_s
            while not self._stopping.is_set() and time.time() < end_s and (identity is None or self._holds(identity)):
                shown = _allowed(await self._now_beating(response), identity)
                if not first:
                    shown = {**shown, "history": shown["history"][-1:]}
                first = False
                await _write(response, b"data: " + encoded(shown).encode())
                with suppress(TimeoutError):
                    async with asyncio.timeout(REFRESH_S):
                        await self._stopping.wait()
        except ConnectionError:
            pass  # the viewer has gone
        finally:
            self._viewers.give_back(who)
        return response

    async def _now_beating(self, response: web.StreamResponse) -> dict[str, Any]:
        looking = asyncio.ensure_future(self._now())
        try:
            while not (await asyncio.wait([looking], timeout=_LOOKING_EVERY_S))[0]:
                await _write(response, b": looking")
            return looking.result()
        finally:
            looking.cancel()

    async def _now(self) -> dict[str, Any]:
        async with self._lock:
            if self._latest is None or time.monotonic() - self._latest_s >= REFRESH_S * 0.9:
                self._latest = await self._look()
                self._latest_s = time.monotonic()
            return self._latest

    async def _look(self) -> dict[str, Any]:
        asked = path("overview", overdue_s=self._overdue_s)
        matchers, gateways, of_matchers, of_gateways = await asyncio.gather(
            self._asking.every_matcher(asked),
            self._asking.every_gateway(path("gateway")),
            self._asking.every_matcher("/metrics", text=True),
            self._asking.every_gateway("/metrics", text=True),
        )
        figures = self._figures([*of_matchers, *of_gateways])
        bodies = [body for _, body in good(matchers)]
        sums = {name: sum(body.get(name, 0) if name in _SEEN else body[name] for body in bodies) for name in _SUMS}
        domains: dict[str, Counter[str]] = {}
        for body in bodies:
            # A matcher of the release before this one has no sums by domain.
            for domain, of_domain in body.get("domains", {}).items():
                domains.setdefault(domain, Counter()).update(of_domain)
        now_ms = time.time_ns() // 1_000_000
        lag = {"objects": figures["gauges"]["lag_objects"], "requests": figures["gauges"]["lag_requests"]}
        partitions = self._answered.counted(matchers, now_ms)
        # What nobody has said is no 0.
        by_matchers, by_gateways = (any(one.status == 200 for one in of) for of in (of_matchers, of_gateways))
        whole = partitions["missing"] == []
        self._history.append(
            [now_ms, figures["publishes_per_s"] if by_matchers else None,
             figures["deliveries_per_s"] if by_gateways else None, figures["p50_s"], figures["p99_s"],
             lag["objects"] + lag["requests"] if by_matchers else None,
             *(sums[name] if whole else None for name in ("online", "overdue"))]
        )  # fmt: skip
        return {
            "now_ms": now_ms,
            "overdue_s": self._overdue_s,
            "partial": any(body["partial"] for body in bodies),
            "partitions": partitions,
            **sums,
            "domains": domains,
            "domains_whole": bool(bodies) and all("domains" in body for body in bodies),
            "traffic": {name: figures[name] for name in ("publishes_per_s", "deliveries_per_s", "sent_bytes_per_s")},
            "latency": {"p50_s": figures["p50_s"], "p99_s": figures["p99_s"], "deliveries": figures["deliveries"]},
            "window_s": figures["window_s"],
            "lag": lag,
            "connections": figures["gauges"]["connections"],
            "stale": figures["gauges"]["stale"] if by_gateways else None,
            "matchers": [_process(one, {}) for one in matchers],
            "gateways": [_process(one, {"connections": 0, "ready": False}) for one in gateways],
            "groups": largest((one for body in bodies for one in body["groups"]), "publishes", _GROUPS_MAX),
            "slowest": largest((one for b in bodies for one in b["slowest"]), "since_ms", _SHOWN_MAX, smallest=True),
            "oldest": largest((one for b in bodies for one in b["oldest"]), "since_ms", _SHOWN_MAX, smallest=True),
            "history": list(self._history),
        }

    def _figures(self, answers: list[NodeAnswer]) -> dict[str, Any]:
        now_s = time.monotonic()
        now: dict[str, Figures] = {}
        for one in answers:
            if one.status == 200:
                with suppress(ValueError):
                    now[one.address] = read(one.body)
        while self._samples and now_s - self._samples[0][0] > WINDOW_S:
            self._samples.popleft()
        grown = growth(self._samples[0][1] if self._samples else {}, now)
        window_s = now_s - self._samples[0][0] if self._samples else 0.0
        self._samples.append((now_s, now))
        rates = {f"{name}_per_s": value / window_s if window_s else 0.0 for name, value in grown.counters.items()}
        return {
            **rates,
            "window_s": round(window_s, 1),
            "p50_s": quantile(grown.buckets, 0.5),
            "p99_s": quantile(grown.buckets, 0.99),
            "deliveries": grown.counters["deliveries"],
            "gauges": grown.gauges,
        }


async def _write(response: web.StreamResponse, event: bytes) -> None:
    async with asyncio.timeout(_WRITE_TIMEOUT_S):
        await response.write(event + b"\n\n")


class AnsweredPartitions:
    """Remembers how many partitions there are, and when a matcher last answered for each of them."""

    def __init__(self) -> None:
        self._count = 0
        self._answered_ms: dict[int, int] = {}

    def counted(self, matchers: list[NodeAnswer], now_ms: int) -> dict[str, Any]:
        """Returns how many partitions were counted, the numbers of the others and the oldest of their last answers.

        The numbers are None if this node has never learnt how many there are, the time if one has never been counted.
        """
        bodies = [body for _, body in good(matchers)]
        if any("partitions" not in body for body in bodies):
            # A matcher of the release before says neither: what it serves is counted if each has answered.
            return {"counted": None, "missing": [] if len(bodies) == len(matchers) else None, "since_ms": None}
        counted = {number for body in bodies for number in body["partitions"]}
        self._answered_ms.update(dict.fromkeys(counted, now_ms))
        # There are never fewer than before.
        self._count = max([self._count, *(body["partitions_count"] or 0 for body in bodies)])
        missing = sorted(set(range(self._count)) - counted)
        known = bool(missing) and all(number in self._answered_ms for number in missing)
        return {
            "counted": len(counted),
            "missing": missing if self._count else None,
            "since_ms": min(self._answered_ms[number] for number in missing) if known else None,
        }


def _process(answer: NodeAnswer, fields: dict[str, Any]) -> dict[str, Any]:
    if answer.status != 200:
        return {"address": answer.address, "error": answer.error}
    return {"address": answer.address, "error": None, **{name: answer.body.get(name) for name in fields}}


def _unnamed(number: int, process: dict[str, Any]) -> dict[str, Any]:
    return process | {"address": f"#{number}", "error": process["error"] and "no answer"}


def _allowed(shown: dict[str, Any], identity: Identity | None) -> dict[str, Any]:
    """Rows and sums without those of domains that whoever asks may not publish to; addresses are for operators.

    Rates, latencies and lag are of the service as a whole, for all.
    """
    domains, whole = shown["domains"], shown["domains_whole"]
    shown = {name: value for name, value in shown.items() if name not in ("domains", "domains_whole")}
    if identity is None or identity.is_operator:
        return shown
    shown |= {kind: [_unnamed(i, one) for i, one in enumerate(shown[kind], 1)] for kind in ("matchers", "gateways")}
    theirs = {domain for domain in domains if identity.may_publish(domain)}
    if whole and len(theirs) == len(domains):
        return shown
    rows = {name: [one for one in shown[name] if identity.may_publish(one["domain"])] for name in _ROWS}
    sums = {name: sum(domains[domain].get(name, 0) for domain in theirs) for name in _SUMS}
    # The last two columns, online and overdue, are of all domains.
    return shown | rows | sums | {"history": [[*point[:-2], None, None] for point in shown["history"]]}
