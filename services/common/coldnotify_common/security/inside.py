"""Access to the inspection ports, for services and operators; `inside_tls` contains their TLS."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import structlog

from coldnotify_common.security.address_settings import HostSettings
from coldnotify_common.security.authentication import CERTIFICATE_SOURCES, Authenticator, AuthSettings, RevokedSettings
from coldnotify_common.security.identity import Identity, InvalidRule, parse_rules
from coldnotify_common.security.inside_tls import AskInsideSettings, InsideTls
from coldnotify_common.settings import invalid, setting

log = structlog.get_logger()


@dataclass(frozen=True, kw_only=True)
class InsideSettings(RevokedSettings, AskInsideSettings, HostSettings):
    """The settings of an inspection port."""

    inside_rule: str = setting(
        "san-uri:coldnotify-service://{service} san-uri:coldnotify-publisher://{publish}",
        "rules that read from a certificate whether its owner has access: any {service} has, and any {publish} "
        "for all domains",
    )


class Inside(InsideTls):
    """An inspection port: its TLS, its authorization and its host names."""

    def __init__(self, settings: InsideSettings) -> None:
        """Reads the files. Raises SettingError."""
        super().__init__(settings)
        try:
            rules = parse_rules(settings.inside_rule, CERTIFICATE_SOURCES)
        except InvalidRule as error:
            raise invalid("inside_rule", str(error)) from None
        if any(rule.owns for rule in rules):
            raise invalid("inside_rule", "own: gives no access to this port, only --auth-...-rule can grant it")
        self.hosts = settings.http_hosts
        self._authenticator = Authenticator(
            AuthSettings(
                auth="certificate" if self.on else "none",
                auth_certificate_rule=settings.inside_rule,
                auth_revoked=settings.auth_revoked if self.on else "",
            )
        )

    def identify(self, certificate: Mapping[str, Any] | None) -> Identity:
        """Returns the identity for a certificate, given as a getpeercert() result. Raises NotAuthenticated."""
        return self._authenticator.identify(certificate=certificate)

    def announce(self, port: str, host: str) -> None:
        """Logs what is insecure about the port."""
        if not self.on and not _is_loopback(host):
            log.warning(
                "whoever reaches this port reads who is registered for what, in the clear (--inside-certificate)",
                port=port,
                host=host,
            )


def may_look(identity: Identity) -> bool:
    """Returns true if it is a service or an operator."""
    return identity.is_service or identity.is_operator


def _is_loopback(host: str) -> bool:
    return host in ("localhost", "::1") or host.startswith("127.")
