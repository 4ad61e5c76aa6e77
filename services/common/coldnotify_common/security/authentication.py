"""Authenticates a connection: maps a verified client certificate or a signed token to an Identity; with its
settings."""

import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog

from coldnotify_common.security.identity import ANYBODY, Identity, InvalidRule, Rule, identity_of, parse_rules
from coldnotify_common.security.publish_rights import InvalidTemplate, check_apart
from coldnotify_common.security.revocation import BadList, RevocationList, jti, serial
from coldnotify_common.settings import ServiceSettings, invalid, setting

log = structlog.get_logger()

CERTIFICATE_SOURCES = ("cn", "san-dns", "san-uri")
SECRET_BYTES_MIN = 32
"""Minimum size of an HS256 key: RFC 7518 requires a key that is not shorter than the hash."""
_TOKEN_CHARS_MAX = 8192
"""More than any header or Hello can carry; a longer token is not decoded."""
_EXPIRES_AT_S_MAX = 253_402_300_799
"""The end of the year 9999, the last one that all clocks and calendars can represent. A later value is usually a time
in milliseconds, and comparing a clock with such a number could raise an error of our own."""


@dataclass(frozen=True, kw_only=True)
class RevokedSettings(ServiceSettings):
    """The setting for revoked certificates and tokens."""

    auth_revoked: str = setting(
        "",
        "file of revoked certificates and tokens, one 'serial HEX' or 'jti TEXT' per line; read again when it changes",
    )


@dataclass(frozen=True, kw_only=True)
class AuthSettings(RevokedSettings):
    """The settings for authentication."""

    auth: str = setting(
        "none",
        "proof of identity: a client certificate, a token, or either; none: no proof, for development only",
        choices=("none", "certificate", "token", "any"),
    )
    auth_certificate_rule: str = setting(
        "san-uri:coldnotify://{domain}/{group}/{client} san-uri:coldnotify-publisher://{publish}",
        "rules that read an identity from a certificate: cn, san-dns or san-uri, a colon, a template; with =>own:NAMES "
        "behind it, a right to publish to names below NAMES",
    )
    auth_token_rule: str = setting(
        "sub:{domain}/{group}/{client} publish:{publish}",
        "rules that read an identity from a token: a claim (text, or a list of texts), a colon, a template; with "
        "=>own:NAMES behind it, a right to publish to names below NAMES",
    )
    auth_token_key: str = setting(
        "", "file with the key that checks tokens: the secret (HS256), or a public key in PEM (RS256, ES256)"
    )
    auth_token_algorithm: str = setting("ES256", "algorithm that signs tokens", choices=("HS256", "RS256", "ES256"))
    auth_token_audience: str = setting("", "required `aud` of a token; empty: any")
    auth_token_leeway_s: float = setting(
        30,
        "maximum difference between the clocks of the token issuer and this service (s)",
        minimum=0,
        maximum=3600,
    )


class NotAuthenticated(Exception):
    """The caller showed no valid proof of an identity. The message may be sent to the caller; it contains no secret."""

    def __init__(self, words: str, *, expired: bool = False) -> None:
        super().__init__(words)
        self.expired = expired
        """True if the proof was valid once: the client may return with a newer one."""


class Authenticator:
    """Identifies callers. Safe to use from several threads."""

    def __init__(self, settings: AuthSettings) -> None:
        """Reads the key. Raises SettingError."""
        self._settings = settings
        self.mode = settings.auth
        self._certificate_rules = self._rules("auth_certificate_rule", CERTIFICATE_SOURCES)
        self._token_rules = self._rules("auth_token_rule", ())
        try:
            check_apart(rule.owns for rule in (*self._certificate_rules, *self._token_rules) if rule.owns)
        except InvalidTemplate as error:
            raise invalid("auth_token_rule", f"and --auth-certificate-rule: own: {error}") from None
        self._key = self._read_key() if self.takes_tokens else b""
        try:
            self._revoked = RevocationList(settings.auth_revoked)
        except BadList as error:
            raise invalid("auth_revoked", str(error)) from None

    @property
    def takes_certificates(self) -> bool:
        """True if client certificates are accepted."""
        return self.mode in ("certificate", "any")

    @property
    def takes_tokens(self) -> bool:
        """True if tokens are accepted."""
        return self.mode in ("token", "any")

    @property
    def revokes(self) -> bool:
        """True if there is a list of revoked proofs."""
        return self._revoked.on

    def revoked(self) -> frozenset[str]:
        """Returns the revoked proofs; a new object only if they have changed."""
        return self._revoked.now()

    def holds(self, identity: Identity) -> bool:
        """Returns true if the identity is still valid: neither expired nor revoked."""
        return time.time() < identity.expires_at_s and self._revoked.now().isdisjoint(identity.proofs)

    def announce(self, port: str, *, tls: bool) -> None:
        """Logs what is insecure about this port."""
        if self.mode == "none":
            log.warning(
                "development mode: whoever reaches this port may be any client and publish anything (--auth none)",
                port=port,
            )
        elif not tls:
            log.warning("tokens travel in the clear: there is no TLS on this port (--tls-certificate)", port=port)

    def identify(self, *, certificate: Mapping[str, Any] | None = None, token: str | None = None) -> Identity:
        """Returns the caller's identity. Raises NotAuthenticated.

        `certificate`: the result of getpeercert() for a verified certificate; `token`: as received. If both are given
        and both are accepted, the token counts, unless the certificate has been revoked.
        """
        if self.mode == "none":
            return ANYBODY
        proofs = (serial(certificate["serialNumber"]),) if certificate and "serialNumber" in certificate else ()
        if any(map(self._revoked.bars, proofs)):
            raise NotAuthenticated("the client certificate has been revoked")
        if token and self.takes_tokens:
            return self._of_token(token, proofs)
        if certificate and self.takes_certificates:
            return self._of_certificate(certificate, proofs)
        wanted = {"certificate": "a client certificate", "token": "a token", "any": "a client certificate or a token"}
        raise NotAuthenticated(f"{wanted[self.mode]} is needed")

    def _of_certificate(self, certificate: Mapping[str, Any], proofs: tuple[str, ...]) -> Identity:
        names = certificate_names(certificate)
        # TLS has checked this at the handshake, but does not check it again when a session is resumed.
        expires_at_s = float(ssl.cert_time_to_seconds(certificate["notAfter"]))
        if expires_at_s <= time.time():
            raise NotAuthenticated("the client certificate has expired", expired=True)
        name = next((values[0] for values in names.values() if values), "a certificate without a name")
        return identity_of(name, names, self._certificate_rules, expires_at_s, proofs)

    def _of_token(self, token: str, proofs: tuple[str, ...]) -> Identity:
        import jwt  # takes a tenth of a service's start, so only services that accept tokens import it

        settings = self._settings
        token = token.strip()  # a token read from a file may end with a line break
        if len(token) > _TOKEN_CHARS_MAX:
            raise NotAuthenticated(f"the token is longer than {_TOKEN_CHARS_MAX} characters")
        try:
            claims = jwt.decode(
                token,
                self._key,
                algorithms=[settings.auth_token_algorithm],
                audience=settings.auth_token_audience or None,
                leeway=settings.auth_token_leeway_s,
                options={"require": ["exp"], "verify_aud": bool(settings.auth_token_audience)},
            )
        except jwt.ExpiredSignatureError:
            raise NotAuthenticated("the token has expired", expired=True) from None
        except jwt.ImmatureSignatureError:
            raise NotAuthenticated("the token does not hold yet", expired=True) from None
        except jwt.MissingRequiredClaimError as error:
            raise NotAuthenticated(f"the token does not say {error.claim}") from None
        except jwt.InvalidAudienceError:
            raise NotAuthenticated("the token is for another audience") from None
        # The library converts times without checking them: infinity, a list, more digits than Python accepts.
        except (jwt.InvalidTokenError, ValueError, TypeError, ArithmeticError, RecursionError):
            raise NotAuthenticated("the token is not one that is signed for this service") from None
        expires_at_s = _expires_at_s(claims["exp"]) + settings.auth_token_leeway_s
        if isinstance(claims.get("jti"), str):
            proofs = *proofs, jti(claims["jti"])
        if any(map(self._revoked.bars, proofs)):
            raise NotAuthenticated("the token has been revoked")
        values = {claim: _texts(value) for claim, value in claims.items()}
        name = next(iter(values.get("sub", ())), "a token without a subject")
        return identity_of(name, values, self._token_rules, expires_at_s, proofs)

    def _rules(self, name: str, sources: tuple[str, ...]) -> tuple[Rule, ...]:
        try:
            return parse_rules(getattr(self._settings, name), sources)
        except InvalidRule as error:
            raise invalid(name, str(error)) from None

    def _read_key(self) -> bytes:
        import jwt

        settings = self._settings
        if not settings.auth_token_key:
            raise invalid("auth_token_key", f"is needed for --auth {self.mode}")
        try:
            key = Path(settings.auth_token_key).read_bytes().strip()
        except OSError as error:
            raise invalid("auth_token_key", f"{settings.auth_token_key} cannot be read: {error.strerror}") from None
        pem = key.startswith(b"-----BEGIN")
        if settings.auth_token_algorithm == "HS256":
            if pem:
                raise invalid("auth_token_key", "holds a public key in PEM: HS256 wants a secret")
            if len(key) < SECRET_BYTES_MIN:
                raise invalid("auth_token_key", f"holds {len(key)} bytes, a secret has at least {SECRET_BYTES_MIN}")
            return key
        if b"PRIVATE KEY" in key:
            raise invalid(
                "auth_token_key", "holds a private key, which only the issuer may have: the public one is wanted"
            )
        try:
            jwt.get_algorithm_by_name(settings.auth_token_algorithm).prepare_key(key)
        except (jwt.InvalidKeyError, ValueError, TypeError):
            raise invalid("auth_token_key", f"holds no public key for {settings.auth_token_algorithm} in PEM") from None
        return key


def certificate_names(certificate: Mapping[str, Any]) -> dict[str, list[str]]:
    """Returns the texts for rules, by source, of a getpeercert() result."""
    alternatives = certificate.get("subjectAltName", ())
    return {
        "san-uri": [value for kind, value in alternatives if kind == "URI"],
        "san-dns": [value for kind, value in alternatives if kind == "DNS"],
        "cn": [value for part in certificate.get("subject", ()) for key, value in part if key == "commonName"],
    }


def bearer(header: str | None) -> str | None:
    """Returns the token of an Authorization header, or None."""
    kind, _, token = (header or "").strip().partition(" ")
    return token.strip() or None if kind.lower() == "bearer" else None


def _expires_at_s(value: object) -> float:
    """Returns a token's `exp`: a number of seconds (RFC 7519). Raises NotAuthenticated."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _EXPIRES_AT_S_MAX:  # nor NaN
        raise NotAuthenticated("the token's `exp` is no time in seconds up to the year 9999")
    return float(value)


def _texts(value: object) -> list[str]:
    """Returns the printable texts of a claim. A name contains no unprintable characters; JSON may contain lone
    surrogates, which an answer cannot."""
    values = value if isinstance(value, list) else [value]
    return [text for text in values if isinstance(text, str) and text.isprintable()]
