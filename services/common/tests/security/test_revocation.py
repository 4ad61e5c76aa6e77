"""The list of what is revoked: read again when it changes, and never lost to a mistake in it."""

import os
import time
from pathlib import Path
from weakref import WeakSet

import pytest
from coldnotify_common.errors import SettingError
from coldnotify_common.security import revocation
from coldnotify_common.security.authentication import Authenticator, AuthSettings, NotAuthenticated
from coldnotify_common.security.revocation import BadList, RevocationList, jti, lists_usable, serial
from coldnotify_common.security.tokens import Grant, make_key, sign
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
    assert (by_certificate.proofs, by_token.proofs) == (("serial a1bff",), (f"jti {token.id}",))
    assert authenticator.revokes
    assert authenticator.holds(by_certificate)

    write(path, f"serial 0a:1b:ff # lost at sea\njti {token.id}\n")
    for given, words in (({"certificate": CERTIFICATE}, "certificate"), ({"token": token.text}, "token")):
        with pytest.raises(NotAuthenticated, match=f"the .*{words} has been revoked") as caught:
            authenticator.identify(**given)  # type: ignore[arg-type]
        assert not caught.value.expired, "they are not to come back"
    assert not authenticator.holds(by_certificate)
    assert not authenticator.holds(by_token)

    with capture_logs() as logs:
        write(path, "")
        assert authenticator.holds(by_certificate)
    assert [line["log_level"] for line in logs] == ["warning"], "a list that was lost looks like this, too"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("serial xyz\n", "line 1: 'serial xyz' is neither"),
        ("\njti\n", "line 2: 'jti' is neither"),
        ("jti a b\n", "neither"),
        ("jti=a\n", "neither"),
        ("subject c\n", "neither"),
        ("serial 01\nserial 0", "its last line has no end"),
    ],
)
def test_a_mistake_is_said_and_what_was_known_stays(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "revoked"
    write(path, "serial 0x0F\n")
    revoked = RevocationList(str(path))
    write(path, text)
    with capture_logs() as logs:
        assert revoked.bars("serial f")
        assert revoked.bars("serial f")
    assert [line["log_level"] for line in logs] == ["error"], "once, not at each question"
    assert words in logs[0]["error"]
    with pytest.raises(BadList, match=words):
        RevocationList(str(path))
    with pytest.raises(SettingError, match="--auth-revoked"):
        Authenticator(AuthSettings(auth="certificate", auth_revoked=str(path)))
    path.unlink()
    assert revoked.bars("serial f")


def test_without_a_file_nothing_is_barred(tmp_path: Path) -> None:
    assert not RevocationList("").bars(serial("00"))
    with pytest.raises(BadList, match="cannot be read"):
        RevocationList(str(tmp_path / "nothing"))


def test_a_read_that_fails_is_tried_again_and_said_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "revoked"
    write(path, "serial 0f\n")
    monkeypatch.setattr(revocation, "_LISTS", WeakSet())
    assert lists_usable() is None
    revoked = RevocationList(str(path))
    assert lists_usable()
    write(path, "serial 0f\nserial 10\n")
    with monkeypatch.context() as broken, capture_logs() as logs:

        def fail(*_: object, **__: object) -> str:
            raise OSError(5, "Input/output error")

        broken.setattr(Path, "read_text", fail)
        assert revoked.bars("serial f")
        assert not revoked.bars("serial 10")
        assert not lists_usable()
    assert [line["log_level"] for line in logs] == ["error"]
    assert revoked.bars("serial 10"), "the file has not changed, but can be read now"
    assert lists_usable()


def test_a_mistake_goes_on_to_count_although_it_was_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(revocation, "_LISTS", WeakSet())
    path = tmp_path / "revoked"
    write(path, "")
    revoked = RevocationList(str(path))
    write(path, "nonsense\n")
    assert [lists_usable(), lists_usable()] == [False, False]
    write(path, "# nothing\n")
    known = revoked.now()
    assert lists_usable()
    write(path, "# nothing still\n")
    assert revoked.now() is known, "for those who look through all sessions where it is another"


def test_how_a_line_may_be_spelled(tmp_path: Path) -> None:
    path = tmp_path / "revoked"
    write(path, "serial=4A7F01\t# as openssl prints it\njti abc#1\n #jti abc\n# jti d\njti e #jti f\n")
    assert RevocationList(str(path)).now() == {serial("4a:7f:01"), jti("abc#1"), jti("e")}


def test_a_revoked_certificate_is_refused_whatever_token_is_shown_with_it(tmp_path: Path) -> None:
    path = tmp_path / "revoked"
    write(path, "")
    key, public = make_key(tmp_path)
    token = sign(key, Grant(("d", "g", "c")), time.time(), 3600)
    both = {"certificate": CERTIFICATE, "token": token.text}
    for mode in ("any", "token"):
        write(path, "")
        authenticator = Authenticator(AuthSettings(auth=mode, auth_token_key=str(public), auth_revoked=str(path)))
        identity = authenticator.identify(**both)  # type: ignore[arg-type]
        assert authenticator.holds(identity)
        write(path, "serial 0a1bff\n")
        assert not authenticator.holds(identity)
        with pytest.raises(NotAuthenticated, match="certificate has been revoked"):
            authenticator.identify(**both)  # type: ignore[arg-type]
