"""Retention over a real Kafka: what is old is removed, compaction takes it, and nothing of it is left at a takeover.

Stands for: retention, removal_intake
"""

import json
import time
import urllib.parse
from pathlib import Path

import pytest
from coldnotify import Connection, Notify, State
from coldnotify_kafka.broker import EmbeddedBroker
from coldnotify_schemas.descriptions import KEY_PREFIX
from coldnotify_schemas.removals import REMOVES_HEADER
from coldnotify_schemas.topics import TopicNames
from coldnotify_testkit.gateway_process import GatewayProcess
from coldnotify_testkit.kafka import compact_soon
from coldnotify_testkit.matcher_process import DOMAIN, GROUP, PARTITION, MatcherProcess, timed_records_of
from coldnotify_testkit.stack import Recorder
from coldnotify_testkit.waiting import wait_for
from confluent_kafka import Producer

TOPICS = TopicNames()

pytestmark = pytest.mark.kafka

DAY_MS = 86_400_000
RETENTION = f"{DOMAIN}=30d,*=never"
LIMIT_S = 180


def write(kafka: str, name: str, value: object, *, days_ago: float = 0, prefix: str = "", header: str = "") -> None:
    """A record, as any Kafka client writes one."""
    producer = Producer({"bootstrap.servers": kafka, "acks": "all"})
    producer.produce(
        TOPICS.objects,
        None if value is None else json.dumps(value).encode(),
        f"{prefix}{DOMAIN}/{GROUP}/{name}".encode(),
        PARTITION,
        timestamp=int(time.time() * 1000 - days_ago * DAY_MS),
        headers=[(REMOVES_HEADER, header.encode())] if header else [],
    )
    assert producer.flush(60) == 0


def records(kafka: str, name: str) -> list[tuple[bytes | None, str]]:
    """(value, what it removes) of all records that there are of an object and of its description."""
    keys = [f"{prefix}{DOMAIN}/{GROUP}/{name}".encode() for prefix in ("", KEY_PREFIX)]
    found = timed_records_of(kafka, TOPICS.objects, PARTITION)
    return [(value, headers.get(REMOVES_HEADER, b"").decode()) for key, value, headers, _ in found if key in keys]


def status(process: MatcherProcess, name: str) -> int:
    """What the matcher answers of an object."""
    return process.get(f"/v1/domains/{DOMAIN}/groups/{GROUP}/objects/{urllib.parse.quote(name)}")[0]


def metric(process: MatcherProcess, name: str) -> float:
    lines = process.get("/metrics")[1].splitlines()
    (line,) = (one for one in lines if one.startswith(f"coldnotify_matcher_{name} "))
    return float(line.rpartition(" ")[2])


def test_what_is_old_is_removed_and_after_compaction_and_a_takeover_nothing_is_left(
    fresh_kafka: EmbeddedBroker, tmp_path: Path
) -> None:
    kafka = fresh_kafka.bootstrap
    compact_soon(kafka, TOPICS.objects)
    write(kafka, "old", {"version": 3}, days_ago=31)
    write(kafka, "old", {"description": {"Kind": "lamp"}}, days_ago=31, prefix=KEY_PREFIX)
    write(kafka, "described", {"version": 3}, days_ago=31)
    write(kafka, "described", {"description": {"Kind": "lamp"}}, days_ago=1, prefix=KEY_PREFIX)
    write(kafka, "young", {"version": 3}, days_ago=29)
    with MatcherProcess(kafka, tmp_path / "first", matcher_id="a", matcher_retention=RETENTION) as first:
        first.wait_serving()
        wait_for(lambda: metric(first, 'events_total{event="removed"}') == 1, "it is removed", LIMIT_S)
        wait_for(
            lambda: metric(first, 'events_total{event="descriptions_removed"}') == 1, "and its description", LIMIT_S
        )
        assert [status(first, name) for name in ("old", "described", "young")] == [404, 200, 200]
        assert [removes.partition("@")[0] for _, removes in records(kafka, "old") if removes][:1] == ["0/3"]
        assert metric(first, 'events_total{event="nulls_void"}') == 0

    def gone() -> bool:
        write(kafka, "filler", {"version": time.time_ns()})  # the segment that is written to is not compacted
        return records(kafka, "old") == []

    wait_for(gone, "compaction has taken the records, and the nulls", LIMIT_S)
    with MatcherProcess(kafka, tmp_path / "second", matcher_id="a", matcher_retention=RETENTION) as second:
        second.wait_serving()
        assert [status(second, name) for name in ("old", "described", "young")] == [404, 200, 200]
        assert records(kafka, "old") == []
        assert [value for value, _ in records(kafka, "young")] == [b'{"version": 3}']


def test_a_null_without_the_header_or_before_a_newer_version_removes_nothing(
    fresh_kafka: EmbeddedBroker, tmp_path: Path
) -> None:
    kafka = fresh_kafka.bootstrap
    with MatcherProcess(kafka, tmp_path / "log", matcher_id="a", matcher_retention=RETENTION) as matcher:
        matcher.wait_serving()
        again = b'{"version":3,"incarnation":0}'
        for number, header in enumerate(("", "0/2", "0/x"), start=1):
            write(kafka, "o", {"version": 3})
            write(kafka, "o", None, header=header)
            wait_for(lambda: metric(matcher, 'events_total{event="nulls_void"}') == number, "it is noticed", LIMIT_S)  # noqa: B023
            wait_for(lambda: records(kafka, "o")[-1][0] == again, "the version in force is written again", LIMIT_S)
        assert status(matcher, "o") == 200
        assert len(records(kafka, "o")) == 9
        write(kafka, "o", None, header="0/3")
        wait_for(lambda: status(matcher, "o") == 404, "this one removes it", LIMIT_S)


def test_what_units_see(fresh_kafka: EmbeddedBroker, tmp_path: Path) -> None:
    """Who has it keeps it, a member leaves, who registers anew hears that nothing is known, and versions go on."""
    kafka = fresh_kafka.bootstrap
    with (
        GatewayProcess(kafka) as gateway,
        MatcherProcess(kafka, tmp_path / "log", matcher_id="a", matcher_retention=f"{DOMAIN}=10s") as matcher,
    ):
        matcher.wait_serving()
        gateway.wait_ready()
        write(kafka, "o", {"version": 3})
        has, new = Recorder(), Recorder()
        members: list[tuple[set[str], set[str]]] = []
        at = Connection("127.0.0.1", gateway.port)
        with Notify(DOMAIN, GROUP, "has", State(str(tmp_path / "has")), at) as unit:
            unit.register("o").subscribe(has)
            query = unit.register_query("Kind = lamp")
            query.subscribe_members(lambda added, removed: members.append((set(added), set(removed))))

            def has_both() -> bool:
                # Described again until then: a slow machine must not let it grow old before the unit is there.
                write(kafka, "o", {"description": {"Kind": "lamp"}}, prefix=KEY_PREFIX)
                return has.newest("o") == 3 and bool(members)

            wait_for(has_both, "it has both", LIMIT_S)
            wait_for(lambda: len(members) > 1 and status(matcher, "o") == 200, "it has left", LIMIT_S)
            assert query.members == set()
            assert members == [({"o"}, set()), (set(), {"o"})]
            shown = matcher.json(f"/v1/domains/{DOMAIN}/groups/{GROUP}/objects/o")
            assert (shown["version"], shown["registered"]) == (None, 1)
            with Notify(DOMAIN, GROUP, "new", State(str(tmp_path / "new")), at) as other:
                other.register("o").subscribe(new)
                wait_for(lambda: new.seen, "an answer", LIMIT_S)
                assert [one.version for one in new.seen] == [None]
                assert [one.version for one in has.seen] == [3]
                write(kafka, "o", {"version": 4})
                wait_for(lambda: has.newest("o") == new.newest("o") == 4, "versions go on", LIMIT_S)
