"""The authority of one's own: what it signs is taken by OpenSSL, and keys are for nobody else to read."""

import base64
import hashlib
import ssl
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from coldnotify_common.security.authentication import Authenticator, AuthSettings
from coldnotify_common.security.certificates import Authority, CertificatesError, public_key_hash
from coldnotify_schemas.names import InvalidName
from cryptography.hazmat.primitives import serialization


def handshake(server: ssl.SSLContext, client: ssl.SSLContext, host: str) -> Mapping[str, Any] | None:
    """What the server knows of the client's certificate."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    one = client.wrap_bio(to_client, to_server, server_hostname=host)
    other = server.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(3):
        for side in (one, other):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return other.getpeercert()


def test_what_it_signs_is_taken_and_says_who_it_is_for(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "certs")
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(*authority.server("gateway", ["localhost", "127.0.0.1", "::1"]))
    server.load_verify_locations(authority.directory / "ca.pem")
    server.verify_mode = ssl.CERT_REQUIRED
    authenticator = Authenticator(AuthSettings(auth="certificate"))
    client = ssl.create_default_context(cafile=str(authority.directory / "ca.pem"))
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    client.load_cert_chain(*authority.client("animal.observer", "region-1", "observer-1"))
    for host in ("localhost", "127.0.0.1"):
        identity = authenticator.identify(certificate=handshake(server, client, host))
        assert identity.clients == (("animal.observer", "region-1", "observer-1"),)
        assert identity.publishes == ()
    client.load_cert_chain(*authority.publisher(["animal.observer", "lamps"]))
    identity = authenticator.identify(certificate=handshake(server, client, "localhost"))
    assert (identity.clients, identity.publishes) == ((), ("animal.observer", "lamps"))


def test_the_hash_of_a_public_key_is_of_the_key_alone(tmp_path: Path) -> None:
    certificate, key = Authority(tmp_path).client("d", "g", "c")
    loaded = serialization.load_pem_private_key(key.read_bytes(), None).public_key()
    der = loaded.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    assert base64.b64decode(public_key_hash(certificate)) == hashlib.sha256(der).digest()


def test_keys_are_readable_for_their_owner_only_and_stay_when_it_is_asked_again(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    _, key = authority.client("d", "g", "c")
    before = key.read_bytes()
    assert [stat.S_IMODE(path.stat().st_mode) for path in (key, tmp_path / "ca.key")] == [0o600, 0o600]
    again = Authority(tmp_path)
    assert again.client("d", "g", "c")[1].read_bytes() == before
    assert again.made == []


def test_what_cannot_be_used_is_named(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    with pytest.raises(InvalidName, match="group"):
        authority.client("d", "g/h", "c")
    authority.client("d", "g", "c")[1].unlink()
    with pytest.raises(CertificatesError, match=r"d\.g\.c\.key"):
        authority.client("d", "g", "c")
    (tmp_path / "ca.key").write_text("nothing")
    with pytest.raises(CertificatesError, match=r"ca\.key"):
        Authority(tmp_path)


def test_two_whose_files_have_one_name_are_not_given_one_identity(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    certificate, key = authority.client("a.b", "c", "d")
    with pytest.raises(CertificatesError, match=r"a\.b\.c\.d\.pem: is for \S+a\.b/c/d, not for \S+a/b\.c/d"):
        authority.client("a", "b.c", "d")
    for path in (certificate, key):
        path.rename(path.with_stem("elsewhere"))
    assert authority.client("a", "b.c", "d") == (certificate, key)
    authority.publisher(["a", "b"])
    with pytest.raises(CertificatesError, match=r"not for coldnotify-publisher://a\.b:"):
        authority.publisher(["a.b"])
    certificate.write_text("nothing")
    with pytest.raises(CertificatesError, match="no certificate that can be used"):
        authority.client("a", "b.c", "d")


def test_a_certificate_is_written_through_no_link(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").symlink_to(tmp_path / "others")
    with pytest.raises(OSError, match=r"ca\.pem"):
        Authority(tmp_path)
    assert not (tmp_path / "others").exists()
