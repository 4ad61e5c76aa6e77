"""The matcher over a real Kafka, as a process: what it does is durable in order, and survives its death."""

import json
import re
from pathlib import Path

import pytest
from coldnotify_kafka.broker.freezing import freeze, thaw
from coldnotify_matcher.run_topics import cluster_of
from coldnotify_matcher.worker import MatcherWorker
from coldnotify_schemas.partitioner import partition_of
from coldnotify_schemas.records import MOVED_HEADER, REASON_HEADER
from coldnotify_schemas.topics import TopicNames
from coldnotify_streams.core.run import RunLimits
from coldnotify_testkit.engine_bench import answered, closed
from coldnotify_testkit.kafka import committed
from coldnotify_testkit.matcher_process import (
    DOMAIN,
    GROUP,
    OTHER_GROUP,
    PARTITION,
    PARTITIONS,
    MatcherProcess,
    Player,
    group_of,
    records_of,
    timed_records_of,
    wait_halves,
    worker_of,
)
from coldnotify_testkit.waiting import wait_for
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

TOPICS = TopicNames()

pytestmark = pytest.mark.kafka


def test_what_is_acknowledged_behind_an_open_transaction_is_waited_for(
    bootstrap: str, player: Player, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(MatcherWorker, "limits", RunLimits(barrier_timeout_s=0.5))
    in_transaction = Producer({"bootstrap.servers": bootstrap, "transactional.id": "a-back-end"})
    in_transaction.init_transactions(60)
    said: list[str] = []

    def waits() -> bool:
        said.extend(capfd.readouterr())
        return "wait for a transaction" in "".join(said)

    with worker_of(bootstrap) as worker:
        in_transaction.begin_transaction()
        in_transaction.produce(TOPICS.objects, b'{"version":1}', f"{DOMAIN}/{GROUP}/lamp".encode(), PARTITION)
        assert in_transaction.flush(60) == 0
        player.version("camera", 2)
        player.open("camera", "lamp")
        wait_for(waits, "its saying what it waits for")
        player.read()
        assert player.told("camera") == []
        in_transaction.commit_transaction(60)
        player.wait_opened()
        assert (player.told("camera"), player.told("lamp")) == ([2], [1])
        assert worker.readiness() is None, "nothing was loaded anew"


def test_a_publish_reaches_the_inbox_with_numbers_from_1(bootstrap: str, player: Player, tmp_path: Path) -> None:
    with MatcherProcess(bootstrap, tmp_path / "log") as process:
        process.wait_serving()
        player.open("camera")
        player.wait_opened()
        player.version("camera", 1)
        player.wait_told("camera", 1)
        player.version("camera", 2)
        player.wait_told("camera", 2)

        assert player.told("camera") == [1, 2]
        assert [record.number for record in player.records] == list(range(1, len(player.records) + 1))
        assert {record.generation for record in player.records} == {1}
        assert {notice.partition for notice in player.notices} == set(range(PARTITIONS))


def test_a_wake_after_a_publish_does_not_miss_it(bootstrap: str, player: Player, tmp_path: Path) -> None:
    with MatcherProcess(bootstrap, tmp_path / "log") as process:
        process.wait_serving()
        for version in range(1, 31):
            player.version("camera", version)
            player.open("camera", session=version)
            player.wait_opened(version)
            (page,) = [i.page for i in player.items if i.page.session == version and i.page.last]
            assert [newest.version for newest in page.newest] == [version]


def test_killed_in_the_middle_nothing_is_lost(bootstrap: str, player: Player, tmp_path: Path) -> None:
    names = [f"o{i}" for i in range(20)]
    with MatcherProcess(bootstrap, tmp_path / "log") as process:
        process.wait_serving()
        player.open(*names)
        player.wait_opened()
    version = 0
    for _ in range(3):
        with MatcherProcess(bootstrap, tmp_path / "log") as process:
            wait_for(lambda p=process: PARTITION in p.owned(), "the partition")  # type: ignore[misc]
            for _ in range(10):
                version += 1
                for name in names:
                    player.version(name, version)
            player.request(register={"request": version, "objects": [f"late-{version}"]})
            process.kill()
        version += 1
        player.version("o0", version)  # while nobody is there
    with MatcherProcess(bootstrap, tmp_path / "log") as process:
        process.wait_serving()
        for name in names[1:]:
            player.wait_told(name, version - 1)
        player.wait_told("o0", version)
        player.wait(lambda items: {a.request for a in answered(items)} >= {10, 21, 32}, "answers to all requests")
        shown = process.json(f"/v1/domains/{DOMAIN}/groups/{GROUP}/clients/client-1")
        assert shown["registered"] == len(names) + 3
        for name in names:
            told = player.told(name)
            assert told == sorted(told), "never backwards"


def test_a_stop_is_quick_clean_and_commits_all_that_was_handled(bootstrap: str, player: Player, tmp_path: Path) -> None:
    with MatcherProcess(bootstrap, tmp_path / "log") as process:
        process.wait_serving()
        player.open("camera")
        player.wait_opened()
        for version in range(1, 6):  # the last ones within the second between two commits
            player.version("camera", version)
            player.wait_told("camera", version)

        code, seconds = process.stop_timed()

        assert code == 0
        assert seconds < 15
    marks = cluster_of(AdminClient({"bootstrap.servers": bootstrap}), TOPICS, 0).marks
    group = group_of(tmp_path / "log")
    assert committed(bootstrap, TOPICS.objects, PARTITION, group) == (5, marks[TOPICS.objects])
    assert committed(bootstrap, TOPICS.requests, PARTITION, group) == (1, marks[TOPICS.requests])
    told = len(player.told("camera"))
    with MatcherProcess(bootstrap, tmp_path / "log") as process:
        process.wait_serving()
        player.version("camera", 6)
        player.wait_told("camera", 6)
        assert len(player.told("camera")) == told + 1, "nothing that was committed is told again"


def test_two_share_the_partitions_and_one_takes_over_from_the_other(
    bootstrap: str, player: Player, tmp_path: Path
) -> None:
    with MatcherProcess(bootstrap, tmp_path / "a", matcher_id="a") as first:
        first.wait_serving()
        player.open("camera")
        player.wait_opened()
        with MatcherProcess(bootstrap, tmp_path / "b", matcher_id="b") as second:
            wait_halves(first, second)
            owner, other = (first, second) if PARTITION in first.owned() else (second, first)
            owner.kill()
            player.version("camera", 1)
            player.wait_told("camera", 1)
            wait_for(lambda: other.owned() == set(range(PARTITIONS)), "all partitions at the one that is left")


def test_a_matcher_that_was_stopped_for_long_cannot_undo_its_successor(
    bootstrap: str, player: Player, tmp_path: Path
) -> None:
    with (
        MatcherProcess(bootstrap, tmp_path / "a", matcher_id="a") as zombie,
        MatcherProcess(bootstrap, tmp_path / "b", matcher_id="b") as successor,
    ):
        wait_halves(zombie, successor)
        if PARTITION not in zombie.owned():
            zombie, successor = successor, zombie
        player.open("camera")
        player.wait_opened()
        freeze(zombie.process.pid)
        player.request(register={"request": 5, "objects": ["late"]})  # may be in the zombie's hands already
        wait_for(lambda: PARTITION in successor.owned(), "a successor")
        player.request(unregister={"request": 6, "objects": ["camera"]})
        player.wait(lambda items: 6 in [answer.request for answer in answered(items)], "the successor's answer")
        generation = successor.generation()
        thaw(zombie.process.pid)
        # From the group or from the log, whichever it hears first.
        wait_for(lambda: re.search("all state dropped|lost=True", zombie.log.read_text()), "the zombie's finding out")
        wait_for(lambda: zombie.ready and successor.ready, "both ready again")

        def registered() -> list[str] | None:
            # Whichever serves it: the group may just be moving it from one to the other.
            path = f"/v1/domains/{DOMAIN}/groups/{GROUP}/clients/client-1?limit=10"
            for status, body in (process.get(path) for process in (zombie, successor)):
                if status == 200:
                    return [one["object"] for one in json.loads(body)["registrations"]["items"]]
            return None

        wait_for(lambda: registered() == ["late"], "the set as the successor left it")
        highest = 0
        for record in player.records:
            if record.generation < highest:
                continue  # the zombie's: a gateway drops it
            highest = record.generation
        assert highest >= generation


def test_a_claim_by_another_makes_the_owner_drop_that_partition_alone(
    bootstrap: str, player: Player, tmp_path: Path
) -> None:
    with MatcherProcess(bootstrap, tmp_path / "log") as process:
        process.wait_serving()
        before = process.generation()
        other = (PARTITION + 1) % PARTITIONS
        others = process.generation(other)
        claim = b'{"format":1,"generation":9,"owner":"x","requests_topic_id":"x","epoch":1}'
        write(bootstrap, TOPICS.sessions, b"@generation", claim)

        wait_for(lambda: process.generation() > 9, "a generation above the other's")
        assert before < 9
        assert "took it over" in process.log.read_text()
        assert process.generation(other) == others


def test_strange_state_records_are_survived_and_overwritten(bootstrap: str, player: Player, tmp_path: Path) -> None:
    strange = [
        (TOPICS.sessions, b"\xff", b"x"),
        (TOPICS.sessions, b"d/g", b"{}"),
        (TOPICS.sessions, f"{DOMAIN}/{GROUP}/client-1".encode(), b"nonsense"),
        (TOPICS.registrations, f"{DOMAIN}/{GROUP}/client-1/999999999".encode(), b"{}"),
        (TOPICS.registrations, f"{DOMAIN}/{GROUP}/client-1/0".encode(), b'{"format":1,"generation":"x"}'),
        (TOPICS.sessions, b"@generation", b"[]"),
    ]

    def last(topic: str) -> dict[bytes | None, bytes | None]:
        return {key: value for key, value, _ in records_of(bootstrap, topic, PARTITION)}

    def overwritten() -> bool:
        return not any(last(topic).get(key) == value for topic, key, value in strange)

    for record in strange:
        write(bootstrap, *record)
    with MatcherProcess(bootstrap, tmp_path / "log") as process:
        process.wait_serving()
        player.open("camera")
        player.wait_opened()
        wait_for(overwritten, "what stood there before the start overwritten")
        for record in strange:
            write(bootstrap, *record)
        wait_for(overwritten, "what came later overwritten")
        generation = process.generation()
        process.kill()
    with MatcherProcess(bootstrap, tmp_path / "log") as process:
        process.wait_serving()
        assert process.generation() > generation
        player.version("camera", 1)
        player.wait_told("camera", 1)


def test_a_state_record_of_a_later_release_stops_its_partition_alone_and_is_not_overwritten(
    bootstrap: str, player: Player, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    value = b'{"format":4,"generation":1,"everything":"else"}'
    key = f"{DOMAIN}/{GROUP}/client-1".encode()
    write(bootstrap, TOPICS.sessions, key, value)
    monkeypatch.setattr(MatcherWorker, "limits", RunLimits(newer_retry_s=0.5))
    with worker_of(bootstrap) as worker:
        assert worker.partitions.keys() == set(range(PARTITIONS)) - {PARTITION}
        assert [v for k, v, _ in records_of(bootstrap, TOPICS.sessions, PARTITION)] == [value]
        player.open("camera", group=OTHER_GROUP)
        player.wait_opened()
        write(bootstrap, TOPICS.sessions, key, None)
        player.open("camera", session=2)
        player.wait_opened(2)


def test_strays_are_moved_rejected_records_say_why_and_stale_ones_are_outdone(
    bootstrap: str, player: Player, tmp_path: Path
) -> None:
    home = partition_of(DOMAIN, OTHER_GROUP, PARTITIONS)
    with MatcherProcess(bootstrap, tmp_path / "log") as process:
        process.wait_serving()
        player.open("camera", group=OTHER_GROUP)
        player.wait_opened()
        player.publish("camera", b'{"version":7}', group=OTHER_GROUP, partition=PARTITION)
        player.wait_told("camera", 7)
        player.publish("camera", b"nonsense", group=OTHER_GROUP)
        player.publish("camera", b'{"version":3}', group=OTHER_GROUP)
        key = f"{DOMAIN}/{OTHER_GROUP}/camera".encode()

        def last_value() -> bytes | None:
            return [value for k, value, _ in records_of(bootstrap, TOPICS.objects, home) if k == key][-1]

        wait_for(lambda: last_value() == b'{"version":7,"incarnation":0}', "the newest written again")
        moved = next(headers for _, value, headers in records_of(bootstrap, TOPICS.objects, home) if value)
        assert moved == {MOVED_HEADER: f"{PARTITION}@0".encode()}
        wait_for(lambda: records_of(bootstrap, TOPICS.objects, PARTITION)[-1][:2] == (key, None), "the tombstone")
        rejected = [r for n in range(topic_size(bootstrap)) for r in records_of(bootstrap, TOPICS.rejected, n)]
        ((rejected_key, value, headers),) = rejected
        assert (rejected_key, value) == (key, b"nonsense")
        assert headers[REASON_HEADER].startswith(b"record:")


def test_a_description_keeps_its_timestamp_where_it_is_moved_and_written_again(
    bootstrap: str, player: Player, tmp_path: Path
) -> None:
    home = partition_of(DOMAIN, OTHER_GROUP, PARTITIONS)
    key, lamp = f"describe:{DOMAIN}/{OTHER_GROUP}/lamp".encode(), b'{"description":{"Kind":"lamp"}}'
    at_ms = 1_700_000_000_000

    def of_lamp() -> list[tuple[bytes | None, int]]:
        records = timed_records_of(bootstrap, TOPICS.objects, home)
        return [(value, timestamp_ms) for record_key, value, _, timestamp_ms in records if record_key == key]

    with MatcherProcess(bootstrap, tmp_path / "log") as process:
        process.wait_serving()
        player.describe(key, lamp, at_ms, partition=PARTITION)
        wait_for(lambda: of_lamp() == [(lamp, at_ms)], "the description where it belongs")
        player.describe(key, b"nonsense", at_ms + 5, partition=home)
        player.describe(key, b'{"description":null}', at_ms - 5, partition=home)
        wait_for(lambda: of_lamp()[-1] == (lamp, at_ms), "the one in force behind them")
    with MatcherProcess(bootstrap, tmp_path / "log") as process:
        process.wait_serving()
        player.describe(key, None, at_ms + 9, partition=home)
        wait_for(lambda: of_lamp()[-1] == (lamp, at_ms), "the one in force, as the next matcher has loaded it")
        rejected = [r for n in range(topic_size(bootstrap)) for r in records_of(bootstrap, TOPICS.rejected, n)]
    # What the first matcher rejected and had not committed when it ended, the next one rejects again.
    assert {value: headers[REASON_HEADER][:15] for _, value, headers in rejected} == {
        b"nonsense": b"record: is not ",
        None: b"record: is null",
    }


def test_a_record_as_large_as_kafka_takes_stops_nobody(bootstrap: str, player: Player, tmp_path: Path) -> None:
    with MatcherProcess(bootstrap, tmp_path / "log") as process:
        process.wait_serving()
        player.open("camera")
        player.wait_opened()
        largest = b'{"version":1}'.ljust(1_048_440)  # of a batch's 1,048,588: no room for a header of ours
        player.publish("camera", largest)
        player.publish("camera", largest, group=OTHER_GROUP, partition=PARTITION)
        player.version("camera", 2)
        player.wait_told("camera", 2)

        assert "all state dropped" not in process.log.read_text()


def test_a_request_that_is_none_is_skipped(bootstrap: str, player: Player, tmp_path: Path) -> None:
    with MatcherProcess(bootstrap, tmp_path / "log") as process:
        process.wait_serving()
        for value in (None, b"", b"\xff\xff\xff", b"\x08\x02"):
            write(bootstrap, TOPICS.requests, b"key", value)
        player.open("camera")
        player.wait_opened()


def test_sessions_that_requests_do_not_know_are_told(bootstrap: str, player: Player, tmp_path: Path) -> None:
    with MatcherProcess(bootstrap, tmp_path / "log") as process:
        process.wait_serving()
        player.request(9, catch_up={"ask": 1})
        player.wait(lambda items: closed(items) == [(9, 6)], "Closed")


def write(bootstrap: str, topic: str, key: bytes, value: bytes | None) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    producer.produce(topic, value, key, PARTITION)
    assert producer.flush(60) == 0


def topic_size(bootstrap: str) -> int:
    metadata = AdminClient({"bootstrap.servers": bootstrap}).list_topics(TOPICS.rejected, timeout=30)
    return len(metadata.topics[TOPICS.rejected].partitions)
