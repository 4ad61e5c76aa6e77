"""The checks of `coldnotify doctor`: each reports a state, and a remedy if something is wrong."""

import json
import resource
import secrets
import socket
import ssl
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import urlopen

from coldnotify_common.errors import SettingError
from coldnotify_common.kafka.kafka_clients import KafkaUnavailable
from coldnotify_common.kafka.kafka_options import read_options
from coldnotify_common.security.inside_tls import InsideTls
from coldnotify_gateway.listeners.registry import LISTENERS
from coldnotify_kafka import topic_plan
from coldnotify_kafka.errors import ColdNotifyKafkaError
from coldnotify_kafka.room import room_of
from coldnotify_parts.registry import PARTS
from coldnotify_parts.row import PartRow
from coldnotify_schemas.host_port import host_port
from coldnotify_schemas.tenant_usage import VERDICT_S
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

from coldnotify_cli import parts_in_kafka
from coldnotify_cli.open_transactions import held_up
from coldnotify_cli.settings import DoctorSettings

OK, WARNING, BAD = "ok", "warning", "BAD"

CLOCK_WARNING_S, CLOCK_BAD_S = 2.0, 60.0
"""A publish without a version has the publisher's time as version, and latencies are as good as the clocks."""
EXPIRY_WARNING_DAYS = 30
OPEN_FILES_MIN = 20_000
"""A gateway's connections by default, and some more."""
_KAFKA_SECRETS = ("ssl.key.location", "ssl.keystore.location")
"""Options of librdkafka that name files with keys."""
_PROBE_RETENTION_MS = "60000"
_HTTP = "http"
_REQUESTS = "requests"
"""The last part of a topic's name that every installation has."""
_OTHERS_SHOWN_MAX = 5
_USAGE_LAG = "coldnotify_usage_lag"
_USAGE_LAG_RECORDS = 100
"""With fewer records to read the job is not the one that is late: nodes write each second, except for tenants without
changes.
"""
_EVERYWHERE = ("", "0.0.0.0", "::")
"""Hosts of a port that listens on all addresses of its machine."""


class CheckFinding(NamedTuple):
    """The outcome of one check."""

    state: str
    what: str
    words: str
    todo: str = ""


Check = Callable[[DoctorSettings], Iterable[CheckFinding]]


def all_checks(settings: DoctorSettings) -> Iterator[CheckFinding]:
    """Every check's findings as they come; no check waits longer than `doctor_timeout_s`, by and large."""
    kafka = list(_kafka(settings))
    yield from kafka
    if all(one.state != BAD for one in kafka):
        yield from _topics(settings)
        yield from _transactions(settings)
        yield from _clock(settings)
    for check in (_disk, _certificates, _secrets, _open_files, _services):
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
        todo = f"is Kafka running there? COLDNOTIFY_KAFKA / --kafka is {settings.kafka}; --kafka-config for TLS or SASL"
        yield CheckFinding(BAD, "Kafka", f"{settings.kafka}: {error.args[0].str()}", todo)
        return
    names = ", ".join(host_port(str(one.host), one.port) for one in brokers.values())
    yield CheckFinding(OK, "Kafka", f"{len(brokers)} node{'s' * (len(brokers) != 1)}: {names}")


def _topics(settings: DoctorSettings) -> Iterable[CheckFinding]:
    specs = parts_in_kafka.topics(settings.partitions or None, settings.replication, settings.topics)
    try:
        plan = topic_plan.plan(_admin(settings), specs, settings.doctor_timeout_s)
    except ColdNotifyKafkaError as error:
        yield CheckFinding(BAD, "topics", str(error), "try again, with a longer --doctor-timeout-s where Kafka is busy")
        return
    todo = "coldnotify topics apply"
    missing = [change for change in plan.changes if isinstance(change, topic_plan.CreateTopic)]
    if len(missing) == len(specs) and (others := _other_prefixes(settings)):
        todo += f"; or is COLDNOTIFY_TOPICS_PREFIX / --topics-prefix wrong: this cluster has topics under {others}"
    for change in plan.changes:
        yield CheckFinding(BAD, "topics", str(change), todo)
    for refusal in plan.refusals:
        yield CheckFinding(
            BAD, "topics", str(refusal), "`apply` does not do that; are --partitions, --replication right?"
        )
    if not plan.changes and not plan.refusals:
        yield CheckFinding(OK, "topics", f"{len(specs)} under {settings.topics_prefix}, as topics.yaml wants them")


def _other_prefixes(settings: DoctorSettings) -> str:
    """Returns the prefixes of installations that have topics of requests and registrations here; "": none has."""
    try:
        there = set(_admin(settings).list_topics(timeout=settings.doctor_timeout_s).topics)
    except KafkaException:
        return ""
    prefixes = {topic.removesuffix(_REQUESTS) for topic in there if topic.endswith(_REQUESTS)}
    found = sorted(one for one in prefixes if one and f"{one}registrations" in there)
    return ", ".join(found[:_OTHERS_SHOWN_MAX]) + (" ..." if len(found) > _OTHERS_SHOWN_MAX else "")


def _transactions(settings: DoctorSettings) -> Iterable[CheckFinding]:
    """Open transactions of others on our topics: behind one, a partition is read by nobody until it ends."""
    admin = _admin(settings)
    ours = {
        one.name for one in parts_in_kafka.topics(settings.partitions or None, settings.replication, settings.topics)
    }
    try:
        there = admin.list_topics(timeout=settings.doctor_timeout_s).topics
        places = [(name, number) for name in sorted(ours & set(there)) for number in there[name].partitions]
        held = held_up(admin, places) if places else {}
    except (KafkaException, KafkaUnavailable) as error:
        words = error.args[0].str() if isinstance(error, KafkaException) else str(error)
        yield CheckFinding(
            WARNING, "transactions", f"not looked for: {words}", "does Kafka answer, may we describe topics?"
        )
        return
    for (topic, partition), offset in held.items():
        words = f"one is open on {topic}, partition {partition}, from offset {offset} on: nobody is given what follows"
        about = f"--topic {topic} --partition {partition}"
        todo = (
            f"Kafka ends it after 15 minutes, unless its producer is unknown; whose it is: coldnotify kafka-tool "
            f"transactions --bootstrap-server {settings.kafka} describe-producers {about}; to end it: "
            f"... abort {about} --start-offset {offset}"
        )
        yield CheckFinding(BAD, "transactions", words, todo)
    if not held:
        yield CheckFinding(OK, "transactions", f"none is open on {len(places)} partitions")


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
        yield CheckFinding(WARNING, "clock", f"not compared: {words}", "it needs to make, write and delete a topic")
        return
    side = "ahead of" if difference_s > 0 else "behind"
    words = f"{abs(difference_s):.1f} s {side} Kafka's, give or take {uncertain_s:.1f} s"
    apart_s = max(0.0, abs(difference_s) - uncertain_s)
    state = BAD if apart_s > CLOCK_BAD_S else WARNING if apart_s > CLOCK_WARNING_S else OK
    yield CheckFinding(
        state, "clock", f"this machine's is {words}", "" if state == OK else "set both by NTP (chrony, timesyncd)"
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
            words = f"{flag}: {name} expired {-left_days:.0f} days ago"
            yield CheckFinding(BAD, "certificates", words, "renew it; the services take it over at SIGHUP")
        elif one.not_valid_before_utc > now:
            words = f"{flag}: {name} is valid from {one.not_valid_before_utc:%Y-%m-%d %H:%M} UTC on only"
            yield CheckFinding(BAD, "certificates", words, "is this machine's clock right?")
        else:
            state = WARNING if left_days < EXPIRY_WARNING_DAYS else OK
            todo = "renew it soon; the services take it over at SIGHUP" if state == WARNING else ""
            yield CheckFinding(state, "certificates", f"{flag}: {name} is valid for {left_days:.0f} more days", todo)


def _key(certificate: Path, key: str, flag: str) -> Iterable[CheckFinding]:
    path = Path(key) if key else certificate
    try:
        private = load_pem_private_key(path.read_bytes(), None)
        public = x509.load_pem_x509_certificates(certificate.read_bytes())[0].public_key()
    except (OSError, ValueError, TypeError) as error:
        why = error.strerror if isinstance(error, OSError) else "holds no private key without a password in PEM form"
        yield CheckFinding(BAD, "certificates", f"{flag}: {path}: {why}", "check the path and its permissions")
        return
    der = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    if private.public_key().public_bytes(*der) != public.public_bytes(*der):
        yield CheckFinding(
            BAD, "certificates", f"{flag}: {path} is not the key of {certificate}", "take the one made with it"
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
        findings.append(CheckFinding(OK, "secrets", f"not everybody can read {names}"))
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
            OK, "open files", f"at most {'any number' if hard == resource.RLIM_INFINITY else hard} a process"
        )
        return
    words = f"at most {hard} a process: a gateway takes that many connections less about a thousand, not 19000"
    yield CheckFinding(WARNING, "open files", words, "ulimit -Hn, LimitNOFILE= in a unit, or more gateways")


def _services(settings: DoctorSettings) -> Iterable[CheckFinding]:
    try:
        inside = InsideTls(settings)
    except SettingError as error:
        yield CheckFinding(BAD, "certificates", str(error), "matchers and gateways cannot be asked without")
        inside = None
    try:
        added = _added(settings.parts)
    except SettingError as error:
        yield CheckFinding(BAD, "parts", str(error), "name the parts that are there")
        added = {}
    for row in sorted(PARTS, key=lambda one: one.name == _HTTP):
        if row.name == _HTTP:
            yield _http(row, settings)
            continue
        for address in _addresses(getattr(settings, row.doctor)) if row.doctor else filter(None, [added.get(row.name)]):
            if inside is None:
                continue
            base = f"{inside.scheme}://{address}"
            finding = _service(row, base, settings, inside.client)
            yield finding
            if finding.state == OK and row.name in _MORE:
                yield from _MORE[row.name](base, settings, inside.client)


def _http(row: PartRow, settings: DoctorSettings) -> CheckFinding:
    """The HTTP service is asked where publishers ask it, whose port may have another certificate."""
    http = settings.http.rstrip("/")
    base = http if "://" in http else f"http://{http}"
    context = ssl.create_default_context(cafile=settings.ca_cert or None) if base.startswith("https://") else None
    return _service(row, base, settings, context)


def _added(text: str) -> dict[str, str]:
    """Returns each part's host:port: from `--parts`, else the default port on this machine. Raises SettingError."""
    found = {row.name: f"127.0.0.1:{row.port}" for row in PARTS if not row.doctor}
    for one in _addresses(text):
        name, _, address = one.partition("=")
        if name not in found or not address:
            known = ", ".join(found) or "there is none here"
            raise SettingError(f"COLDNOTIFY_PARTS / --parts: {one!r} is not NAME=host:port with such a part ({known})")
        found[name] = address
    return found


def _service(row: PartRow, base: str, settings: DoctorSettings, context: ssl.SSLContext | None) -> CheckFinding:
    kind, flag = row.title, f"--{row.doctor.replace('_', '-')}" if row.doctor else "--parts"
    try:
        with urlopen(f"{base}/readyz", timeout=settings.doctor_timeout_s, context=context) as response:
            ready = response.read(100) == b"ready\n"
    except HTTPError as error:
        with error:
            reason = error.read(300).decode(errors="replace").strip()
        if error.code == 503:
            return CheckFinding(BAD, kind, f"{base} is not ready: {reason}", "if that lasts, its log says more")
        return CheckFinding(BAD, kind, f"{base}: something else listens there", f"is {flag} right?")
    except (OSError, ValueError) as error:
        reason = str(getattr(error, "reason", None) or error)
        refused = isinstance(getattr(error, "reason", error), ConnectionRefusedError)
        words = "nothing runs there" if refused else reason
        todo = f"start it, or say where it is: {flag}"
        if row.name == "usage":
            todo += "; without it nodes divide agreements evenly, and `coldnotify tenant usage` shows nothing new"
        return CheckFinding(WARNING if refused else BAD, kind, f"{base}: {words}", todo)
    if not ready:
        return CheckFinding(BAD, kind, f"{base}: something else listens there", f"is {flag} right?")
    return CheckFinding(OK, kind, f"{base} is ready")


def _removals(base: str, settings: DoctorSettings, context: ssl.SSLContext | None) -> Iterable[CheckFinding]:
    """Checks that a matcher's clock agrees with others, and what it therefore does not forget or remove yet."""
    try:
        with urlopen(f"{base}/v1/removals", timeout=settings.doctor_timeout_s, context=context) as response:
            shown = json.load(response)
        apart = {str(one["clock"]): int(one["ahead_ms"]) for one in shown["clocks_apart"]}
        clients = sum(int(one["clients_held"]) for one in shown["items"])
        objects = sum(int(one["objects_held"]) for one in shown["items"])
        agree_s = float(shown["clocks_agree_s"])
    except (OSError, ValueError, LookupError, TypeError) as error:
        words = f"{base}/v1/removals does not say whether clocks agree: {error!r}"
        yield CheckFinding(WARNING, "removals", words, "is it of another release?")
        return
    if apart:
        names = ", ".join(f"{name} {ahead_ms / 1000:+.0f} s" for name, ahead_ms in apart.items())
        todo = "nothing is forgotten or removed until they agree: docs/runbooks/RemovalsStandStill.md"
        yield CheckFinding(BAD, "removals", f"{base}: clocks are apart: {names}", todo)
    elif clients or objects:
        words = f"{base}: {clients} clients and {objects} objects wait to be forgotten or removed, many at once"
        todo = "they go once clocks have agreed for an hour, or by `coldnotify state removals --confirm`"
        yield CheckFinding(WARNING, "removals", words, todo)
    else:
        yield CheckFinding(OK, "removals", f"{base}: clocks have agreed for {agree_s:.0f} s, nothing waits")


def _usage_lag(base: str, settings: DoctorSettings, context: ssl.SSLContext | None) -> Iterable[CheckFinding]:
    """Checks how far a worker of the usage job lags: its verdicts contain the time up to which it has read."""
    try:
        with urlopen(f"{base}/metrics", timeout=settings.doctor_timeout_s, context=context) as response:
            lines = response.read().decode().splitlines()
        samples = dict(line.rsplit(" ", 1) for line in lines if line.startswith(_USAGE_LAG))
        lag_s, records = float(samples[f"{_USAGE_LAG}_seconds"]), float(samples[f"{_USAGE_LAG}_records"])
    except (OSError, ValueError, LookupError) as error:
        yield CheckFinding(
            WARNING, "usage job", f"{base}/metrics does not say its lag: {error!r}", "is it of another release?"
        )
        return
    words = f"{base} is {lag_s:.0f} s behind what nodes write, and has {records:.0f} records to read"
    if records > _USAGE_LAG_RECORDS and lag_s > VERDICT_S:
        yield CheckFinding(
            BAD, "usage job", words, "its verdicts have expired when they are written: start another worker"
        )
    else:
        yield CheckFinding(OK, "usage job", words)


def _listeners(base: str, settings: DoctorSettings, context: ssl.SSLContext | None) -> Iterable[CheckFinding]:
    """The ports for devices of a gateway that is ready, each asked for a connection."""
    try:
        with urlopen(f"{base}/v1/gateway", timeout=settings.doctor_timeout_s, context=context) as response:
            shown = json.load(response)
        inside = urlsplit(base).hostname or ""
        host = shown.get("host") or inside
        ports = {row: int(shown[row.port_key]) for row in LISTENERS}
    except (OSError, ValueError, LookupError, TypeError) as error:
        words = f"{base}/v1/gateway does not say its ports for devices: {error!r}"
        yield CheckFinding(WARNING, "gateway", words, "is it of another release?")
        return
    # A gateway that listens everywhere is where its HTTP port was found.
    address = inside if host in _EVERYWHERE else host
    for row, port in ports.items():
        at = f"{row.name} {host_port(address, port)}"
        try:
            socket.create_connection((address, port), timeout=settings.doctor_timeout_s).close()
        except OSError as error:
            todo = f"is COLDNOTIFY_GATEWAY_HOST / --gateway-host right, does a firewall stand before {row.flag}?"
            refused = isinstance(error, ConnectionRefusedError)
            yield CheckFinding(
                BAD if refused else WARNING, "gateway", f"{at} takes no connection from here: {error}", todo
            )
        else:
            yield CheckFinding(OK, "gateway", f"{at} takes devices' connections")


def _addresses(text: str) -> list[str]:
    return [one.strip() for one in text.split(",") if one.strip()]


_MORE = {"matcher": _removals, "gateway": _listeners, "usage": _usage_lag}
"""Further checks of a part that is ready, by its name."""
