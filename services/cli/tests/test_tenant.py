"""The command `tenant`, against a real Kafka: set, listed, shown, removed; what is refused, and how it is told."""

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from aiohttp import web
from coldnotify_common.http.web import error_response
from coldnotify_kafka.broker import EmbeddedBroker
from coldnotify_kafka.broker.tools import console_tool
from coldnotify_schemas.topics import TopicNames
from coldnotify_testkit.command import coldnotify
from coldnotify_testkit.served_routes import served_in_a_thread
from confluent_kafka import Producer

TOPICS = TopicNames()

Done = subprocess.CompletedProcess[str]


class Command:
    """`coldnotify tenant` with a Kafka."""

    def __init__(self, kafka: str) -> None:
        self.kafka = kafka

    def run(self, *arguments: str) -> Done:
        return coldnotify("tenant", *arguments, kafka=self.kafka)

    def json(self, *arguments: str) -> Any:
        done = self.run(*arguments, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


@pytest.fixture
def tenant(fresh_kafka: EmbeddedBroker) -> Command:
    return Command(fresh_kafka.bootstrap)


@pytest.mark.kafka
def test_an_agreement_is_set_field_by_field_and_removed(tenant: Command) -> None:
    assert "(none)" in tenant.run("list").stdout
    first = tenant.json("set", "acme", "--domain", "a", "--domain", "b", "--in-per-s", "100", "--clients-max", "5")
    assert first == {"tenant": "acme", "domains": ["a", "b"], "in_per_s": 100, "clients_max": 5}
    assert tenant.json("set", "acme", "--in-per-s", "200", "--clients-max", "none", "--over", "refuse") == {
        "tenant": "acme",
        "domains": ["a", "b"],
        "in_per_s": 200,
        "over": "refuse",
    }
    assert tenant.json("set", "default", "--in-bytes-per-s", "1e6") == {
        "tenant": "default",
        "domains": [],
        "in_bytes_per_s": 1e6,
    }
    listed = tenant.run("list").stdout.splitlines()
    assert listed[0].split()[:4] == ["tenant", "domains", "in_per_s", "in_bytes_per_s"]
    assert [line.split()[0] for line in listed[1:]] == ["acme", "default"]
    shown = tenant.run("show", "acme").stdout
    assert "in_per_s             200" in shown
    assert tenant.run("remove", "acme").stdout == "acme: removed\n"
    gone = tenant.run("show", "acme")
    assert (gone.returncode, gone.stderr) == (1, "Error: tenant acme: is not known\n")
    assert tenant.run("remove", "acme").returncode == 1


@pytest.mark.kafka
def test_a_domain_of_another_tenant_is_refused(tenant: Command) -> None:
    tenant.json("set", "acme", "--domain", "a")
    done = tenant.run("set", "other", "--domain", "b", "--domain", "a")
    assert (done.returncode, done.stderr) == (1, "Error: domains: a belongs to tenant acme\n")
    assert tenant.run("show", "other").returncode == 1


@pytest.mark.kafka
def test_a_damaged_record_and_a_conflict_are_told_and_stop_nothing(tenant: Command) -> None:
    producer = Producer({"bootstrap.servers": tenant.kafka})
    producer.produce(TOPICS.tenants, b'{"domains": ["a"], "in_per_s": -1}', b"broken")
    producer.produce(TOPICS.tenants, b'{"domains": ["x"]}', b"one")
    producer.produce(TOPICS.tenants, b'{"domains": ["x"]}', b"two")
    assert producer.flush(60) == 0
    assert tenant.json("set", "acme", "--domain", "a", "--in-per-s", "5")["in_per_s"] == 5
    done = tenant.run("list")
    assert (done.returncode, len(done.stdout.splitlines())) == (1, 4)
    assert "'broken': cannot be read: in_per_s: Expected `float` > 0" in done.stderr
    assert "domain x: several tenants name it (one, two); it belongs to one" in done.stderr
    assert "in_per_s: Expected" in tenant.run("show", "broken").stderr
    assert tenant.run("remove", "broken").returncode == 0
    assert tenant.run("remove", "two").returncode == 0
    assert tenant.run("list").returncode == 0


@pytest.mark.kafka
def test_a_principal_is_told_to_kafka(tenant: Command) -> None:
    def quotas() -> str:
        arguments = ["--bootstrap-server", tenant.kafka, "--describe", "--entity-type", "users"]
        done = subprocess.run(
            console_tool("configs", arguments), capture_output=True, text=True, timeout=60, check=True
        )
        return done.stdout

    tenant.json("set", "acme", "--domain", "a", "--in-bytes-per-s", "5000.7", "--principal", "user-7")
    assert "'user-7'" in quotas()
    assert "producer_byte_rate=5000" in quotas()
    done = tenant.run("set", "other", "--domain", "b", "--in-bytes-per-s", "1", "--principal", "user-7")
    assert done.stderr == "Error: principal: user-7 is that of tenant acme\n"
    tenant.json("set", "acme", "--in-bytes-per-s", "6000", "--principal", "user-8")
    assert "user-7" not in quotas()
    assert "producer_byte_rate=6000" in quotas()
    assert tenant.run("remove", "acme").returncode == 0
    assert "user-8" not in quotas()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--domain", "a", "--in-per-s", "-5"), "--in-per-s: Expected `float` > 0"),
        (("--domain", "a", "--in-per-s", "nan"), "--in-per-s: nan is not a finite number"),
        (("--domain", "a", "--in-per-s", "many"), "'many' is neither a number nor none"),
        (("--domain", "a", "--clients-max", "1.5"), "'1.5' is neither a whole number nor none"),
        (("--domain", "a", "--over", "drop"), "--over: "),
        (("--domain", "a/b"), "--domain: 'a/b' is not a name"),
        (("--in-per-s", "5"), "--domain: a tenant has at least one"),
        (("--domain", "a", "--in-per-s", "9", "--in-bytes-per-s", "8"), "--in-bytes-per-s: contradicts in_per_s"),
        (("--domain", "a", "--principal", "user-7"), "--in-bytes-per-s must be set, too"),
    ],
)
@pytest.mark.kafka
def test_wrong_use_names_the_flag(fresh_kafka: EmbeddedBroker, arguments: tuple[str, ...], words: str) -> None:
    done = coldnotify("tenant", "set", "acme", *arguments, kafka=fresh_kafka.bootstrap)
    assert done.returncode == 2
    assert words in done.stderr


def test_a_kafka_that_is_not_there_is_one_line() -> None:
    done = coldnotify("tenant", "list", kafka="127.0.0.1:1", topics_timeout_s="1")
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert "127.0.0.1:1" in done.stderr


@pytest.fixture(scope="module")
def node() -> Iterator[str]:
    """An HTTP service that says what somebody used."""

    async def usage(request: web.Request) -> web.Response:
        name, by = request.match_info["tenant"], request.query["by"]
        if name == "nobody":
            return error_response(404, "tenant: there is no nobody", field="tenant")
        if name == "quiet":
            return web.json_response({"tenant": name, "by": by, "now": None, "items": []})
        now = {"per_s": {"publishes": 12.5, "refused": 0.0}, "exceeded": ["in_per_s"], "gauges": {"objects": 3}}
        items = [{by: "2026-11-22T21", "publishes": 7, "refused": 1}]
        return web.json_response(
            {"tenant": name, "by": by, "now": now, "items": items, "last": request.query.get("last")}
        )

    routes = [web.get("/v1/tenants/{tenant}/usage", usage)]
    with served_in_a_thread(routes) as port:
        yield f"127.0.0.1:{port}"


def test_usage_is_shown_now_and_by_hour(node: str) -> None:
    done = coldnotify("tenant", "usage", "acme", http=node)
    assert done.stdout.splitlines() == [
        "acme now: publishes 12.5/s",
        "acme has: objects 3, clients 0, registrations 0",
        "above the agreement: in_per_s",
        "hour           publishes  refused",
        "2026-11-22T21  7          1",
    ]
    assert json.loads(coldnotify("tenant", "usage", "acme", "--last", "3", "--json", http=node).stdout)["last"] == "3"
    assert "is `coldnotify usage` running?" in coldnotify("tenant", "usage", "quiet", "--by", "day", http=node).stdout
    done = coldnotify("tenant", "usage", "nobody", http=node)
    assert (done.returncode, done.stderr) == (1, "Error: tenant: there is no nobody\n")
