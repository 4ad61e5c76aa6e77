"""Who may be the client that a Hello names, and for how long."""

import asyncio
import time
from collections.abc import Callable
from typing import cast

import structlog
from coldnotify_common.authentication import Authenticator, NotAuthenticated
from coldnotify_schemas.close_codes import CloseCode
from coldnotify_schemas.wire_pb2 import Hello

from coldnotify_gateway.connection import Connection
from coldnotify_gateway.core import Peer, Violation

log = structlog.get_logger()

_TIMER_S_MAX = 30 * 86_400.0
"""A session that lasts longer than this is asked again then: no timer of the event loop need run for years."""


class Admission:
    """Asks the authenticator at each Hello, and says `expired(peer)` when what it went by holds no longer."""

    def __init__(self, authenticator: Authenticator, expired: Callable[[Peer], None]) -> None:
        self._authenticator = authenticator
        self._expired = expired
        self._loop = asyncio.get_running_loop()
        self._timers: dict[Peer, asyncio.TimerHandle] = {}

    def admit(self, peer: Peer, hello: Hello) -> None:
        """The core's question. Raises Violation."""
        connection = cast(Connection, peer)
        try:
            identity = self._authenticator.identify(
                certificate=connection.certificate, token=hello.token or connection.token
            )
        except NotAuthenticated as error:
            log.info("client not authenticated", reason=str(error))
            code = CloseCode.EXPIRED if error.expired else CloseCode.NOT_AUTHENTICATED
            raise Violation(code, str(error)) from None
        if not identity.may_be(hello.domain, hello.group, hello.client):
            wanted = f"{hello.domain}/{hello.group}/{hello.client}"
            log.info("client not allowed", identity=identity.name, client=wanted)
            raise Violation(CloseCode.NOT_ALLOWED, f"{identity.name} may not be {wanted}")
        if identity.expires_at_s != float("inf"):
            delay_s = min(max(0.0, identity.expires_at_s - time.time()), _TIMER_S_MAX)
            self._timers[peer] = self._loop.call_later(delay_s, self._expired, peer)

    def forget(self, peer: Peer) -> None:
        """It is gone."""
        timer = self._timers.pop(peer, None)
        if timer is not None:
            timer.cancel()
