"""TLS of inspection ports, for their clients and the ports themselves: settings, and reloading of replaced files.

The same certificate serves both sides: servers and clients present it. So all services may have the same three
settings, and the same files.
"""

import ssl
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from coldnotify_common.errors import SettingError
from coldnotify_common.settings import Settings, invalid, setting

LOOK_S = 10.0
"""Interval of checks for replaced files. A check is three stat(); certificates are renewed days ahead."""


@dataclass(frozen=True, kw_only=True)
class AskInsideSettings(Settings):
    """The settings of a client of inspection ports."""

    inside_certificate: str = setting(
        "",
        "PEM file of the certificate that services show each other, and operators show to services, with "
        "intermediate certificates; turns TLS on for the HTTP ports of matchers and gateways; read again when it "
        "changes",
    )
    inside_key: str = setting("", "PEM file of the certificate's private key; empty: it is in the certificate's file")
    inside_ca: str = setting("", "PEM file of the authorities that sign these certificates")


class InsideTls:
    """TLS for both sides; its contexts are None without a certificate. Safe to use from several threads."""

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
                    raise invalid(name, "is of no use without --inside-certificate")
            return
        if not settings.inside_ca:
            raise invalid(
                "inside_ca",
                "is needed with --inside-certificate: it names the authorities whose certificates are accepted",
            )
        self._stamps = self._stamp()
        self._server, self._client = self._contexts()

    @property
    def on(self) -> bool:
        """True if TLS is on."""
        return bool(self._settings.inside_certificate)

    @property
    def scheme(self) -> str:
        """The scheme of inspection ports' addresses."""
        return "https" if self.on else "http"

    @property
    def server(self) -> ssl.SSLContext | None:
        """The context for a port, always the same object. It does not require certificates, because probes have
        none."""
        return self._server

    @property
    def client(self) -> ssl.SSLContext | None:
        """The current context for a client."""
        self.look()
        return self._client

    def look(self) -> None:
        """Loads replaced files. Unusable files change nothing, and are logged once."""
        with self._lock:
            if not self.on or time.monotonic() - self._looked_s < LOOK_S:
                return
            self._looked_s = time.monotonic()
            stamps = self._stamp()
            if stamps == self._stamps:
                return
            self._stamps = stamps
            # Importing this at the top would make a command that sends one request start a third slower.
            import structlog

            log = structlog.get_logger()
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
            raise invalid("inside_certificate", f"{certificate} and its key cannot be used: {error}") from None
        try:
            context.load_verify_locations(Path(settings.inside_ca))
        except (OSError, ssl.SSLError) as error:
            raise invalid("inside_ca", f"{settings.inside_ca} cannot be used: {error}") from None

    def _stamp(self) -> list[tuple[int, ...]]:
        """Returns a stamp of the files, which changes when a file does."""
        settings = self._settings
        found: list[tuple[int, ...]] = []
        for path in (settings.inside_certificate, settings.inside_key, settings.inside_ca):
            try:
                stat = Path(path).stat()
                found.append((stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns))
            except OSError:
                found.append(())
        return found


def _no_password() -> str:
    """Raises, because OpenSSL would otherwise ask for a password on the terminal, and wait."""
    raise ValueError("the key is encrypted; a service cannot ask for its password")
