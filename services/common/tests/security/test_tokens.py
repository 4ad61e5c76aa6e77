"""Tokens of one's own making are taken by those who check them, and grant what was said and nothing else."""

import stat
import time
from pathlib import Path

import pytest
from coldnotify_common.security.authentication import Authenticator, AuthSettings, NotAuthenticated
from coldnotify_common.security.certificates import CertificatesError
from coldnotify_common.security.tokens import Grant, make_key, sign
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

CLIENT = ("animal.observer", "region-1", "observer-1")


def checker(key: Path, algorithm: str = "ES256", **settings: object) -> Authenticator:
    return Authenticator(
        AuthSettings(auth="token", auth_token_key=str(key), auth_token_algorithm=algorithm, **settings)  # type: ignore[arg-type]
    )


def pem(key: "ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey") -> tuple[bytes, bytes]:
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    return private, public


def test_a_token_is_the_client_and_publisher_that_it_says(tmp_path: Path) -> None:
    made = make_key(tmp_path)
    assert [path.name for path in made] == ["token.key", "token.pem"]
    assert stat.S_IMODE(made[0].stat().st_mode) == 0o600
    assert make_key(tmp_path) == [], "what is there stays"
    authenticator, now_s = checker(made[1]), time.time()
    token = sign(made[0], Grant(CLIENT), now_s, 3600)
    identity = authenticator.identify(token=token.text)
    assert (identity.clients, identity.publishes) == ((CLIENT,), ())
    assert now_s + 3599 <= token.expires_at_s <= now_s + 3600
    assert sign(made[0], Grant(CLIENT), now_s, 3600).id != token.id
    wide = authenticator.identify(token=sign(made[0], Grant(("d", "g", "ship-*"), ["d", "e.*"]), now_s, 60).text)
    assert wide.may_be("d", "g", "ship-7")
    assert not wide.may_be("d", "g", "boat")
    assert wide.may_publish("e.f")
    assert not wide.may_publish("f")


def test_it_ends(tmp_path: Path) -> None:
    private, public = make_key(tmp_path)
    authenticator = checker(public, auth_token_leeway_s=0)
    with pytest.raises(NotAuthenticated, match="has expired"):
        authenticator.identify(token=sign(private, Grant(CLIENT), time.time() - 100, 99).text)


def test_other_kinds_of_keys_and_an_audience(tmp_path: Path) -> None:
    private, public = tmp_path / "private", tmp_path / "public"
    for data, algorithm in (
        (pem(rsa.generate_private_key(65537, 2048)), "RS256"),
        ((b"s" * 32, b"s" * 32), "HS256"),
    ):
        private.write_bytes(data[0])
        public.write_bytes(data[1])
        authenticator = checker(public, algorithm, auth_token_audience="coldnotify")
        token = sign(private, Grant(CLIENT, audience="coldnotify"), time.time(), 60).text
        assert authenticator.identify(token=token).clients == (CLIENT,)
        with pytest.raises(NotAuthenticated):
            authenticator.identify(token=sign(private, Grant(CLIENT), time.time(), 60).text)


def test_what_cannot_be_signed_is_said(tmp_path: Path) -> None:
    key, _ = make_key(tmp_path)
    for grant, words in (
        (Grant(), "neither"),
        (Grant(("d", "g", "c d")), "client: 'c d'"),
        (Grant(("d", "g", "*c")), r"client: '\*c'"),
        (Grant(publishes=["a/b"]), "domain: 'a/b'"),
    ):
        with pytest.raises(ValueError, match=words):
            sign(key, grant, 0, 1)
    bad = tmp_path / "bad"
    for data, words in (
        (b"short", "holds 5 bytes"),
        (b"-----BEGIN nonsense", "no private key"),
        (pem(ec.generate_private_key(ec.SECP384R1()))[0], "another kind"),
    ):
        bad.write_bytes(data)
        with pytest.raises(CertificatesError, match=words):
            sign(bad, Grant(CLIENT), 0, 1)
    with pytest.raises(CertificatesError, match="cannot be read"):
        sign(tmp_path / "nothing", Grant(CLIENT), 0, 1)
    key.unlink()
    with pytest.raises(CertificatesError, match=r"token\.pem: is there and"):
        make_key(tmp_path)


def test_a_key_is_written_through_no_link(tmp_path: Path) -> None:
    (tmp_path / "token.pem").symlink_to(tmp_path / "others")
    with pytest.raises(OSError, match=r"token\.pem"):
        make_key(tmp_path)
    assert not (tmp_path / "others").exists()
