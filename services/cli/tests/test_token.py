"""`coldnotify token`: what it prints is a token, and nothing else."""

import json
import time
from pathlib import Path

import pytest
from coldnotify_cli.tls_parts import TlsParts
from coldnotify_common.security.authentication import Authenticator, AuthSettings
from coldnotify_testkit.command import coldnotify


def test_certificates_come_with_a_key_whose_tokens_are_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = json.loads(coldnotify("certs", str(tmp_path), "--json").stdout)
    assert made["keys"] == [str(tmp_path / name) for name in ("token.key", "token.pem")]
    assert made["authority"] == [str(tmp_path / "ca.pem")]
    assert made["certificates"]
    done = coldnotify(
        *("token", str(tmp_path / "token.key"), "--client", "d/g/*", "--publisher", "d,e", "--hours", "0.5")
    )
    assert done.returncode == 0, done.stderr
    assert " UTC" in done.stderr
    flag = f"--auth-token-key={tmp_path / 'token.pem'}"
    assert flag not in TlsParts(str(tmp_path)).flags("http"), "without tokens it is of no use"
    monkeypatch.setenv("COLDNOTIFY_AUTH", "any")
    assert flag in TlsParts(str(tmp_path)).flags("http")
    monkeypatch.setenv("COLDNOTIFY_AUTH_TOKEN_KEY", "another")
    assert flag not in TlsParts(str(tmp_path)).flags("http")
    settings = AuthSettings(auth="token", auth_token_key=str(tmp_path / "token.pem"))
    identity = Authenticator(settings).identify(token=done.stdout.strip())
    assert (identity.clients, identity.publishes) == ((("d", "g", "*"),), ("d", "e"))
    shown = json.loads(coldnotify("token", str(tmp_path / "token.key"), "--client", "d/g/c", "--json").stdout)
    assert set(shown) == {"token", "id", "expires_at"}
    assert shown["expires_at"] > time.time()


def test_wrong_use_is_named(tmp_path: Path) -> None:
    for arguments, words in (
        ((), "one of them is needed"),
        (("--client", "d/g"), "--client: 'd/g' is not DOMAIN/GROUP/CLIENT"),
        (("--publisher", "d", "--hours", "0"), "--hours"),
        (("--publisher", "d"), "cannot be read"),
    ):
        done = coldnotify("token", str(tmp_path / "nothing"), *arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert words in done.stderr
