"""Two tenants and one of them floods: who is refused, who is not, and that what was acknowledged is in the topic."""

import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import pytest
from coldnotify_schemas.tenant_usage import TenantCounters, parse_usage, usage_partition_of
from coldnotify_testkit.command import coldnotify
from coldnotify_testkit.fetching import fetch
from coldnotify_testkit.stack import PARTITIONS, Up
from coldnotify_testkit.waiting import wait_for
from confluent_kafka import Consumer, Producer, TopicPartition

pytestmark = pytest.mark.kafka

FIELDS = {"error", "outcome", "tenant", "limit", "allowed", "measured", "retry_after_s"}
REFUSED_MIN = 20
CALM_MIN = 20
LIMIT_S = 100
IN_PER_S = 5
BURST_S = 2


class Answer(NamedTuple):
    status: int
    body: dict[str, Any]
    retry_after: str | None
    seconds: float


def publish(up: Up, domain: str, object_: str, version: int) -> Answer:
    url = f"{up.http_url}/v1/domains/{domain}/groups/g/objects/{object_}?outcome=no"
    request = urllib.request.Request(url, json.dumps({"version": version}).encode(), method="POST")
    began_s = time.monotonic()
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return Answer(answer.status, json.loads(answer.read()), None, time.monotonic() - began_s)
    except urllib.error.HTTPError as error:
        with error:
            body = json.loads(error.read())
        return Answer(error.code, body, error.headers["Retry-After"], time.monotonic() - began_s)


def tenant(up: Up, *arguments: str) -> None:
    done = coldnotify("tenant", *arguments, **up.in_kafka)
    assert done.returncode == 0, done.stderr


def http(up: Up, method: str, path: str, body: object = None) -> tuple[int, Any]:
    data = None if body is None else json.dumps(body).encode()
    answer = fetch(urllib.request.Request(f"{up.http_url}/v1/{path}", data, method=method))
    return answer.status, json.loads(answer.text)


def known(up: Up, name: str, **fields: object) -> None:
    """Until the HTTP service knows the tenant as this."""

    def is_known() -> bool:
        status, shown = http(up, "GET", f"tenants/{name}")
        return status == 200 and all(shown.get(field) == value for field, value in fields.items())

    wait_for(is_known, f"the HTTP service knows {name}")


def written(up: Up, domain: str) -> set[tuple[str, int]]:
    """Object and version of all records of a domain."""
    consumer = Consumer(
        {"bootstrap.servers": up.kafka, "group.id": up.topics.group("test"), "enable.partition.eof": True}
    )
    found, unread = set(), set(range(PARTITIONS))
    consumer.assign([TopicPartition(up.topics.objects, partition, 0) for partition in unread])
    while unread:
        for message in consumer.consume(500, 1):
            if message.error() is not None:
                unread.discard(int(message.partition() or 0))
                continue
            key, value = message.key(), message.value()
            assert isinstance(key, bytes)
            if key.startswith(f"{domain}/".encode()):
                assert isinstance(value, bytes)
                found.add((key.decode().rpartition("/")[2], json.loads(value)["version"]))
    consumer.close()
    return found


def usage(up: Up, name: str) -> dict[str, int]:
    """The sums over all nodes of what usage records say last of a tenant."""
    consumer = Consumer(
        {"bootstrap.servers": up.kafka, "group.id": up.topics.group("test"), "enable.partition.eof": True}
    )
    last: dict[tuple[str, str], TenantCounters] = {}
    partition = usage_partition_of(name, 8)
    consumer.assign([TopicPartition(up.topics.usage, partition, 0)])
    while (message := consumer.poll(10)) is not None and message.error() is None:
        value = message.value()
        assert isinstance(value, bytes)
        record = parse_usage(value)
        if name in record.tenants:
            last[record.node, record.boot] = record.tenants[name]
    consumer.close()
    fields = ("publishes", "admitted", "refused")
    return {field: sum(getattr(counters, field) for counters in last.values()) for field in fields}


def agree(up: Up, calm: str, loud: str) -> None:
    """A tenant whom nothing holds back, and one who may do little; each has a domain of its name."""
    tenant(up, "set", calm, "--domain", f"tenant.{calm}", "--in-per-s", "1000")
    tenant(up, "set", loud, "--domain", f"tenant.{loud}", "--in-per-s", str(IN_PER_S), "--burst-s", str(BURST_S))
    known(up, calm, in_per_s=1000)
    known(up, loud, in_per_s=IN_PER_S)


@pytest.fixture(scope="module")
def tenants(up: Up) -> Iterator[Up]:
    agree(up, "calm", "loud")
    yield up
    for name in ("calm", "loud"):
        tenant(up, "remove", name)


def test_who_floods_is_refused_and_nobody_else_is(up: Up) -> None:
    """With tenants of their own: all that they publish is compared with what is there and what is counted."""
    agree(up, "patient", "pushing")
    stop, numbers, lock = threading.Event(), iter(range(10**9)), threading.Lock()
    acknowledged: set[tuple[str, int]] = set()
    refused: list[Answer] = []

    def flood(thread: int) -> None:
        while not stop.is_set():
            with lock:
                version = next(numbers)
            answer = publish(up, "tenant.pushing", f"o{thread}", version)
            with lock:
                if answer.status == 200:
                    acknowledged.add((f"o{thread}", version))
                else:
                    refused.append(answer)

    began_s = time.monotonic()
    with ThreadPoolExecutor(4) as pool:
        floods = [pool.submit(flood, thread) for thread in range(4)]
        try:
            calm: list[Answer] = []
            while len(refused) < REFUSED_MIN or len(calm) < CALM_MIN:
                assert time.monotonic() < began_s + LIMIT_S, f"{len(refused)} refused, {len(calm)} published"
                calm.append(publish(up, "tenant.patient", "o", len(calm)))
        finally:
            stop.set()
            ended_s = time.monotonic()
    for one in floods:
        one.result()

    assert {answer.status for answer in calm} == {200}
    assert written(up, "tenant.patient") == {("o", version) for version in range(len(calm))}
    assert sorted(answer.seconds for answer in calm)[len(calm) // 2] < 1, "nor is it slowed down"

    assert {answer.status for answer in refused} == {429}
    for answer in refused:
        assert set(answer.body) == FIELDS
        assert (answer.body["tenant"], answer.body["limit"]) == ("pushing", "in_per_s")
        assert (answer.body["allowed"], answer.body["outcome"]) == (IN_PER_S, "not published")
        assert answer.body["retry_after_s"] > 0
        assert int(answer.retry_after or 0) >= 1
    assert len(acknowledged) <= (ended_s - began_s) * IN_PER_S + IN_PER_S * BURST_S + 1
    assert written(up, "tenant.pushing") == acknowledged, "what was refused is not there, what was acknowledged is"

    def counted() -> dict[str, dict[str, int]]:
        return {name: usage(up, name) for name in ("patient", "pushing")}

    # Once each: by matchers what stands in the log, by the HTTP service what it has let in.
    sums = {"patient": (len(calm), 0), "pushing": (len(acknowledged), len(refused))}
    expected = {
        name: {"publishes": published, "admitted": published, "refused": not_let_in}
        for name, (published, not_let_in) in sums.items()
    }
    wait_for(lambda: counted() == expected, "all is counted, and nothing twice")

    metrics = fetch(f"{up.http_url}/metrics").text
    assert f'coldnotify_tenants_refused_total{{limit="in_per_s",tenant="pushing"}} {len(refused)}.0' in metrics
    for name in ("patient", "pushing"):
        tenant(up, "remove", name)


def test_an_agreement_that_is_raised_lets_more_in(tenants: Up) -> None:
    wait_for(lambda: publish(tenants, "tenant.loud", "raised", 1).status == 429, "it is at its limit")
    tenant(tenants, "set", "loud", "--in-per-s", "100000")
    known(tenants, "loud", in_per_s=100_000)
    answers = [publish(tenants, "tenant.loud", "raised", version) for version in range(IN_PER_S * BURST_S * 2)]
    assert {answer.status for answer in answers} == {200}


def test_a_damaged_record_stops_nothing(tenants: Up) -> None:
    producer = Producer({"bootstrap.servers": tenants.kafka})
    for key, value in ((b"broken", b"{"), (b"calm", b'{"domains": ["tenant.calm"], "in_per_s": -1}'), (b"\xff", b"")):
        producer.produce(tenants.topics.tenants, value, key)
    assert producer.flush(60) == 0
    wait_for(lambda: len(http(tenants, "GET", "tenants")[1]["damaged"]) == 3, "they were read")
    assert 'coldnotify_tenants{state="damaged"} 3.0' in fetch(f"{tenants.http_url}/metrics").text
    assert publish(tenants, "tenant.calm", "beside-damage", 1).status == 200
    assert publish(tenants, "tenant.nobodys", "beside-damage", 1).status == 200
    assert http(tenants, "GET", "tenants/calm")[1]["in_per_s"] == 1000, "it is as it was before"
    tenant(tenants, "set", "calm", "--domain", "tenant.calm", "--in-per-s", "1000")
    tenant(tenants, "remove", "broken")
    producer.produce(tenants.topics.tenants, None, b"\xff")
    assert producer.flush(60) == 0


def test_agreements_by_http(tenants: Up) -> None:
    status, shown = http(tenants, "PUT", "tenants/web", {"domains": ["tenant.web"], "in_bytes_per_s": 100})
    assert (status, shown) == (200, {"tenant": "web", "domains": ["tenant.web"], "in_bytes_per_s": 100.0})
    status, now = http(tenants, "GET", "tenants/web")
    assert (status, {**now, "now": None}) == (200, {**shown, "now": None})
    wait_for(lambda: publish(tenants, "tenant.web", "o", 1).body.get("limit") == "in_bytes_per_s", "it is refused")
    clash = http(tenants, "PUT", "tenants/other", {"domains": ["tenant.web"]})
    assert clash == (409, {"error": "domains: tenant.web belongs to tenant web", "field": "domains"})
    status, shown = http(tenants, "PUT", "tenants/web", {"domains": ["tenant.web"], "in_per_s": -1})
    assert (status, shown["field"]) == (400, "in_per_s")
    status, shown = http(tenants, "PUT", "tenants/web", {"domains": ["tenant.web"], "principal": "user-7"})
    assert (status, shown["field"]) == (400, "principal")
    assert http(tenants, "PUT", "tenants/web", [])[0] == 400
    status, shown = http(tenants, "GET", "tenants?limit=2")
    assert [one["tenant"] for one in shown["items"]] == ["calm", "loud"]
    assert shown["next"] == "loud"
    status, usage = http(tenants, "GET", "tenants/web/usage")
    assert (status, usage["tenant"], usage["by"]) == (200, "web", "hour")
    assert {"now", "items"} <= usage.keys()
    assert http(tenants, "GET", "tenants/web/usage?by=week")[1]["field"] == "by"
    assert http(tenants, "DELETE", "tenants/web") == (200, {"tenant": "web", "removed": True})
    assert http(tenants, "GET", "tenants/web")[0] == 404
    assert http(tenants, "DELETE", "tenants/web")[0] == 404
    assert http(tenants, "GET", "tenants/default")[1] == {"tenant": "default", "domains": [], "now": None}
