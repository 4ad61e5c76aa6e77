"""The options of --kafka-config for a Kafka client that is not librdkafka: its TLS and SASL (`login_of`).

aiokafka, and `group_coordinator`, read no librdkafka options. So that all services may have one file, those about TLS
and SASL are translated, and any other is named in `Login.left_out`.
"""

import ssl
from dataclasses import dataclass

from coldnotify_common.errors import SettingError
from coldnotify_common.kafka.kafka_options import read_options

_SETTING = "COLDNOTIFY_KAFKA_CONFIG / --kafka-config"
_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_OF_TLS = (
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.key.location",
    "ssl.key.password",
    "enable.ssl.certificate.verification",
    "ssl.endpoint.identification.algorithm",
)
_OF_SASL = ("sasl.mechanism", "sasl.mechanisms", "sasl.username", "sasl.password")
UNDERSTOOD = ("security.protocol", *_OF_TLS, *_OF_SASL)


@dataclass(frozen=True)
class Login:
    """The way to connect to Kafka."""

    tls: ssl.SSLContext | None = None
    mechanism: str | None = None
    """The SASL mechanism; None: no SASL."""
    username: str = ""
    password: str = ""
    left_out: tuple[str, ...] = ()
    """Options of the file that have no meaning here."""

    def __repr__(self) -> str:
        """Without the password."""
        return f"Login(tls={self.tls is not None}, mechanism={self.mechanism}, username={self.username})"


def login_of(kafka_config: str, who: str = "the usage job") -> Login:
    """Returns the login in the file; "": none. Raises SettingError, which contains no value that may be secret.

    librdkafka has checked the file before: its names, and that a mechanism has what it needs.
    """
    options = read_options(kafka_config)
    left_out = tuple(sorted(name for name in options if name not in UNDERSTOOD))
    protocol = options.get("security.protocol", "plaintext").lower()
    tls = _tls(kafka_config, options) if protocol.endswith("ssl") else None
    if not protocol.startswith("sasl"):
        return Login(tls, left_out=left_out)
    mechanism = options.get("sasl.mechanism") or options.get("sasl.mechanisms", "")
    if mechanism.upper() not in _MECHANISMS:
        raise _error(kafka_config, f"sasl.mechanism: {who} knows {', '.join(_MECHANISMS)}, and not {mechanism!r}")
    return Login(tls, mechanism.upper(), options["sasl.username"], options["sasl.password"], left_out)


def _tls(path: str, options: dict[str, str]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if options.get("ssl.endpoint.identification.algorithm", "https").lower() == "none":
        context.check_hostname = False
    if options.get("enable.ssl.certificate.verification", "true").lower() == "false":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    try:
        if "ssl.ca.location" in options:
            context.load_verify_locations(options["ssl.ca.location"])
        else:
            context.load_default_certs()
    except (OSError, ssl.SSLError) as error:
        raise _error(path, f"ssl.ca.location cannot be used: {error}") from None
    if "ssl.certificate.location" in options:
        key, password = options.get("ssl.key.location"), options.get("ssl.key.password", "")
        try:
            context.load_cert_chain(options["ssl.certificate.location"], key, password=lambda: password)
        except (OSError, ssl.SSLError, ValueError) as error:
            raise _error(path, f"ssl.certificate.location and its key cannot be used: {error}") from None
    return context


def _error(path: str, words: str) -> SettingError:
    return SettingError(f"{_SETTING}: {path}: {words}")
