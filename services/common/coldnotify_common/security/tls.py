"""TLS of a service's ports: its settings, and its ssl contexts, which can be renewed while it serves."""

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import structlog

from coldnotify_common.errors import SettingError
from coldnotify_common.security.authentication import AuthSettings
from coldnotify_common.settings import invalid, setting
from coldnotify_common.stop import surviving_hangups

log = structlog.get_logger()


@dataclass(frozen=True, kw_only=True)
class SecureSettings(AuthSettings):
    """The settings for TLS on the ports that clients and publishers connect to."""

    tls_certificate: str = setting(
        "", "PEM file of this service's certificate and its intermediate certificates; turns TLS on"
    )
    tls_key: str = setting("", "PEM file of the certificate's private key; empty: it is in the certificate's file")
    tls_client_ca: str = setting(
        "", "PEM file of the authorities that sign client certificates; empty: no client certificate is requested"
    )
    tls_client_certificate: str = setting(
        "auto",
        "refuse TCP connections without a client certificate; auto: unless --auth accepts tokens",
        choices=("auto", "required", "optional"),
    )


class ServerTls:
    """The TLS contexts of a process's ports; None without a certificate."""

    def __init__(self, settings: SecureSettings) -> None:
        """Reads the files. Raises SettingError."""
        self._settings = settings
        self._contexts: dict[bool, ssl.SSLContext] = {}
        if not settings.tls_certificate:
            for name in ("tls_key", "tls_client_ca"):
                if getattr(settings, name):
                    raise invalid(name, "is of no use without --tls-certificate")
        if settings.auth in ("certificate", "any") and not settings.tls_client_ca:
            raise invalid("tls_client_ca", f"is needed for --auth {settings.auth}")
        if settings.tls_client_certificate == "required" and not settings.tls_client_ca:
            raise invalid("tls_client_certificate", "cannot be required without --tls-client-ca")
        if settings.tls_certificate:
            self._load(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))

    @property
    def on(self) -> bool:
        """True if TLS is on."""
        return bool(self._settings.tls_certificate)

    def context(self, *, required: bool) -> ssl.SSLContext | None:
        """Returns the context for a port, the same at each call; None without TLS.

        `required`: true if the port requires a client certificate whenever the settings do. HTTP ports do not require
        one: probes of /healthz have no certificate, and other requests without one are answered with 401.
        """
        if not self.on or required in self._contexts:
            return self._contexts.get(required)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        # A client must not make us repeat the work of a handshake.
        context.options |= ssl.OP_NO_RENEGOTIATION
        # Sessions stay here, in OpenSSL's cache of 20,480, and a ticket only names one: a ticket that contains the
        # session contains the client's certificate, too, and would make a resumed wake twice as long.
        context.options |= ssl.OP_NO_TICKET
        context.num_tickets = 1  # a client with one connection at a time needs no second one
        self._load(context)
        if self._settings.tls_client_ca:
            context.verify_mode = ssl.CERT_REQUIRED if required and self._insists else ssl.CERT_OPTIONAL
        self._contexts[required] = context
        return context

    def reload(self) -> None:
        """Reads the files again, for connections from now on. Unusable files change nothing.

        Authorities are added; one removed from its file is trusted until the process restarts.
        """
        try:
            self._load(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
            for context in self._contexts.values():
                self._load(context)
        except SettingError as error:
            log.error("certificates not reloaded", error=str(error))
        else:
            log.info("certificates reloaded", certificate=self._settings.tls_certificate)

    @contextmanager
    def reloaded_by_signal(self) -> Iterator[None]:
        """Reloads at SIGHUP while the block runs. In the main thread's running event loop only."""
        import asyncio

        if not self.on:
            yield
            return
        loop = asyncio.get_running_loop()
        with surviving_hangups(lambda: loop.call_soon_threadsafe(self.reload)):
            yield

    @property
    def _insists(self) -> bool:
        choice = self._settings.tls_client_certificate
        return choice == "required" or (choice == "auto" and self._settings.auth in ("none", "certificate"))

    def _load(self, context: ssl.SSLContext) -> None:
        settings = self._settings
        try:
            context.load_cert_chain(Path(settings.tls_certificate), settings.tls_key or None, password=_no_password)
        except (OSError, ssl.SSLError, ValueError) as error:
            raise invalid(
                "tls_certificate", f"{settings.tls_certificate} and its key cannot be used: {error}"
            ) from None
        if settings.tls_client_ca:
            try:
                context.load_verify_locations(Path(settings.tls_client_ca))
            except (OSError, ssl.SSLError) as error:
                raise invalid("tls_client_ca", f"{settings.tls_client_ca} cannot be used: {error}") from None


def _no_password() -> str:
    """Raises, because OpenSSL would otherwise ask for a password on the terminal, and wait."""
    raise ValueError("the key is encrypted; a service cannot ask for its password")
