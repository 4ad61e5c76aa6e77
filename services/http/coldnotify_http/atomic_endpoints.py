"""The endpoint that publishes several objects of one group as one: all of them, or none."""

import secrets
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import msgspec
from aiohttp import web
from coldnotify.publisher import Published, PublishError
from coldnotify_common.http.json_answers import json_answer
from coldnotify_common.http.web import BadRequest, error_response, field_of
from coldnotify_common.http.web_auth import checks_names
from coldnotify_schemas.atomic_sets import SET_BYTES_MAX, AtomicSet, encode_set, parse_set, set_key
from coldnotify_schemas.names import InvalidName, check_name
from coldnotify_schemas.records import InvalidRecord, name_the_field
from msgspec.structs import replace

from coldnotify_http.bodies import SINGLE_BODY_BYTES_MAX
from coldnotify_http.conditions_by_http import UNKNOWN
from coldnotify_http.metrics import OUTCOMES, Metrics
from coldnotify_http.own_names import owned_records
from coldnotify_http.publishing import OutcomeAsker, PublishEndpoints
from coldnotify_http.request_parts import traceparent_of
from coldnotify_http.write_answers import kind_of

_ID_BYTES = 12
_PUBLISHED, _REFUSED, _UNDECIDABLE = "published", "refused", "undecidable"
_SAID = {_REFUSED: _REFUSED, _UNDECIDABLE: UNKNOWN}


class SetSender(Protocol):
    """The interface of coldnotify.publisher.Publisher that is used here."""

    async def publish_set_async(
        self, domain: str, group_id: str, id_: str, said: AtomicSet, *, traceparent: str | None = None
    ) -> Published | PublishError:
        """Writes one set. Its acknowledgement says nothing about its conditions."""


class _Body(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    domain: str
    group: str
    set: msgspec.Raw
    id: str | None = None


class SetRequest(NamedTuple):
    """A request to publish a set."""

    domain: str
    group: str
    id: str
    said: AtomicSet


class AtomicEndpoints:
    """The handler. A request is answered once the partition's owner has decided, and that is durable."""

    def __init__(
        self, sender: SetSender, publishing: PublishEndpoints, outcomes: OutcomeAsker, metrics: Metrics
    ) -> None:
        self._sender = sender
        self._publishing = publishing
        self._outcomes = outcomes
        self._metrics = metrics

    def routes(self) -> list[web.AbstractRouteDef]:
        """The endpoint's route."""
        return [web.post("/v1/atomic", self.post)]

    @checks_names
    async def post(self, request: web.Request) -> web.Response:
        """POST /v1/atomic: {"domain", "group", "id", "set": [{"object", ...record, condition}, ...]}."""
        try:
            body = await self._publishing.bodies.one(request, SINGLE_BODY_BYTES_MAX)
            asked = parse_request(body, self._publishing.payload_bytes_max)
        except (BadRequest, InvalidName, web.HTTPException):
            self._metrics.bad_requests.inc()
            raise
        domain, group, id_, said = asked
        owned = owned_records(request, domain, group, [(one.object, one.said) for one in said.members])
        written = written_set(said, [record.source for _, record in owned])
        entered = await self._publishing.enter(request, domain, group, owned, len(body))
        if isinstance(entered, web.Response):
            return entered
        outcome: Published | PublishError | None = None
        begin_s = time.perf_counter()
        try:
            outcome = await self._sender.publish_set_async(
                domain, group, id_, written, traceparent=traceparent_of(request) or None
            )
        finally:
            self._publishing.entrance.leave(entered, () if outcome is None else [outcome])
        self._metrics.publish_seconds.observe(time.perf_counter() - begin_s)
        self._metrics.publishes.labels(kind_of(outcome)).inc(len(written.members))
        about = {"domain": domain, "group": group, "id": id_}
        if isinstance(outcome, PublishError):
            words = "unknown: it may be published" if outcome.indeterminate else "not published"
            return json_answer({**about, "error": str(outcome), "outcome": words}, status=503)
        begin_s = time.perf_counter()
        item = await self._outcomes.decided(domain, group, outcome, id_)
        kind = UNKNOWN if isinstance(item, str) else str(item.get("outcome", UNKNOWN))
        self._metrics.outcome_seconds.labels(kind if kind in OUTCOMES else UNKNOWN).observe(
            time.perf_counter() - begin_s
        )
        return decided_answer(about, outcome, item)


def parse_request(body: bytes, payload_bytes_max: int) -> SetRequest:
    """Returns the request of a body. Raises BadRequest, InvalidName."""
    try:
        said = msgspec.json.decode(body, type=_Body)
    except msgspec.ValidationError as error:
        words = name_the_field(str(error))
        raise BadRequest(field_of(ValueError(words)), words.partition(": ")[2]) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequest("body", f"is not JSON: {error}") from None
    domain, group = check_name("domain", said.domain), check_name("group", said.group)
    id_ = secrets.token_hex(_ID_BYTES) if said.id is None else said.id
    set_key(domain, group, id_)
    value = b'{"set":%b}' % bytes(said.set)
    if len(value) > SET_BYTES_MAX:
        raise BadRequest("set", f"has {len(value)} bytes (at most {SET_BYTES_MAX} are allowed)")
    try:
        return SetRequest(domain, group, id_, parse_set(value, payload_bytes_max=payload_bytes_max))
    except InvalidRecord as error:
        field, _, words = str(error).partition(": ")
        raise BadRequest(field, words) from None


def written_set(said: AtomicSet, sources: Sequence[str | None]) -> AtomicSet:
    """Returns a set as it is written, with its members' sources. Raises BadRequest if it is too long then."""
    members = [one._replace(said=replace(one.said, source=by)) for one, by in zip(said.members, sources, strict=True)]
    written = AtomicSet(tuple(members))
    try:
        encode_set(written)
    except InvalidRecord as error:
        field, _, words = str(error).partition(": ")
        raise BadRequest(field, words) from None
    return written


def decided_answer(about: Mapping[str, object], published: Published, item: Mapping[str, Any] | str) -> web.Response:
    """Returns the answer. `about`: domain, group and id. `item`: what the matcher says of the set, or why it says
    nothing."""
    members: Sequence[Mapping[str, Any]] = () if isinstance(item, str) else item.get("members") or ()
    outcome = UNKNOWN if isinstance(item, str) else item.get("outcome", UNKNOWN)
    place = {"partition": published.partition, "offset": published.offset}
    if outcome == _PUBLISHED and members:
        shown = [{"object": one["object"], "version": (one["newest"] or {}).get("version")} for one in members]
        return json_answer({**about, **place, "outcome": outcome, "members": shown})
    if outcome in _SAID and members:
        faults = [_fault(at, one) for at, one in enumerate(members) if one.get("reason")]
        first = faults[0] if faults else {"field": "set", "error": outcome}
        return error_response(
            409,
            f"{first['field']}: {first['error']}",
            field=first["field"],
            outcome=_SAID[outcome],
            members=faults,
            **about,
        )
    if outcome == "rejected":
        reason = item.get("reason", outcome) if not isinstance(item, str) else outcome
        return json_answer({**about, "error": f"not published: {reason}", "outcome": "not published"}, status=503)
    reason = item if isinstance(item, str) else item.get("reason", "the matcher does not say")
    words = "unknown: it may be published. Publishing it again with the same id is safe"
    return json_answer({**about, "error": f"what was decided is not known: {reason}", "outcome": words}, status=503)


def _fault(place: int, member: Mapping[str, Any]) -> dict[str, Any]:
    field, _, words = str(member["reason"]).partition(": ")
    return {"object": member["object"], "field": f"set[{place}].{field}", "error": words, "newest": member["newest"]}
