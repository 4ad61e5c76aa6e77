"""The list of what is revoked: read again when it changes, and never lost to a mistake in it."""

import os
import time
from pathlib import Path

import pytest
from coldnotify_common import revocation
from coldnotify_common.authentication import Authenticator, AuthSettings, NotAuthenticated
from coldnotify_common.errors import SettingError
from coldnotify_common.revocation import BadList, Revoked, serial
from coldnotify_common.tokens import Grant, make_key, sign
from structlog.testing import capture_logs

CERTIFICATE = {
    "subject": ((("commonName", "unit"),),),
    "subjectAltName": (("URI", "coldnotify://d/g/c"),),
    "notAfter": "Jan  1 00:00:00 2090 GMT",
    "serialNumber": "0A1BFF",
}


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(revocation, "LOOK_S", 0.0)


def write(path: Path, text: str) -> None:
    """As an operator should: a file that is whole takes the old one's place."""
    new = path.with_suffix(".new")
    new.write_text(text)
    os.replace(new, path)  # noqa: PTH105


def test_what_is_in_the_file_counts_no_longer_and_counts_again_when_it_is_not(tmp_path: Path) -> None:
    path = tmp_path / "revoked"
    write(path, "# nobody yet\n\n")
    key, public = make_key(tmp_path)
    settings = AuthSettings(auth="any", auth_token_key=str(public), auth_revoked=str(path))
    authenticator = Authenticator(settings)
    token = sign(key, Grant(("d", "g", "c")), time.time(), 3600)
    by_certificate = authenticator.identify(certificate=CERTIFICATE)
    by_token = authenticator.identify(token=token.text)
    assert (by_certificate.proof, by_token.proof) == ("serial a1bff", f"jti {token.id}")
    assert authenticator.revokes
    assert authenticator.holds(by_certificate)

    write(path, f"serial 0a:1b:ff # lost at sea\njti {token.id}\n")
    for given, words in (({"certificate": CERTIFICATE}, "certificate"), ({"token": token.text}, "token")):
        with pytest.raises(NotAuthenticated, match=f"the .*{words} has been revoked") as caught:
            authenticator.identify(**given)  # type: ignore[arg-type]
        assert not caught.value.expired, "they are not to come back"
    assert not authenticator.holds(by_certificate)
    assert not authenticator.holds(by_token)

    write(path, "")
    assert authenticator.holds(by_certificate)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("serial xyz", "line 1: 'serial xyz' is neither"),
        ("\njti", "line 2: 'jti' is neither"),
        ("jti a b", "neither"),
        ("subject c", "neither"),
    ],
)
def test_a_mistake_is_said_and_what_was_known_stays(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "revoked"
    write(path, "serial 0x0F\n")
    revoked = Revoked(str(path))
    write(path, text)
    with capture_logs() as logs:
        assert revoked.bars("serial f")
        assert revoked.bars("serial f")
    assert [line["log_level"] for line in logs] == ["error"], "once, not at each question"
    assert words in logs[0]["error"]
    with pytest.raises(BadList, match=words):
        Revoked(str(path))
    with pytest.raises(SettingError, match="--auth-revoked"):
        Authenticator(AuthSettings(auth="certificate", auth_revoked=str(path)))
    path.unlink()
    assert revoked.bars("serial f")


def test_without_a_file_nothing_is_barred(tmp_path: Path) -> None:
    assert not Revoked("").bars(serial("00"))
    with pytest.raises(BadList, match="cannot be read"):
        Revoked(str(tmp_path / "nothing"))
