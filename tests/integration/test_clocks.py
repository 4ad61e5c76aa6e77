"""A matcher's clock jumps while everything runs: nobody is forgotten, nothing is removed, nobody loses a session.

The matcher's own Python is told another time (librdkafka is not: its time is of no use to a matcher).

Stands for: clocks
"""

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from coldnotify import Connection, Notify, State
from coldnotify.publisher import Publisher
from coldnotify_common.clocks import AGREED_S
from coldnotify_kafka.broker import EmbeddedBroker
from coldnotify_schemas import internal_pb2
from coldnotify_schemas.digest import digest
from coldnotify_schemas.topics import TopicNames
from coldnotify_testkit.command import coldnotify
from coldnotify_testkit.gateway_process import GatewayProcess
from coldnotify_testkit.matcher_process import DOMAIN, GROUP, PARTITION, MatcherProcess, records_of
from coldnotify_testkit.stack import Recorder
from coldnotify_testkit.waiting import wait_for
from confluent_kafka import Producer

TOPICS = TopicNames()

pytestmark = pytest.mark.kafka

DAY_S = 86_400
JUMP_S = 200 * DAY_S
WRONG_S = 20
OBJECTS, SLEEPERS = 400, 150
SITE = """
import os, time
_time, _time_ns = time.time, time.time_ns
def _ahead_s():
    with open(os.environ["FAKED_CLOCK"]) as file:
        return int(file.read() or 0)
time.time = lambda: _time() + _ahead_s()
time.time_ns = lambda: _time_ns() + _ahead_s() * 10**9
"""

SetClock = Callable[[int], None]


@pytest.fixture
def set_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SetClock:
    """Processes that are started from here on have a clock that is as many seconds ahead as is said."""
    site, file = tmp_path / "site", tmp_path / "ahead_s"
    site.mkdir()
    (site / "sitecustomize.py").write_text(SITE)
    file.write_text("0")
    monkeypatch.setenv("PYTHONPATH", str(site))
    monkeypatch.setenv("FAKED_CLOCK", str(file))

    def set_clock(ahead_s: int) -> None:
        whole = tmp_path / "ahead_s.new"
        whole.write_text(str(ahead_s))
        whole.replace(file)

    return set_clock


def put_to_sleep(kafka: str, count: int) -> None:
    """So many clients register for an object and leave, by a gateway that is gone then."""
    producer = Producer({"bootstrap.servers": kafka, "acks": "all"})
    for session in range(1, count + 1):
        about = {"format": 1, "gateway": 77, "inbox": 3, "session": session, "domain": DOMAIN, "group": GROUP}
        name = f"sleeper-{session}"
        opens = internal_pb2.Open(digest=digest(["o1"]), ask=1, register=["o1"])
        for body in ({"open": opens}, {"leave": internal_pb2.Leave()}):
            request = internal_pb2.Request(**about, client=name, **body)  # type: ignore[arg-type]
            producer.produce(TOPICS.requests, request.SerializeToString(), b"key", PARTITION)
    assert producer.flush(60) == 0


def partition_of(matcher: MatcherProcess) -> dict[str, int]:
    (found,) = [one for one in matcher.json("/v1/partitions")["items"] if one["partition"] == PARTITION]
    return dict(found)


def metric(matcher: MatcherProcess, name: str) -> float:
    lines = matcher.get("/metrics")[1].splitlines()
    return sum(float(one.rpartition(" ")[2]) for one in lines if one.startswith(f"coldnotify_matcher_{name}"))


def nulls(kafka: str) -> int:
    """In the topics that would say that something is gone."""
    found = (TOPICS.objects, TOPICS.registrations, TOPICS.sessions)
    return sum(value is None for topic in found for _, value, _ in records_of(kafka, topic, PARTITION))


def test_a_clock_200_days_ahead_for_20_s_loses_nothing_and_ends_no_session(
    fresh_kafka: EmbeddedBroker, tmp_path: Path, set_clock: SetClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka = fresh_kafka.bootstrap
    settings = {"matcher_retention": f"{DOMAIN}=30d", "matcher_id": "a"}
    with MatcherProcess(kafka, tmp_path / "log", **settings) as matcher:
        monkeypatch.delenv("PYTHONPATH")
        with GatewayProcess(kafka) as gateway, Publisher(kafka=kafka) as publisher:
            matcher.wait_serving()
            gateway.wait_ready()
            for number in range(OBJECTS):
                publisher.publish(DOMAIN, GROUP, f"o{number}", version=1)
            put_to_sleep(kafka, SLEEPERS)
            told = Recorder()
            connection = Connection("127.0.0.1", gateway.port)
            state = State(filename=str(tmp_path / "state.json"))
            with Notify(domain=DOMAIN, group_id=GROUP, client_id="awake", state=state, connection=connection) as ou:
                ou.register("o1").subscribe(told)
                assert ou.wait_caught_up(90)
                known = {"objects": OBJECTS, "clients": SLEEPERS + 1, "online": 1}
                wait_for(lambda: known.items() <= partition_of(matcher).items(), "all are known")
                path = "/v1/removals"
                wait_for(lambda: matcher.json(path)["clocks_agree_s"] > AGREED_S, "clocks agree for long", 150)

                set_clock(JUMP_S)
                until_s = time.monotonic() + WRONG_S
                wait_for(lambda: metric(matcher, "clocks_apart") > 0, "it is noticed")
                assert "clocks are apart: nothing is removed or forgotten" in matcher.output
                apart = {one["clock"]: one["ahead_ms"] for one in matcher.json(path)["clocks_apart"]}
                assert apart["Kafka's clock"] == pytest.approx(-JUMP_S * 1000, abs=60_000)
                asked = ("--matcher", f"127.0.0.1:{matcher.http_port}")
                refused = coldnotify("state", "removals", "--confirm", *asked)
                assert refused.returncode != 0
                assert "clocks are apart" in refused.stderr
                doctor = coldnotify("doctor", *asked, "--kafka", kafka, "--gateway-http", "", "--usage", "")
                assert "Kafka's clock -17280000 s" in doctor.stdout
                version = 1
                while time.monotonic() < until_s:
                    version += 1
                    publisher.publish(DOMAIN, GROUP, "o1", version=version)
                    wait_for(told.reaches("o1", version), "it is told while the clock is wrong")
                set_clock(0)

                wait_for(lambda: matcher.json(path)["clocks_agree_s"] > 3, "clocks agree again")
                assert known.items() <= partition_of(matcher).items()
                lost = (
                    "clients_forgotten_total",
                    'events_total{event="removed"}',
                    "gateways_silent_total",
                    "closed_total",
                )
                assert {name: metric(matcher, name) for name in lost} == dict.fromkeys(lost, 0)
                assert nulls(kafka) == 0
                assert metric(matcher, "clocks_apart") == 0
                publisher.publish(DOMAIN, GROUP, "o1", version=version + 1)
                wait_for(told.reaches("o1", version + 1), "and after that")
                assert "loading anew" not in matcher.output


def test_a_matcher_that_starts_with_such_a_clock_serves_and_removes_nothing(
    fresh_kafka: EmbeddedBroker, tmp_path: Path, set_clock: SetClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kafka takes its records: they bear a time that is Kafka's."""
    kafka = fresh_kafka.bootstrap
    put_to_sleep(kafka, 3)
    set_clock(JUMP_S)
    with (
        MatcherProcess(kafka, tmp_path / "log", matcher_id="a", matcher_retention="*=10s") as matcher,
        Publisher(kafka=kafka) as publisher,
    ):
        matcher.wait_serving()
        publisher.publish(DOMAIN, GROUP, "o1", version=1)
        wait_for(lambda: partition_of(matcher)["objects"] == 1, "it is known")
        wait_for(lambda: metric(matcher, "clocks_apart") > 0, "it is noticed")
        time_s = time.monotonic()
        wait_for(lambda: time.monotonic() - time_s > 15, "its time would have come")
        assert nulls(kafka) == 0
        stored = [
            value for key, value, _ in records_of(kafka, TOPICS.sessions, PARTITION) if b"sleeper" in (key or b"")
        ]
        assert stored
        set_clock(0)
        matcher.wait_for(lambda: "the clock was set right" in matcher.output, "it is adopted", 150)
        matcher.wait_serving()
        assert {json.loads(value or b"{}").get("online") for value in stored} <= {True, False}
        assert nulls(kafka) == 0
