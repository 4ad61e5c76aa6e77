"""Creates signed tokens: the key that signs them, and the claims that the services' rules read.

For development and small fields; an installation with a login server lets that sign them. The claims match the default
of --auth-token-rule: `sub` is DOMAIN/GROUP/CLIENT, `publish` is a list of domains.
"""

import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jwt
from coldnotify_schemas.names import check_name
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from coldnotify_common.security.authentication import SECRET_BYTES_MIN
from coldnotify_common.security.certificates import CertificatesError


def make_key(directory: Path) -> list[Path]:
    """Creates token.key (private) and token.pem (public) in an existing directory; returns the created files.

    Existing files stay: a missing public key is derived from the private one. Raises CertificatesError.
    """
    private, public = directory / "token.key", directory / "token.pem"
    made: list[Path] = []
    if not private.exists():
        if public.exists():
            raise CertificatesError(f"{public}: is there and {private} is not")
        pem = ec.generate_private_key(ec.SECP256R1()).private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        # Never readable by others, not even for a moment.
        with os.fdopen(os.open(private, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(pem)
        made.append(private)
    if not public.exists():
        key = _read_key(private)[0]
        if isinstance(key, bytes):
            raise CertificatesError(f"{private}: holds a secret, which has no public key")
        pem = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
        with os.fdopen(os.open(public, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644), "wb") as file:
            file.write(pem)
        made.append(public)
    return made


@dataclass(frozen=True, slots=True)
class Grant:
    """The rights and the audience in a token."""

    client: tuple[str, str, str] | None = None
    """Domain, group and client: each a name, `*`, or a beginning of a name and `*`."""
    publishes: Sequence[str] = ()
    """Domains that may be published to, written in the same way."""
    audience: str = ""

    def check(self) -> None:
        """Checks the names. Raises InvalidName, and ValueError if it grants nothing."""
        if self.client is None and not self.publishes:
            raise ValueError("a token needs a client, a publisher or both, and has neither")
        for field, value in zip(("domain", "group", "client"), self.client or (), strict=False):
            _check_pattern(field, value)
        for domain in self.publishes:
            _check_pattern("domain", domain)


@dataclass(frozen=True, slots=True)
class Token:
    """A signed token."""

    text: str
    id: str
    """Its claim `jti`, which identifies and revokes it."""
    expires_at_s: int
    """The end of its validity, Unix time in seconds."""


def sign(key_file: Path, grant: Grant, now_s: float, lasts_s: float) -> Token:
    """Returns a token that is valid from now on, for `lasts_s`.

    The file: a private key in PEM (ES256 for the curve P-256, RS256 for RSA), or else a secret (HS256). Raises
    CertificatesError, InvalidName, ValueError.
    """
    grant.check()
    key, algorithm = _read_key(key_file)
    expires_at_s, token_id = int(now_s + lasts_s), secrets.token_hex(8)
    claims: dict[str, Any] = {"iat": int(now_s), "exp": expires_at_s, "jti": token_id}
    if grant.client is not None:
        claims["sub"] = "/".join(grant.client)
    if grant.publishes:
        claims["publish"] = list(grant.publishes)
    if grant.audience:
        claims["aud"] = grant.audience
    return Token(jwt.encode(claims, key, algorithm), token_id, expires_at_s)


def _check_pattern(field: str, value: str) -> None:
    # The part before the * must be a possible beginning of a name.
    check_name(field, value.removesuffix("*") or "x" if value.endswith("*") else value)


def _read_key(path: Path) -> tuple[ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | bytes, str]:
    """Returns the key and its algorithm. Raises CertificatesError."""
    try:
        data = path.read_bytes().strip()
    except OSError as error:
        raise CertificatesError(f"{path}: cannot be read: {error.strerror}") from None
    if not data.startswith(b"-----BEGIN"):
        if len(data) < SECRET_BYTES_MIN:
            raise CertificatesError(f"{path}: holds {len(data)} bytes, a secret has at least {SECRET_BYTES_MIN}")
        return data, "HS256"
    try:
        key = serialization.load_pem_private_key(data, None)
    except (ValueError, TypeError) as error:
        raise CertificatesError(f"{path}: no private key that can be used: {error}") from None
    if isinstance(key, rsa.RSAPrivateKey):
        return key, "RS256"
    if isinstance(key, ec.EllipticCurvePrivateKey) and isinstance(key.curve, ec.SECP256R1):
        return key, "ES256"
    raise CertificatesError(f"{path}: tokens are signed with a key of the curve P-256 or of RSA, this is another kind")
