"""Nodes with real processes: known while they run, named when they die, and nobody needs them to serve."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from coldnotify_common.nodes import SILENT_S, Node, NodeKey, encode_key, encode_node
from coldnotify_kafka import topic_plan, topics
from coldnotify_kafka.broker import EmbeddedBroker
from coldnotify_kafka.broker.freezing import frozen
from coldnotify_schemas.topics import TopicNames
from coldnotify_testkit import unreadable_batches
from coldnotify_testkit.browser import MISSING, Browser
from coldnotify_testkit.command import coldnotify
from coldnotify_testkit.gateway_process import GatewayProcess
from coldnotify_testkit.http_process import HttpProcess
from coldnotify_testkit.kafka import free_port
from coldnotify_testkit.matcher_process import MatcherProcess
from coldnotify_testkit.record_batches import Codec, bomb
from coldnotify_testkit.stack import Recorder, Stacks, Up, get_json, notify
from coldnotify_testkit.waiting import wait_for
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

pytestmark = pytest.mark.kafka

WAIT_S = 120
needs_browser = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))


@pytest.fixture(scope="module")
def _pair(stacks: Stacks, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    with stacks.running(tmp_path_factory.mktemp("pair"), "--gateways=2", "--matchers=2") as up:
        yield up


@pytest.fixture
def pair(_pair: Up) -> Iterator[Up]:
    """Two matchers and two gateways; the HTTP service knows them by nothing but the topic."""
    yield _pair
    # Gateways that a test has killed would be named for minutes.
    url, own = _pair.http_url, set(_pair.report["gateways_http"])
    for address, one in nodes(url, "gateway").items():
        if address not in own:
            write(_pair, encode_key(NodeKey("gateway", one["principal"], one["id"])), None)
    wait_for(lambda: nodes(url, "gateway").keys() <= own, "others are forgotten", WAIT_S)


def nodes(url: str, role: str = "") -> dict[str, dict[str, Any]]:
    """The nodes by the address of the port for operators."""
    items = get_json(f"{url}/v1/nodes")["items"]
    return {str(one["addresses"].get("inside")): one for one in items if role in ("", one["role"])}


def states(url: str, role: str) -> list[str]:
    return sorted(one["state"] for one in nodes(url, role).values())


def listed(url: str, kind: str) -> dict[str, str]:
    return {one["address"]: one["state"] for one in get_json(f"{url}/v1/{kind}")["items"]}


def targets(url: str) -> dict[str, str]:
    found = get_json(f"{url}/v1/prometheus-targets")
    return {one["targets"][0]: one["labels"]["job"] for one in found}


def write(up: Up, key: bytes, value: bytes | None) -> None:
    producer = Producer({"bootstrap.servers": up.kafka})
    producer.produce(up.topics.nodes, value, key)
    assert producer.flush(60) == 0


def test_every_process_is_known_without_a_list(pair: Up) -> None:
    url = pair.http_url
    wait_for(lambda: states(url, "gateway") == states(url, "matcher") == ["ready", "ready"], "both pairs", WAIT_S)
    wait_for(lambda: states(url, "usage") == states(url, "http") == ["ready"], "the others", WAIT_S)
    assert set(nodes(url, "matcher")) == set(pair.report["matchers"])
    assert set(listed(url, "gateways")) == set(nodes(url, "gateway")) == set(pair.report["gateways_http"])
    device = f"{pair.gateway[0]}:{pair.gateway[1]}"
    assert {one["addresses"]["device"] for one in nodes(url, "gateway").values()} == {device}
    found = targets(url)
    assert sorted(found.values()) == ["gateway", "gateway", "http", "matcher", "matcher", "usage"]
    assert found[pair.report["http"]] == "http"


def test_a_new_gateway_is_one_command_and_is_named_when_it_was_killed(pair: Up) -> None:
    url = pair.http_url
    labels = {"node_labels": "zone=b", "node_weight": 3}
    with GatewayProcess(pair.kafka, topics_prefix=pair.topics.prefix, **labels) as gateway:
        gateway.wait_ready()
        address, port = f"127.0.0.1:{gateway.http_port}", gateway.port
        wait_for(lambda: nodes(url).get(address, {}).get("state") == "ready", "the new gateway is known", WAIT_S)
        assert listed(url, "gateways")[address] == "ready"
        assert (nodes(url)[address]["labels"], nodes(url)[address]["weight"]) == ({"zone": "b"}, 3)
        client = notify(pair, "beside", None, port=gateway.port)
        client.connect()
        wait_for(lambda: nodes(url)[address]["connections"] == 1, "its connection is counted", WAIT_S)
        client.disconnect()
        gateway.kill()
        wait_for(lambda: nodes(url)[address]["state"] == "silent", "its silence is noticed", WAIT_S)
    assert nodes(url)[address]["age_s"] >= SILENT_S
    assert listed(url, "gateways")[address] == "silent"
    assert targets(url)[address] == "gateway", "Prometheus goes on asking it in vain"
    shown = coldnotify("top", "--once", http=pair.report["http"])
    assert "Nodes: 3 gateway, 1 http, 2 matcher, 1 usage" in shown.stdout
    (row,) = [line for line in shown.stdout.splitlines() if line.split()[2:3] == ["silent"]]
    assert row.startswith(f"gateway 127.0.0.1:{port} ")
    told = coldnotify("doctor", "--json", "--kafka", pair.kafka, "--topics-prefix", pair.topics.prefix,
                      http=pair.report["http"])  # fmt: skip
    findings = [json.loads(line) for line in told.stdout.splitlines()]
    words = "has written nothing for"
    (silent,) = [one for one in findings if one["what"] == "nodes" and words in one["words"]]
    assert silent["state"] == "warning"


def test_a_node_that_ends_in_order_is_gone_at_once(pair: Up) -> None:
    url = pair.http_url
    with GatewayProcess(pair.kafka, topics_prefix=pair.topics.prefix) as gateway:
        gateway.wait_ready()
        address = f"127.0.0.1:{gateway.http_port}"
        wait_for(lambda: address in nodes(url), "it is known", WAIT_S)
        assert gateway.stop() == 0
        wait_for(lambda: address not in nodes(url), "it is gone", SILENT_S / 2)
    assert address not in listed(url, "gateways")
    assert address not in targets(url)


def test_a_matcher_that_stands_still_is_not_asked_and_comes_back(pair: Up) -> None:
    url, pids = pair.http_url, pair.report["pids"]
    address = pair.report["matchers"][1]
    with frozen(pids["matcher-2"]):
        wait_for(lambda: nodes(url)[address]["state"] == "silent", "its silence is noticed", WAIT_S)
        assert listed(url, "matchers")[address] == "silent"
    wait_for(lambda: nodes(url)[address]["state"] == "ready", "it is back", WAIT_S)
    wait_for(lambda: listed(url, "matchers")[address] == "ready", "and asked", WAIT_S)


def test_bad_records_are_passed_over_and_named(pair: Up) -> None:
    url = pair.http_url
    wait_for(lambda: states(url, "matcher") == ["ready", "ready"], "both matchers", WAIT_S)
    before = get_json(f"{url}/v1/nodes")["passed_over"]
    foreign = encode_node(Node(role="gateway", id="x", addresses={"inside": "127.0.0.1:9"}))
    write(pair, encode_key(NodeKey("matcher", "anonymous", "x")), foreign)
    write(pair, b"\xff", foreign)
    write(pair, encode_key(NodeKey("matcher", "anonymous", "y")), b'{"role": "matcher", "id": "y", "load": 1e300}')
    unreadable_batches.write(pair.kafka, pair.topics.nodes, 0, [bomb(Codec.ZSTD, 80), unreadable_batches.silent()])
    write(pair, b"role", b"x" * 100_000)
    wait_for(lambda: get_json(f"{url}/v1/nodes")["passed_over"] >= before + 5, "all are counted", WAIT_S)
    assert "127.0.0.1:9" not in nodes(url)
    assert get_json(f"{url}/v1/nodes")["passed_over_why"].startswith("key: ")
    with GatewayProcess(pair.kafka, topics_prefix=pair.topics.prefix) as gateway:
        gateway.wait_ready()
        wait_for(lambda: f"127.0.0.1:{gateway.http_port}" in nodes(url), "the reader has gone on", WAIT_S)


def test_without_the_topic_all_serve_and_find_it_when_it_is_there(stacks: Stacks, tmp_path: Path) -> None:
    with stacks.running(tmp_path) as up:
        url = up.http_url
        wait_for(lambda: states(url, "matcher") == ["ready"], "the matcher is known", WAIT_S)
        admin = AdminClient({"bootstrap.servers": up.kafka})
        admin.delete_topics([up.topics.nodes])[up.topics.nodes].result(60)
        wait_for(lambda: "does not exist" in (get_json(f"{url}/v1/nodes")["unknown"] or ""), "it is said", WAIT_S)
        recorder = Recorder()
        client = notify(up, "tromso", None)
        client.register("camera").subscribe(recorder)
        client.connect()
        with up.publisher() as publisher:
            publisher.publish("animal.observer", "region-1", "camera", version=7)
        wait_for(recorder.reaches("camera", 7), "devices are served", WAIT_S)
        client.disconnect()
        assert get_json(f"{url}/v1/overview")["partitions"]["missing"] == [], "whom it knew it asks"
        with GatewayProcess(up.kafka, topics_prefix=up.topics.prefix) as gateway:
            gateway.wait_ready()
            gateway.event("this node is not known to others")
            topic_plan.create_missing(admin, topics.load(partitions=2, names=up.topics))
            wait_for(lambda: f"127.0.0.1:{gateway.http_port}" in nodes(url), "it is written and read", WAIT_S)
        wait_for(lambda: get_json(f"{url}/v1/nodes")["unknown"] is None, "it is known again", WAIT_S)


def test_a_kafka_of_release_0_1_0_has_no_such_topic_and_settings_name_whom_to_ask(
    fresh_kafka: EmbeddedBroker, tmp_path: Path
) -> None:
    names = TopicNames()
    admin = AdminClient({"bootstrap.servers": fresh_kafka.bootstrap})
    admin.delete_topics([names.nodes])[names.nodes].result(60)
    wait_for(lambda: names.nodes not in admin.list_topics(timeout=60).topics, "it is gone", WAIT_S)
    kafka = fresh_kafka.bootstrap
    with ExitStack() as running:
        matcher = running.enter_context(MatcherProcess(kafka, tmp_path / "matcher.log"))
        matcher.wait_serving()
        address = f"127.0.0.1:{matcher.port}"
        http = running.enter_context(HttpProcess(tmp_path / "http.log", free_port(), kafka=kafka, matcher=address))
        http.wait_ready()
        assert listed(http.url, "matchers") == {address: "ready"}
        assert names.nodes not in admin.list_topics(timeout=60).topics, "nobody made it with Kafka's own settings"
        assert matcher.stop() == http.stop() == 0


@needs_browser
def test_the_console_draws_them(pair: Up, window: Browser) -> None:
    window.open(f"{pair.http_url}/#/nodes")
    heads = "[...document.querySelectorAll('#nodes-map h3')].map((one) => one.innerText)"
    window.wait_for(f"{heads}.includes('matcher: 2 of 2 ready')", "the map")
    rows = "[...document.querySelectorAll('#nodes tbody tr')].map((row) => row.innerText)"
    window.wait_for(f"{rows}.filter((row) => row.includes('ready')).length >= 6", "the table")
    window.wait_for("document.querySelectorAll('#nodes-map .node.ready').length >= 6", "their boxes")
    assert window.log() == []
