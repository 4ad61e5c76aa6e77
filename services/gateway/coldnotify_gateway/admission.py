"""Checks that a connection may be the client that its Hello names, and limits for how long."""

import asyncio
import time
from collections.abc import Callable
from typing import cast

import structlog
from coldnotify_common.paced import Paced
from coldnotify_common.security.authentication import Authenticator, NotAuthenticated
from coldnotify_common.security.identity import Identity
from coldnotify_common.security.publish_rights import PublishRight
from coldnotify_schemas.close_codes import CloseCode
from coldnotify_schemas.wire_pb2 import Hello

from coldnotify_gateway.core import DeviceHome, Peer, Violation
from coldnotify_gateway.device_connection import DeviceConnection, Proof

log = structlog.get_logger()
_paced = Paced(log)

_TIMER_S_MAX = 30 * 86_400.0
"""Longest timer of a proof's expiry, so that no timer of the event loop runs for years."""


_REVOKED_LOOK_S = 2.0
"""Longest time that a session continues after its certificate or token was revoked. A check costs one look-up per
session."""


class Admission:
    """Asks the authenticator at each Hello, and calls `expired(peer)` when the client's proof is no longer valid."""

    def __init__(
        self, authenticator: Authenticator, expired: Callable[[Peer], None], home: DeviceHome | None = None
    ) -> None:
        """`home`: the domain and group of MQTT devices whose proof names more than one."""
        self._authenticator = authenticator
        self._expired = expired
        self._home = home
        self._loop = asyncio.get_running_loop()
        self._timers: dict[Peer, asyncio.TimerHandle] = {}
        self._identities: dict[Peer, Identity] = {}
        """Identities of present clients; empty if nothing can be revoked."""
        self._looked_for: frozenset[str] | None = None
        """The revoked proofs at the last check of all sessions."""
        self._look: asyncio.TimerHandle | None = None

    def admit(self, peer: Peer, hello: Hello) -> PublishRight:
        """Returns the client's right to publish. Raises Violation if the connection may not be the client."""
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
        return identity.publish_right(hello.domain, hello.group, hello.client)

    def home_of(self, peer: Peer, token: str) -> DeviceHome | None:
        """Returns the domain and group that the proof of an MQTT connection names alone; otherwise those of the
        settings. Raises Violation."""
        connection = cast(DeviceConnection, peer)
        token = token or connection.token
        identity = self.identify(Proof(connection.address, connection.certificate, token, connection.passed_on))
        homes = {(domain, group) for domain, group, _ in identity.clients}
        if len(homes) == 1:
            domain, group = homes.pop()
            if not (domain.endswith("*") or group.endswith("*")):
                return DeviceHome(domain, group)
        return self._home

    def identify(self, proof: Proof) -> Identity:
        """Returns the identity that a proof belongs to. Raises Violation."""
        try:
            return self._authenticator.identify(certificate=proof.certificate, token=proof.token)
        except NotAuthenticated as error:
            _paced.log("client not authenticated", reason=str(error), address=proof.address)
            code = CloseCode.EXPIRED if error.expired else CloseCode.NOT_AUTHENTICATED
            why_none = "" if proof.certificate or proof.token else self._why_none(proof)
            raise Violation(code, f"{error}{why_none}") from None

    def forget(self, peer: Peer) -> None:
        """Forgets an ended connection."""
        timer = self._timers.pop(peer, None)
        if timer is not None:
            timer.cancel()
        self._identities.pop(peer, None)
        if self._look is not None and not self._identities:
            self._look.cancel()
            self._look = None

    def _why_none(self, proof: Proof) -> str:
        """Returns a hint for a client without a proof, which may have shown its certificate to a proxy."""
        if not proof.passed_on or not self._authenticator.takes_certificates:
            return ""
        return " (what the HTTP service or a proxy passes on arrives without the client's certificate: " + (
            "connect to a gateway's own port, or show a token)"
            if self._authenticator.takes_tokens
            else "connect to a gateway's own port)"
        )

    def _look_for_revoked(self) -> None:
        """Ends sessions with revoked proofs, as if they had expired. The refusal of their next Hello gives the
        reason."""
        self._look = None
        revoked = self._authenticator.revoked()
        # The Hello of each later client was checked already, so nothing can be found until the list changes.
        if revoked is not self._looked_for:
            self._looked_for = revoked
            for peer in [p for p, identity in self._identities.items() if not self._authenticator.holds(identity)]:
                log.info("session of a revoked proof closed", identity=self._identities.pop(peer).name)
                self._expired(peer)
        if self._identities and self._look is None:
            self._look = self._loop.call_later(_REVOKED_LOOK_S, self._look_for_revoked)
