"""Who is admitted, what they are told if not, and when those who are here are looked through for the revoked."""

import asyncio
import os
import time
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from coldnotify_common import revocation
from coldnotify_common.authentication import Authenticator, AuthSettings
from coldnotify_common.identity import Identity
from coldnotify_common.tokens import Grant, make_key, sign
from coldnotify_gateway.admission import Admission
from coldnotify_gateway.core import Violation
from coldnotify_schemas.wire_pb2 import Hello

HELLO = Hello(domain="d", group="g", client="c")


def peer(**proof: Any) -> Any:
    return Mock(**({"certificate": None, "token": "", "passed_on": True} | proof))


def test_only_who_shows_nothing_is_told_where_a_certificate_counts(tmp_path: Path) -> None:
    _, public = make_key(tmp_path)

    async def refusal(connection: Any) -> str:
        admission = Admission(Authenticator(AuthSettings(auth="any", auth_token_key=str(public))), lambda _: None)
        with pytest.raises(Violation) as caught:
            admission.admit(connection, HELLO)
        return str(caught.value)

    assert "arrives without the client's certificate" in asyncio.run(refusal(peer()))
    for given in (peer(token="rubbish"), peer(certificate={"notAfter": "Jan  1 00:00:00 2020 GMT"})):
        assert "arrives without" not in asyncio.run(refusal(given))


def test_all_sessions_are_looked_through_only_where_the_list_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(revocation, "LOOK_S", 0.0)
    path = tmp_path / "revoked"
    path.write_text("jti nobody\n")
    key, public = make_key(tmp_path)
    token = sign(key, Grant(("d", "g", "c")), time.time(), 3600)
    authenticator = Authenticator(AuthSettings(auth="token", auth_token_key=str(public), auth_revoked=str(path)))
    asked, expired, holds = list[Identity](), list[Any](), authenticator.holds

    def counted(identity: Identity) -> bool:
        asked.append(identity)
        return holds(identity)

    monkeypatch.setattr(authenticator, "holds", counted)

    async def play() -> None:
        admission = Admission(authenticator, expired.append)
        here = peer(token=token.text)
        admission.admit(here, HELLO)
        for _ in range(3):
            admission._look_for_revoked()
        assert (len(asked), expired) == (1, [])
        new = path.with_suffix(".new")
        new.write_text(f"jti {token.id}\n")
        os.replace(new, path)  # noqa: PTH105
        admission._look_for_revoked()
        assert (len(asked), expired) == (2, [here])
        admission.forget(here)

    asyncio.run(play())
