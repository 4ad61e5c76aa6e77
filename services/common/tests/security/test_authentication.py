"""Certificates and tokens: which are taken, what they say, and why others are not."""

import time
from pathlib import Path
from typing import Any

import jwt
import pytest
from coldnotify_common.errors import SettingError
from coldnotify_common.security.authentication import Authenticator, AuthSettings, NotAuthenticated, bearer
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from structlog.testing import capture_logs

SECRET = "s" * 40
CERTIFICATE = {
    "subject": ((("commonName", "unit"),),),
    "subjectAltName": (("DNS", "unit.example"), ("URI", "coldnotify://d/g/c"), ("URI", "coldnotify-publisher://p")),
    "notAfter": "Jan  1 00:00:00 2090 GMT",
}


@pytest.fixture
def by_secret(tmp_path: Path) -> Authenticator:
    return Authenticator(AuthSettings(auth="any", auth_token_algorithm="HS256", auth_token_key=write(tmp_path, SECRET)))


def write(tmp_path: Path, content: str | bytes) -> str:
    path = tmp_path / "key"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(path)


def token(key: Any = SECRET, algorithm: str = "HS256", **claims: object) -> str:
    return jwt.encode({"exp": time.time() + 60, "sub": "d/g/c"} | claims, key, algorithm)


def test_a_certificate_says_who_it_is_for() -> None:
    identity = Authenticator(AuthSettings(auth="certificate")).identify(certificate=CERTIFICATE)
    assert identity.may_be("d", "g", "c")
    assert identity.may_publish("p")
    assert not identity.may_publish("d")


def test_a_certificate_that_has_expired_since_its_handshake_counts_no_longer() -> None:
    with pytest.raises(NotAuthenticated, match="expired") as caught:
        Authenticator(AuthSettings(auth="certificate")).identify(
            certificate=CERTIFICATE | {"notAfter": "Jan  1 00:00:00 2020 GMT"}
        )
    assert caught.value.expired


def test_a_token_says_who_it_is_for(by_secret: Authenticator) -> None:
    identity = by_secret.identify(token=token(publish=["lamps", 3]), certificate=CERTIFICATE)
    assert identity.may_be("d", "g", "c")
    assert identity.publishes == ("lamps",)
    assert identity.expires_at_s > time.time()
    assert by_secret.identify(token=f"{token()}\n").may_be("d", "g", "c"), "as a file holds it"


def test_a_token_signed_with_a_private_key(tmp_path: Path) -> None:
    private = ec.generate_private_key(ec.SECP256R1())
    pem = private.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    authenticator = Authenticator(
        AuthSettings(auth="token", auth_token_key=write(tmp_path, pem), auth_token_audience="here")
    )
    assert authenticator.identify(token=token(private, "ES256", aud="here")).may_be("d", "g", "c")
    with pytest.raises(NotAuthenticated, match="audience"):
        authenticator.identify(token=token(private, "ES256", aud="there"))
    with pytest.raises(NotAuthenticated, match="signed"):  # the public key is no secret
        authenticator.identify(token=jwt.api_jws.encode(b'{"exp": 9999999999}', SECRET, "HS256"))


@pytest.mark.parametrize(
    ("given", "words", "expired"),
    [
        (token(exp=time.time() - 3600), "has expired", True),
        (token(nbf=time.time() + 3600), "not hold yet", True),
        (token("x" * 40), "signed", False),
        (token(SECRET * 2, "HS512"), "signed", False),
        (jwt.encode({"sub": "d/g/c"}, SECRET), "does not say exp", False),
        (jwt.encode({"sub": "d/g/c", "exp": 9999999999}, "", "none"), "signed", False),
        ("no token", "signed", False),
        ("x" * 9000, "longer", False),
        (None, "certificate or a token is needed", False),
    ],
)
def test_why_a_token_is_not_taken(by_secret: Authenticator, given: str | None, words: str, expired: bool) -> None:
    with pytest.raises(NotAuthenticated, match=words) as caught:
        by_secret.identify(token=given)
    assert caught.value.expired is expired
    assert not given or given not in str(caught.value)


@pytest.mark.parametrize(
    "exp",
    ["1" + "0" * 400, "1" + "0" * 5000, "1e400", "-1e400", "-1", "-1.5", "NaN", '"9999999999"', '"soon"', "null",
     "true", "[9999999999]", "{}", "253402300800", "[" * 5000 + "]" * 5000],
    ids=lambda exp: exp[:12],
)  # fmt: skip
def test_a_token_whose_end_is_no_time_is_refused(by_secret: Authenticator, exp: str) -> None:
    given = jwt.api_jws.encode(f'{{"sub": "d/g/c", "exp": {exp}}}'.encode(), SECRET, "HS256")
    with pytest.raises(NotAuthenticated):
        by_secret.identify(token=given)


@pytest.mark.parametrize("claim", ["nbf", "iat"])
@pytest.mark.parametrize("value", ["1" + "0" * 400, "1e400", "NaN", "[]", '"x"'])
def test_a_token_whose_other_times_are_none_is_refused(by_secret: Authenticator, claim: str, value: str) -> None:
    given = jwt.api_jws.encode(f'{{"exp": 9999999999, "{claim}": {value}}}'.encode(), SECRET, "HS256")
    with pytest.raises(NotAuthenticated):
        by_secret.identify(token=given)


def test_the_end_of_a_token_may_have_a_fraction_and_be_far_away(by_secret: Authenticator) -> None:
    end_s = int(time.time()) + 60.5
    leeway_s = AuthSettings().auth_token_leeway_s
    assert by_secret.identify(token=token(exp=end_s)).expires_at_s == end_s + leeway_s
    assert by_secret.identify(token=token(exp=253402300799)).expires_at_s == 253402300799 + leeway_s


def test_half_a_character_in_a_token_is_nobodys_name(by_secret: Authenticator) -> None:
    identity = by_secret.identify(token=token(sub="\ud800", publish=["lamps"]))
    assert (identity.name, identity.publishes) == ("a token without a subject", ("lamps",))


@pytest.mark.parametrize(
    ("settings", "content", "words"),
    [
        ({"auth": "token"}, None, "AUTH_TOKEN_KEY .* is needed for --auth token"),
        ({"auth": "token", "auth_token_algorithm": "HS256"}, "short", "holds 5 bytes"),
        ({"auth": "token", "auth_token_algorithm": "HS256"}, "-----BEGIN PUBLIC KEY-----", "wants a secret"),
        ({"auth": "token"}, "-----BEGIN PRIVATE KEY-----", "the public one is wanted"),
        ({"auth": "token"}, "nothing", "no public key for ES256"),
        ({"auth_token_rule": "sub"}, None, "--auth-token-rule: 'sub' is not SOURCE:TEMPLATE"),
        ({"auth_certificate_rule": "x:{client}"}, None, "--auth-certificate-rule: .* none of cn"),
        ({"auth_token_rule": "sub:{client}=>own:units/"}, None, "--auth-token-rule: .* own: 'units/' has no {client}"),
        (
            {"auth_token_rule": "sub:{client}=>own:{client}/", "auth_certificate_rule": "cn:{client}=>own:u/{client}/"},
            *(None, "--auth-token-rule: and --auth-certificate-rule: own: .* two clients could own the same name"),
        ),
    ],
)
def test_a_setting_that_cannot_be_used_is_named(
    settings: dict[str, Any], content: str | None, words: str, tmp_path: Path
) -> None:
    if content is not None:
        settings = settings | {"auth_token_key": write(tmp_path, content)}
    with pytest.raises(SettingError, match=words):
        Authenticator(AuthSettings(**settings))


def test_development_mode_takes_everybody_and_says_so() -> None:
    authenticator = Authenticator(AuthSettings())
    assert authenticator.identify().may_be("d", "g", "c")
    with capture_logs() as logs:
        authenticator.announce("gateway", tls=False)
    assert [(line["log_level"], "--auth none" in line["event"]) for line in logs] == [("warning", True)]


def test_the_bearer_of_a_header() -> None:
    assert [bearer(header) for header in ("Bearer abc", "bearer  abc ", "Basic abc", "Bearer ", None)] == [
        *("abc", "abc"),
        *(None, None, None),
    ]
