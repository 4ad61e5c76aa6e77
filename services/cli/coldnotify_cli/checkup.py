"""The checks of `coldnotify doctor`: each reports a state, and a remedy if something is wrong."""

import resource
import secrets
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from coldnotify_common.kafka.kafka_clients import KafkaUnavailable
from coldnotify_common.kafka.kafka_options import read_options
from coldnotify_common.plurals import number_of
from coldnotify_kafka.room import room_of
from coldnotify_schemas.host_port import host_port
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

from coldnotify_cli import parts_in_kafka
from coldnotify_cli.findings import BAD, OK, WARNING, CheckFinding
from coldnotify_cli.open_transactions import held_up
from coldnotify_cli.service_checks import service_findings
from coldnotify_cli.settings import DoctorSettings
from coldnotify_cli.topic_checks import topic_findings

CLOCK_WARNING_S, CLOCK_BAD_S = 2.0, 60.0
"""A publish without a version has the publisher's time as version, and latencies are as good as the clocks."""
EXPIRY_WARNING_DAYS = 30
OPEN_FILES_MIN = 20_000
"""A gateway's connections by default, and some more."""
_KAFKA_SECRETS = ("ssl.key.location", "ssl.keystore.location")
"""Options of librdkafka that name files with keys."""
_PROBE_RETENTION_MS = "60000"

Check = Callable[[DoctorSettings], Iterable[CheckFinding]]


def all_checks(settings: DoctorSettings) -> Iterator[CheckFinding]:
    """Every check's findings as they come; no check waits longer than `doctor_timeout_s`, by and large."""
    kafka = list(_kafka(settings))
    yield from kafka
    if all(one.state != BAD for one in kafka):
        yield from topic_findings(settings, _admin(settings))
        yield from _transactions(settings)
        yield from _clock(settings)
    for check in (_disk, _certificates, _secrets, _open_files, service_findings):
        yield from check(settings)


def _admin(settings: DoctorSettings) -> AdminClient:
    return AdminClient(_kafka_options(settings))


def _kafka_options(settings: DoctorSettings) -> dict[str, Any]:
    # What librdkafka would say on stderr is said below, once.
    return {"bootstrap.servers": settings.kafka, "log_level": 0, **read_options(settings.kafka_config)}


def _kafka(settings: DoctorSettings) -> Iterable[CheckFinding]:
    try:
        brokers = _admin(settings).list_topics(timeout=settings.doctor_timeout_s).brokers
    except KafkaException as error:
        todo = (
            f"is Kafka running there? COLDNOTIFY_KAFKA / --kafka is {settings.kafka}; TLS and SASL need --kafka-config"
        )
        yield CheckFinding(BAD, "Kafka", f"{settings.kafka}: {error.args[0].str()}", todo)
        return
    names = ", ".join(host_port(str(one.host), one.port) for one in brokers.values())
    yield CheckFinding(OK, "Kafka", f"{number_of(len(brokers), 'node')}: {names}")


def _transactions(settings: DoctorSettings) -> Iterable[CheckFinding]:
    """Open transactions of others on our topics: behind one, a partition is read by nobody until it ends."""
    admin = _admin(settings)
    ours = {one.name for one in parts_in_kafka.topics(settings.partitions or None, 1, settings.topics)}
    try:
        there = admin.list_topics(timeout=settings.doctor_timeout_s).topics
        places = [(name, number) for name in sorted(ours & set(there)) for number in there[name].partitions]
        held = held_up(admin, places) if places else {}
    except (KafkaException, KafkaUnavailable) as error:
        words = error.args[0].str() if isinstance(error, KafkaException) else str(error)
        yield CheckFinding(
            WARNING, "transactions", f"not checked: {words}", "does Kafka answer, and may its user describe topics?"
        )
        return
    for (topic, partition), offset in held.items():
        words = f"one is open on {topic}, partition {partition}: nobody can read from offset {offset} on"
        about = f"--topic {topic} --partition {partition}"
        todo = (
            f"Kafka ends it after 15 minutes, unless its producer is unknown; to see whose it is: coldnotify "
            f"kafka-tool transactions --bootstrap-server {settings.kafka} describe-producers {about}; to end it: "
            f"... abort {about} --start-offset {offset}"
        )
        yield CheckFinding(BAD, "transactions", words, todo)
    if not held:
        yield CheckFinding(OK, "transactions", f"none is open on {number_of(len(places), 'partition')}")


def _clock(settings: DoctorSettings) -> Iterable[CheckFinding]:
    """Compares clocks by the broker's own timestamp on a record, in a topic that is created for it and removed."""
    admin, name = _admin(settings), f"{settings.topics_prefix}doctor-{secrets.token_hex(4)}"
    timeout_s = settings.doctor_timeout_s
    config = {"message.timestamp.type": "LogAppendTime", "retention.ms": _PROBE_RETENTION_MS}
    try:
        made = admin.create_topics([NewTopic(name, 1, 1, config=config)], operation_timeout=timeout_s)[name]
        made.result(timeout_s + 5)
        try:
            difference_s, uncertain_s = _append(settings, name, timeout_s)
        finally:
            with suppress(KafkaException, TimeoutError):
                admin.delete_topics([name], operation_timeout=timeout_s)[name].result(timeout_s + 5)
    except (KafkaException, TimeoutError) as error:
        words = error.args[0].str() if isinstance(error, KafkaException) else "Kafka does not answer in time"
        yield CheckFinding(
            WARNING,
            "clock",
            f"not compared: {words}",
            "the check creates a topic, writes to it and deletes it: Kafka's user must be allowed to",
        )
        return
    side = "ahead of" if difference_s > 0 else "behind"
    words = f"{abs(difference_s):.1f} s {side} Kafka's, give or take {uncertain_s:.1f} s"
    apart_s = max(0.0, abs(difference_s) - uncertain_s)
    state = BAD if apart_s > CLOCK_BAD_S else WARNING if apart_s > CLOCK_WARNING_S else OK
    yield CheckFinding(
        state,
        "clock",
        f"this machine's is {words}",
        "" if state == OK else "set both by NTP (chrony, timesyncd)",
    )


def _append(settings: DoctorSettings, topic: str, timeout_s: float) -> tuple[float, float]:
    """(how far our clock is ahead of the broker's, how far that may be wrong), in seconds."""
    producer = Producer({**_kafka_options(settings), "message.timeout.ms": int(timeout_s * 1000)})
    stamps: list[int] = []
    errors: list[KafkaException] = []

    def delivered(error: object, message: object) -> None:
        if error is not None:
            errors.append(KafkaException(error))
        else:
            stamps.append(message.timestamp()[1])  # type: ignore[attr-defined]

    for _ in range(2):  # the first finds the partition's leader; only the second's time counts
        before_s = time.time()
        producer.produce(topic, b"", partition=0, on_delivery=delivered)
        producer.flush(timeout_s + 1)
        after_s = time.time()
    if errors or len(stamps) < 2:
        raise errors[0] if errors else TimeoutError
    return (before_s + after_s) / 2 - stamps[-1] / 1000, (after_s - before_s) / 2


def _certificates(settings: DoctorSettings) -> Iterable[CheckFinding]:
    pairs = (("tls_certificate", "tls_key"), ("inside_certificate", "inside_key"), ("cert", "key"))
    names = ("tls_certificate", "tls_client_ca", "inside_certificate", "inside_ca", "ca_cert", "cert")
    given = [name for name in names if getattr(settings, name)]
    if not given:
        yield CheckFinding(
            OK, "certificates", "none are configured here (COLDNOTIFY_TLS_CERTIFICATE, COLDNOTIFY_CA_CERT ...)"
        )
    for name in given:
        yield from _certificate(f"--{name.replace('_', '-')}", Path(getattr(settings, name)))
    for certificate, key in pairs:
        if getattr(settings, certificate):
            yield from _key(Path(getattr(settings, certificate)), getattr(settings, key), f"--{key.replace('_', '-')}")


def _certificate(flag: str, path: Path) -> Iterable[CheckFinding]:
    try:
        certificates = x509.load_pem_x509_certificates(path.read_bytes())
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "holds no certificate in PEM form"
        yield CheckFinding(BAD, "certificates", f"{flag}: {path}: {why}", "check the path and its permissions")
        return
    now = datetime.now(UTC)
    for one in certificates:
        name = one.subject.rfc4514_string() or "(no subject)"
        left_days = (one.not_valid_after_utc - now).total_seconds() / 86_400
        if left_days < 0:
            words = f"{flag}: {name} expired {number_of(round(-left_days), 'day')} ago"
            yield CheckFinding(BAD, "certificates", words, "renew it; the services take it over at SIGHUP")
        elif one.not_valid_before_utc > now:
            words = f"{flag}: {name} is valid from {one.not_valid_before_utc:%Y-%m-%d %H:%M} UTC on, not yet"
            yield CheckFinding(BAD, "certificates", words, "is this machine's clock right?")
        else:
            state = WARNING if left_days < EXPIRY_WARNING_DAYS else OK
            todo = "renew it soon; the services take it over at SIGHUP" if state == WARNING else ""
            yield CheckFinding(
                state, "certificates", f"{flag}: {name} is valid for {number_of(round(left_days), 'more day')}", todo
            )


def _key(certificate: Path, key: str, flag: str) -> Iterable[CheckFinding]:
    path = Path(key) if key else certificate
    try:
        private = load_pem_private_key(path.read_bytes(), None)
        public = x509.load_pem_x509_certificates(certificate.read_bytes())[0].public_key()
    except (OSError, ValueError, TypeError) as error:
        why = error.strerror if isinstance(error, OSError) else "holds no PEM private key, or one with a password"
        yield CheckFinding(BAD, "certificates", f"{flag}: {path}: {why}", "check the path and its permissions")
        return
    der = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    if private.public_key().public_bytes(*der) != public.public_bytes(*der):
        yield CheckFinding(
            BAD, "certificates", f"{flag}: {path} is not the key of {certificate}", "use the key that was made with it"
        )
    else:
        yield from _readable(flag, path, "certificates")


def _readable(flag: str, path: Path, what: str) -> Iterable[CheckFinding]:
    """A warning where a file that holds a secret is open to everybody. Group rights are for services to share."""
    if path.stat().st_mode & 0o007:
        yield CheckFinding(WARNING, what, f"{flag}: {path} can be read by everybody", f"chmod o-rwx {path}")


def _secrets(settings: DoctorSettings) -> Iterable[CheckFinding]:
    """Files with passwords, tokens and Kafka's keys."""
    files = [("--kafka-config", settings.kafka_config), ("--token-file", settings.token_file)]
    options = read_options(settings.kafka_config)
    files += [(f"--kafka-config, {name}", options[name]) for name in _KAFKA_SECRETS if name in options]
    given = [(flag, Path(path)) for flag, path in files if path]
    findings: list[CheckFinding] = []
    for flag, path in given:
        try:
            findings += _readable(flag, path, "secrets")
        except OSError as error:
            words = f"{flag}: {path}: {error.strerror}"
            findings.append(CheckFinding(BAD, "secrets", words, "check the path and its permissions"))
    if given and not findings:
        names = ", ".join(str(path) for _, path in given)
        findings.append(CheckFinding(OK, "secrets", f"closed to other users: {names}"))
    yield from findings


def _disk(settings: DoctorSettings) -> Iterable[CheckFinding]:
    """Checks the disk of the embedded Kafka's data directory. Installations with another Kafka have none here."""
    if not settings.data.exists():
        return
    try:
        room = room_of(settings.data)
    except OSError as error:
        yield CheckFinding(WARNING, "disk", f"{settings.data}: {error}")
        return
    state = BAD if room.is_full else WARNING if room.is_nearly_full else OK
    todo = "make room, but delete none of Kafka's files by hand: docs/runbooks/DiskNearlyFull.md"
    yield CheckFinding(state, "disk", str(room), "" if state == OK else todo)


def _open_files(_settings: DoctorSettings) -> Iterable[CheckFinding]:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY or hard >= OPEN_FILES_MIN:
        yield CheckFinding(
            OK, "open files", f"a process may have {'any number' if hard == resource.RLIM_INFINITY else hard}"
        )
        return
    words = f"a process may have {hard}: a gateway takes about a thousand connections fewer, not 19000"
    yield CheckFinding(
        WARNING, "open files", words, "raise ulimit -Hn, or LimitNOFILE= in the unit; or run more gateways"
    )
