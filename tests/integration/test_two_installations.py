"""Two installations in one cluster, each under its prefix: neither sees a record, a group or a metric of the other."""

import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from itertools import permutations
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
from coldnotify import Message
from coldnotify_kafka.broker import EmbeddedBroker
from coldnotify_schemas.topics import TopicNames
from coldnotify_testkit.command import coldnotify
from coldnotify_testkit.fetching import fetch
from coldnotify_testkit.stack import Recorder, Up, installation, notify
from coldnotify_testkit.usage_workers import read_all
from coldnotify_testkit.waiting import wait_for
from confluent_kafka.admin import AdminClient

pytestmark = pytest.mark.kafka

DOMAIN, GROUP, CLIENT = "animal.observer", "region-1", "the-same-client"
PARTITIONS = 2
VERSIONS = {"acme.": 3, "team-x_": 7}
"""By prefix, how often its back-end publishes; the last version is that number."""


@pytest.fixture(scope="module")
def installations(kafka: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Up]]:
    with ExitStack() as stack:
        yield {
            prefix: stack.enter_context(
                installation(kafka.bootstrap, prefix, tmp_path_factory.mktemp("up"), f"--partitions={PARTITIONS}")
            )
            for prefix in VERSIONS
        }


def publish(up: Up, prefix: str) -> None:
    """By Kafka, and the last one by HTTP; and a message to a channel."""
    *earlier, last = range(1, VERSIONS[prefix] + 1)
    with up.publisher() as publisher:
        for version in earlier:
            publisher.publish(DOMAIN, GROUP, "lamp", version=version)
        publisher.send(DOMAIN, GROUP, "alarm", prefix.encode())
    url = f"{up.http_url}/v1/domains/{DOMAIN}/groups/{GROUP}/objects/lamp"
    with urlopen(Request(url, b'{"version": %d}' % last, method="POST"), timeout=60):
        pass


def test_neither_sees_anything_of_the_other(installations: dict[str, Up]) -> None:
    told: dict[str, Recorder] = {}
    messages: dict[str, list[Message]] = {}
    with ExitStack() as stack:
        for prefix, up in installations.items():
            ou = stack.enter_context(notify(up, CLIENT, None))
            told[prefix], messages[prefix] = Recorder(), []
            ou.register("lamp").subscribe(told[prefix])
            ou.channel("alarm").subscribe(messages[prefix].append)
            assert ou.wait_caught_up(60)
            wait_for(partial(listens, up), "objects and channels are told live")
        done = coldnotify("tenant", "set", "animals", "--domain", DOMAIN, "--in-per-s", "1000",
                          "--topics-prefix=acme.", kafka=installations["acme."].kafka)  # fmt: skip
        assert done.returncode == 0, done.stderr
        for prefix, up in installations.items():
            publish(up, prefix)
        for prefix in VERSIONS:
            wait_for(told[prefix].reaches("lamp", VERSIONS[prefix]), f"{prefix}: its own last version is told")
            wait_for(partial(list, messages[prefix]), f"{prefix}: its own message is told")
    for prefix, up in installations.items():
        versions = [one for one in told[prefix].versions("lamp") if one is not None]
        assert versions == sorted(set(versions))
        assert versions[-1] == VERSIONS[prefix]
        assert [one.payload for one in messages[prefix]] == [prefix.encode()]
        assert_records(up, prefix)
        assert_metrics(up, prefix)
    assert_groups(installations)
    shown = {prefix: tenants(up, prefix) for prefix, up in installations.items()}
    assert "animals" in shown["acme."]
    assert "animals" not in shown["team-x_"]


def doctor(prefix: str, up: Up) -> "subprocess.CompletedProcess[str]":
    at = {name: up.report[name] for name in ("matcher", "http", "usage")}
    return coldnotify("doctor", "--partitions", str(PARTITIONS), "--topics-prefix", prefix, kafka=up.kafka,
                      gateway_http=",".join(up.report["gateways_http"]), **at)  # fmt: skip


def test_doctor_looks_at_the_one_that_it_is_asked_for(installations: dict[str, Up]) -> None:
    for prefix, up in installations.items():
        done = doctor(prefix, up)
        if done.returncode:
            # A stalled machine makes Kafka divide the usage job's partitions anew, which doctor rightly tells.
            assert "being divided" in done.stdout, done.stdout
            wait_for(lambda prefix=prefix, up=up: doctor(prefix, up).returncode == 0, "doctor finds all well")  # type: ignore[misc]
        else:
            assert "BAD" not in done.stdout
    done = coldnotify("doctor", "--partitions", str(PARTITIONS), kafka=up.kafka, topics_prefix="acne.")
    # Another test may have topics of the default prefix there.
    assert re.search(r"this cluster has topics under acme\., (coldnotify\., )?team-x_", done.stdout)


def test_a_history_is_of_one_installation(installations: dict[str, Up], tmp_path: Path) -> None:
    history = tmp_path / "dump.jsonl"
    done = coldnotify("topics", "dump", str(history), "--topics-prefix=acme.", kafka=installations["acme."].kafka)
    assert done.returncode == 0, done.stderr
    assert "team-x_" not in history.read_text()
    assert "P6  kept" in coldnotify("check", str(history), "--topics-prefix=acme.").stdout
    assert "needs a dump of the topics team-x_registrations" in coldnotify(
        "check", str(history), topics_prefix="team-x_"
    ).stdout  # fmt: skip


def listens(up: Up) -> bool:
    """Returns true once the matcher tells the client of its object and its channel."""
    state = up.client(DOMAIN, GROUP, CLIENT)
    channels = [one["state"] for one in state.get("channels", ())]
    return (state.get("session_state"), state.get("registered"), channels) == ("live", 2, ["live"])


def assert_records(up: Up, prefix: str) -> None:
    """Its logs hold what was published in it, each once."""
    topics = TopicNames(prefix)
    objects = [message.value() for message in read_all(up.kafka, topics.objects, PARTITIONS) if message.value()]
    assert objects == [b'{"version":%d}' % version for version in range(1, VERSIONS[prefix] + 1)]
    sent = [message.value() for message in read_all(up.kafka, topics.channels_1d, PARTITIONS)]
    assert sent == [prefix.encode()]


def assert_metrics(up: Up, prefix: str) -> None:
    """Its metrics count nothing of the other one, and name no topic or client of it."""
    ports = [up.report["matcher"], up.report["http"], up.report["usage"], *up.report["gateways_http"]]
    texts = {port: fetch(f"http://{port}/metrics", 60).text for port in ports}
    for port, text in texts.items():
        for other in VERSIONS.keys() - {prefix}:
            assert other not in text, port
    assert f"coldnotify_matcher_publishes_total {VERSIONS[prefix]}.0" in texts[up.report["matcher"]]


def assert_groups(installations: dict[str, Up]) -> None:
    """Each member is of the installation that its group, its client and its topics are of."""
    admin = AdminClient({"bootstrap.servers": next(iter(installations.values())).kafka})
    found = {one.group_id for one in admin.list_consumer_groups(request_timeout=60).result(60).valid}
    assert {TopicNames(prefix).group(name) for prefix in VERSIONS for name in ("matcher", "usage")} <= found
    for one, other in permutations(VERSIONS):
        groups = [group for group in found if group.startswith(one)]
        for answer in admin.describe_consumer_groups(groups, request_timeout=60).values():
            for member in answer.result(60).members:
                assert member.client_id.startswith(one)
                read = {place.topic for place in member.assignment.topic_partitions}
                assert not [topic for topic in read if topic.startswith(other)]


def tenants(up: Up, prefix: str) -> str:
    """Returns what `coldnotify tenant list` shows."""
    return coldnotify("tenant", "list", kafka=up.kafka, topics_prefix=prefix).stdout
