"""The endpoints of webhooks: set, list, remove, rotate and test them. Whoever may publish to a domain has them."""

import asyncio
import json
import secrets
import time
from typing import Any

import structlog
from aiohttp import web
from coldnotify_common.hooks.hook_records import (
    BODY_BYTES_MAX,
    STATUS,
    TEST,
    Hook,
    InvalidHook,
    check_hook_name,
    encode_hook,
    hook_of,
    shown_status,
)
from coldnotify_common.hooks.hook_store import HookStore, StoredHook
from coldnotify_common.hooks.hook_urls import RefusedUrl
from coldnotify_common.http.json_answers import json_answer
from coldnotify_common.http.web import BadRequest, Handler, error_response
from coldnotify_common.http.web_auth import IDENTITY
from coldnotify_common.kafka.kafka_clients import KafkaUnavailable

from coldnotify_http.ledger_endpoints import GROUP
from coldnotify_http.request_parts import Bodies, domain_and_group
from coldnotify_http.settings import HttpSettings

log = structlog.get_logger()

OFF = "hooks: this installation has no webhooks (--hooks-key-file)"
HOOKS_MAX = 1_000
"""Limit on the hooks of a group."""
_KAFKA_S = 10.0
_TEST_S = 15.0
"""A call may wait for one of its host, and takes at most 8 s."""
_TEST_LOOK_S = 0.5
_WAITING_MAX = 32
"""Limit on requests that wait for the topic, which one at a time reads."""


class HookEndpoints:
    """The handlers. Each reads the topic: hooks are set seldom, and any node may have set the last one."""

    def __init__(self, settings: HttpSettings, bodies: Bodies) -> None:
        """Raises SettingError."""
        self._key = settings.hooks_key()
        self._urls = settings.hook_urls()
        self._store = HookStore(settings)
        self._bodies = bodies
        self._turn = asyncio.Lock()
        self._waiting = 0

    def routes(self) -> list[web.AbstractRouteDef]:
        """Those below /v1/domains/{domain}/groups/{group}/hooks."""
        all_, one = f"{GROUP}/hooks", f"{GROUP}/hooks/{{hook}}"
        return [
            web.get(all_, self._checked(self.listed, needs_key=False)),
            web.get(one, self._checked(self.shown)),
            web.put(one, self._checked(self.put)),
            web.delete(one, self._checked(self.removed)),
            web.post(f"{one}/rotate", self._checked(self.rotated)),
            web.post(f"{one}/test", self._checked(self.tested)),
        ]

    async def listed(self, request: web.Request) -> web.Response:
        """GET .../hooks: all hooks of the group, by name."""
        domain, group = domain_and_group(request)
        found = {} if self._key is None else await self._found(domain, group)
        return json_answer({"items": [_shown(found[name]) for name in sorted(found)], "enabled": self._key is not None})

    async def shown(self, request: web.Request) -> web.Response:
        """GET .../hooks/{hook}."""
        return json_answer(_shown(await self._one(request)))

    async def put(self, request: web.Request) -> web.Response:
        """PUT .../hooks/{hook}: sets all of it. The secret of a new one is in the answer, and never again."""
        domain, group = domain_and_group(request)
        name = check_hook_name(request.match_info["hook"])
        fields = _fields(await self._bodies.one(request, BODY_BYTES_MAX, outcome="not set"))
        found = await self._found(domain, group)
        before = found.get(name)
        if before is None and len(found) >= HOOKS_MAX:
            raise BadRequest("hook", f"the group has {len(found)} hooks (at most {HOOKS_MAX} are allowed)")
        known = None if before is None else before.hook
        hook = hook_of(domain, group, name, fields, self._urls, _now_ms(), known)
        await self._write(hook, {hook.key: encode_hook(hook)})
        self._say("webhook set", request, hook)
        if before is None:
            return json_answer({**_shown(StoredHook(hook, {})), "secret": self._secret(hook)}, status=201)
        return json_answer(_shown(StoredHook(hook, {})))

    async def removed(self, request: web.Request) -> web.Response:
        """DELETE .../hooks/{hook}."""
        hook = (await self._one(request)).hook
        await self._write(hook, {hook.key: None, f"{hook.key}/{STATUS}": None, f"{hook.key}/{TEST}": None})
        self._say("webhook removed", request, hook)
        return json_answer({"name": hook.name, "removed": True})

    async def rotated(self, request: web.Request) -> web.Response:
        """POST .../hooks/{hook}/rotate: a new secret; for 24 h both sign."""
        hook = (await self._one(request)).hook.rotated(_now_ms())
        await self._write(hook, {hook.key: encode_hook(hook)})
        self._say("webhook's secret rotated", request, hook)
        return json_answer({**_shown(StoredHook(hook, {})), "secret": self._secret(hook)})

    async def tested(self, request: web.Request) -> web.Response:
        """POST .../hooks/{hook}/test: has the receiver called once, and says what it answered."""
        hook = (await self._one(request)).hook
        test = secrets.token_hex(8)
        said = {"id": test, "at_ms": _now_ms()}
        await self._write(hook, {f"{hook.key}/{TEST}": json.dumps(said).encode()})
        deadline_s = time.monotonic() + _TEST_S
        while time.monotonic() < deadline_s:
            await asyncio.sleep(_TEST_LOOK_S)
            status = (await self._one(request)).status.get("test")
            if isinstance(status, dict) and status.get("id") == test:
                return json_answer(
                    {"name": hook.name, "applied": status.get("applied") is True, "words": _text(status)}
                )
        words = f"nobody has called within {_TEST_S:g} s: does `coldnotify hooks` run?"
        return json_answer({"name": hook.name, "applied": False, "words": words})

    async def _one(self, request: web.Request) -> StoredHook:
        domain, group = domain_and_group(request)
        name = check_hook_name(request.match_info["hook"])
        found = (await self._found(domain, group)).get(name)
        if found is None:
            raise _Missing(f"hook: {domain}/{group} has no {name}")
        return found

    async def _found(self, domain: str, group: str) -> dict[str, StoredHook]:
        if self._waiting >= _WAITING_MAX:
            raise KafkaUnavailable("others ask for hooks at the moment")
        self._waiting += 1
        try:
            async with self._turn:
                return await asyncio.to_thread(self._store.of_group, domain, group, _KAFKA_S)
        finally:
            self._waiting -= 1

    async def _write(self, hook: Hook, records: dict[str, bytes | None]) -> None:
        async with self._turn:
            await asyncio.to_thread(self._store.write, hook.domain, hook.group, records, _KAFKA_S)

    def _secret(self, hook: Hook) -> str:
        assert self._key is not None
        return hook.secrets(self._key, _now_ms())[0]

    @staticmethod
    def _say(words: str, request: web.Request, hook: Hook) -> None:
        identity = request.get(IDENTITY)
        by = None if identity is None else identity.name
        log.info(words, domain=hook.domain, group=hook.group, hook=hook.name, by=by, address=request.remote)

    def _checked(self, handler: Handler, *, needs_key: bool = True) -> Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            if needs_key and self._key is None:
                return error_response(409, OFF, field="hooks")
            try:
                return await handler(request)
            except (InvalidHook, RefusedUrl) as error:
                field, _, words = str(error).partition(": ")
                raise BadRequest(field, words) from None
            except _Missing as error:
                return error_response(404, str(error), field="hook")
            except KafkaUnavailable as error:
                response = error_response(503, str(error))
                response.headers["Retry-After"] = "2"
                return response

        return handle


class _Missing(Exception):
    pass


def _shown(stored: StoredHook) -> dict[str, Any]:
    return {**stored.hook.shown(), **shown_status(stored.hook, stored.status)}


def _text(status: dict[str, Any]) -> str:
    return str(status.get("words", ""))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _fields(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise BadRequest("hook", f"is not JSON: {error}") from None
