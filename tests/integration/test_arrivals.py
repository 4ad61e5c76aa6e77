"""Versions by arrival: the matcher gives them in the order of the log, whatever the clocks of gateways say."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from coldnotify import Connection, Notify, State
from coldnotify_kafka.broker import EmbeddedBroker
from coldnotify_schemas.arrival_versions import ARRIVAL_HEADER, arrival_header
from coldnotify_schemas.records import SINCE_HEADER
from coldnotify_schemas.topics import TopicNames
from coldnotify_schemas.wire_pb2 import OUTCOME_PUBLISHED, AskOutcome, Publish
from coldnotify_testkit.device_frames import hello
from coldnotify_testkit.gateway_process import GatewayProcess
from coldnotify_testkit.matcher_process import DOMAIN, GROUP, PARTITION, MatcherProcess, timed_records_of
from coldnotify_testkit.raw_client import RawClient
from coldnotify_testkit.shifted_clock import ShiftedClock
from coldnotify_testkit.stack import Recorder
from coldnotify_testkit.waiting import wait_for
from confluent_kafka import Producer

TOPICS = TopicNames()

pytestmark = pytest.mark.kafka

BEHIND_S = 5
PUBLISHES = 1_000
OBJECT = f"/v1/domains/{DOMAIN}/groups/{GROUP}/objects/"


@pytest.fixture
def gateways(
    fresh_kafka: EmbeddedBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[list[GatewayProcess]]:
    """Two; the clock of the second one is behind."""
    clock = ShiftedClock(tmp_path, by_s=-BEHIND_S)
    with GatewayProcess(fresh_kafka.bootstrap) as right:
        monkeypatch.setenv("LD_PRELOAD", clock.environ["LD_PRELOAD"])
        with GatewayProcess(fresh_kafka.bootstrap, test_clock=clock.environ["COLDNOTIFY_TEST_CLOCK"]) as behind:
            monkeypatch.delenv("LD_PRELOAD")
            right.wait_ready()
            behind.wait_ready()
            yield [right, behind]


def connected(gateway: GatewayProcess, client: str) -> RawClient:
    device = RawClient(gateway.port)
    device.send(hello(client, domain=DOMAIN, group=GROUP))
    device.until("caught_up")
    return device


def test_the_last_publish_is_the_newest_through_gateways_with_clocks_apart(
    fresh_kafka: EmbeddedBroker, tmp_path: Path, gateways: list[GatewayProcess]
) -> None:
    kafka = fresh_kafka.bootstrap
    told = Recorder()
    connection = Connection("127.0.0.1", gateways[0].port)
    with (
        MatcherProcess(kafka, tmp_path / "first.log") as matcher,
        connected(gateways[0], "device") as one,
        connected(gateways[1], "device-again") as other,
        Notify(DOMAIN, GROUP, "reader", State(None), connection) as reader,
    ):
        reader.register("lamp").subscribe(told)
        assert reader.wait_caught_up(90)
        for number in range(PUBLISHES):
            device = (one, other)[number % 2]
            device.say(publish=Publish(request=number + 1, object="lamp", payload=b"%d" % number))
            offset = device.until("published").published.offset
        wait_for(lambda: told.seen[-1].payload == PUBLISHES - 1, "the last one is told")
        versions = [one.version for one in told.seen if one.version is not None]
        assert versions == sorted(set(versions))
        other.say(ask_outcome=AskOutcome(ask=1, object="lamp", offset=offset))
        said = other.until("outcome").outcome
        assert (said.kind, said.version) == (OUTCOME_PUBLISHED, versions[-1])
        newest = matcher.json(OBJECT + "lamp")
        assert newest["version"] == versions[-1]
    found = timed_records_of(kafka, TOPICS.objects, PARTITION)
    times = [time_ms for _, _, headers, time_ms in found if SINCE_HEADER not in headers]
    assert sum(later < earlier for earlier, later in pairwise(times)) >= PUBLISHES // 2 - 1
    with MatcherProcess(kafka, tmp_path / "second.log") as matcher:
        matcher.wait_serving()
        again = matcher.json(OBJECT + "lamp")
        assert (again["version"], again["offset"]) == (newest["version"], newest["offset"])


@pytest.mark.parametrize("first", [None, 41])
def test_a_thousand_in_one_millisecond_are_a_thousand_versions(
    fresh_kafka: EmbeddedBroker, tmp_path: Path, first: int | None
) -> None:
    kafka, name, time_ms = fresh_kafka.bootstrap, f"burst-{first}", 1_700_000_000_000
    key = f"{DOMAIN}/{GROUP}/{name}".encode()
    with MatcherProcess(kafka, tmp_path / "first.log") as matcher:
        matcher.wait_serving()
        producer = Producer({"bootstrap.servers": kafka, "enable.idempotence": True})
        if first is not None:
            producer.produce(TOPICS.objects, b'{"version":%d}' % first, key, PARTITION)
        for number in range(PUBLISHES):
            value = b'{"payload":%d}' % number
            producer.produce(TOPICS.objects, value, key, PARTITION, timestamp=time_ms, headers=[arrival_header()])
        assert producer.flush(60) == 0
        version = time_ms + PUBLISHES - 1 if first is None else first + PUBLISHES
        wait_for(lambda: newest(matcher, name) == version, "each is a version")
        wait_for(lambda: bool(checkpoints(kafka, key)), "the last one is written with its version")
        said, headers = checkpoints(kafka, key)[-1]
        assert said == b'{"version":%d,"payload":%d,"incarnation":0}' % (version, PUBLISHES - 1)
        assert headers[SINCE_HEADER]
    with MatcherProcess(kafka, tmp_path / "second.log") as matcher:
        matcher.wait_serving()
        assert newest(matcher, name) == version


def newest(matcher: MatcherProcess, name: str) -> int | None:
    status, _ = matcher.get(OBJECT + name)
    return int(matcher.json(OBJECT + name)["version"]) if status == 200 else None


def checkpoints(kafka: str, key: bytes) -> list[tuple[bytes | None, dict[str, bytes]]]:
    found = timed_records_of(kafka, TOPICS.objects, PARTITION)
    return [(value, headers) for its, value, headers, _ in found if its == key and headers.get(ARRIVAL_HEADER)]
