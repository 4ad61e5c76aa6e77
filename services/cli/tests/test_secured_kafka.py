"""All of ColdNotify on a Kafka that wants TLS, SASL and ACLs: each service as its own principal, by settings alone.

Stands for: users_kafka
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from coldnotify import Connection, Notify, State
from coldnotify_common.security.certificates import Authority
from coldnotify_kafka.broker import EmbeddedBroker, free_port
from coldnotify_kafka.broker.process import spawn
from coldnotify_schemas.topics import TopicNames
from coldnotify_testkit.stack import Recorder
from coldnotify_testkit.users_kafka import ConfigWithUsers
from coldnotify_testkit.waiting import wait_for
from confluent_kafka import KafkaError, Producer

TOPICS = TopicNames()

pytestmark = [pytest.mark.kafka, pytest.mark.own_broker("configures logins and rights in Kafka")]

ROLES = ("matcher", "gateway", "http", "usage", "publisher", "operator")
LIMIT_S = 120


@dataclass(frozen=True)
class SecuredConfig(ConfigWithUsers):
    """Users have the rights that they are given, and no others."""

    def server_properties(self) -> str:
        rights = [
            "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users=User:ANONYMOUS",
        ]
        return super().server_properties() + "\n".join(rights) + "\n"


class Secured:
    """A secured Kafka, and what each principal is told of it."""

    def __init__(self, directory: Path) -> None:
        authority = Authority(directory / "certs")
        certificate, key = authority.server("kafka", ["127.0.0.1"])
        keystore = directory / "keystore.pem"
        keystore.write_bytes(key.read_bytes() + certificate.read_bytes())
        config = SecuredConfig(
            data_dir=directory / "data",
            port=free_port(),
            controller_port=free_port(),
            users_port=free_port(),
            users={f"coldnotify-{role}": f"{role}-secret" for role in ROLES},
            keystore=keystore,
        )
        self.broker = EmbeddedBroker.of(config)
        self.address = f"127.0.0.1:{config.users_port}"
        self.options = {
            role: {
                "security.protocol": "SASL_SSL",
                "ssl.ca.location": str(authority.directory / "ca.pem"),
                "sasl.mechanism": "PLAIN",
                "sasl.username": f"coldnotify-{role}",
                "sasl.password": f"{role}-secret",
            }
            for role in ROLES
        }
        self._directory = directory

    def flags(self, role: str) -> list[str]:
        """What a command of this role is told."""
        path = self._directory / f"{role}.properties"
        path.write_text("".join(f"{name}={value}\n" for name, value in self.options[role].items()))
        return [f"--kafka={self.address}", f"--kafka-config={path}"]

    def run(self, role: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """A command, to its end."""
        command = [sys.executable, "-m", "coldnotify_cli.main", *arguments, *self.flags(role)]
        return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)

    def refusal(self, role: str, topic: str) -> KafkaError | None:
        """What a producer of this role is told of a record for this topic; None: it is taken."""
        producer = Producer({"bootstrap.servers": self.address, **self.options[role], "log_level": 0})
        answers: list[KafkaError | None] = []
        producer.produce(topic, b"{}", b"d/g/of-nobody", on_delivery=lambda error, _record: answers.append(error))
        assert producer.flush(LIMIT_S) == 0
        return answers[0]


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    kafka = Secured(tmp_path_factory.mktemp("secured"))
    with kafka.broker as broker:
        # The operator's own rights are given by whoever runs Kafka, here on the listener that may all.
        for command in (("topics", "apply"), ("topics", "acls", "--apply")):
            done = subprocess.run(
                [sys.executable, "-m", "coldnotify_cli.main", *command, f"--kafka={broker.bootstrap}"],
                capture_output=True,
                text=True,
                timeout=LIMIT_S,
                check=False,
            )
            assert done.returncode == 0, done.stderr
        yield kafka


def test_every_service_works_with_the_rights_it_is_given(secured: Secured, tmp_path: Path) -> None:
    ports = {name: free_port() for name in ("matcher", "gateway", "gateway-http", "gateway-web", "http", "usage")}
    parts = {
        "matcher": [f"--matcher-port={ports['matcher']}"],
        "gateway": [f"--{name}-port={ports[name]}" for name in ("gateway", "gateway-http", "gateway-web")],
        "http": [f"--http-port={ports['http']}"],
        "usage": [f"--usage-port={ports['usage']}", "--usage-history-s=0.5"],
    }
    told = Recorder()
    with ExitStack() as stack:
        for part, flags in parts.items():
            argv = [sys.executable, "-m", "coldnotify_cli.main", part, *flags, *secured.flags(part)]
            process = spawn(argv, tmp_path / f"{part}.log")
            stack.callback(process.wait, LIMIT_S)
            stack.callback(process.terminate)
        notify = Notify("d", "g", "c", State(None), Connection("127.0.0.1", ports["gateway"], backoff_max_s=1))
        notify.register("o").subscribe(told)
        logs = {part: tmp_path / f"{part}.log" for part in parts}
        assert notify.connect(timeout_s=LIMIT_S), {part: log.read_text()[-2000:] for part, log in logs.items()}
        published = secured.run("publisher", "publish", "d", "g", "o", "--version=1")
        assert published.returncode == 0, published.stderr
        wait_for(lambda: told.newest("o") == 1, "a back-end's publish is told")
        post(f"http://127.0.0.1:{ports['http']}/v1/domains/d/groups/g/objects/o")
        wait_for(lambda: told.newest("o") == 2, "that of the HTTP service is, too")
        notify.disconnect()
        nodes = f"http://127.0.0.1:{ports['http']}/v1/nodes"

        def principals() -> dict[str, str]:
            return {one["role"]: one["principal"] for one in json.loads(text_of(nodes))["items"]}

        everybody = {role: f"coldnotify-{role}" for role in parts}
        wait_for(lambda: principals() == everybody, "each writes to the nodes topic, and HTTP reads it")
        assert secured.refusal("matcher", TOPICS.usage) is None  # no usage: it is set aside, which needs reading
        metrics = f"http://127.0.0.1:{ports['usage']}/metrics"
        wait_for(lambda: 'set_aside_total{reason="record"} 1.0' in text_of(metrics), "the usage job reads")
        text = "".join(log.read_text() for log in logs.values())
    assert "secret" not in text
    assert "authoriz" not in text.lower()


def test_up_without_the_right_to_create_topics_says_whose_it_is(secured: Secured, tmp_path: Path) -> None:
    ports = [f"--{name}-port=0" for name in ("gateway", "http", "matcher")]
    done = secured.run("matcher", "up", f"--data={tmp_path}", "--topics-prefix=acme.", *ports)
    assert done.returncode == 1
    assert "COLDNOTIFY_KAFKA_CONFIG / --kafka-config: Kafka at" in done.stderr
    assert "Allow its user to create and describe acme.*" in done.stderr


def test_two_installations_have_principals_of_their_own(secured: Secured) -> None:
    apply = ("topics", "acls", "--apply", f"--kafka={secured.broker.bootstrap}")
    argv = [sys.executable, "-m", "coldnotify_cli.main", *apply]

    def run(*flags: str) -> list[str]:
        done = subprocess.run([*argv, *flags], capture_output=True, text=True, timeout=LIMIT_S, check=True)
        return done.stdout.splitlines()

    lines = run("--topics-prefix=acme.")
    assert "+ User:acme.matcher: read group acme.matcher*" in lines
    assert "+ User:acme.operator: create topic acme.*" in lines
    assert all(line.startswith("+ User:acme.") and "coldnotify" not in line for line in lines)
    assert run() == ["nothing to change"]


def test_nobody_has_more_rights_than_that(secured: Secured) -> None:
    for role, topic, taken in (
        ("publisher", TOPICS.objects, True),
        ("publisher", TOPICS.sessions, False),
        ("publisher", TOPICS.requests, False),
        ("gateway", TOPICS.registrations, False),
        ("http", TOPICS.registrations, False),
        ("usage", TOPICS.usage_state, True),
        ("usage", TOPICS.usage, False),
        ("usage", TOPICS.nodes, True),
        ("publisher", TOPICS.nodes, False),
        ("operator", TOPICS.nodes, False),
        ("gateway", TOPICS.verdicts, False),
        ("operator", TOPICS.objects, False),
    ):
        refusal = secured.refusal(role, topic)
        assert (refusal is None) is taken, (role, topic, refusal)
        if refusal is not None:
            assert refusal.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    dumped = secured.run("publisher", "topics", "plan")
    assert dumped.returncode == 1


def test_the_plan_finds_what_is_missing_and_what_is_too_much(secured: Secured) -> None:
    plain = [sys.executable, "-m", "coldnotify_cli.main", "topics", "acls", f"--kafka={secured.broker.bootstrap}"]

    def acls(*flags: str) -> str:
        done = subprocess.run([*plain, *flags], capture_output=True, text=True, timeout=LIMIT_S, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    assert acls() == "nothing to change"
    other = "--acls-principal=User:staging-{role}"
    lines = acls(other).splitlines()
    assert "+ User:staging-publisher: write topic coldnotify.objects" in lines
    assert all(line.startswith("+ User:staging-") for line in lines)
    assert acls("--apply", other).splitlines() == lines
    assert acls(other) == acls() == "nothing to change"


def text_of(url: str) -> str:
    from urllib.request import urlopen

    try:
        with urlopen(url, timeout=LIMIT_S) as answer:
            return str(answer.read().decode())
    except OSError:
        return ""


def post(url: str) -> None:
    from urllib.request import Request, urlopen

    def done() -> bool:
        try:
            with urlopen(Request(url, b'{"version": 2}', method="POST"), timeout=LIMIT_S):
                return True
        except OSError:
            return False

    wait_for(done, "the HTTP service publishes")
