"""The identity of whoever runs a command, for all services, and the certificates that are trusted."""

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coldnotify_common.errors import SettingError
from coldnotify_common.security.inside_tls import AskInsideSettings, InsideTls
from coldnotify_common.settings import Settings, setting

from coldnotify_cli.asked_ports import address_speaks_tls


@dataclass(frozen=True, kw_only=True)
class CredentialSettings(Settings):
    """Certificates and a token, as files."""

    ca_cert: str = setting("", "PEM file of the trusted authorities; turns TLS on")
    cert: str = setting("", "PEM file of the client certificate; turns TLS on")
    key: str = setting("", "PEM file of the certificate's private key; empty: it is in the certificate's file")
    token_file: str = setting("", "file with the token that proves the identity; read again for each connection")


@dataclass(frozen=True, kw_only=True)
class AskBothSettings(CredentialSettings, AskInsideSettings):
    """The identity for the HTTP service, and one for matchers' and gateways' ports for looking in, if it differs."""


class InsideWay:
    """TLS for the ports for looking in: by --inside-certificate, else by the identity for the HTTP service."""

    def __init__(self, settings: AskBothSettings, timeout_s: float) -> None:
        """Raises SettingError."""
        self._inside = InsideTls(settings)
        self._identity = http_context(settings) if settings.ca_cert or settings.cert else None
        self._timeout_s = timeout_s

    def to(self, address: str) -> tuple[str, ssl.SSLContext | None]:
        """Returns the URL and the TLS context. These ports may be in the clear behind an HTTP service with TLS."""
        if self._inside.on:
            return f"https://{address}", self._inside.client
        if self._identity is not None and address_speaks_tls(address, self._timeout_s):
            return f"https://{address}", self._identity
        return f"http://{address}", None


def connection_options(settings: CredentialSettings) -> dict[str, Any]:
    """Returns these settings as arguments of coldnotify.Connection."""
    return {
        "ca_cert": settings.ca_cert or None,
        "cert": settings.cert or None,
        "key": settings.key or None,
        "token": (lambda: read_token(settings)) if settings.token_file else None,
    }


def http_base(settings: CredentialSettings, address: str) -> str:
    """Returns the URL of the HTTP service at host:port, or at a URL."""
    scheme = "https" if settings.ca_cert or settings.cert else "http"
    stripped = address.strip().rstrip("/")
    return stripped if stripped.startswith(("http://", "https://")) else f"{scheme}://{stripped}"


def http_context(settings: CredentialSettings) -> ssl.SSLContext:
    """For https. Raises SettingError."""
    context = ssl.create_default_context()
    try:
        if settings.ca_cert:
            context = ssl.create_default_context(cafile=settings.ca_cert)
        if settings.cert:
            context.load_cert_chain(settings.cert, settings.key or None)
    except (OSError, ssl.SSLError) as error:
        raise SettingError(f"--ca-cert, --cert, --key (COLDNOTIFY_CA_CERT ...): cannot be used: {error}") from None
    return context


def read_token(settings: CredentialSettings) -> str:
    """The token of the file; "" without one. Raises SettingError."""
    if not settings.token_file:
        return ""
    try:
        return Path(settings.token_file).read_text().strip()
    except OSError as error:
        raise SettingError(f"COLDNOTIFY_TOKEN_FILE / --token-file: {settings.token_file}: {error.strerror}") from None
