"""TLS for who asks a port for looking in, and for the port itself: the settings, and files that are replaced.

One certificate serves both ways: it is shown by who answers and by who asks. So all services may have the same three
settings, and the same files.
"""

import ssl
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from coldnotify_common.errors import SettingError
from coldnotify_common.settings import Settings, describe, setting

LOOK_S = 10.0
"""How soon files that were replaced are noticed. A look is three stat(); certificates are renewed days ahead."""


@dataclass(frozen=True, kw_only=True)
class AskInsideSettings(Settings):
    """What asking the ports for looking in needs."""

    inside_certificate: str = setting(
        "",
        "PEM file of the certificate that services show each other, and operators show to services, with its "
        "intermediate certificates; turns TLS on for the HTTP ports of matchers and gateways; read again when it "
        "changes",
    )
    inside_key: str = setting("", "PEM file of the certificate's private key; empty: it is in the certificate's file")
    inside_ca: str = setting("", "PEM file of the authorities that sign these certificates")


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
            # With the services' log a command that asks once would take a third longer to start.
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


def _no_password() -> str:
    """Without it, OpenSSL would ask on the terminal, and wait."""
    raise ValueError("the key is encrypted; a service has nobody to ask for its password")


def _error(name: str, words: str) -> SettingError:
    info = next(info for info in describe(AskInsideSettings) if info.name == name)
    return info.error(words)
