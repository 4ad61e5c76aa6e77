"""What services ask each other, and operators ask them: TLS for that, and who may; for the ports for looking in.

One certificate serves both ways: it is shown by who answers and by who asks. So all services may have the same three
settings, and the same files.
"""

import ssl
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog

from coldnotify_common.ask_inside_settings import AskInsideSettings
from coldnotify_common.authentication import CERTIFICATE_SOURCES, Authenticator, AuthSettings, RevokedSettings
from coldnotify_common.errors import SettingError
from coldnotify_common.identity import Identity, InvalidRule, parse_rules
from coldnotify_common.settings import describe, setting

log = structlog.get_logger()

LOOK_S = 10.0
"""How soon files that were replaced are noticed. A look is three stat(); certificates are renewed days ahead."""


@dataclass(frozen=True, kw_only=True)
class InsideSettings(RevokedSettings, AskInsideSettings):
    """What a port for looking in needs."""

    inside_rule: str = setting(
        "san-uri:coldnotify-service://{service} san-uri:coldnotify-publisher://{publish}",
        "rules that read from a certificate whether its owner has access: any {service} has, and any {publish} "
        "for all domains",
    )
    inside_hosts: str = setting(
        "",
        "host names that requests to the HTTP port may use, separated by spaces, besides addresses, localhost and "
        "the name it listens on; a web page whose own host name resolves to this machine is refused; *: all",
    )


INSIDE_HOSTS_SETTING = "COLDNOTIFY_INSIDE_HOSTS / --inside-hosts"


class InsideTls:
    """TLS for both sides; None of its contexts without a certificate. Safe to be used from several threads."""

    def __init__(self, settings: AskInsideSettings) -> None:
        """Reads the files. Raises SettingError."""
        self._settings = settings
        self._lock = threading.Lock()
        self._looked_s = time.monotonic()
        self._server: ssl.SSLContext | None = None
        self._client: ssl.SSLContext | None = None
        if not settings.inside_certificate:
            for name in ("inside_key", "inside_ca"):
                if getattr(settings, name):
                    raise _error(name, "is of no use without --inside-certificate")
            return
        if not settings.inside_ca:
            raise _error("inside_ca", "is needed with --inside-certificate: it says whose certificates are taken")
        self._stamps = self._stamp()
        self._server, self._client = self._contexts()

    @property
    def on(self) -> bool:
        """Whether there is TLS."""
        return bool(self._settings.inside_certificate)

    @property
    def scheme(self) -> str:
        """Of the addresses of ports for looking in."""
        return "https" if self.on else "http"

    @property
    def server(self) -> ssl.SSLContext | None:
        """For a port, always the same one. Certificates are not insisted on: probes have none."""
        return self._server

    @property
    def client(self) -> ssl.SSLContext | None:
        """For who asks, the one of now."""
        self.look()
        return self._client

    def look(self) -> None:
        """Takes files that were replaced. What cannot be used changes nothing, and is said in the log, once."""
        with self._lock:
            if not self.on or time.monotonic() - self._looked_s < LOOK_S:
                return
            self._looked_s = time.monotonic()
            stamps = self._stamp()
            if stamps == self._stamps:
                return
            self._stamps = stamps
            try:
                _, self._client = self._contexts()
                assert self._server is not None
                self._load(self._server)
            except SettingError as error:
                log.error("certificates not reloaded", error=str(error))
            else:
                log.info("certificates reloaded", certificate=self._settings.inside_certificate)

    def _contexts(self) -> tuple[ssl.SSLContext, ssl.SSLContext]:
        server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        server.options |= ssl.OP_NO_RENEGOTIATION
        server.verify_mode = ssl.CERT_OPTIONAL
        client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        for context in (server, client):
            context.minimum_version = ssl.TLSVersion.TLSv1_2
            self._load(context)
        return server, client

    def _load(self, context: ssl.SSLContext) -> None:
        settings = self._settings
        certificate = settings.inside_certificate
        try:
            context.load_cert_chain(Path(certificate), settings.inside_key or None, password=_no_password)
        except (OSError, ssl.SSLError, ValueError) as error:
            raise _error("inside_certificate", f"{certificate} and its key cannot be used: {error}") from None
        try:
            context.load_verify_locations(Path(settings.inside_ca))
        except (OSError, ssl.SSLError) as error:
            raise _error("inside_ca", f"{settings.inside_ca} cannot be used: {error}") from None

    def _stamp(self) -> list[tuple[int, ...]]:
        """Another one where a file is another one."""
        settings = self._settings
        found: list[tuple[int, ...]] = []
        for path in (settings.inside_certificate, settings.inside_key, settings.inside_ca):
            try:
                stat = Path(path).stat()
                found.append((stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns))
            except OSError:
                found.append(())
        return found


class Inside(InsideTls):
    """A port for looking in: its TLS, who may look, by which names."""

    def __init__(self, settings: InsideSettings) -> None:
        """Reads the files. Raises SettingError."""
        super().__init__(settings)
        try:
            parse_rules(settings.inside_rule, CERTIFICATE_SOURCES)
        except InvalidRule as error:
            raise _error("inside_rule", str(error)) from None
        self.hosts = settings.inside_hosts
        self._authenticator = Authenticator(
            AuthSettings(
                auth="certificate" if self.on else "none",
                auth_certificate_rule=settings.inside_rule,
                auth_revoked=settings.auth_revoked if self.on else "",
            )
        )

    def identify(self, certificate: Mapping[str, Any] | None) -> Identity:
        """Who shows this certificate, as ssl's getpeercert() says it. Raises NotAuthenticated."""
        return self._authenticator.identify(certificate=certificate)

    def announce(self, port: str, host: str) -> None:
        """Says in the log what is not secure about the port."""
        if not self.on and not _is_loopback(host):
            log.warning(
                "whoever reaches this port reads who is registered for what, in the clear (--inside-certificate)",
                port=port,
                host=host,
            )


def may_look(identity: Identity) -> bool:
    """Whether it is a service or an operator."""
    return identity.is_service or identity.is_operator


def _is_loopback(host: str) -> bool:
    return host in ("localhost", "::1") or host.startswith("127.")


def _no_password() -> str:
    """Without it, OpenSSL would ask on the terminal, and wait."""
    raise ValueError("the key is encrypted; a service has nobody to ask for its password")


def _error(name: str, words: str) -> SettingError:
    info = next(info for info in describe(InsideSettings) if info.name == name)
    return info.error(words)
