"""The two endpoints that publish: one object, and many."""

import asyncio
import time
from collections.abc import Sequence
from typing import Protocol

from aiohttp import web
from coldnotify.publisher import Outcome, Published, PublishError
from coldnotify_common.tracing import Attributes, Tracer
from coldnotify_common.web import BadRequest, error_response
from coldnotify_schemas.names import InvalidName, check_name
from coldnotify_schemas.traceparent import TRACEPARENT_HEADER, is_traceparent

from coldnotify_http.bodies import InvalidObject, Named, object_of_path, parse_many, parse_one
from coldnotify_http.metrics import ACKNOWLEDGED, INDETERMINATE, REFUSED, Metrics
from coldnotify_http.settings import HttpSettings

_RETRY_AFTER_S = 1


class RecordPublisher(Protocol):
    """What is needed of coldnotify.publisher.Publisher."""

    async def publish_records_async(
        self, domain: str, group_id: str, records: Sequence[Named], *, traceparent: str | None = None
    ) -> Sequence[Published | PublishError]:
        """What became of each record, in order."""


class OutcomeAsker(Protocol):
    """What is needed of coldnotify_http.outcome_client.Outcomes."""

    async def of(self, domain: str, group: str, published: Sequence[tuple[Named, Published]]) -> Sequence[Outcome]:
        """What each has changed, in order; `unknown` where that cannot be found out in time."""


class Publishing:
    """The handlers. A request is answered when Kafka has what it carries, or has failed to take it in time.

    What Kafka has may still change nothing, where a newer version was there. So the partition's matcher is asked, too,
    for a short time; whatever it says, and if it says nothing, what is acknowledged is answered as that.
    """

    def __init__(
        self,
        publisher: RecordPublisher,
        settings: HttpSettings,
        metrics: Metrics,
        outcomes: OutcomeAsker,
        tracer: Tracer | None = None,
    ) -> None:
        self._publisher = publisher
        self._outcomes = outcomes
        self._tracer = tracer
        self._body_timeout_s = settings.http_body_timeout_s
        self._publishes_max = settings.http_publishes_max
        self._metrics = metrics
        self._under_way = 0

    def routes(self) -> list[web.AbstractRouteDef]:
        """The endpoints' routes."""
        base = "/v1/domains/{domain}/groups/{group}/objects"
        return [web.post(base, self.post_many), web.post(base + "/{object:.*}", self.post_one)]

    async def post_one(self, request: web.Request) -> web.Response:
        """POST .../objects/{object}?outcome=no: the public record's JSON; an empty body is {}."""
        try:
            domain, group = _domain_and_group(request)
            wanted = _outcome_wanted(request, default=True)
            object_ = object_of_path(request.rel_url.raw_path)
            record = parse_one(await body_of(request, self._body_timeout_s))
        except (BadRequest, InvalidName, web.HTTPException):
            self._metrics.bad_requests.inc()
            raise
        outcomes = await self._publish(request, domain, group, [(object_, record)])
        if outcomes is None:
            return _too_many()
        (result,) = await self._results(domain, group, [(object_, record)], outcomes, wanted=wanted)
        return web.json_response({"domain": domain, "group": group, **result}, status=_status(outcomes))

    async def post_many(self, request: web.Request) -> web.Response:
        """POST .../objects?outcome=yes: {"objects": {name: record}} or [{"object": name, ...record}]; a result for
        each."""
        try:
            domain, group = _domain_and_group(request)
            wanted = _outcome_wanted(request, default=False)
            records = parse_many(await body_of(request, self._body_timeout_s))
        except InvalidObject as error:
            self._metrics.bad_requests.inc()
            return error_response(400, f"{error.object}: {error}", field=error.field, object=error.object)
        except (BadRequest, InvalidName, web.HTTPException):
            self._metrics.bad_requests.inc()
            raise
        outcomes = await self._publish(request, domain, group, records)
        if outcomes is None:
            return _too_many()
        results = await self._results(domain, group, records, outcomes, wanted=wanted)
        answer: dict[str, object] = {"domain": domain, "group": group, "results": results}
        if failed := sum(isinstance(outcome, PublishError) for outcome in outcomes):
            answer["error"] = f"{failed} of {len(outcomes)} objects were not acknowledged, see results"
        return web.json_response(answer, status=_status(outcomes))

    async def _publish(
        self, request: web.Request, domain: str, group: str, records: Sequence[Named]
    ) -> Sequence[Published | PublishError] | None:
        """None: too many are on their way already, nothing was sent."""
        if self._under_way + len(records) > self._publishes_max:
            self._metrics.publishes.labels(REFUSED).inc(len(records))
            return None
        traceparent = request.headers.get(TRACEPARENT_HEADER, "")
        if not is_traceparent(traceparent):
            traceparent = ""  # as the standard wants it: what is no trace context does not harm what it came with
        span = None
        if self._tracer is not None:
            about: Attributes = {
                "coldnotify.domain": domain,
                "coldnotify.group": group,
                "coldnotify.objects": len(records),
            }
            span = self._tracer.begin("publish", traceparent, about)
            traceparent = span.traceparent
        self._count(len(records))
        begin_s = time.perf_counter()
        outcomes: Sequence[Published | PublishError] = ()
        try:
            outcomes = await self._publisher.publish_records_async(
                domain, group, records, traceparent=traceparent or None
            )
        finally:
            self._count(-len(records))
            if span is not None:
                span.end(next((str(one) for one in outcomes if isinstance(one, PublishError)), ""))
        self._metrics.publish_seconds.observe(time.perf_counter() - begin_s)
        for outcome in outcomes:
            self._metrics.publishes.labels(_kind(outcome)).inc()
        return outcomes

    async def _results(
        self,
        domain: str,
        group: str,
        records: Sequence[Named],
        outcomes: Sequence[Published | PublishError],
        *,
        wanted: bool,
    ) -> list[dict[str, object]]:
        """The answer's part on each; `wanted`: with what those that are acknowledged have changed."""
        results = [_result(object_, outcome) for (object_, _), outcome in zip(records, outcomes, strict=True)]
        acknowledged = [
            (result, (record, outcome))
            for result, record, outcome in zip(results, records, outcomes, strict=True)
            if isinstance(outcome, Published)
        ]
        if wanted and acknowledged:
            begin_s = time.perf_counter()
            changed = await self._outcomes.of(domain, group, [one for _, one in acknowledged])
            self._metrics.outcome_seconds.observe(time.perf_counter() - begin_s)
            for (result, _), outcome in zip(acknowledged, changed, strict=True):
                self._metrics.outcomes.labels(outcome.outcome).inc()
                result.update(outcome.shown())
        return results

    def _count(self, difference: int) -> None:
        self._under_way += difference
        self._metrics.under_way.set(self._under_way)


async def body_of(request: web.Request, timeout_s: float) -> bytes:
    """All of it. Raises HTTPException if it is too large, or does not come in time."""
    try:
        async with asyncio.timeout(timeout_s):
            return await request.read()
    except TimeoutError:
        raise web.HTTPRequestTimeout(
            text=f"the body did not arrive within {timeout_s:g} s; nothing was published"
        ) from None


def _domain_and_group(request: web.Request) -> tuple[str, str]:
    return check_name("domain", request.match_info["domain"]), check_name("group", request.match_info["group"])


def _outcome_wanted(request: web.Request, *, default: bool) -> bool:
    text = request.query.get("outcome")
    if text not in (None, "yes", "no"):
        raise BadRequest("outcome", f"{text[:80]!r} is neither yes nor no")
    return default if text is None else text == "yes"


def _kind(outcome: Published | PublishError) -> str:
    if isinstance(outcome, Published):
        return ACKNOWLEDGED
    return INDETERMINATE if outcome.indeterminate else REFUSED


def _result(object_: str, outcome: Published | PublishError) -> dict[str, object]:
    if isinstance(outcome, Published):
        return {"object": object_, **outcome._asdict()}
    words = "unknown: it may be published" if outcome.indeterminate else "not published"
    return {"object": object_, "error": str(outcome), "outcome": words}


def _status(outcomes: Sequence[Published | PublishError]) -> int:
    return 503 if any(isinstance(outcome, PublishError) for outcome in outcomes) else 200


def _too_many() -> web.Response:
    response = error_response(503, "too many objects are on their way to Kafka", outcome="not published")
    response.headers["Retry-After"] = str(_RETRY_AFTER_S)
    return response
