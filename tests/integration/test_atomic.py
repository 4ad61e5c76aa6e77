"""Several objects published as one: all or none, whatever dies meanwhile, and told as one offset.

Stands for: atomic_sets, set_rule
"""

import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import msgspec
import pytest
from coldnotify.http_publisher import HttpPublisher, PublishError, SetConflict
from coldnotify_kafka.broker import EmbeddedBroker
from coldnotify_schemas.atomic_sets import DECIDED_SET_HEADER, set_key
from coldnotify_schemas.topics import TopicNames
from coldnotify_testkit import stack
from coldnotify_testkit.kafka import compact_soon
from coldnotify_testkit.matcher_process import DOMAIN as KAFKA_DOMAIN
from coldnotify_testkit.matcher_process import GROUP as KAFKA_GROUP
from coldnotify_testkit.matcher_process import PARTITION, MatcherProcess, records_of
from coldnotify_testkit.stack import Recorder, Up, get_json, notify
from coldnotify_testkit.waiting import wait_for
from confluent_kafka import Message, Producer

TOPICS = TopicNames()
DOMAIN, GROUP = "animal.observer", "atomic"
ACCOUNTS = ("a", "b", "c")
WRITERS = 4
TRANSFERS = 60
"""Acknowledged ones, between two kills."""
FULL = 1000
LIMIT_S = 200.0


def newest(up: Up, name: str) -> dict[str, object]:
    found: dict[str, object] = get_json(f"{up.http_url}/v1/domains/{DOMAIN}/groups/{GROUP}/objects/{name}")
    return found


def post(up: Up, body: object) -> tuple[int, dict[str, object]]:
    request = Request(f"{up.http_url}/v1/atomic", data=msgspec.json.encode(body), method="POST")
    try:
        with urlopen(request, timeout=60) as answer:
            return answer.status, msgspec.json.decode(answer.read())
    except HTTPError as error:
        return error.code, msgspec.json.decode(error.read())


@pytest.mark.stack
def test_all_or_none_are_published_and_told(up: Up) -> None:
    told = Recorder()
    publisher = HttpPublisher(up.http_url, timeout_s=60)
    with notify(up, "reader", None, group=GROUP) as ou:
        for name in ("door", "lamp"):
            ou.register(name).subscribe(told)
        assert ou.wait_caught_up(60)
        made = publisher.publish_atomic(
            DOMAIN,
            GROUP,
            {"door": {"payload": "shut", "version": 1}, "lamp": {"payload": b"\xff", "if_absent": True, "version": 4}},
        )
        assert [one.version for one in made] == [1, 4]
        assert len({one.offset for one in made}) == 1
        with pytest.raises(SetConflict) as refused:
            publisher.publish_atomic(DOMAIN, GROUP, {"door": {"if_version": 1}, "lamp": {"if_version": 3}})
        assert [(name, one.newest and one.newest.version) for name, one in refused.value.members.items()] == [
            ("lamp", 4)
        ]
        again = publisher.publish_atomic(DOMAIN, GROUP, {"door": {"if_version": 1}, "lamp": {"if_version": 4}}, id="x")
        assert [one.version for one in again] == [2, 5]
        repeat = publisher.publish_atomic(DOMAIN, GROUP, {"door": {"if_version": 1}, "lamp": {"if_version": 4}}, id="x")
        assert [one.version for one in repeat] == [2, 5]
        for one in again:
            assert one.applied_by(1.0, timeout_s=60) == (1, 0)
    assert told.versions("door") == [None, 1, 2]
    assert told.versions("lamp") == [None, 4, 5]


@pytest.mark.stack
@pytest.mark.parametrize(
    ("said", "field"),
    [
        ({"set": []}, "set"),
        ({"set": [{"version": 1}]}, "set[0].object"),
        ({"set": [{"object": "a"}, {"object": "a"}]}, "set[1].object"),
        ({"set": [{"object": "a", "incarnation": 2}]}, "set[0].incarnation"),
        ({"set": [{"object": "a", "priority": "high"}]}, "set[0].priority"),
        ({"set": [{"object": "a"}], "id": ""}, "id"),
        ({"set": [{"object": "a", "payload": "x" * 5000}]}, "set[0].payload"),
        ({"set": [{"object": str(i)} for i in range(101)]}, "set"),
        ({"set": [{"object": "a"}], "group": "g/h"}, "group"),
    ],
)
def test_bad_input_names_its_field(up: Up, said: dict[str, object], field: str) -> None:
    status, answer = post(up, {"domain": DOMAIN, "group": GROUP, **said})
    assert (status, answer["field"]) == (400, field)


# --- whatever dies


class Writer(threading.Thread):
    """Moves amounts between accounts, whose sum stays the same."""

    def __init__(self, up: Up, number: int, stopping: threading.Event) -> None:
        super().__init__(daemon=True)
        self._up, self._stopping = up, stopping
        self._random = Random(number)
        self._publisher = HttpPublisher(up.http_url, timeout_s=20)
        self.counts: Counter[str] = Counter()

    def run(self) -> None:
        while not self._stopping.is_set():
            one, other = self._random.sample(ACCOUNTS, 2)
            try:
                found = {name: newest(self._up, name) for name in (one, other)}
            except (OSError, ValueError):
                self._stopping.wait(0.1)
                continue
            if any(shown["version"] is None for shown in found.values()):
                continue
            amount = self._random.randint(1, 9)
            after = {one: -amount, other: amount}
            try:
                self._publisher.publish_atomic(
                    DOMAIN,
                    GROUP,
                    {
                        name: {"payload": int(str(shown["payload"])) + after[name], "if_version": shown["version"]}
                        for name, shown in found.items()
                    },
                )
                self.counts["done"] += 1
            except SetConflict:
                self.counts["refused"] += 1
            except PublishError as error:
                self.counts["unknown" if error.indeterminate else "not sent"] += 1


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    with stack.running(tmp_path_factory.mktemp("up")) as one:
        yield one


@pytest.mark.stack
@pytest.mark.own_broker("kills Kafka beside the other parts")
def test_sums_stay_whatever_is_killed(own: Up) -> None:
    told = Recorder()
    accounts = {name: {"payload": FULL, "version": 1} for name in ACCOUNTS}
    HttpPublisher(own.http_url, timeout_s=60).publish_atomic(DOMAIN, GROUP, accounts)
    stopping = threading.Event()
    writers = [Writer(own, number, stopping) for number in range(WRITERS)]

    def done() -> int:
        return sum(writer.counts["done"] for writer in writers)

    with notify(own, "reader", None, group=GROUP) as ou:
        for name in ACCOUNTS:
            ou.register(name).subscribe(told)
        for writer in writers:
            writer.start()
        for part in ("matcher", "matcher", "http", "broker", "matcher"):
            goal = done() + TRANSFERS
            wait_for(lambda goal=goal: done() >= goal, "transfers go on")  # type: ignore[misc]
            pids = own.kill(part)
            own.wait_ready(other_than=pids)
        goal = done() + TRANSFERS
        wait_for(lambda: done() >= goal, "transfers go on")
        stopping.set()
        for writer in writers:
            writer.join(60)
        shown = {name: newest(own, name) for name in ACCOUNTS}
        assert sum(int(str(one["payload"])) for one in shown.values()) == FULL * len(ACCOUNTS)
        for name, one in shown.items():
            wait_for(lambda name=name, one=one: told.newest(name) == one["version"], "the reader has the newest")  # type: ignore[misc]
    counts = sum((writer.counts for writer in writers), Counter[str]())
    # Each transfer brings a version to two accounts.
    versions = sum(int(str(one["version"])) - 1 for one in shown.values())
    assert 2 * counts["done"] <= versions <= 2 * (counts["done"] + counts["unknown"])


@pytest.mark.kafka
def test_a_set_whose_owner_died_between_its_records_is_completed(fresh_kafka: EmbeddedBroker, tmp_path: Path) -> None:
    kafka = fresh_kafka.bootstrap
    producer = Producer({"bootstrap.servers": kafka})

    def write(key: str, value: bytes | None, headers: dict[str, bytes] | None = None) -> int:
        offsets: list[int] = []

        def acknowledged(error: object, message: Message) -> None:
            assert error is None
            offsets.append(message.offset() or 0)

        producer.produce(
            TOPICS.objects, value, key, PARTITION, headers=list((headers or {}).items()), on_delivery=acknowledged
        )
        producer.flush()
        return offsets[0]

    def of(key: str) -> list[tuple[bytes | None, dict[str, bytes]]]:
        found = records_of(kafka, TOPICS.objects, PARTITION)
        return [(value, dict(headers)) for one, value, headers in found if one == key.encode()]

    def version(matcher: MatcherProcess, name: str) -> object:
        path = f"http://127.0.0.1:{matcher.http_port}/v1/domains/{KAFKA_DOMAIN}/groups/{KAFKA_GROUP}/objects/{name}"
        return get_json(path)["version"]

    def key(name: str) -> str:
        return f"{KAFKA_DOMAIN}/{KAFKA_GROUP}/{name}"

    whole, half = (set_key(KAFKA_DOMAIN, KAFKA_GROUP, id_) for id_ in ("whole", "half"))
    with MatcherProcess(kafka, tmp_path / "first.log") as first:
        first.wait_serving()
        write(key("a"), b'{"version":5}')
        write(whole, b'{"set":[{"object":"a","if_version":5},{"object":"b","version":7}]}')
        wait_for(lambda: len(of(whole)) == 2, "the set is decided, and its null written")
        assert (version(first, "a"), version(first, "b")) == (6, 7)
    assert of(whole)[1][0] is None
    said = of(whole)[1][1][DECIDED_SET_HEADER].decode()
    epoch = said.partition("/")[0]
    assert said.split()[1:] == ["won", "6", "0", "7", "0"]

    # The records that an owner leaves that is killed behind the first member's.
    offset = write(
        half, b'{"set":[{"object":"a","if_version":6},{"object":"b","if_version":7},{"object":"c","if_absent":true}]}'
    )
    decided = f"{epoch}/{offset} won 7 0 8 0 3 0".encode()
    write(key("a"), b'{"version":7,"incarnation":0}', {DECIDED_SET_HEADER: decided})
    write(key("b"), b'{"version":99}')
    compact_soon(kafka, TOPICS.objects)

    def compacted() -> bool:
        write(key("filler"), b"{}")
        return len(of(key("a"))) == len(of(key("b"))) == 1

    wait_for(compacted, "what the set's conditions name is compacted away", LIMIT_S)
    with MatcherProcess(kafka, tmp_path / "second.log") as second:
        second.wait_serving()
        assert [version(second, name) for name in ("a", "b", "c")] == [7, 99, 3]
        wait_for(lambda: of(half)[-1][0] is None, "the successor has completed the set")
        assert of(key("c"))
