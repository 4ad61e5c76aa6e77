"""librdkafka's options file as aiokafka's TLS and SASL."""

import ssl
from pathlib import Path

import pytest
from coldnotify_common.errors import SettingError
from coldnotify_common.kafka.kafka_login import login_of
from coldnotify_common.security.certificates import Authority


def options(directory: Path, **lines: str) -> str:
    path = directory / "kafka.properties"
    path.write_text("".join(f"{name.replace('__', '.')}={value}\n" for name, value in lines.items()))
    return str(path)


def test_without_a_file_the_login_is_plain() -> None:
    assert login_of("").tls is None
    assert login_of("").mechanism is None


def test_a_password_goes_with_its_mechanism_and_is_not_shown(tmp_path: Path) -> None:
    login = login_of(
        options(
            tmp_path,
            security__protocol="SASL_PLAINTEXT",
            sasl__mechanisms="SCRAM-SHA-512",
            sasl__username="usage",
            sasl__password="very-secret",
        )
    )
    assert (login.tls, login.mechanism, login.username, login.password) == (
        None,
        "SCRAM-SHA-512",
        "usage",
        "very-secret",
    )
    assert "very-secret" not in repr(login)


def test_ignored_options_are_named(tmp_path: Path) -> None:
    assert login_of(options(tmp_path, socket__keepalive__enable="true")).left_out == ("socket.keepalive.enable",)


def test_an_unknown_mechanism_is_an_error(tmp_path: Path) -> None:
    path = options(tmp_path, security__protocol="sasl_plaintext", sasl__mechanism="OAUTHBEARER")
    with pytest.raises(SettingError, match=r"sasl.mechanism: the usage job knows PLAIN.* not 'OAUTHBEARER'"):
        login_of(path)


def test_a_broker_is_checked_against_the_authority_of_the_file(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "certs")
    certificate, key = authority.server("usage", ["127.0.0.1"])
    login = login_of(
        options(
            tmp_path,
            security__protocol="ssl",
            ssl__ca__location=str(authority.directory / "ca.pem"),
            ssl__certificate__location=str(certificate),
            ssl__key__location=str(key),
        )
    )
    assert login.tls is not None
    assert (login.tls.verify_mode, login.tls.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert len(login.tls.get_ca_certs()) == 1


def test_a_broker_is_not_checked_if_the_file_disables_it(tmp_path: Path) -> None:
    path = options(tmp_path, security__protocol="ssl", enable__ssl__certificate__verification="false")
    tls = login_of(path).tls
    assert tls is not None
    assert (tls.verify_mode, tls.check_hostname) == (ssl.CERT_NONE, False)


def test_a_file_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("no certificate")
    path = options(tmp_path, security__protocol="ssl", ssl__ca__location=str(tmp_path / "ca.pem"))
    with pytest.raises(SettingError, match=r"ssl\.ca\.location"):
        login_of(path)
