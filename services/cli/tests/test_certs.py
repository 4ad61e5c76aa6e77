"""`coldnotify certs`, and `coldnotify up --tls` with what it made.

Stands for: credentials, tls_parts
"""

import json
import socket
import stat
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from coldnotify import Connection, Notify, ServiceRefused, State
from coldnotify_cli.asked_ports import SPEAKS_TLS
from coldnotify_cli.credentials import CredentialSettings, http_context, read_token
from coldnotify_cli.tls_parts import TlsParts
from coldnotify_common.errors import SettingError
from coldnotify_gateway.listeners.registry import LISTENERS
from coldnotify_testkit.stack import Recorder, Up, running
from coldnotify_testkit.waiting import wait_for

LIMIT_S = 90


def coldnotify(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "coldnotify_cli.main", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)


def test_wrong_use_is_named(tmp_path: Path) -> None:
    done = coldnotify("certs", str(tmp_path), "--client", "d/g")
    assert (done.returncode, "--client: 'd/g' is not DOMAIN/GROUP/CLIENT" in done.stderr) == (2, True)
    done = coldnotify("certs", str(tmp_path), "--client", "d/g/c d")
    assert (done.returncode, "client: 'c d'" in done.stderr) == (2, True), done.stderr
    with pytest.raises(SettingError, match=r"--tls: there is no .*ca\.pem: run `coldnotify certs"):
        TlsParts(str(tmp_path / "nothing"))
    with pytest.raises(SettingError, match="--token-file"):
        read_token(CredentialSettings(token_file=str(tmp_path / "nothing")))
    with pytest.raises(SettingError, match="--ca-cert"):
        http_context(CredentialSettings(ca_cert=str(tmp_path / "nothing")))


@pytest.mark.kafka
@pytest.mark.own_broker("looks at the ports on which Kafka listens")
def test_mutual_tls_from_certificates_to_a_notification(tmp_path: Path) -> None:
    certs, domain = tmp_path / "certs", "animal.observer"
    names = [f"{domain}/region-1/{name}" for name in ("observer-1", "observer-2")]
    flags = [flag for name in names for flag in ("--client", name)]
    done = coldnotify("certs", str(certs), *flags, "--publisher", domain, "--operator", "ada")
    assert done.returncode == 0, done.stderr
    assert not [path for path in certs.glob("*.key") if stat.S_IMODE(path.stat().st_mode) != 0o600]
    ca = str(certs / "ca.pem")

    def client(certificate_of: str, recorder: Recorder, problems: list[Exception]) -> Notify:
        pem = certs / f"{domain}.region-1.{certificate_of}"
        host, port = up.gateway
        connection = Connection(host, port, ca, f"{pem}.pem", f"{pem}.key")
        notify = Notify(domain, "region-1", "observer-1", State(None), connection, on_error=problems.append)
        notify.register("camera").subscribe(recorder)
        return notify

    with running(tmp_path, f"--tls={certs}") as up:
        told, problems = Recorder(), list[Exception]()
        right = client("observer-1", told, problems)
        assert right.connect(timeout_s=LIMIT_S), right.status

        publisher = ["--cert", str(certs / f"publisher.{domain}.pem"), "--key", str(certs / f"publisher.{domain}.key")]
        statuses = []
        for target in (domain, "other"):
            url = f"https://{up.report['http']}/v1/domains/{target}/groups/region-1/objects/camera"
            statuses.append(post(url, ca, certs / f"publisher.{domain}"))
        assert statuses == [200, 403]
        wait_for(lambda: told.versions("camera")[-1:] == [7], "the publish is told")

        refused: list[Exception] = []
        wrong = client("observer-2", Recorder(), refused)
        assert not wrong.connect(timeout_s=LIMIT_S)
        wait_for(lambda: refused, "the refusal")
        assert isinstance(refused[0], ServiceRefused)
        wrong.disconnect()

        lacks = coldnotify(
            *("who-lacks", domain, "region-1", "camera", "--json"),
            *("--http", str(up.report["http"]), "--ca-cert", ca, *publisher),
        )
        assert lacks.returncode == 0, lacks.stderr
        assert json.loads(lacks.stdout.splitlines()[0])["registered"] == 1
        anonymous = coldnotify(
            "who-lacks", domain, "region-1", "camera", "--http", str(up.report["http"]), "--ca-cert", ca
        )
        assert (anonymous.returncode, "a client certificate is needed" in anonymous.stderr) == (1, True)
        right.disconnect()
        assert problems == []

        watched = coldnotify(
            *("watch", domain, "region-1", "observer-2", "camera", "--once", "--gateway", str(up.report["gateway"])),
            *("--ca-cert", ca, "--cert", str(certs / f"{domain}.region-1.observer-2.pem")),
            *("--key", str(certs / f"{domain}.region-1.observer-2.key")),
        )
        assert (watched.returncode, watched.stdout) == (0, "camera  version 7\n"), watched.stderr

        looked = {name: look(up, ca, certs / name) for name in ("operator.ada", "inside", f"publisher.{domain}", "")}
        assert [looked[name].returncode for name in ("operator.ada", "inside")] == [0, 0], looked
        assert json.loads(looked["operator.ada"].stdout.splitlines()[0])["matcher"] == up.report["matcher"]
        assert "neither a service nor an operator" in looked[f"publisher.{domain}"].stderr
        assert looked[""].returncode != 0
        assert_only_kafka_is_in_the_clear(up)
        assert_one_identity_is_enough(up, certs)


def assert_one_identity_is_enough(up: Up, certs: Path) -> None:
    """For all commands and services, wherever it stands; without one, each command says that the port speaks TLS."""
    ada = certs / "operator.ada"
    identity = ["--ca-cert", str(certs / "ca.pem"), "--cert", f"{ada}.pem", "--key", f"{ada}.key"]
    at = ["--http", str(up.report["http"])]
    everything = [*at, "--kafka", up.kafka, "--usage", str(up.report["usage"]), "--data", str(up.data)]
    checked = coldnotify(*identity, "doctor", "--json", *everything)
    findings = [json.loads(line) for line in checked.stdout.splitlines()]
    services = [one["state"] for one in findings if one["what"] in ("matcher", "gateway", "HTTP service")]
    assert services == ["ok"] * (3 + len(LISTENERS)), checked.stdout
    assert checked.returncode == 0, checked.stdout
    partitions = coldnotify("state", *identity, "partitions", *at)
    assert partitions.returncode == 0, partitions.stderr
    assert partitions.stdout == coldnotify("state", "partitions", *identity, *at).stdout
    matcher = ["--matcher", str(up.report["matcher"])]
    assert coldnotify("state", "partitions", *identity, *matcher).returncode == 0
    told = coldnotify("doctor", *everything, *matcher, "--gateway-http", up.report["gateways_http"][0])
    assert (told.returncode, told.stdout.count(SPEAKS_TLS), "start it" in told.stdout) == (1, 4, False), told.stdout
    unit = coldnotify("watch", "d", "g", "c", "o", "--once", "--timeout-s=1", "--gateway", str(up.report["gateway"]))
    assert SPEAKS_TLS in unit.stderr


def look(up: Up, ca: str, certificate: Path) -> "subprocess.CompletedProcess[str]":
    """`coldnotify state partitions` with this certificate; a directory: with none, in the clear."""
    flags = [] if certificate.is_dir() else ["--inside-certificate", f"{certificate}.pem", "--inside-ca", ca]
    flags += [] if certificate.is_dir() else ["--inside-key", f"{certificate}.key"]
    return coldnotify("state", "partitions", "--json", "--matcher", str(up.report["matcher"]), *flags)


def assert_only_kafka_is_in_the_clear(up: Up) -> None:
    """Every port of every part, as the kernel knows them: nothing is answered without TLS but on loopback by Kafka."""
    kafka = up.report["pids"]["broker"]
    ports = {name: listening_ports(pid) for name, pid in up.report["pids"].items()}
    assert sum(map(len, ports.values())) >= 6, "one of the matcher, three of the gateway, one of HTTP, Kafka's two"
    for name, of_part in ports.items():
        for address, port in of_part:
            assert address == "127.0.0.1", (name, address)
            if up.report["pids"][name] != kafka:
                with socket.create_connection((address, port), LIMIT_S) as plain:
                    plain.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                    assert b"HTTP/1.1 200" not in received(plain), (name, port)


def received(plain: socket.socket) -> bytes:
    try:
        return plain.recv(1000)
    except ConnectionResetError:
        return b""


def listening_ports(pid: int) -> list[tuple[str, int]]:
    """(IPv4 or IPv6 address, port) on which a process listens."""
    inodes = set()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):
            inodes.add(str(link.readlink()))
    found = []
    for table, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            columns = line.split()
            local, state, inode = columns[1], columns[3], columns[9]
            if state == "0A" and f"socket:[{inode}]" in inodes:
                address, _, port = local.partition(":")
                words = [bytes.fromhex(address[i : i + 8])[::-1] for i in range(0, len(address), 8)]
                text = socket.inet_ntop(family, b"".join(words))
                found.append((text.removeprefix("::ffff:"), int(port, 16)))
    return found


def post(url: str, ca: str, publisher: Path) -> int:
    """Publishes version 7; the status."""
    from urllib.error import HTTPError
    from urllib.request import Request, urlopen

    context = http_context(CredentialSettings(ca_cert=ca, cert=f"{publisher}.pem", key=f"{publisher}.key"))
    try:
        with urlopen(Request(url, b'{"version": 7}', method="POST"), timeout=LIMIT_S, context=context) as answer:
            return int(answer.status)
    except HTTPError as error:
        with error:
            return error.code
