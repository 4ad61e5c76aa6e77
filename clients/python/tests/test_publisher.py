"""The publisher against a real Kafka: what it acknowledges is there, what it refuses is not."""

import asyncio
import json
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from coldnotify._publishing.applied import Ledger
from coldnotify._publishing.published import Repeat
from coldnotify.publisher import (
    Applied,
    InvalidName,
    InvalidRecord,
    LedgerRefused,
    NeverApplied,
    Newest,
    NotApplied,
    Outcome,
    Published,
    Publisher,
    PublishError,
    PublishManyError,
    PublishTimeout,
    Receipt,
    make_record,
)
from coldnotify_kafka.broker import EmbeddedBroker
from coldnotify_kafka.broker.freezing import freeze, thaw
from coldnotify_schemas.partitioner import partition_of
from coldnotify_schemas.topics import OBJECTS
from coldnotify_testkit.kafka import reset_topics
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

DOMAIN, GROUP = "animal.observer", "region-1"


def written(bootstrap: str) -> list[dict[str, Any]]:
    """Every record of the objects topic."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "test", "enable.auto.commit": False})
    try:
        partitions = consumer.list_topics(OBJECTS, timeout=60).topics[OBJECTS].partitions
        ends = {p: end_offset(consumer, p) for p in partitions}
        consumer.assign([TopicPartition(OBJECTS, p, 0) for p in partitions])
        records: list[dict[str, Any]] = []
        deadline_s = time.monotonic() + 60
        while len(records) < sum(ends.values()):
            assert time.monotonic() < deadline_s
            for message in consumer.consume(1000, timeout=0.2):
                assert message.error() is None
                records.append(
                    {
                        "key": (message.key() or b"").decode(),
                        "value": json.loads(message.value() or b"null"),
                        "partition": message.partition(),
                        "offset": message.offset(),
                        "timestamp": message.timestamp()[1],
                    }
                )
        return sorted(records, key=lambda record: (record["partition"], record["offset"]))
    finally:
        consumer.close()


def end_offset(consumer: Consumer, partition: int) -> int:
    deadline_s = time.monotonic() + 60
    while True:
        try:
            return consumer.get_watermark_offsets(TopicPartition(OBJECTS, partition), timeout=60)[1]
        except KafkaException:  # a partition that was made just now may have no leader yet
            assert time.monotonic() < deadline_s


@pytest.fixture
def bootstrap(fresh_kafka: EmbeddedBroker) -> str:
    return fresh_kafka.bootstrap


@pytest.fixture
def publisher(bootstrap: str) -> Iterator[Publisher]:
    with Publisher(bootstrap, timeout_s=60) as publisher:
        yield publisher


@pytest.fixture
def silent_address() -> Iterator[str]:
    """Somebody listens there and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


# -- what is acknowledged is there -------------------------------------------------------------------------------------


@pytest.mark.kafka
def test_a_publish_is_in_its_groups_partition_when_it_returns(bootstrap: str, publisher: Publisher) -> None:
    published = publisher.publish(
        DOMAIN, GROUP, "cams/north", 42, {"fps": 5}, source="c-1", expires_at=9, deleted=True, incarnation=1
    )
    (record,) = written(bootstrap)
    partitions = len(AdminClient({"bootstrap.servers": bootstrap}).list_topics(OBJECTS).topics[OBJECTS].partitions)
    assert partitions > 1
    assert published == Published(42, partition_of(DOMAIN, GROUP, partitions), record["offset"])
    assert record["partition"] == published.partition
    assert record["key"] == "animal.observer/region-1/cams/north"
    assert record["value"] == {
        "version": 42,
        "payload": {"fps": 5},
        "source": "c-1",
        "expires_at": 9,
        "deleted": True,
        "incarnation": 1,
    }


@pytest.mark.kafka
async def test_a_description_is_a_record_beside_the_object_and_comes_before_the_version(
    bootstrap: str, publisher: Publisher
) -> None:
    begun_ms = int(time.time() * 1000)
    described = publisher.describe(DOMAIN, GROUP, "lamp", {"on": True, "Room": 410.0, "Kind": "lamp"})
    publisher.publish(DOMAIN, GROUP, "lamp", 7, description={"Room": 411})
    await publisher.publish_async(DOMAIN, GROUP, "lamp", 8, description={})
    await publisher.describe_async(DOMAIN, GROUP, "lamp", None)
    publisher.describe(DOMAIN, GROUP, "lamp", None)
    key, said = "animal.observer/region-1/lamp", written(bootstrap)
    assert [(record["key"].removesuffix(key), record["value"]) for record in said] == [
        ("describe:", {"description": {"Kind": "lamp", "Room": 410, "on": True}}),
        ("describe:", {"description": {"Room": 411}}),
        ("", {"version": 7}),
        ("describe:", {"description": {}}),
        ("", {"version": 8}),
        ("describe:", {"description": None}),
        ("describe:", {"description": None}),
    ]
    assert len({record["partition"] for record in said}) == 1
    versions = [record["timestamp"] for record in said if record["key"] != key]
    assert versions == sorted(set(versions)), "each above the one before"
    assert described == Published(versions[0], said[0]["partition"], said[0]["offset"])
    assert begun_ms <= described.version


@pytest.mark.kafka
@pytest.mark.parametrize(
    ("description", "words"),
    [
        ({"9": 1}, "description: '9' is not a key"),
        ({"a": None}, "description: the value of 'a'"),
        ({"a": float("nan")}, "description: the value of 'a' is not a finite number"),
        ({1: 1}, "description: the key 1 is not text"),
        ([("a", 1)], "is not a mapping"),
    ],
)
def test_what_is_no_description_is_refused_before_anything_is_sent(
    bootstrap: str, publisher: Publisher, description: Any, words: str
) -> None:
    for say in (
        lambda: publisher.describe(DOMAIN, GROUP, "lamp", description),
        lambda: publisher.publish(DOMAIN, GROUP, "lamp", 1, description=description),
    ):
        with pytest.raises(InvalidRecord, match=re.escape(words)):
            say()
    with pytest.raises(InvalidName, match="group"):
        publisher.describe(DOMAIN, "a b", "lamp", {})
    assert written(bootstrap) == []


@pytest.mark.kafka
def test_without_a_version_the_records_timestamp_is_the_version(bootstrap: str, publisher: Publisher) -> None:
    before_ms = int(time.time() * 1000)
    published = publisher.publish_many(DOMAIN, GROUP, [("o", {})] * 20)
    records = written(bootstrap)
    assert [record["timestamp"] for record in records] == [p.version for p in published]
    assert all(record["value"] == {} for record in records)
    assert before_ms <= published[0].version <= int(time.time() * 1000)
    assert published == sorted(published)
    # Two in one millisecond would be one version, and the second never told.
    assert len({p.version for p in published}) == 20


@pytest.mark.kafka
def test_many_are_published_in_order(bootstrap: str, publisher: Publisher) -> None:
    published = publisher.publish_many(DOMAIN, GROUP, [("a", {"version": 1}), ("b", {}), ("a", {"version": 2})])
    assert [record["offset"] for record in written(bootstrap)] == [p.offset for p in published]
    assert [record["key"].rpartition("/")[2] for record in written(bootstrap)] == ["a", "b", "a"]
    assert published[2].version == 2


@pytest.mark.kafka
async def test_the_asyncio_form_does_the_same(bootstrap: str) -> None:
    async with Publisher(bootstrap, timeout_s=60) as publisher:
        many = await asyncio.gather(*(publisher.publish_async(DOMAIN, GROUP, f"o{i}", version=i) for i in range(50)))
        assert [p.version for p in many] == list(range(50))
        batch = await publisher.publish_many_async(DOMAIN, GROUP, [("x", {"version": 1}), ("y", {"payload": [1]})])
    offsets = {record["offset"] for record in await asyncio.to_thread(written, bootstrap)}
    assert offsets == {p.offset for p in [*many, *batch]}


@pytest.mark.kafka
def test_a_small_queue_makes_publishers_wait_and_loses_nothing(bootstrap: str) -> None:
    with Publisher(bootstrap, timeout_s=60, queue_max=3) as publisher:
        published = publisher.publish_many(DOMAIN, GROUP, {f"o{i}": {"version": i} for i in range(200)})
        assert len({p.offset for p in published}) == 200
    assert len(written(bootstrap)) == 200


@pytest.mark.kafka
async def test_a_small_queue_makes_asyncio_publishers_wait_and_loses_nothing(bootstrap: str) -> None:
    async with Publisher(bootstrap, timeout_s=60, queue_max=3) as publisher:
        await asyncio.gather(*(publisher.publish_async(DOMAIN, GROUP, f"o{i}", version=i) for i in range(100)))
    assert len(await asyncio.to_thread(written, bootstrap)) == 100


@pytest.mark.kafka
async def test_a_cancelled_wait_harms_nobody(bootstrap: str) -> None:
    async with Publisher(bootstrap, timeout_s=60) as publisher:
        waits = [asyncio.ensure_future(publisher.publish_async(DOMAIN, GROUP, f"o{i}", i)) for i in range(10)]
        await asyncio.sleep(0)
        for wait in waits[::2]:
            wait.cancel()
        outcomes = await asyncio.gather(*waits, return_exceptions=True)
        assert all(isinstance(outcome, asyncio.CancelledError) for outcome in outcomes[::2])
        assert [outcome.version for outcome in outcomes[1::2] if isinstance(outcome, Published)] == [1, 3, 5, 7, 9]
        assert (await publisher.publish_async(DOMAIN, GROUP, "last", 1)).version == 1


# -- known repeats -----------------------------------------------------------------------------------------------------


@pytest.mark.kafka
def test_an_exact_repeat_is_not_written_again(bootstrap: str, publisher: Publisher) -> None:
    first = publisher.publish(DOMAIN, GROUP, "o", 7, {"a": 1}, incarnation=0)
    again = publisher.publish(DOMAIN, GROUP, "o", 7, {"a": 1}, incarnation=0)
    assert (again, first.written, again.written) == (first, True, False)
    assert len(written(bootstrap)) == 1


@pytest.mark.kafka
def test_what_only_looks_like_a_repeat_is_written(bootstrap: str, publisher: Publisher) -> None:
    for version, payload, incarnation in [
        (7, 1, 0),
        (7, 2, 0),  # another payload
        (7, 1, 0),  # the first again, but not the last any more
        (7, 1, 1),  # another incarnation
        (7, 1, None),  # the one in force, which others may have changed
        (7, 1, None),
        (None, 1, 1),  # each time another version
        (None, 1, 1),
    ]:
        publisher.publish(DOMAIN, GROUP, "o", version, payload, incarnation=incarnation)
    assert len(written(bootstrap)) == 8


@pytest.mark.kafka
def test_a_sole_publishers_repeats_need_no_incarnation(bootstrap: str) -> None:
    with Publisher(bootstrap, timeout_s=60, sole_publisher=True) as publisher:
        first = publisher.publish(DOMAIN, GROUP, "o", 7)
        assert publisher.publish(DOMAIN, GROUP, "o", 7) == first
        assert publisher.publish(DOMAIN, GROUP, "p", 7) != first
        publisher.publish(DOMAIN, GROUP, "o", 1, incarnation=1)
        publisher.publish(DOMAIN, GROUP, "o", 7)
    assert len(written(bootstrap)) == 4


@pytest.mark.kafka
def test_a_repeat_is_written_again_where_the_topic_is_a_new_one(
    bootstrap: str, publisher: Publisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coldnotify._publishing.sender.REPEAT_TRUST_S", 0.2)
    publisher.publish(DOMAIN, GROUP, "o", 7, {"a": 1}, incarnation=0)
    reset_topics(bootstrap)
    time.sleep(0.2)
    publisher.publish(DOMAIN, GROUP, "o", 7, {"a": 1}, incarnation=0)
    assert len(written(bootstrap)) == 1


# -- failures ----------------------------------------------------------------------------------------------------------


def test_it_publishes_on_after_a_poll_of_the_kafka_library_failed(
    publisher: Publisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = threading.Event()
    sender = publisher._sender
    producer = sender._producer

    class Failing:
        def poll(self, timeout_s: float) -> int:
            monkeypatch.setattr(sender, "_producer", producer)
            failed.set()
            raise SystemError("of the library's own")

    monkeypatch.setattr(sender, "_producer", Failing())
    assert failed.wait(60)
    publisher.publish(DOMAIN, GROUP, "o", version=1)


def test_a_kafka_that_is_away_is_told_in_time_and_nothing_was_sent(silent_address: str) -> None:
    with Publisher(silent_address, timeout_s=0.5) as publisher:
        with pytest.raises(PublishTimeout, match="nothing was sent") as caught:
            publisher.publish(DOMAIN, GROUP, "o")
        assert not caught.value.indeterminate
        assert silent_address in str(caught.value)


async def test_the_asyncio_form_tells_it_too_without_stopping_the_loop(silent_address: str) -> None:
    async with Publisher(silent_address, timeout_s=0.5) as publisher:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                await asyncio.sleep(0.01)
                ticks += 1

        ticking = asyncio.ensure_future(tick())
        with pytest.raises(PublishManyError) as caught:
            await publisher.publish_many_async(DOMAIN, GROUP, {"a": {}, "b": {}})
        ticking.cancel()
        assert len(caught.value.outcomes) == 2
        assert not caught.value.indeterminate
        assert ticks > 2


@pytest.mark.kafka
def test_when_kafka_falls_silent_in_the_middle_the_outcome_is_indeterminate(fresh_kafka: EmbeddedBroker) -> None:
    with Publisher(fresh_kafka.bootstrap, timeout_s=2) as publisher:
        deadline_s = time.monotonic() + 60
        while True:  # the first one may need longer than 2 s on a busy machine
            try:
                publisher.publish(DOMAIN, GROUP, "o", 1)
                break
            except PublishTimeout:
                assert time.monotonic() < deadline_s
        freeze(fresh_kafka.pid)
        try:
            with pytest.raises(PublishTimeout, match="indeterminate") as caught:
                publisher.publish(DOMAIN, GROUP, "o", 2)
            assert caught.value.indeterminate
            assert publisher.flush(0) <= 1
        finally:
            thaw(fresh_kafka.pid)
        # It carries on with the same publisher; the same version again is safe.
        deadline_s = time.monotonic() + 60
        while True:
            try:
                assert publisher.publish(DOMAIN, GROUP, "o", 2).version == 2
                break
            except PublishTimeout:
                assert time.monotonic() < deadline_s
    assert written(fresh_kafka.bootstrap)[-1]["value"] == {"version": 2}


@pytest.mark.kafka
def test_a_topic_that_is_missing_is_named(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.delete_topics([OBJECTS])[OBJECTS].result(60)
    with (
        Publisher(bootstrap, timeout_s=60) as publisher,
        pytest.raises(PublishError, match=r"topic coldnotify\.objects does not exist"),
    ):
        publisher.publish(DOMAIN, GROUP, "o")


@pytest.mark.kafka
def test_a_refused_record_is_certainly_not_there(bootstrap: str) -> None:
    with Publisher(bootstrap, timeout_s=60, kafka_config={"message.max.bytes": 1000}) as publisher:
        with pytest.raises(PublishError) as caught:
            publisher.publish(DOMAIN, GROUP, "o", payload="x" * 2000)
        assert not caught.value.indeterminate
        publisher.publish(DOMAIN, GROUP, "o")
    assert len(written(bootstrap)) == 1


@pytest.mark.kafka
def test_more_partitions_are_noticed(bootstrap: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coldnotify._publishing.sender.PARTITIONS_REFRESH_S", 0)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    before = len(admin.list_topics(OBJECTS).topics[OBJECTS].partitions)
    after = 2 * before + 1
    group = next(
        f"g{i}" for i in range(100) if partition_of(DOMAIN, f"g{i}", before) != partition_of(DOMAIN, f"g{i}", after)
    )
    with Publisher(bootstrap, timeout_s=60) as publisher:
        assert publisher.publish(DOMAIN, group, "o").partition == partition_of(DOMAIN, group, before)
        admin.create_partitions([NewPartitions(OBJECTS, after)])[OBJECTS].result(60)
        deadline_s = time.monotonic() + 60
        while publisher.publish(DOMAIN, group, "o").partition != partition_of(DOMAIN, group, after):
            assert time.monotonic() < deadline_s


# -- wrong use ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"version": -1}, "version"),
        ({"version": 1 << 63}, "version"),
        ({"version": 1 << 80}, "version"),
        ({"version": True}, "version"),
        ({"version": "7"}, "version"),
        ({"expires_at": 1.5}, "expires_at"),
        ({"incarnation": -1}, "incarnation"),
        ({"incarnation": 1 << 31}, "incarnation"),
        ({"deleted": 1}, "deleted"),
        ({"source": "a b"}, "source"),
        ({"source": 5}, "source"),
        ({"payload": object()}, "payload"),
        ({"payload": "x" * 4096}, "payload"),
    ],
)
def test_a_bad_field_is_named(arguments: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidRecord if field != "source" else ValueError, match=f"^{field}: "):
        make_record(**arguments)


@pytest.mark.parametrize(
    ("names", "field"),
    [
        (("a b", "g", "o"), "domain"),
        (("d", "", "o"), "group"),
        (("d", "g", ""), "object"),
        (("d", "g", "x" * 256), "object"),
        (("d", 5, "o"), "group"),
    ],
)
def test_a_bad_name_is_named_before_anything_is_sent(silent_address: str, names: Any, field: str) -> None:
    with Publisher(silent_address, timeout_s=60) as publisher:
        with pytest.raises(InvalidName, match=f"^{field}: "):
            publisher.publish(*names)
        assert publisher.flush(0) == 0


@pytest.mark.kafka
def test_one_bad_record_among_many_means_that_none_is_sent(bootstrap: str, publisher: Publisher) -> None:
    for bad, words in (({"version": -1}, "b: version: "), ({"verison": 1}, "b: verison: no record has this field")):
        with pytest.raises(InvalidRecord, match=f"^{words}"):
            publisher.publish_many(DOMAIN, GROUP, {"a": {"version": 1}, "b": bad})
    assert written(bootstrap) == []


def test_what_librdkafka_does_not_take_is_named() -> None:
    with pytest.raises(ValueError, match=r"kafka_config: .*no\.such\.option"):
        Publisher(kafka_config={"no.such.option": 1})
    with pytest.raises(ValueError, match=r"^timeout_s: "):
        Publisher(timeout_s=0)
    with pytest.raises(ValueError, match=r"^queue_max: "):
        Publisher(queue_max=0)


def test_a_closed_publisher_takes_nothing(silent_address: str) -> None:
    publisher = Publisher(silent_address, timeout_s=60)
    publisher.close()
    publisher.close()
    with pytest.raises(PublishError, match="closed"):
        publisher.publish(DOMAIN, GROUP, "o")


def test_importing_the_client_does_not_import_what_only_publishers_need() -> None:
    script = "import coldnotify, sys; print([m for m in ('confluent_kafka', 'msgspec') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout == "[]\n"


# -- whether clients have it -------------------------------------------------------------------------------------------


class PlayedLedger(ThreadingHTTPServer):
    """Answers what `answers` says, the last one again and again; `asked` are the paths."""

    def __init__(self, *answers: tuple[int, dict[str, Any]]) -> None:
        super().__init__(("127.0.0.1", 0), self.Handler)
        self.answers, self.asked, self.tokens = list(answers), list[str](), list[str | None]()
        self.url = f"http://127.0.0.1:{self.server_address[1]}"

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            server = self.server
            assert isinstance(server, PlayedLedger)
            server.asked.append(self.path)
            server.tokens.append(self.headers["Authorization"])
            status, body = server.answers.pop(0) if len(server.answers) > 1 else server.answers[0]
            text = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            pass


@contextmanager
def played_ledger(*answers: tuple[int, dict[str, Any]]) -> Iterator[PlayedLedger]:
    with PlayedLedger(*answers) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join(60)


def says(applied: int, lacking: int, position: int = 9, **more: Any) -> tuple[int, dict[str, Any]]:
    names = [{"client": f"c{number}"} for number in range(min(lacking, 10))]
    known = {"applied": applied, "lacking": lacking, "position": position, "incarnation": 0, "published": True}
    return 200, {**known, "items": names, **more}


def receipt(url: str | None, incarnation: int | None = None, token: str | None = None) -> Receipt:
    ledger = None if url is None else Ledger(url, token, None)
    return Receipt.of(Published(5, 0, 8), ledger, (DOMAIN, GROUP, "cams/north"), incarnation)


def test_it_is_waited_for_until_so_many_have_applied_it() -> None:
    away = (503, {"error": "being loaded"})
    answers = [says(9, 0, position=8), away, (404, {"error": "not known"}), says(1, 9), says(8, 2), says(9, 1)]
    with played_ledger(*answers) as ledger:
        assert receipt(ledger.url, token="t").applied_by(0.9, timeout_s=60) == Applied(9, 1)
        assert len(ledger.asked) == 6
        path = f"/v1/domains/{DOMAIN}/groups/{GROUP}/objects/cams%2Fnorth/lacking"
        assert ledger.asked[0] == f"{path}?version=5&limit=10&partition=0&offset=8"
        assert set(ledger.tokens) == {"Bearer t"}
        assert receipt(ledger.url).applied_by(9, timeout_s=60).registered == 10
        assert asyncio.run(receipt(ledger.url).applied_by_async(9, timeout_s=60)) == Applied(9, 1)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (says(1, 2), "1 of 3 registered clients have applied it after 0.3 s (100% were wanted); 2 lack it: c0, c1"),
        (says(0, 12), "12 lack it: c0, c1, c2, c3, c4, c5, c6, c7, c8, c9, 2 more"),
        (says(1, 0, published=False), "the matcher has not read it within 0.3 s"),
        (says(1, 0, incarnation=6), "the matcher has not read it within 0.3 s"),
        ((503, {"error": "no matcher"}), "how many have applied it is not known after 0.3 s: no matcher"),
    ],
)  # fmt: skip
def test_too_few_in_time_is_a_timeout_that_names_who_lacks_it(answer: tuple[int, dict[str, Any]], words: str) -> None:
    with played_ledger(answer) as ledger, pytest.raises(TimeoutError, match=re.escape(words)) as caught:
        receipt(
            ledger.url, incarnation=7 if "incarnation" in answer[1] and answer[1]["incarnation"] else None
        ).applied_by(1.0, timeout_s=0.3)
    assert isinstance(caught.value, NotApplied)


SINCE_2020 = {"version": 1_700_000_000_000, "incarnation": 2, "published_ms": 1_600_000_000_000}
STALE: dict[str, Any] = {"outcome": "stale", "newest": SINCE_2020}


def test_a_version_that_never_was_the_newest_is_applied_by_nobody() -> None:
    answers = (says(3, 0, position=8), says(3, 0, **STALE))
    newest = "1700000000000 of incarnation 2, since 2020-09-13"
    words = f"{DOMAIN}/{GROUP}/cams/north version 5: is stale: the newest is version {newest}"
    with played_ledger(*answers) as ledger:
        with pytest.raises(NeverApplied, match=re.escape(words)) as caught:
            receipt(ledger.url).applied_by(1.0, timeout_s=60)
        assert caught.value.outcome.newest == Newest(1_700_000_000_000, 2, 1_600_000_000_000)
        assert isinstance(caught.value, NotApplied)
        with pytest.raises(NeverApplied):
            asyncio.run(receipt(ledger.url).applied_by_async(0, timeout_s=60))
    rejected = says(3, 0, outcome="rejected", reason="record: is null")
    with played_ledger(rejected) as ledger, pytest.raises(NeverApplied, match="is rejected: record: is null"):
        receipt(ledger.url).applied_by(1.0, timeout_s=60)


@pytest.mark.parametrize("outcome", ["published", "repeated", "altered"])
def test_a_version_that_was_the_newest_once_counts_as_applied_with_newer_ones(outcome: str) -> None:
    with played_ledger(says(3, 0, outcome=outcome, newest={"version": 5}, version=9)) as ledger:
        assert receipt(ledger.url).applied_by(1.0, timeout_s=60) == Applied(3, 0)


# -- what it has changed -----------------------------------------------------------------------------------------------


def outcome_of(*items: dict[str, Any]) -> list[tuple[int, dict[str, Any]]]:
    return [(200, {"partition": 0, "position": 9, "items": [{"offset": 8, **item}]}) for item in items]


def test_the_outcome_is_asked_for_until_it_is_known() -> None:
    unknown = {"outcome": "unknown", "reason": "the matcher has read up to offset 7 so far"}
    away = (503, {"error": "no matcher"})
    with played_ledger(*outcome_of(unknown), away, *outcome_of(STALE)) as ledger:
        outcome = receipt(ledger.url, token="t").outcome(timeout_s=60)
        assert outcome == Outcome("stale", Newest(1_700_000_000_000, 2, 1_600_000_000_000))
        assert outcome.in_vain
        path = f"/v1/domains/{DOMAIN}/groups/{GROUP}/outcomes?partition=0&offsets=8&wait_s=2.000"
        assert ledger.asked == [path] * 3
        assert set(ledger.tokens) == {"Bearer t"}
        assert asyncio.run(receipt(ledger.url).outcome_async(timeout_s=60)) == outcome
    with played_ledger(*outcome_of(unknown)) as ledger:
        assert receipt(ledger.url).outcome(timeout_s=0.3) == Outcome.unknown(unknown["reason"])


@pytest.mark.parametrize(
    ("item", "outcome", "words"),
    [
        ({"outcome": "published", "newest": {"version": 5, "published_ms": 1}}, "published", "published"),
        ({"outcome": "altered", "newest": {"version": 5, "published_ms": 1000}}, "altered", "with other content"),
        ({"outcome": "stale", "newest": {"version": 6, "published_ms": None}}, "stale", "is version 6; no client is"),
        ({"outcome": "stale", "newest": {"version": 6, "published_ms": 1 << 62}}, "stale", "since 4611686018427387904"),
        ({"outcome": "rejected", "reason": "record: is null"}, "rejected", "rejected: record: is null"),
        ({"outcome": "published", "newest": {"version": 6}}, "unknown", "another record is where"),
        ({"outcome": "published", "object": "p", "newest": {"version": 5}}, "unknown", "another record is where"),
        ({"outcome": "of a later release"}, "unknown", "the service does not say"),
    ],
)  # fmt: skip
def test_an_outcome_says_to_a_person_what_it_means(item: dict[str, Any], outcome: str, words: str) -> None:
    with played_ledger(*outcome_of(item)) as ledger:
        found = receipt(ledger.url).outcome(timeout_s=0)
    assert found.outcome == outcome
    assert words in str(found)


def test_what_was_not_written_again_is_judged_by_the_newest_version() -> None:
    def repeat(incarnation: int | None) -> Receipt:
        return Receipt.of(Repeat(5, 0, 8), Ledger(ledger.url, None, None), (DOMAIN, GROUP, "o"), incarnation)

    newest: dict[str, Any] = {"version": 5, "incarnation": 1, "published_ms": 1}
    with played_ledger((200, newest)) as ledger:
        assert [repeat(number).outcome().outcome for number in (1, None, 0)] == ["repeated", "repeated", "stale"]
        assert set(ledger.asked) == {f"/v1/domains/{DOMAIN}/groups/{GROUP}/objects/o"}
        assert not repeat(0).written
    with played_ledger((200, {**newest, "version": None})) as ledger:
        assert repeat(0).outcome(timeout_s=0).outcome == "unknown"


def test_an_outcome_that_cannot_be_asked_for_is_said_at_once() -> None:
    with pytest.raises(RuntimeError, match=r"outcome: needs .* Publisher\(http="):
        receipt(None).outcome()
    with pytest.raises(ValueError, match="timeout_s: "):
        receipt("127.0.0.1:1").outcome(timeout_s=-1)
    with played_ledger((403, {"error": "not yours"})) as ledger, pytest.raises(LedgerRefused, match="not yours"):
        receipt(ledger.url).outcome(timeout_s=60)
    nowhere = Receipt.of(Published(5, 0, -1), Ledger("127.0.0.1:1", None, None), (DOMAIN, GROUP, "o"), None)
    assert "Kafka did not say" in nowhere.outcome(timeout_s=60).reason


def test_what_was_known_last_is_said_where_the_last_ask_is_in_vain() -> None:
    away = (503, {"error": "being loaded"})
    with played_ledger(says(1, 2), away) as ledger, pytest.raises(NotApplied, match="2 lack it: c0, c1") as caught:
        receipt(ledger.url).applied_by(1.0, timeout_s=2)
    assert caught.value.applied == Applied(1, 2)


def test_what_cannot_be_waited_for_is_said_at_once() -> None:
    with pytest.raises(RuntimeError, match=r"Publisher\(http="):
        receipt(None).applied_by(1)
    for wrong in (1.5, -1, True, -0.1):
        with pytest.raises(ValueError, match="clients: "):
            receipt("127.0.0.1:1").applied_by(wrong)
    with pytest.raises(ValueError, match="http: "):
        Publisher("127.0.0.1:1", http=" ")
    with played_ledger((403, {"error": "not yours"})) as ledger, pytest.raises(LedgerRefused, match="not yours"):
        receipt(ledger.url).applied_by(1, timeout_s=60)


@pytest.mark.kafka
def test_what_is_published_can_be_waited_for(bootstrap: str) -> None:
    with played_ledger(says(1, 0, position=1 << 40)) as ledger, Publisher(bootstrap, http=ledger.url) as publisher:
        assert publisher.publish(DOMAIN, GROUP, "o", 1).applied_by(1) == Applied(1, 0)
        (many,) = publisher.publish_many(DOMAIN, GROUP, {"p": {"version": 2}})
        assert many.applied_by(1.0) == Applied(1, 0)
        assert "/objects/p/lacking?version=2" in ledger.asked[-1]
