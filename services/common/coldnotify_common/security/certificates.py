"""Creates a certificate authority in a directory, and signs certificates: for development and small fields.

`ca.pem`, `ca.key`; `gateway.pem`, `gateway.key`; `http.pem`, `http.key`; `inside.pem`, `inside.key`, by which services
identify each other; `DOMAIN.GROUP.CLIENT.pem` and `.key` for each client; `publisher.DOMAIN.pem` and `.key` for each
publisher; `operator.NAME.pem` and `.key` for each operator. Existing files stay, so names can be added later.
"""

import base64
import datetime as dt
import hashlib
import ipaddress
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from coldnotify_schemas.names import check_name
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

CA_DAYS = 3650
_ANSWERS, _ASKS = ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH
_INSIDE = "inside"
_CLOCK_SKEW = dt.timedelta(hours=1)
"""Certificates are valid from this long before now, because an OU's clock may be behind."""


class CertificatesError(ValueError):
    """The directory cannot be used as it is; the message begins with the file's name."""


class Authority:
    """The authority in a directory, created if missing."""

    def __init__(self, directory: Path, days: int = 365) -> None:
        """`days`: validity of the certificates it signs. Raises CertificatesError."""
        self.directory = directory
        self._days = days
        self.made: list[Path] = []
        """The certificates created so far."""
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        certificate, key = directory / "ca.pem", directory / "ca.key"
        if not certificate.exists() and not key.exists():
            self._make_ca(certificate, key)
        try:
            self._certificate = x509.load_pem_x509_certificate(certificate.read_bytes())
            loaded = serialization.load_pem_private_key(key.read_bytes(), None)
        except (OSError, ValueError, TypeError) as error:
            raise CertificatesError(f"{certificate}, {key}: not a usable authority: {error}") from None
        if not isinstance(loaded, ec.EllipticCurvePrivateKey):
            raise CertificatesError(f"{key}: holds another kind of key than this command makes")
        self._key = loaded

    def server(self, name: str, hosts: Sequence[str]) -> tuple[Path, Path]:
        """Returns certificate and key of a service that is reached as any of `hosts`: names or addresses."""
        return self._leaf(name, name, [_host(host) for host in hosts], [_ANSWERS])

    def inside(self, hosts: Sequence[str]) -> tuple[Path, Path]:
        """Returns certificate and key by which services, reached as any of `hosts`, identify each other as servers and
        clients."""
        names = [*map(_host, hosts), _uri(f"coldnotify-service://{_INSIDE}")]
        return self._leaf(_INSIDE, _INSIDE, names, [_ANSWERS, _ASKS])

    def operator(self, name: str) -> tuple[Path, Path]:
        """Returns certificate and key of an operator, who may publish to all domains and inspect everything. Raises as
        `client`."""
        check_name("operator", name)
        return self._leaf(f"operator.{name}", name, [_uri("coldnotify-publisher://*")], [_ASKS])

    def client(self, domain: str, group: str, client: str) -> tuple[Path, Path]:
        """Returns certificate and key of a client. Raises InvalidName and CertificatesError."""
        for field, value in (("domain", domain), ("group", group), ("client", client)):
            check_name(field, value)
        uri = f"coldnotify://{domain}/{group}/{client}"
        return self._leaf(f"{domain}.{group}.{client}", client, [_uri(uri)], [_ASKS])

    def publisher(self, domains: Iterable[str]) -> tuple[Path, Path]:
        """Returns certificate and key of a back-end that may publish to these domains. Raises as `client`."""
        names = [check_name("domain", domain) for domain in domains]
        uris = [_uri(f"coldnotify-publisher://{domain}") for domain in names]
        name = f"publisher.{'.'.join(names)}"
        return self._leaf(name, name[:64], uris, [_ASKS])

    def _make_ca(self, path: Path, key_path: Path) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        name = _name("ColdNotify development authority")
        builder = (
            _builder(name, name, key.public_key(), CA_DAYS)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs_certificates=True), critical=True)
        )
        self._write(path, key_path, builder.sign(key, hashes.SHA256()), key)

    def _leaf(
        self, file: str, common_name: str, names: Sequence[x509.GeneralName], purposes: Sequence[x509.ObjectIdentifier]
    ) -> tuple[Path, Path]:
        path, key_path = self.directory / f"{file}.pem", self.directory / f"{file}.key"
        if path.exists() != key_path.exists():
            raise CertificatesError(f"{path}, {key_path}: only one of the two exists")
        if path.exists():
            if _ANSWERS not in purposes:
                _check_is_for(path, names)
            return path, key_path
        key = ec.generate_private_key(ec.SECP256R1())
        builder = (
            _builder(_name(common_name), self._certificate.subject, key.public_key(), self._days)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )
        self._write(path, key_path, builder.sign(self._key, hashes.SHA256()), key)
        return path, key_path

    def _write(
        self, path: Path, key_path: Path, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey
    ) -> None:
        pem = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        # Never readable by others, not even for a moment.
        with os.fdopen(os.open(key_path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(pem)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644), "wb") as file:
            file.write(certificate.public_bytes(serialization.Encoding.PEM))
        self.made.append(path)


def public_key_hash(certificate: Path) -> str:
    """Returns the SHA-256 of its public key as base64, as Chromium's --ignore-certificate-errors-spki-list expects
    it."""
    key = x509.load_pem_x509_certificate(certificate.read_bytes()).public_key()
    der = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return base64.b64encode(hashlib.sha256(der).digest()).decode()


def _check_is_for(path: Path, names: Sequence[x509.GeneralName]) -> None:
    """Checks that an existing certificate is for these names: names may contain dots, so a.b/c/d and a/b.c/d share a
    file, and nobody may get another one's identity."""
    wanted = [str(name.value) for name in names]
    try:
        certificate = x509.load_pem_x509_certificate(path.read_bytes())
        of = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (OSError, ValueError, x509.ExtensionNotFound) as error:
        raise CertificatesError(f"{path}: no certificate that can be used: {error}") from None
    found = of.get_values_for_type(x509.UniformResourceIdentifier)
    if sorted(found) != sorted(wanted):
        raise CertificatesError(
            f"{path}: is for {', '.join(found)}, not for {', '.join(wanted)}: move it and its key to another name first"
        )


def _builder(
    subject: x509.Name, issuer: x509.Name, public_key: ec.EllipticCurvePublicKey, days: int
) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + dt.timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
    )


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _uri(text: str) -> x509.GeneralName:
    return x509.UniformResourceIdentifier(text)
