"""The endpoints of tenants: their agreements and usage, for everybody; changes and removals, for operators."""

import asyncio
import json
import time
from typing import Any

import msgspec
from aiohttp import web
from coldnotify_common.http.json_answers import json_answer
from coldnotify_common.http.list_pages import page, page_request
from coldnotify_common.http.query_numbers import whole_number
from coldnotify_common.http.web import BadRequest, Handler, error_response
from coldnotify_common.http.web_auth import IDENTITY
from coldnotify_common.http.web_shares import who_asks
from coldnotify_common.kafka.kafka_clients import KafkaUnavailable
from coldnotify_common.security.identity import Identity
from coldnotify_common.security.shared import Full, Shared
from coldnotify_common.settings import ServiceSettings
from coldnotify_common.tenancy.tenancy import Tenancy
from coldnotify_common.tenancy.tenant_store import read_history, remove_tenant, write_tenant
from coldnotify_schemas.tenant_usage import Rates, TenantCounters, Verdict
from coldnotify_schemas.tenants import (
    DEFAULT_TENANT,
    TENANT_BYTES_MAX,
    InvalidTenant,
    Tenant,
    check_tenant_name,
    fields_of,
    tenant_of,
)

from coldnotify_http.request_parts import Bodies

_KAFKA_S = 10.0
_SEEN_S = 5.0
"""How long an answer waits until this node has read its own write."""
_SEEN_LOOK_S = 0.02
_RETRY_AFTER_S = 2
_FORBIDDEN, _NOT_FOUND, _CONFLICT, _UNAVAILABLE = 403, 404, 409, 503
_SPANS_S = {"hour": 3600, "day": 86400}
_SPANS_MAX = {"hour": 24 * 14, "day": 400}
_SPANS_DEFAULT = {"hour": 24, "day": 7}
_HISTORIES_MAX = 2
"""Limit on histories read at a time, one for each identity: each reads everything written about all tenants in that
time.
"""


class TenantEndpoints:
    """The handlers. They read what this node knows; writes go to Kafka, and come back from there."""

    def __init__(self, tenancy: Tenancy, settings: ServiceSettings, bodies: Bodies) -> None:
        self._tenancy = tenancy
        self._settings = settings
        self._bodies = bodies
        self._writing = asyncio.Lock()
        self._histories = Shared(_HISTORIES_MAX, of_one=1)

    def routes(self) -> list[web.AbstractRouteDef]:
        """GET, PUT and DELETE below /v1/tenants."""
        return [
            web.get("/v1/tenants", _checked(self.listed)),
            web.get("/v1/tenants/{tenant}", _checked(self.shown)),
            web.put("/v1/tenants/{tenant}", _checked(self.put)),
            web.delete("/v1/tenants/{tenant}", _checked(self.removed)),
            web.get("/v1/tenants/{tenant}/usage", _checked(self.usage)),
        ]

    async def listed(self, request: web.Request) -> web.Response:
        """GET /v1/tenants?limit&after: all tenants, by name. For operators."""
        _operators_only(request)
        wanted = page_request(request.query)
        with self._tenancy.lock:
            tenants = {tenant.name: tenant for tenant in self._tenancy.table.all()}
            damaged, conflicts = dict(self._tenancy.damaged), self._tenancy.table.conflicts()
        listed = page(sorted(tenants), wanted.limit, wanted.after, lambda name: _shown(tenants[name]))
        return json_answer({**listed, "damaged": damaged, "conflicts": conflicts})

    async def shown(self, request: web.Request) -> web.Response:
        """GET /v1/tenants/{tenant}: the agreement, and the present usage."""
        tenant = self._of(request)
        return json_answer({**_shown(tenant), "now": _now(self._tenancy.verdict_of(tenant.name))})

    async def put(self, request: web.Request) -> web.Response:
        """PUT /v1/tenants/{tenant}: domains and agreement; what is left out has no limit. For operators."""
        _operators_only(request)
        name = request.match_info["tenant"]
        fields = _fields(await self._bodies.one(request, 2 * TENANT_BYTES_MAX, outcome=""))
        async with self._writing:
            with self._tenancy.lock:
                before = self._tenancy.table.get(name)
            principal = before.principal if before is not None else None
            if fields.setdefault("principal", principal) != principal:
                raise BadRequest("principal", "is set by `coldnotify tenant set`, which tells Kafka the quota, too")
            tenant = tenant_of(name, fields)
            with self._tenancy.lock:
                clash = self._tenancy.table.clashes(tenant)
            if clash is not None:
                return error_response(_CONFLICT, clash, field=clash.partition(":")[0])
            await asyncio.to_thread(write_tenant, self._settings, tenant, _KAFKA_S)
            await self._until_known(tenant.name, tenant)
        return json_answer(_shown(tenant))

    async def removed(self, request: web.Request) -> web.Response:
        """DELETE /v1/tenants/{tenant}: its domains belong to `default` from now on. For operators."""
        _operators_only(request)
        name = check_tenant_name(request.match_info["tenant"])
        async with self._writing:
            with self._tenancy.lock:
                before = self._tenancy.table.get(name)
                known = before is not None or name in self._tenancy.damaged
            if not known:
                return error_response(_NOT_FOUND, f"tenant: there is no {name}", field="tenant")
            if before is not None and before.principal is not None:
                words = f"principal: {before.principal} has a quota in Kafka, which `coldnotify tenant remove` removes"
                return error_response(_CONFLICT, words, field="principal")
            await asyncio.to_thread(remove_tenant, self._settings, name, _KAFKA_S)
            await self._until_known(name, None)
        return json_answer({"tenant": name, "removed": True})

    async def usage(self, request: web.Request) -> web.Response:
        """GET /v1/tenants/{tenant}/usage?by=hour&last=24: the usage in the hours or days that were counted."""
        tenant = self._of(request)
        by = request.query.get("by", "hour")
        if by not in _SPANS_S:
            raise BadRequest("by", f"{by[:80]!r} is neither hour nor day")
        text = request.query.get("last", str(_SPANS_DEFAULT[by]))
        last = whole_number("last", text, minimum=1, maximum=_SPANS_MAX[by])
        with self._histories.part(who_asks(request)) as full:
            if full is not None:
                whose = "you" if full is Full.OF_ONE else "others"
                return _later(f"{whose} ask for usage at the moment")
            now_s = time.time()
            # The record of an hour is written until shortly after its end.
            since_s = now_s - last * _SPANS_S[by]
            found = await asyncio.to_thread(read_history, self._settings, tenant.name, by, since_s, _KAFKA_S)
        items = [{by: key.when, **_counted(counters)} for key, counters in found[-last:]]
        now = _now(self._tenancy.verdict_of(tenant.name))
        return json_answer({"tenant": tenant.name, "by": by, "now": now, "items": items})

    def _of(self, request: web.Request) -> Tenant:
        """The tenant that is asked for: operators ask for any, others for one that has a domain of theirs."""
        name = check_tenant_name(request.match_info["tenant"])
        with self._tenancy.lock:
            tenant = self._tenancy.table.get(name)
        if tenant is None and name == DEFAULT_TENANT:
            tenant = Tenant(DEFAULT_TENANT)
        identity = request.get(IDENTITY)
        if identity is not None and not identity.is_operator and not _is_theirs(identity, tenant):
            # Whether there is one of this name is nobody else's business.
            raise _NotAllowed(f"tenant: {identity.name} may publish to no domain of {name}")
        if tenant is None:
            raise _Missing(f"tenant: there is no {name}")
        return tenant

    async def _until_known(self, name: str, tenant: Tenant | None) -> None:
        """Waits, so that this node's next answer includes the write."""
        deadline_s = time.monotonic() + _SEEN_S
        while time.monotonic() < deadline_s:
            with self._tenancy.lock:
                known = self._tenancy.table.get(name) == tenant and name not in self._tenancy.damaged
            if known:
                return
            await asyncio.sleep(_SEEN_LOOK_S)


class _NotAllowed(Exception):
    pass


class _Missing(Exception):
    pass


def _checked(handler: Handler) -> Handler:
    """Whatever else is wrong, as json_errors does it for names and records."""

    async def handle(request: web.Request) -> web.StreamResponse:
        try:
            return await handler(request)
        except InvalidTenant as error:
            field, _, words = str(error).partition(": ")
            raise BadRequest(field, words) from None
        except _NotAllowed as error:
            return error_response(_FORBIDDEN, str(error), field="tenant")
        except _Missing as error:
            return error_response(_NOT_FOUND, str(error), field="tenant")
        except KafkaUnavailable as error:
            return _later(str(error))

    return handle


def _is_theirs(identity: Identity, tenant: Tenant | None) -> bool:
    return tenant is not None and any(map(identity.may_publish, tenant.domains))


def _operators_only(request: web.Request) -> None:
    identity = request.get(IDENTITY)
    if identity is not None and not identity.is_operator:
        raise _NotAllowed(f"tenant: {identity.name} is no operator (who may publish to all domains)")


def _later(words: str) -> web.Response:
    response = error_response(_UNAVAILABLE, words)
    response.headers["Retry-After"] = str(_RETRY_AFTER_S)
    return response


def _fields(body: bytes) -> dict[str, Any]:
    if len(body) > TENANT_BYTES_MAX:
        raise BadRequest("record", f"has {len(body)} bytes (at most {TENANT_BYTES_MAX} are allowed)")
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise BadRequest("record", f"is not JSON: {error}") from None
    if not isinstance(fields, dict):
        raise BadRequest("record", "is not an object of the agreement's fields")
    return fields


def _shown(tenant: Tenant) -> dict[str, Any]:
    return {"tenant": tenant.name, **fields_of(tenant)}


def _now(verdict: Verdict | None) -> dict[str, Any] | None:
    if verdict is None:
        return None
    shown: dict[str, Any] = msgspec.to_builtins(verdict)
    return {**shown, "per_s": _rates(verdict.per_s), "per_min": _rates(verdict.per_min)}


def _rates(rates: Rates) -> dict[str, float]:
    return {name: round(getattr(rates, name), 3) for name in rates.__struct_fields__}


def _counted(counters: TenantCounters) -> dict[str, int]:
    return {name: getattr(counters, name) for name in counters.__struct_fields__}
