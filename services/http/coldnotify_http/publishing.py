"""The two endpoints that publish: one object, and many."""

import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from aiohttp import web
from coldnotify.publisher import Outcome, Published, PublishError
from coldnotify_common.http.json_answers import json_answer
from coldnotify_common.http.query_numbers import whole_number
from coldnotify_common.http.web import BadRequest, error_response
from coldnotify_common.http.web_auth import checks_names
from coldnotify_common.http.web_shares import who_asks
from coldnotify_common.tracing import Attributes, Tracer
from coldnotify_schemas.names import InvalidName
from coldnotify_schemas.records import VERSION_MAX, ConditionalRecord
from coldnotify_schemas.wrong_clocks import clock_fault

from coldnotify_http.bodies import InvalidObject, Named, object_of_path, parse_many, parse_one
from coldnotify_http.conditions_by_http import UNKNOWN, decided_answer, with_headers
from coldnotify_http.entrance import Entered, Entrance, HttpAdmission
from coldnotify_http.metrics import OUTCOMES, Metrics
from coldnotify_http.new_objects import NewObjects
from coldnotify_http.own_names import owned_records
from coldnotify_http.request_parts import Bodies, domain_and_group, traceparent_of, yes_or_no
from coldnotify_http.settings import HttpSettings
from coldnotify_http.write_answers import kind_of, result_of, status_of


class RecordPublisher(Protocol):
    """The interface of coldnotify.publisher.Publisher that is used here."""

    async def publish_records_async(
        self, domain: str, group_id: str, records: Sequence[Named], *, traceparent: str | None = None
    ) -> Sequence[Published | PublishError]:
        """Returns each record's outcome, in order."""


class OutcomeAsker(Protocol):
    """The interface of coldnotify_http.outcome_client.OutcomeClient that is used here."""

    async def of(self, domain: str, group: str, published: Sequence[tuple[Named, Published]]) -> Sequence[Outcome]:
        """Returns each publish's effect, in order; `unknown` if that cannot be determined in time."""

    async def decided(self, domain: str, group: str, published: Published, id_: str | None) -> Mapping[str, Any] | str:
        """Returns what was decided of a record with a condition, or of a set, of this id; or why that is not known."""


class PublishEndpoints:
    """The handlers. A request is answered when Kafka has stored its records, or has failed to in time.

    A stored record may still change nothing, if a newer version existed. So the partition's matcher is asked, too, for
    a short time; whatever it answers, and if it does not answer, the acknowledgement is reported.
    """

    def __init__(
        self,
        publisher: RecordPublisher,
        settings: HttpSettings,
        metrics: Metrics,
        outcomes: OutcomeAsker,
        tracer: Tracer | None = None,
        admission: HttpAdmission | None = None,
        new_objects: NewObjects | None = None,
    ) -> None:
        self._publisher = publisher
        self.entrance = Entrance(settings, metrics, admission)
        self._new_objects = new_objects
        self._outcomes = outcomes
        self._tracer = tracer
        self.bodies = Bodies(settings)
        self.payload_bytes_max = settings.object_payload_bytes_max
        self._metrics = metrics

    def routes(self) -> list[web.AbstractRouteDef]:
        """The endpoints' routes."""
        base = "/v1/domains/{domain}/groups/{group}/objects"
        # (?s: a name may have line feeds, too.
        return [web.post(base, self.post_many), web.post(base + "/{object:(?s:.*)}", self.post_one)]

    @checks_names
    async def post_one(self, request: web.Request) -> web.Response:
        """POST .../objects/{object}?outcome=no: the public record's JSON; an empty body is {}. With a condition it is
        answered once that is decided."""
        try:
            domain, group = domain_and_group(request)
            wanted = yes_or_no(request, "outcome", default=True)
            clock_ms = _clock_ms(request)
            object_ = object_of_path(request.rel_url.raw_path)
            body = await self.bodies.one(request)
            record = parse_one(with_headers(body, request.headers), self.payload_bytes_max)
            if isinstance(record, ConditionalRecord) and request.query.get("outcome") == "no":
                raise BadRequest("outcome", f"'no' cannot be combined with {record.condition}")
        except (BadRequest, InvalidName, web.HTTPException):
            self._metrics.bad_requests.inc()
            raise
        if (refused := self._wrong_clock(clock_ms)) is not None:
            return refused
        (owned,) = owned_records(request, domain, group, [(object_, record)])
        size_bytes = len(object_.encode()) + len(body)
        return await self.publish_one(request, domain, group, owned, size_bytes, wanted=wanted)

    async def publish_one(
        self, request: web.Request, domain: str, group: str, named: Named, size_bytes: int, *, wanted: bool = True
    ) -> web.Response:
        """One record that is checked, of so many bytes. `wanted`: with the outcome."""
        entered = await self.enter(request, domain, group, [named], size_bytes)
        if isinstance(entered, web.Response):
            return entered
        outcomes = await self._publish(request, domain, group, [named], entered)
        name, record = named
        if isinstance(record, ConditionalRecord) and isinstance(outcomes[0], Published):
            return await self._decided(domain, group, name, record, outcomes[0])
        (result,) = await self._results(domain, group, [named], outcomes, wanted=wanted)
        return json_answer({"domain": domain, "group": group, **result}, status=status_of(outcomes))

    async def _decided(
        self, domain: str, group: str, name: str, record: ConditionalRecord, published: Published
    ) -> web.Response:
        begin_s = time.perf_counter()
        item = await self._outcomes.decided(domain, group, published, record.id)
        answer = decided_answer({"domain": domain, "group": group, "object": name}, record, published, item)
        seconds = time.perf_counter() - begin_s
        said = UNKNOWN if isinstance(item, str) else str(item.get("outcome", UNKNOWN))
        self._metrics.outcome_seconds.labels(said if said in OUTCOMES else UNKNOWN).observe(seconds)
        return answer

    @checks_names
    async def post_many(self, request: web.Request) -> web.Response:
        """POST .../objects?outcome=yes: {"objects": {name: record}} or [{"object": name, ...record}]; a result for
        each."""
        try:
            domain, group = domain_and_group(request)
            wanted = yes_or_no(request, "outcome", default=False)
            clock_ms = _clock_ms(request)
            records, body_bytes = await self.bodies.many(
                request, partial(parse_many, payload_bytes_max=self.payload_bytes_max)
            )
        except InvalidObject as error:
            self._metrics.bad_requests.inc()
            return error_response(400, f"{error.object}: {error}", field=error.field, object=error.object)
        except (BadRequest, InvalidName, web.HTTPException):
            self._metrics.bad_requests.inc()
            raise
        if (refused := self._wrong_clock(clock_ms)) is not None:
            return refused
        owned = owned_records(request, domain, group, records)
        entered = await self.enter(request, domain, group, owned, body_bytes)
        if isinstance(entered, web.Response):
            return entered
        outcomes = await self._publish(request, domain, group, owned, entered)
        results = await self._results(domain, group, owned, outcomes, wanted=wanted)
        answer: dict[str, object] = {"domain": domain, "group": group, "results": results}
        if failed := sum(isinstance(outcome, PublishError) for outcome in outcomes):
            answer["error"] = f"{failed} of {len(outcomes)} objects were not acknowledged, see results"
        return json_answer(answer, status=status_of(outcomes))

    def _wrong_clock(self, clock_ms: int | None) -> web.Response | None:
        """Returns the answer if a version comes from a wrong clock and must be renumbered."""
        now_ms = time.time_ns() // 1_000_000
        fault = None if clock_ms is None else clock_fault(clock_ms, now_ms)
        if fault is None:
            return None
        self._metrics.bad_requests.inc()
        return error_response(400, f"clock_ms: {fault}", field="clock_ms", clock_ms=now_ms)

    async def enter(
        self, request: web.Request, domain: str, group: str, records: Sequence[Named], size_bytes: int
    ) -> Entered | web.Response:
        """Admits records of so many bytes. Returns those that were let in; or the answer, where they are not."""
        if self._new_objects is not None:
            refused = await self._new_objects.refusal(domain, group, records)
            if refused is not None:
                return refused
        return self.entrance.enter(who_asks(request), domain, group, len(records), size_bytes)

    async def _publish(
        self, request: web.Request, domain: str, group: str, records: Sequence[Named], entered: Entered
    ) -> Sequence[Published | PublishError]:
        traceparent = traceparent_of(request)
        span = None
        if self._tracer is not None:
            about: Attributes = {
                "coldnotify.domain": domain,
                "coldnotify.group": group,
                "coldnotify.objects": len(records),
            }
            span = self._tracer.begin("publish", traceparent, about)
            traceparent = span.traceparent
        begin_s = time.perf_counter()
        outcomes: Sequence[Published | PublishError] = ()
        try:
            outcomes = await self._publisher.publish_records_async(
                domain, group, records, traceparent=traceparent or None
            )
        finally:
            self.entrance.leave(entered, outcomes)
            if span is not None:
                span.end(next((str(one) for one in outcomes if isinstance(one, PublishError)), ""))
        self._metrics.publish_seconds.observe(time.perf_counter() - begin_s)
        for outcome in outcomes:
            self._metrics.publishes.labels(kind_of(outcome)).inc()
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
        results = [
            result_of("object", object_, outcome) for (object_, _), outcome in zip(records, outcomes, strict=True)
        ]
        acknowledged = [
            (result, (record, outcome))
            for result, record, outcome in zip(results, records, outcomes, strict=True)
            if isinstance(outcome, Published)
        ]
        if wanted and acknowledged:
            begin_s = time.perf_counter()
            changed = await self._outcomes.of(domain, group, [one for _, one in acknowledged])
            seconds = time.perf_counter() - begin_s
            for (result, _), outcome in zip(acknowledged, changed, strict=True):
                self._metrics.outcome_seconds.labels(outcome.outcome).observe(seconds)
                result.update(outcome.shown())
        return results


def _clock_ms(request: web.Request) -> int | None:
    text = request.query.get("clock_ms")
    return None if text is None else whole_number("clock_ms", text, maximum=VERSION_MAX)
