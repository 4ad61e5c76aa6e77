"""`coldnotify doctor`: each thing that is wrong is found, with what to do, and what is right is no reason to fail.

Stands for: checkup, findings, open_transactions, service_checks, topic_checks
"""

import json
import resource
import shlex
import socket
import time
from concurrent.futures import Future
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiohttp import web
from coldnotify_cli import checkup, open_transactions
from coldnotify_cli.checkup import all_checks
from coldnotify_cli.findings import BAD, OK, WARNING, CheckFinding
from coldnotify_cli.service_checks import service_findings
from coldnotify_cli.settings import DoctorSettings
from coldnotify_cli.topic_checks import uneven_shares
from coldnotify_common.http.admin import AdminServer, AdminThread
from coldnotify_gateway.listeners.registry import LISTENERS
from coldnotify_kafka.broker import EmbeddedBroker
from coldnotify_kafka.room import DiskRoom
from coldnotify_schemas.topics import TopicNames
from coldnotify_streams.log_ends import log_ends
from coldnotify_testkit.command import coldnotify
from coldnotify_testkit.kafka import reset_topics
from coldnotify_testkit.waiting import wait_for
from coldnotify_usage import metrics as usage_metrics
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

TOPICS = TopicNames()

NOWHERE = "127.0.0.1:1"
HERE: dict[str, str] = {"kafka": NOWHERE, "matcher": NOWHERE, "gateway_http": "", "http": NOWHERE, "usage": ""}


def found(**settings: Any) -> dict[str, list[CheckFinding]]:
    by_what: dict[str, list[CheckFinding]] = {}
    for one in all_checks(DoctorSettings(**HERE | {"doctor_timeout_s": 60} | settings)):
        by_what.setdefault(one.what, []).append(one)
    return by_what


def certificate(directory: Path, name: str, days: float, begins_days: float = -1) -> dict[str, str]:
    """A certificate that expires in so many days, and its key: as settings."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now + timedelta(days=min(begins_days, days - 1)))
        .not_valid_after(now + timedelta(days=days))
        .sign(key, hashes.SHA256())
    )
    pem, key_pem = directory / f"{name}.pem", directory / f"{name}.key"
    pem.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    key_pem.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    key_pem.chmod(0o600)
    return {"tls_certificate": str(pem), "tls_key": str(key_pem)}


@pytest.mark.kafka
def test_topics_and_clock_are_compared_with_kafka(kafka: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    reset_topics(kafka.bootstrap)  # another test may have left more partitions
    shown = found(kafka=kafka.bootstrap)
    assert [one[0].state for one in (shown["Kafka"], shown["topics"], shown["clock"])] == [OK, OK, OK]
    shown = found(kafka=kafka.bootstrap, replication=3)
    assert shown["topics"][0].state == BAD
    assert not [name for name in admin.list_topics(timeout=60).topics if "doctor" in name]
    _set_policy(admin, "delete")
    try:
        (lost,) = found(kafka=kafka.bootstrap)["topics"]
        assert (lost.state, lost.words.startswith("EMERGENCY: coldnotify.objects has ")) == (BAD, True)
        mending = lost.todo.removeprefix("do now: coldnotify ")
        assert coldnotify(*shlex.split(mending)).returncode == 0
        assert [one.state for one in found(kafka=kafka.bootstrap)["topics"]] == [OK]
    finally:
        _set_policy(admin, "compact")
    real_s = time.time
    monkeypatch.setattr(time, "time", lambda: real_s() + 100)
    (clock,) = found(kafka=kafka.bootstrap)["clock"]
    assert (clock.state, clock.todo) == (BAD, "set both by NTP (chrony, timesyncd)")
    assert " s ahead of Kafka's" in clock.words


def _set_policy(admin: AdminClient, policy: str) -> None:
    entry = ConfigEntry("cleanup.policy", policy, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, TOPICS.objects, incremental_configs=[entry])
    for altered in admin.incremental_alter_configs([resource]).values():
        altered.result(60)


@pytest.mark.kafka
def test_a_transaction_that_holds_a_partition_up_is_found(kafka: EmbeddedBroker) -> None:
    reset_topics(kafka.bootstrap)
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": "doctor-test"})
    producer.init_transactions(60)
    (fine,) = found(kafka=kafka.bootstrap)["transactions"]
    assert fine.state == OK
    producer.begin_transaction()
    producer.produce(TOPICS.objects, b"{}", b"d/g/o", partition=5)
    producer.flush(60)
    try:
        (held,) = found(kafka=kafka.bootstrap)["transactions"]
    finally:
        producer.abort_transaction(60)
    assert held.state == BAD
    assert held.words.startswith("one is open on coldnotify.objects, partition 5: nobody can read from offset 0 on")
    assert "describe-producers --topic coldnotify.objects --partition 5;" in held.todo
    assert held.todo.endswith("abort --topic coldnotify.objects --partition 5 --start-offset 0")
    wait_for(lambda: [one.state for one in found(kafka=kafka.bootstrap)["transactions"]] == [OK], "it has ended")


@pytest.mark.kafka
def test_a_transaction_that_commits_meanwhile_holds_nothing_up(kafka: EmbeddedBroker) -> None:
    reset_topics(kafka.bootstrap)
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": "doctor-test-2"})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(TOPICS.objects, b"{}", b"d/g/o", partition=5)
    producer.flush(60)
    partitions = [(TOPICS.objects, 4), (TOPICS.objects, 5)]

    def commit() -> None:
        producer.commit_transaction(60)
        wait_for(lambda: log_ends(admin, partitions)[TOPICS.objects, 5] == 2, "its end stands in the log")

    assert open_transactions.held_up(admin, partitions, commit) == {}


def test_without_kafka_the_rest_is_checked_and_the_exit_code_says_it() -> None:
    done = coldnotify("doctor", "--doctor-timeout-s", "0.5", "--json", **HERE)
    findings = [json.loads(line) for line in done.stdout.splitlines()]
    assert (done.returncode, [one["what"] for one in findings if one["state"] == BAD]) == (1, ["Kafka", "services"])
    assert "none of 2 services answers" in findings[-1]["words"]
    assert "--kafka is 127.0.0.1:1" in findings[0]["todo"]
    assert "Traceback" not in done.stderr
    assert "2 wrong, 2 warnings" in coldnotify("doctor", "--doctor-timeout-s", "0.5", **HERE).stdout


@pytest.mark.parametrize(
    ("days", "begins_days", "state", "words"),
    [
        (90, -1, OK, "is valid for 90 more days"),
        (3.4, -1, WARNING, "is valid for 3 more days"),
        (-2, -9, BAD, "expired 2 days ago"),
        (9, 3, BAD, "is valid from "),
    ],
)
def test_certificates_are_read(tmp_path: Path, days: float, begins_days: float, state: str, words: str) -> None:
    settings = DoctorSettings(**HERE | certificate(tmp_path, "one", days, begins_days))  # type: ignore[arg-type]
    (one,) = checkup._certificates(settings)
    assert one.state == state
    assert words in one.words
    assert bool(one.todo) == (state != OK)


def test_a_certificate_that_cannot_be_used_is_found(tmp_path: Path) -> None:
    one, other = certificate(tmp_path, "one", 90), certificate(tmp_path, "other", 90)

    def words(**settings: str) -> str:
        (*_, last) = checkup._certificates(DoctorSettings(**HERE | settings))  # type: ignore[arg-type]
        assert last.state != OK
        return last.words

    assert "is not the key of" in words(**one | {"tls_key": other["tls_key"]})
    assert "No such file" in words(ca_cert=str(tmp_path / "none"))
    assert "holds no certificate" in words(ca_cert=one["tls_key"])
    Path(one["tls_key"]).chmod(0o644)
    assert "can be read by everybody" in words(**one)


def test_secrets_that_everybody_can_read_are_found(tmp_path: Path) -> None:
    key, options, token = tmp_path / "kafka.key", tmp_path / "kafka.conf", tmp_path / "token"
    options.write_text(f"ssl.key.location={key}\n")
    settings = DoctorSettings(**HERE | {"kafka_config": str(options), "token_file": str(token)})  # type: ignore[arg-type]
    for path in (key, token):
        path.touch()
    for path in (key, options, token):
        path.chmod(0o640)
    assert [one.state for one in checkup._secrets(settings)] == [OK]
    assert list(checkup._secrets(DoctorSettings(**HERE))) == []  # type: ignore[arg-type]
    for path in (key, options):
        path.chmod(0o644)
    assert [(one.state, one.todo) for one in checkup._secrets(settings)] == [
        (WARNING, f"chmod o-rwx {options}"),
        (WARNING, f"chmod o-rwx {key}"),
    ]
    token.unlink()
    assert BAD in [one.state for one in checkup._secrets(settings)]


def test_services_are_asked_whether_they_are_ready() -> None:
    reasons = (lambda: None, lambda: "loading")
    servers = [AdminThread(AdminServer("127.0.0.1", 0, readiness=reason)) for reason in reasons]
    for server in servers:
        server.start()
    try:
        ready, loading = (f"127.0.0.1:{server.port}" for server in servers)
        settings = HERE | {"matcher": f"{ready},{loading}", "gateway_http": NOWHERE, "http": f"http://{ready}/x"}
        states = [
            (one.what, one.state)
            for one in service_findings(DoctorSettings(**settings))  # type: ignore[arg-type]
        ]
    finally:
        for server in servers:
            server.stop()
    of_an_earlier_release = "removals", WARNING
    services = [("matcher", OK), of_an_earlier_release, ("matcher", BAD), ("gateway", WARNING), ("HTTP service", BAD)]
    assert states == services


@pytest.mark.parametrize(("seconds", "records", "state"), [(0, 0, OK), (90, 3, OK), (3, 5000, OK), (90, 5000, BAD)])
def test_the_usage_job_is_asked_how_far_it_lags(seconds: int, records: int, state: str) -> None:
    """An old record alone is no lag: nothing may have changed since."""
    usage_metrics.LAG_SECONDS.set(seconds)
    usage_metrics.LAG_RECORDS.set(records)
    server = AdminThread(AdminServer("127.0.0.1", 0, readiness=lambda: None))
    server.start()
    try:
        usage = {"matcher": "", "usage": f"127.0.0.1:{server.port},{NOWHERE}"}
        findings = [
            one
            for one in service_findings(DoctorSettings(**HERE | usage))  # type: ignore[arg-type]
            if one.what == "usage job"
        ]
    finally:
        server.stop()
        usage_metrics.LAG_SECONDS.set(0)
        usage_metrics.LAG_RECORDS.set(0)
    assert [one.state for one in findings] == [OK, state, WARNING]
    assert "share limits evenly" in findings[2].todo


def test_nodes_that_fell_silent_are_named_and_workers_found_by_their_records() -> None:
    shown: dict[str, Any] = {"unknown": None, "passed_over": 0, "passed_over_why": None, "items": []}

    async def nodes(_request: web.Request) -> web.Response:
        return web.json_response(shown)

    def states() -> list[tuple[str, str]]:
        settings = DoctorSettings(matcher="", gateway_http="", http=address, kafka=NOWHERE)
        return [(one.what, one.state) for one in service_findings(settings)]

    thread = AdminThread(AdminServer("127.0.0.1", 0, readiness=lambda: None, routes=[web.get("/v1/nodes", nodes)]))
    thread.start()
    address = f"127.0.0.1:{thread.port}"
    try:
        worker = {"role": "usage", "id": "u", "addresses": {"inside": address}, "state": "ready", "age_s": 1}
        shown["items"] = [worker]
        assert states()[:2] == [("nodes", OK), ("usage job", OK)]
        shown["items"] = [worker, {**worker, "id": "v", "state": "silent", "age_s": 50}]
        shown |= {"passed_over": 2, "passed_over_why": "key: is missing"}
        assert states()[:3] == [("nodes", WARNING), ("nodes", WARNING), ("usage job", OK)]
        shown["unknown"] = "the topic does not exist"
        assert states()[0] == ("nodes", WARNING)
        assert states()[1] == ("usage job", OK), "what is known is used"
    finally:
        thread.stop()


def test_names_that_mqtt_cannot_say_are_counted_and_listed() -> None:
    named = {"unsayable": 11, "unsayable_first": [f"d/g/a+{number}" for number in range(10)]}

    async def partitions(_request: web.Request) -> web.Response:
        return web.json_response({"items": [{"unsayable": 0, "unsayable_first": []}, named]})

    routes = [web.get("/v1/partitions", partitions)]
    thread = AdminThread(AdminServer("127.0.0.1", 0, readiness=lambda: None, routes=routes))
    thread.start()
    try:
        settings = DoctorSettings(**HERE | {"matcher": f"127.0.0.1:{thread.port}"})  # type: ignore[arg-type]
        (found,) = [one for one in service_findings(settings) if one.what == "MQTT"]
        named["unsayable"] = 0
        assert not [one for one in service_findings(settings) if one.what == "MQTT"]
    finally:
        thread.stop()
    assert found.state == WARNING
    assert "MQTT cannot say 11 names: 'd/g/a+0', " in found.words
    assert found.words.endswith("'d/g/a+9', ...")


def test_services_with_different_limits_on_payloads_are_named() -> None:
    shown: dict[str, Any] = {"unknown": None, "passed_over": 0, "passed_over_why": None}

    async def nodes(_request: web.Request) -> web.Response:
        return web.json_response(shown)

    def findings(*limits: int | None) -> list[tuple[str, str]]:
        node = {"role": "matcher", "id": "m", "addresses": {"inside": "a:1"}, "state": "ready", "age_s": 1}
        shown["items"] = [node | ({} if one is None else {"payload_bytes_max": one}) for one in limits]
        settings = DoctorSettings(matcher="", gateway_http="", http=address, kafka=NOWHERE)
        return [(one.state, one.words) for one in service_findings(settings) if one.what == "payloads"]

    thread = AdminThread(AdminServer("127.0.0.1", 0, readiness=lambda: None, routes=[web.get("/v1/nodes", nodes)]))
    thread.start()
    address = f"127.0.0.1:{thread.port}"
    try:
        assert findings(4096, 4096, 0, None) == []
        ((state, words),) = findings(4096, 8192, 4096)
        assert state == BAD
        assert words.endswith("differs: 4096 at matcher a:1, matcher a:1; 8192 at matcher a:1")
    finally:
        thread.stop()


def test_every_listener_of_a_gateway_that_is_ready_is_asked_for_a_connection() -> None:
    shown: dict[str, object] = {}

    async def gateway(_request: web.Request) -> web.Response:
        return web.json_response(shown)

    def states(address: str) -> list[tuple[str, str]]:
        settings = DoctorSettings(**HERE | {"gateway_http": address, "matcher": ""})  # type: ignore[arg-type]
        return [(one.state, one.words) for one in service_findings(settings) if one.what == "gateway"]

    thread = AdminThread(AdminServer("127.0.0.1", 0, readiness=lambda: None, routes=[web.get("/v1/gateway", gateway)]))
    thread.start()
    address = f"127.0.0.1:{thread.port}"
    try:
        with ExitStack() as held:
            listening = [held.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in LISTENERS]
            ports = {row.port_key: one.getsockname()[1] for row, one in zip(LISTENERS, listening, strict=True)}
            for host in ("127.0.0.1", "0.0.0.0"):
                shown |= {"host": host, **ports}
                assert states(address)[1:] == [
                    (OK, f"{row.name} 127.0.0.1:{ports[row.port_key]} accepts devices' connections")
                    for row in LISTENERS
                ]
            listening[-1].close()
            *well, (last, words) = states(address)
            assert ([state for state, _ in well], last) == ([OK] * len(LISTENERS), BAD)
            assert f"{LISTENERS[-1].name} 127.0.0.1:{ports[LISTENERS[-1].port_key]} accepts no connection" in words
        shown.clear()
        assert [state for state, _ in states(address)] == [OK, WARNING]
    finally:
        thread.stop()


@pytest.mark.parametrize(("free_mib", "state"), [(63, BAD), (400, WARNING), (600, OK)])
def test_a_disk_without_room_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, free_mib: int, state: str
) -> None:
    room = DiskRoom(tmp_path, free_mib << 20, 10_000 << 20)
    monkeypatch.setattr(checkup, "room_of", lambda _: room)
    (one,) = checkup._disk(DoctorSettings(**HERE, data=tmp_path))  # type: ignore[arg-type]
    assert (one.state, one.words) == (state, f"{free_mib} MiB of 10000 MiB are free on the disk of {tmp_path}")
    assert ("DiskNearlyFull.md" in one.todo) == (state != OK)


def test_without_a_data_directory_no_disk_is_checked(tmp_path: Path) -> None:
    assert list(checkup._disk(DoctorSettings(**HERE, data=tmp_path / "no"))) == []  # type: ignore[arg-type]


def test_few_open_files_are_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 4096))
    (one,) = checkup._open_files(DoctorSettings(**HERE))  # type: ignore[arg-type]
    assert (one.state, "4096" in one.words) == (WARNING, True)


class GroupAdmin:
    """Kafka's answers about the matchers' group, and the topic of objects."""

    def __init__(self, matchers: int, partitions: int) -> None:
        self._matchers, self._partitions = matchers, partitions

    def describe_consumer_groups(self, groups: list[str], **_options: object) -> dict[str, Future[SimpleNamespace]]:
        answer = Future[SimpleNamespace]()
        answer.set_result(SimpleNamespace(members=[None] * self._matchers))
        return dict.fromkeys(groups, answer)

    def list_topics(self, topic: str, _timeout_s: float) -> SimpleNamespace:
        return SimpleNamespace(topics={topic: SimpleNamespace(partitions=dict.fromkeys(range(self._partitions)))})


@pytest.mark.parametrize(("matchers", "partitions", "warns"), [(0, 2, False), (4, 8, False), (5, 8, True)])
def test_fewer_than_two_partitions_for_each_matcher_are_warned_of(matchers: int, partitions: int, warns: bool) -> None:
    admin = cast(AdminClient, GroupAdmin(matchers, partitions))
    found = list(uneven_shares(DoctorSettings(), admin))
    assert [one.state for one in found] == [WARNING] * warns
    assert all("8 partitions for 5 matchers" in one.words and "topics copy" in one.todo for one in found)
