"""Who may be the client that a Hello names, and for how long."""

import asyncio
import time
from collections.abc import Callable
from typing import cast

import structlog
from coldnotify_common.paced import Paced
from coldnotify_common.security.authentication import Authenticator, NotAuthenticated
from coldnotify_common.security.identity import Identity
from coldnotify_schemas.close_codes import CloseCode
from coldnotify_schemas.wire_pb2 import Hello

from coldnotify_gateway.core import Peer, Violation
from coldnotify_gateway.device_connection import DeviceConnection, Proof

log = structlog.get_logger()
_paced = Paced(log)

_TIMER_S_MAX = 30 * 86_400.0
"""A session that lasts longer than this is asked again then: no timer of the event loop need run for years."""


_REVOKED_LOOK_S = 2.0
"""How long a session may go on whose certificate or token has been revoked; a look at one session is a look-up."""


class Admission:
    """Asks the authenticator at each Hello, and says `expired(peer)` when what it went by holds no longer."""

    def __init__(self, authenticator: Authenticator, expired: Callable[[Peer], None]) -> None:
        self._authenticator = authenticator
        self._expired = expired
        self._loop = asyncio.get_running_loop()
        self._timers: dict[Peer, asyncio.TimerHandle] = {}
        self._identities: dict[Peer, Identity] = {}
        """Of those who are here; empty where nothing can be revoked."""
        self._looked_for: frozenset[str] | None = None
        """What was revoked when all of them were looked at last."""
        self._look: asyncio.TimerHandle | None = None

    def admit(self, peer: Peer, hello: Hello) -> bool:
        """The core's question: whether the client may publish. Raises Violation if it may not be the client."""
        connection = cast(DeviceConnection, peer)
        token = hello.token or connection.token
        identity = self.identify(Proof(connection.address, connection.certificate, token, connection.passed_on))
        if not identity.may_be(hello.domain, hello.group, hello.client):
            wanted = f"{hello.domain}/{hello.group}/{hello.client}"
            _paced.log("client not allowed", identity=identity.name, client=wanted, address=connection.address)
            raise Violation(CloseCode.NOT_ALLOWED, f"{identity.name} may not be {wanted}")
        if identity.expires_at_s != float("inf"):
            delay_s = min(max(0.0, identity.expires_at_s - time.time()), _TIMER_S_MAX)
            self._timers[peer] = self._loop.call_later(delay_s, self._expired, peer)
        if self._authenticator.revokes:
            self._identities[peer] = identity
            if self._look is None:
                self._look = self._loop.call_later(_REVOKED_LOOK_S, self._look_for_revoked)
        return identity.may_publish(hello.domain)

    def identify(self, proof: Proof) -> Identity:
        """Who shows this. Raises Violation."""
        try:
            return self._authenticator.identify(certificate=proof.certificate, token=proof.token)
        except NotAuthenticated as error:
            _paced.log("client not authenticated", reason=str(error), address=proof.address)
            code = CloseCode.EXPIRED if error.expired else CloseCode.NOT_AUTHENTICATED
            why_none = "" if proof.certificate or proof.token else self._why_none(proof)
            raise Violation(code, f"{error}{why_none}") from None

    def forget(self, peer: Peer) -> None:
        """It is gone."""
        timer = self._timers.pop(peer, None)
        if timer is not None:
            timer.cancel()
        self._identities.pop(peer, None)
        if self._look is not None and not self._identities:
            self._look.cancel()
            self._look = None

    def _why_none(self, proof: Proof) -> str:
        """For who has shown nothing: perhaps a certificate, to somebody else."""
        if not proof.passed_on or not self._authenticator.takes_certificates:
            return ""
        return " (what the HTTP service or a proxy passes on arrives without the client's certificate: " + (
            "connect to a gateway's own port, or show a token)"
            if self._authenticator.takes_tokens
            else "connect to a gateway's own port)"
        )

    def _look_for_revoked(self) -> None:
        """As at the end of a proof: they are to come back, and are told why not then."""
        self._look = None
        revoked = self._authenticator.revoked()
        # Who came since then was asked at the Hello: there is nobody to find before the list is another one.
        if revoked is not self._looked_for:
            self._looked_for = revoked
            for peer in [p for p, identity in self._identities.items() if not self._authenticator.holds(identity)]:
                log.info("session of a revoked proof closed", identity=self._identities.pop(peer).name)
                self._expired(peer)
        if self._identities and self._look is None:
            self._look = self._loop.call_later(_REVOKED_LOOK_S, self._look_for_revoked)
