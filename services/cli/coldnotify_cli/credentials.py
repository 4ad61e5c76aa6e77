"""The credentials of a command for gateways and HTTP services, and the certificates that it trusts."""

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coldnotify_common.errors import SettingError
from coldnotify_common.settings import Settings, setting


@dataclass(frozen=True, kw_only=True)
class CredentialSettings(Settings):
    """Certificates and a token, as files."""

    ca_cert: str = setting("", "PEM file of the trusted authorities; turns TLS on")
    cert: str = setting("", "PEM file of the client certificate; turns TLS on")
    key: str = setting("", "PEM file of the certificate's private key; empty: it is in the certificate's file")
    token_file: str = setting("", "file with the token that proves the identity; read again for each connection")


def connection_options(settings: CredentialSettings) -> dict[str, Any]:
    """Returns these settings as arguments of coldnotify.Connection."""
    return {
        "ca_cert": settings.ca_cert or None,
        "cert": settings.cert or None,
        "key": settings.key or None,
        "token": (lambda: read_token(settings)) if settings.token_file else None,
    }


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
