"""Who is admitted, what they are told if not, and when those who are here are looked through for the revoked."""

import asyncio
import os
import time
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import jwt
import pytest
from coldnotify_common.security import revocation
from coldnotify_common.security.authentication import Authenticator, AuthSettings
from coldnotify_common.security.identity import Identity
from coldnotify_common.security.publish_rights import EVERY_NAME, NO_NAME, Owned, PublishRight
from coldnotify_common.security.tokens import Grant, make_key, sign
from coldnotify_gateway.admission import Admission
from coldnotify_gateway.core import DeviceHome, Violation
from coldnotify_schemas.close_codes import CloseCode
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


@pytest.mark.parametrize("exp", ["1" + "0" * 400, "1e400", "-1e400", "NaN", '"soon"', "253402300800"])
def test_a_token_whose_end_is_no_time_ends_nothing_but_its_hello(exp: str, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("s" * 32)
    settings = AuthSettings(auth="token", auth_token_algorithm="HS256", auth_token_key=str(secret))
    token = jwt.api_jws.encode(f'{{"sub": "d/g/c", "exp": {exp}}}'.encode(), "s" * 32, "HS256")

    async def refusal() -> Violation:
        with pytest.raises(Violation) as caught:
            Admission(Authenticator(settings), lambda _: None).admit(peer(token=token), HELLO)
        return caught.value

    assert asyncio.run(refusal()).code == CloseCode.NOT_AUTHENTICATED


def test_a_session_of_a_far_away_end_has_a_timer_that_the_loop_can_keep(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("s" * 32)
    settings = AuthSettings(auth="token", auth_token_algorithm="HS256", auth_token_key=str(secret))
    token = jwt.encode({"sub": "d/g/c", "exp": 253402300799}, "s" * 32, "HS256")

    async def admitted() -> None:
        expired: list[Any] = []
        admission, one = Admission(Authenticator(settings), expired.append), peer(token=token)
        admission.admit(one, HELLO)
        await asyncio.sleep(0)
        admission.forget(one)
        assert expired == []

    asyncio.run(admitted())


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


@pytest.mark.parametrize(
    ("claims", "right"),
    [
        ({"sub": "d/g/c"}, NO_NAME),
        (
            {"sub": "d/g/c", "sensor": ["d/g/b", "d/g/*", "e/g/c"]},
            PublishRight(False, (Owned("*", "units/{client}/"),)),
        ),
        ({"sub": "d/g/*", "sensor": "d/g/b"}, NO_NAME),
        ({"sub": "d/g/c", "publish": "d", "sensor": "d/g/c"}, EVERY_NAME),
        ({"sensor": "d/g/c"}, None),
    ],
)
def test_the_right_to_publish_is_that_of_the_client_of_the_hello(
    claims: dict[str, Any], right: PublishRight | None, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("s" * 32)
    rule = "sub:{domain}/{group}/{client} publish:{publish} sensor:{domain}/{group}/{client}=>own:units/{client}/"
    settings = AuthSettings(
        auth="token", auth_token_algorithm="HS256", auth_token_key=str(secret), auth_token_rule=rule
    )
    token = jwt.encode({**claims, "exp": time.time() + 600}, "s" * 32, "HS256")

    async def admitted() -> PublishRight:
        admission = Admission(Authenticator(settings), lambda _: None)
        connection = peer(token=token)
        try:
            return admission.admit(connection, HELLO)
        finally:
            admission.forget(connection)

    if right is None:
        with pytest.raises(Violation, match="may not be d/g/c"):
            asyncio.run(admitted())
    else:
        assert asyncio.run(admitted()) == right


@pytest.mark.parametrize(
    ("clients", "home"),
    [
        ((("farm", "barn", "*"),), DeviceHome("farm", "barn")),
        ((("farm", "barn", "a"), ("farm", "barn", "b")), DeviceHome("farm", "barn")),
        ((("farm", "barn", "*"), ("farm", "yard", "*")), DeviceHome("d", "g")),
        ((("farm", "*", "*"),), DeviceHome("d", "g")),
        ((("farm", "barn*", "*"),), DeviceHome("d", "g")),
        ((), DeviceHome("d", "g")),
    ],
)
def test_the_home_of_an_mqtt_device_is_that_which_its_proof_names_alone(
    clients: tuple[tuple[str, str, str], ...], home: DeviceHome
) -> None:
    async def found() -> DeviceHome | None:
        authenticator = Mock(identify=Mock(return_value=Identity("sensor", clients)))
        admission = Admission(authenticator, lambda _: None, DeviceHome("d", "g"))
        return admission.home_of(peer(), "a token")

    assert asyncio.run(found()) == home
