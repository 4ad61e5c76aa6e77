"""Matchers come, go, are killed and frozen while everything else goes on: nothing is lost, nothing is undone."""

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from coldnotify import Notify
from coldnotify.publisher import Publisher
from coldnotify_kafka.broker import EmbeddedBroker
from coldnotify_kafka.broker.freezing import freeze, thaw
from coldnotify_schemas.matcher_state import GENERATION_KEY
from coldnotify_schemas.partitioner import partition_of
from coldnotify_schemas.topics import TopicNames
from coldnotify_testkit.matcher_process import PARTITIONS, MatcherProcess, records_of, registrations_of
from coldnotify_testkit.stack import Recorder, Stacks, Up, get_json, notify
from coldnotify_testkit.waiting import wait_for
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

TOPICS = TopicNames()

pytestmark = pytest.mark.kafka

DOMAIN = "animal.observer"
GROUPS = {kind: [f"{kind}-{i}" for i in range(16)] for kind in ("region", "valley")}
"""Tests that share a stack have groups of their own."""
for groups in GROUPS.values():
    assert {partition_of(DOMAIN, group, PARTITIONS) for group in groups} == set(range(PARTITIONS)), "one in each"


def beside(up: Up) -> dict[str, str]:
    """Settings: in one group with the matchers that are there."""
    return {"topics_prefix": up.topics.prefix, "matcher_group": up.topics.group("matcher")}


@contextmanager
def units(up: Up, kind: str) -> Iterator[dict[str, tuple[Notify, Recorder]]]:
    """A client in each group, registered for x, and told that it is not known yet."""
    found = {group: (notify(up, "ou", None, group=group), Recorder()) for group in GROUPS[kind]}
    for ou, told in found.values():
        ou.connect()
        ou.register("x").subscribe(told)
    try:
        for group, (_, told) in found.items():
            wait_for(partial(told.versions, "x"), f"{group} has its first answer")
        yield found
    finally:
        for ou, _ in found.values():
            ou.disconnect()


def publish(publisher: Publisher, ous: Iterable[str], version: int) -> None:
    for group in ous:
        publisher.publish(DOMAIN, group, "x", version=version)


def wait_told(ous: dict[str, tuple[Notify, Recorder]], version: int, when: str) -> None:
    for group, (_, told) in ous.items():
        wait_for(told.reaches("x", version), f"{group} is told {version} {when}")


def serving(process: MatcherProcess, *others: MatcherProcess) -> bool:
    """It has a share, all partitions are served, and no one by two."""
    owned = [one.owned() for one in (process, *others)]
    return bool(owned[0]) and sum(map(len, owned)) == PARTITIONS == len(set().union(*owned))


def plain(log: Path) -> str:
    """Without colours."""
    return re.sub(r"\x1b\[[0-9;]*m", "", log.read_text())


def test_a_matcher_whose_end_is_not_noticed_and_that_is_back_in_time_causes_no_rebalance(
    fresh_kafka: EmbeddedBroker, tmp_path: Path
) -> None:
    # They cannot know of each other's end: an address at which nobody listens.
    timeout = {"matcher_session_timeout_ms": 60_000, "node_addresses": "inside=127.0.0.1:1"}
    kafka = fresh_kafka.bootstrap
    with MatcherProcess(kafka, tmp_path / "a", matcher_id="a", **timeout) as stays:
        with MatcherProcess(kafka, tmp_path / "b", matcher_id="b", **timeout) as killed:
            wait_for(lambda: serving(stays, killed) and serving(killed, stays), "halves")
            mine, its = stays.owned(), killed.owned()
            generations = {n: stays.generation(n) for n in mine}, {n: killed.generation(n) for n in its}
            assigned = len(re.findall("partition assigned|given up", plain(stays.log)))
            killed.kill()
        with MatcherProcess(kafka, tmp_path / "b", matcher_id="b", **timeout) as again:
            wait_for(lambda: again.owned() == its, "the same partitions again")
            assert {n: again.generation(n) for n in its} == {n: g + 1 for n, g in generations[1].items()}
            assert {n: stays.generation(n) for n in mine} == generations[0]
            assert len(re.findall("partition assigned|given up", plain(stays.log))) == assigned, "it heard of nothing"


@pytest.fixture(scope="module")
def cold(stacks: Stacks, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """Everything running; whatever a test lets in beside its matcher has left again."""
    with stacks.running(tmp_path_factory.mktemp("cold"), f"--partitions={PARTITIONS}", matcher_standby="no") as one:
        yield one


def test_matchers_come_stop_and_are_killed_under_load(cold: Up, tmp_path: Path) -> None:
    come_stop_and_are_killed(cold, tmp_path, standby=False)


def test_matchers_that_follow_what_others_own_come_stop_and_are_killed_under_load(
    stacks: Stacks, tmp_path: Path
) -> None:
    with stacks.running(tmp_path, f"--partitions={PARTITIONS}", matcher_standby="yes") as up:
        come_stop_and_are_killed(up, tmp_path, standby=True)


def come_stop_and_are_killed(up: Up, tmp_path: Path, *, standby: bool) -> None:
    with units(up, "region") as ous, up.publisher(timeout_s=60) as publisher:
        version = 0

        def go_on(when: str) -> None:
            nonlocal version
            for _ in range(5):
                version += 1
                publish(publisher, ous, version)
            wait_told(ous, version, when)

        go_on("with one matcher")
        for round_, end in enumerate(("stopped", "killed")):
            log = tmp_path / f"extra-{round_}"
            with MatcherProcess(up.kafka, log, matcher_id="extra", matcher_standby=standby, **beside(up)) as extra:
                version += 1
                publish(publisher, ous, version)
                wait_for(extra.owned, "a share of the partitions")
                go_on("while the partitions move")
                for group, (ou, told) in ous.items():
                    ou.register(f"late-{round_}").subscribe(told)
                    publisher.publish(DOMAIN, group, f"late-{round_}", version=7)
                if end == "stopped":
                    code, _ = extra.stop_timed()
                    assert code == 0
                else:
                    extra.kill()
                go_on(f"after one was {end}")
                for group, (_, told) in ous.items():
                    wait_for(told.reaches(f"late-{round_}", 7), f"{group} is told of what it registered for late")
        for group, (_, told) in ous.items():
            versions = [version for version in told.versions("x") if version is not None]
            assert versions == sorted(set(versions)), f"{group}: never backwards, nothing twice"
            known = up.client(DOMAIN, group, "ou")
            assert {one["object"] for one in known["registrations"]["items"]} == {"x", "late-0", "late-1"}


def test_a_matcher_frozen_for_long_undoes_nothing_and_comes_back(cold: Up, tmp_path: Path) -> None:
    with (
        units(cold, "valley") as ous,
        cold.publisher(timeout_s=60) as publisher,
        MatcherProcess(cold.kafka, tmp_path / "zombie", matcher_id="zombie", **beside(cold)) as zombie,
    ):

        def of_others() -> set[int]:
            items = get_json(f"{cold.matcher_url}/v1/partitions")["items"]
            return {one["partition"] for one in items if one["phase"] == "owned"}

        wait_for(lambda: len(zombie.owned()) == len(of_others()) == PARTITIONS // 2, "half of the partitions at each")
        publish(publisher, ous, 1)
        wait_told(ous, 1, "before")
        its = zombie.owned()
        groups = [group for group in ous if partition_of(DOMAIN, group, PARTITIONS) in its]
        assert groups

        # What is under way when it is frozen it may do as soon as it goes on, long after its successor.
        for group in groups:
            ous[group][0].register("in-its-hands").subscribe(ous[group][1])
        freeze(zombie.process.pid)
        wait_for(lambda: of_others() >= its, "a successor")
        publish(publisher, ous, 2)
        wait_told(ous, 2, "by the successor")
        for group in groups:
            ou, told = ous[group]
            ou.register("late").subscribe(told)
            ou.unregister("x")
        wait_for(lambda: all(ous[group][0].status.pending == 0 for group in groups), "all is acknowledged")
        generations = {number: merged(cold, number)[0] for number in its}

        thaw(zombie.process.pid)
        wait_for(lambda: re.search("all state dropped|lost=True", plain(zombie.log)), "its finding out")
        wait_for(lambda: zombie.ready and zombie.owned() and not zombie.owned() & of_others(), "its share again")
        wait_for(lambda: len(zombie.owned() | of_others()) == PARTITIONS, "all are served")
        publish(publisher, ous, 3)
        wait_told({group: ous[group] for group in ous if group not in groups}, 3, "after")
        for group in groups:
            publisher.publish(DOMAIN, group, "late", version=9)
            wait_for(ous[group][1].reaches("late", 9), f"{group} is told what it registered for at the successor's")

        for group in groups:
            number = partition_of(DOMAIN, group, PARTITIONS)
            generation, registered = merged(cold, number)
            assert generation > generations[number] - 1
            assert registered[f"{DOMAIN}/{group}/ou"] == {"in-its-hands", "late"}, "what the successor wrote holds"
            assert ous[group][1].versions("x") == [None, 1, 2], "unregistered: nothing more, and nothing backwards"


def merged(up: Up, partition: int) -> tuple[int, dict[str, set[str]]]:
    """(highest generation, registered names by client), as a matcher that loads merges it."""
    generation = 0
    for key, value, _ in records_of(up.kafka, up.topics.sessions, partition):
        if key == GENERATION_KEY.encode() and value is not None:
            generation = max(generation, json.loads(value)["generation"])
    registered: dict[str, set[str]] = {}
    for name, record in registrations_of(up.kafka, partition, up.topics).items():
        registered.setdefault(name.rpartition("/")[0], set()).update(record["objects"])
    return generation, registered


def set_bytes_max(kafka: str, topic: str, value: str | None) -> None:
    """`max.message.bytes` of a topic; None: as topics.yaml says."""
    operation = AlterConfigOpType.SET if value is not None else AlterConfigOpType.DELETE
    entry = ConfigEntry("max.message.bytes", value or "", incremental_operation=operation)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": kafka})
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(60)


def test_claims_that_kafka_refuses_are_written_again_once_it_takes_them(
    fresh_kafka: EmbeddedBroker, tmp_path: Path
) -> None:
    kafka = fresh_kafka.bootstrap
    set_bytes_max(kafka, TOPICS.sessions, "20")
    with MatcherProcess(kafka, tmp_path / "log", matcher_id="a") as matcher:
        try:
            words = "Kafka does not take claims: partitions are not served"
            matcher.wait_for(lambda: matcher.output.count(words) >= 3, "it is told, more than once")
            assert "message size" in matcher.output.lower()
            assert matcher.owned() == set()
            status, why = matcher.get("/readyz")
            assert status == 503
            assert "does not take the claims of partitions [0, 1, 2, 3, 4, 5, 6, 7]" in why
        finally:
            set_bytes_max(kafka, TOPICS.sessions, None)
        matcher.wait_serving()
        assert matcher.output.count(words) < 20, "and not at every step"
