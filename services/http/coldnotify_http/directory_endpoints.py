"""GET /v1/gateway: the address of a gateway for a client that knows none, or none that serves it."""

import random
import time
from collections.abc import Callable, Sequence

import structlog
from aiohttp import web
from coldnotify_common.http.json_answers import json_answer
from coldnotify_common.http.web import BadRequest, error_response
from coldnotify_common.http.web_auth import identified
from coldnotify_common.nodes import DEVICE, WEB
from coldnotify_common.paced import Paced
from coldnotify_common.placement.allowed_addresses import AllowedAddresses
from coldnotify_common.placement.directory import Directory, Offer
from coldnotify_common.placement.fair_shares import FULL_NOT_HERE_S, GatewayShare
from coldnotify_common.security.authentication import Authenticator
from coldnotify_schemas.names import check_name

from coldnotify_http.node_addresses import SeenNodes

_paced = Paced(structlog.get_logger(), every_s=60.0)

GATEWAY = "/v1/gateway"
_LISTENERS = (DEVICE, WEB)
_HOME_AWAY_S = 60
"""A home that is not ready, or not known, is tried again after this time."""
_RETRY_AFTER_S = 5
"""A gateway that has just started is in the nodes topic by then."""
_READ_EVERY_S = 0.5
_ADDRESS_CHARS_MAX = 300


class DirectoryEndpoints:
    """The handler. It authenticates clients itself, as a gateway does: they are no publishers."""

    def __init__(
        self,
        nodes: SeenNodes,
        allowed: AllowedAddresses,
        authenticator: Authenticator,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._nodes = nodes
        self._allowed = allowed
        self._authenticator = authenticator
        self._now_s = now_s
        self._directories = {name: Directory(random.Random()) for name in _LISTENERS}
        self._offers: dict[str, list[Offer]] = {}
        self._read_s = float("-inf")

    def routes(self) -> list[web.AbstractRouteDef]:
        """GET /v1/gateway."""
        return [web.get(GATEWAY, self.gateway)]

    async def gateway(self, request: web.Request) -> web.Response:
        """GET /v1/gateway?domain&group&client&home&listener."""
        query = request.query
        listener = query.get("listener", DEVICE)
        if listener not in _LISTENERS:
            raise BadRequest("listener", f"is {listener[:40]!r}, neither of {', '.join(_LISTENERS)}")
        home = query.get("home", "")
        if len(home) > _ADDRESS_CHARS_MAX:
            raise BadRequest("home", f"has {len(home)} characters (at most {_ADDRESS_CHARS_MAX} are allowed)")
        names = [check_name(field, query[field]) for field in ("domain", "group", "client") if field in query]
        refused = self._refusal(request, names)
        if refused is not None:
            return refused
        if not self._allowed:
            return _later("no address may be given out: COLDNOTIFY_DIRECTORY_ADDRESSES / --directory-addresses")
        now_s = self._now_s()
        offers = self._offers_of(listener, now_s)
        given = self._directories[listener].give(now_s, offers, home)
        if given is None:
            return _later(self._nodes.unknown or "no gateway is ready and takes clients")
        answer: dict[str, object] = {"address": given.address, "home_ready": given.home_ready}
        if home and not given.home_ready:
            full = any(one.address == home for one in offers)
            seconds = FULL_NOT_HERE_S if full else _HOME_AWAY_S
            answer["until"] = time.time_ns() // 1_000_000 + seconds * 1000
        return json_answer(answer)

    def _refusal(self, request: web.Request, names: Sequence[str]) -> web.Response | None:
        identity = identified(self._authenticator, request)
        if isinstance(identity, web.Response):
            return identity
        if identity.publishes or (len(names) == 3 and identity.may_be(*names)):
            return None
        return error_response(403, f"{identity.name} may not be {'/'.join(names) or 'a client without a name'}")

    def _offers_of(self, listener: str, now_s: float) -> list[Offer]:
        if now_s - self._read_s >= _READ_EVERY_S:
            self._read_s = now_s
            for name in _LISTENERS:
                self._offers[name] = self._read(name, now_s)
                self._directories[name].forget(one.address for one in self._offers[name])
        return self._offers[listener]

    def _read(self, listener: str, now_s: float) -> list[Offer]:
        """Returns the gateways that are ready. Those that share an address are one."""
        found: dict[str, Offer] = {}
        for one in self._nodes.seen("gateway"):
            node, address = one.node, one.node.addresses.get(listener)
            if address is None or not one.counts or not node.ready:
                continue
            if address not in self._allowed:
                if self._allowed:
                    _paced.log("the directory gives no such address", level="warning", address=address, node=node.id)
                continue
            share = GatewayShare(node.connections, node.limit, node.weight, node.home)
            before = found.get(address)
            found[address] = Offer(
                address,
                share if before is None else _together(before.share, share),
                now_s - one.age_s if before is None else min(before.at_s, now_s - one.age_s),
            )
        return list(found.values())


def _together(one: GatewayShare, other: GatewayShare) -> GatewayShare:
    limit = one.limit + other.limit if one.limit and other.limit else 0
    return GatewayShare(one.connections + other.connections, limit, one.weight + other.weight, one.home + other.home)


def _later(words: str) -> web.Response:
    response = error_response(503, words)
    response.headers["Retry-After"] = str(_RETRY_AFTER_S)
    return response
