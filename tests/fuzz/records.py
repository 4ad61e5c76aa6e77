"""Hostile records for a ColdNotify that runs: all six topics of its Kafka are written to by somebody who means harm.

Run by `make fuzz-records ARGS="--records 100000 --seed 1"`. Two gateways, two matchers and honest clients run as
always; then everything is stopped and started again on the same data. Exit code 1: a check failed; it says which.
"""

import argparse
import logging
import re
import shutil
import sys
import tempfile
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

from coldnotify_schemas.internal_pb2 import Request
from coldnotify_schemas.partitioner import partition_of
from coldnotify_schemas.records import PLACE_HEADER, REASON_HEADER
from coldnotify_schemas.topics import NOTIFICATIONS, REJECTED, REQUESTS
from coldnotify_testkit.crowd import Crowd
from coldnotify_testkit.hostile_records.generator import WEIGHTS, Generator
from coldnotify_testkit.hostile_records.records import DOMAIN, Hostile, Known, Session
from coldnotify_testkit.stack import Up, get_json, running
from coldnotify_testkit.waiting import wait_for
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient
from google.protobuf.message import DecodeError
from google.protobuf.message import Message as Protobuf
from google.protobuf.text_format import MessageToString
from prometheus_client.parser import text_string_to_metric_families

GROUPS = tuple(f"region-{i}" for i in range(4))
CLIENTS = ("ou-0", "ou-1")
OBJECTS = tuple(f"honest-{i}" for i in range(6))
PARTITIONS, INBOXES = 8, 16
ROUND_RECORDS = 250
"""Hostile records between two honest deeds."""
LATE_S = 60.0
RESTART_RELOADS_MAX = 8
"""Partitions that may be loaded anew after the restart: one for a fault of each."""
FLUSH_S = 120
LOOK_S = 30
"""For one look at what a topic holds."""
ALONE_BYTES_MIN = 10_000
"""A record of this size is sent by itself."""
SHOWN = 20
SHOWN_CHARS = 300
"""Lines of a kind that are printed."""

SET_ASIDE = "coldnotify_matcher_records_set_aside_total"
PARTITION_RELOADS = "coldnotify_matcher_partition_reloads_total"
RELOADS = "coldnotify_matcher_reloads_total"
WAITING = "coldnotify_matcher_partitions_waiting"
MALFORMED = "coldnotify_gateway_inbox_malformed_records_total"
REJECTED_TOTAL = "coldnotify_matcher_records_rejected_total"
Samples = dict[tuple[str, tuple[str, ...]], float]
"""By name and values of labels."""


class Writer:
    """Writes records as they come. What Kafka itself refuses is counted."""

    def __init__(self, kafka: str) -> None:
        # It stays while Kafka is started again, and need not speak of that.
        config = {"bootstrap.servers": kafka, "message.max.bytes": 2_000_000, "linger.ms": 5, "log_level": 0}
        self._many = Producer(config)
        # Kafka refuses a whole batch for one record's timestamp or size, or because it has no key.
        self._single = Producer(config | {"batch.num.messages": 1})
        self.written: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()

    def write(self, record: Hostile) -> None:
        """Without waiting for Kafka."""
        size = len(record.value or b"") + len(record.key or b"")
        alone = record.timestamp_ms or record.key is None or size > ALONE_BYTES_MIN
        producer = self._single if alone else self._many
        while True:
            try:
                producer.produce(
                    record.topic,
                    partition=record.partition,
                    key=record.key,
                    value=record.value,
                    headers=record.headers,
                    timestamp=record.timestamp_ms,
                    on_delivery=self._on_delivery,
                )
            except BufferError:
                producer.poll(0.1)
            except KafkaException as error:  # the library itself does not take what Kafka would refuse as too large
                self.refused[f"{record.topic}: {error.args[0].name()}"] += 1
                return
            else:
                producer.poll(0)
                return

    def flush(self) -> None:
        """Until Kafka has said something to all of them."""
        for producer in (self._many, self._single):
            assert producer.flush(FLUSH_S) == 0, "Kafka takes no records any more"

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        topic = message.topic() or ""
        if error is None:
            self.written[topic] += 1
        else:
            self.refused[f"{topic}: {error.name()}"] += 1


class Fuzz:
    """One run; `failures` are the checks that failed."""

    def __init__(self, up: Up, crowd: Crowd, arguments: argparse.Namespace) -> None:
        self._up = up
        self._crowd = crowd
        self._arguments = arguments
        self._writer = Writer(up.kafka)
        self._generator = Generator(arguments.seed, arguments.topics, newer_format=arguments.newer_format)
        self._pids: dict[str, int] = dict(up.report["pids"])
        self._requests_topic_id = topic_id(up.kafka)
        self._asked: defaultdict[str, deque[str]] = defaultdict(lambda: deque(maxlen=SHOWN))
        """What was asked last in the name of honest clients."""
        self.failures: list[str] = []

    def run(self) -> None:
        """Attack, judge, start again, judge."""
        began_s = time.monotonic()
        self._crowd.begin()
        records = self._attack()
        print(f"{records} hostile records in {time.monotonic() - began_s:.0f} s")
        if not self._deaths():
            self._settle("after the attack")
        self._table()
        self._raised()
        if not self._deaths():
            self._start_again()
        self._exceptions()

    # ---- the attack --------------------------------------------------------------------------------------------

    def _attack(self) -> int:
        """Returns how many records were written."""
        until_s = time.monotonic() + self._arguments.seconds
        written = 0
        while written < self._arguments.records and time.monotonic() < until_s:
            known = self._known()
            for i in range(min(ROUND_RECORDS, self._arguments.records - written)):
                if i == ROUND_RECORDS // 2:
                    self._crowd.act()
                record = self._generator.record(known)
                self._note(record)
                self._writer.write(record)
                written += 1
            # What was published a round before is to be there, while this round's records are being handled.
            self._crowd.wait()
            self._crowd.act()
            self._check(not self._crowd.late, "honest clients are told what is published, also during the attack")
            if self._crowd.late:
                self._show_partitions({ou.group for ou, _ in self._crowd.late})
            if self._deaths() or self._crowd.late:
                break
        self._writer.flush()
        return written

    def _note(self, record: Hostile) -> None:
        """Keep what is asked in the name of an honest client, for the case that it is not served."""
        if record.topic != REQUESTS or record.value is None:
            return
        with suppress(DecodeError):
            request = Request.FromString(record.value)
            if request.client in CLIENTS:
                self._asked[f"{request.group}/{request.client}"].append(
                    f"{time.strftime('%H:%M:%S')} {shortest(request)[:SHOWN_CHARS]}"
                )

    def _known(self) -> Known:
        """What there is now. Only what gateways say of themselves is asked; an attacker would read it from topics."""
        gateways: dict[int, int] = {}
        sessions: list[Session] = []
        generations: dict[int, int] = {}
        numbers: dict[tuple[int, int], int] = {}
        for address in self._up.report["gateways_http"]:
            with suppress(OSError):
                shown = get_json(f"http://{address}/v1/gateway")
                gateway, inbox = int(shown["gateway"], 16), shown["inbox"]
                gateways[gateway] = inbox
                for view in shown["partitions"]:
                    number = view["partition"]
                    generations[number] = max(generations.get(number, 0), view["generation"])
                    numbers[gateway, number] = view["number"] or 0
                for one in get_json(f"http://{address}/v1/sessions?limit=100")["items"]:
                    where = one["partition"], one["session"], one["group"], one["client"]
                    sessions += [Session(gateway, inbox, *where)]
        now_ms = time.time_ns() // 1_000_000
        topic = self._requests_topic_id
        return Known(
            PARTITIONS, INBOXES, GROUPS, CLIENTS, OBJECTS, now_ms, topic, gateways, sessions, generations, numbers
        )

    # ---- the judgement -----------------------------------------------------------------------------------------

    def _check(self, holds: object, what: str) -> None:
        if not holds and what not in self.failures:
            self.failures.append(what)

    def _deaths(self) -> list[str]:
        """The parts that have died."""
        died = self._up.dead(self._pids)
        for part in died:
            self._check(False, f"{part} does not die")
        return died

    def _settle(self, when: str) -> None:
        """Everybody is served, everything is ready, and nothing is loaded over and over."""
        crowd, late_before = self._crowd, len(self._crowd.late)
        limit_s = 2 * self._arguments.late_s
        crowd.wake_all()
        crowd.wait()
        crowd.publish_all()
        crowd.wait()
        self._check(len(crowd.late) == late_before, f"every honest client has the newest, {when}")
        self._until(lambda: not self._unready(), limit_s, f"everything is ready, {when}")
        if not self._arguments.newer_format:
            self._until(lambda: not self._sum(self._matchers(), WAITING), limit_s, f"no partition waits, {when}")
        before = self._loads()
        crowd.publish_all()
        crowd.wait()
        self._check(self._loads() == before, f"nothing is loaded anew any more, {when}")
        self._check(not crowd.wrong(), "nothing is told that was not published, and nothing goes backwards")

    def _start_again(self) -> None:
        self._check(self._up.stop() == 0, "everything stops in order")
        self._up.start()
        self._pids = dict(self._up.report["pids"])
        self._settle("after the restart")
        samples = self._matchers()
        self._check(not self._sum(samples, RELOADS), "no run of a matcher fails after the restart")
        self._check(
            self._sum(samples, PARTITION_RELOADS) <= RESTART_RELOADS_MAX,
            "few partitions are loaded anew after the restart",
        )
        self._deaths()
        print(f"restart: partition reloads {self._sum(samples, PARTITION_RELOADS):.0f}, run reloads", end=" ")
        print(f"{self._sum(samples, RELOADS):.0f}, partitions waiting {self._sum(samples, WAITING):.0f}")

    def _until(self, condition: Callable[[], object], limit_s: float, what: str) -> None:
        try:
            wait_for(condition, what, limit_s)
        except AssertionError:
            self._check(False, what)

    def _unready(self) -> list[str]:
        report = self._up.report
        found = []
        for address in (*report["matchers"], *report["gateways_http"], report["http"]):
            try:
                with urlopen(f"http://{address}/readyz", timeout=10):
                    pass
            except HTTPError as error:
                with error:
                    found.append(f"{address}: {error.read(1000).decode(errors='replace')}")
            except OSError as error:
                found.append(f"{address}: {error}")
        return found

    # ---- what is printed ---------------------------------------------------------------------------------------

    def _matchers(self) -> Samples:
        """Of all matchers together."""
        return self._samples("matchers")

    def _samples(self, kind: str) -> Samples:
        found: Samples = {}
        for address in self._up.report[kind]:
            with urlopen(f"http://{address}/metrics", timeout=LOOK_S) as answer:
                text = answer.read().decode()
            for family in text_string_to_metric_families(text):
                for sample in family.samples:
                    key = sample.name, tuple(sample.labels.values())
                    found[key] = found.get(key, 0.0) + sample.value
        return found

    def _sum(self, samples: Samples, name: str) -> float:
        return sum(value for (one, _), value in samples.items() if one == name)

    def _loads(self) -> tuple[float, float]:
        samples = self._matchers()
        return self._sum(samples, RELOADS), self._sum(samples, PARTITION_RELOADS)

    def _table(self) -> None:
        samples = self._matchers()
        gateways = self._samples("gateways_http")
        print(f"\n{'topic':26} {'written':>8} {'refused':>8} {'not understood':>15} {'raised':>7}")
        for topic in WEIGHTS:
            refused = sum(n for name, n in self._writer.refused.items() if name.startswith(f"{topic}:"))
            aside = [samples.get((SET_ASIDE, (topic, why)), 0.0) for why in ("not_understood", "raised")]
            if topic == NOTIFICATIONS:
                aside[0] = self._sum(gateways, MALFORMED)
            print(f"{topic:26} {self._writer.written[topic]:8} {refused:8} {aside[0]:15.0f} {aside[1]:7.0f}")
        for name, times in sorted(self._writer.refused.items()):
            print(f"refused by Kafka, {name}: {times}")
        print(f"rejected of objects: {self._sum(samples, REJECTED_TOTAL):.0f}")
        print(f"partition reloads {self._sum(samples, PARTITION_RELOADS):.0f}, run reloads", end=" ")
        print(f"{self._sum(samples, RELOADS):.0f}, partitions waiting {self._sum(samples, WAITING):.0f}")
        crowd = self._crowd
        print(f"honest: {crowd.published} published, {crowd.told} told, {crowd.wakes} wakes,", end=" ")
        print(f"{crowd.registered} registrations; the longest took {crowd.longest_s:.1f} s")
        for line in [*(late.words for late in crowd.late), *crowd.wrong()][:SHOWN]:
            print(f"  {line}")
        for name in dict.fromkeys(late.ou.name for late in crowd.late):
            print(f"  in the name of {name} was asked:", *self._asked[name], sep="\n    ")

    def _show_partitions(self, groups: set[str]) -> None:
        """What matchers and gateways say of the partitions of these groups."""
        numbers = {partition_of(DOMAIN, group, PARTITIONS) for group in groups}
        for kind, path in (("matchers", "partitions"), ("gateways_http", "gateway")):
            for address in self._up.report[kind]:
                with suppress(OSError):
                    shown = get_json(f"http://{address}/v1/{path}")
                    for one in shown.get("items") or shown["partitions"]:
                        if one["partition"] in numbers:
                            print(f"{kind} {address}: {one}")
        for (name, labels), value in self._matchers().items():
            if name.startswith("coldnotify_matcher_lag_") and labels[0] in map(str, numbers):
                print(f"{name} of partition {labels[0]}: {value:.0f}")

    def _raised(self) -> None:
        """Records that a handler raised over are contained, and faults of ours all the same: each is named."""
        raised = Counter[str]()
        examples: dict[str, str] = {}
        consumer = Consumer(
            {"bootstrap.servers": self._up.kafka, "group.id": "fuzz-rejected", "enable.partition.eof": True}
        )
        ends = [consumer.get_watermark_offsets(TopicPartition(REJECTED, n), LOOK_S)[1] for n in range(2)]
        consumer.assign([TopicPartition(REJECTED, n, 0) for n in range(2)])
        left = {n for n, end in enumerate(ends) if end}
        until_s = time.monotonic() + FLUSH_S
        while left and time.monotonic() < until_s:
            message = consumer.poll(1)
            if message is None:
                continue
            number, offset, error = message.partition() or 0, message.offset() or 0, message.error()
            if error is not None or offset + 1 >= ends[number]:
                left.discard(number)
            headers = dict(message.headers() or []) if error is None else {}
            reason = text_of(headers.get(REASON_HEADER))
            if reason.startswith("handling it raised"):
                words = re.sub(r"\d+", "N", reason)[:SHOWN_CHARS]
                raised[words] += 1
                shown = f"{message.key()!r} {(message.value() or b'')[:SHOWN_CHARS]!r}"
                examples.setdefault(words, f"{text_of(headers.get(PLACE_HEADER))} {shown}")
        consumer.close()
        for words, times in raised.most_common(SHOWN):
            print(f"raised {times} times: {words}\n  such as {examples[words]}")
        self._check(not raised, "no handler of a matcher raises over a record")

    def _exceptions(self) -> None:
        """Tracebacks of all parts' logs, each once."""
        found = Counter[str]()
        examples: dict[str, str] = {}
        lines = self._up.log_lines()
        for i, line in enumerate(lines):
            if "Traceback (most recent call last)" in line:
                end = next(
                    (
                        j
                        for j in range(i + 1, min(i + 80, len(lines)))
                        if re.match(r"\S*(Error|Exception|Failure)\b", lines[j].lstrip("| "))
                    ),
                    i,
                )
                words = re.sub(r"\d+", "N", lines[end])[:200]
                found[words] += 1
                examples.setdefault(words, "\n".join(lines[max(i - 1, 0) : end + 1][-25:]))
        for words, times in found.most_common(SHOWN):
            print(f"traceback, {times} times: {words}\n{examples[words]}")


def text_of(value: str | bytes | None) -> str:
    """Of a header."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value or ""


def topic_id(kafka: str) -> str:
    """Of requests, as claims name it."""
    admin = AdminClient({"bootstrap.servers": kafka})
    described = admin.describe_topics(TopicCollection([REQUESTS]))
    return str(described[REQUESTS].result(LOOK_S).topic_id)


def shortest(message: Protobuf) -> str:
    """In one line."""
    return MessageToString(message, as_one_line=True)


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0], allow_abbrev=False)
    parser.add_argument("--records", type=int, default=20_000, help="how many (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of what is drawn (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=600, help="no longer than this (default: %(default)s)")
    parser.add_argument("--topics", default=",".join(WEIGHTS), help="only these (default: all six)")
    parser.add_argument(
        "--late-s", type=float, default=LATE_S, help="a publish that takes longer is not served (default: %(default)s)"
    )
    parser.add_argument(
        "--newer-format", action="store_true", help="state records of a later release, too: their partitions wait"
    )
    arguments = parser.parse_args()
    arguments.topics = tuple(arguments.topics.split(","))
    if unknown := set(arguments.topics) - WEIGHTS.keys():
        parser.error(f"--topics: {', '.join(sorted(unknown))}: no topic of ColdNotify")
    # The publisher's Kafka client reports what it meets while Kafka is started again.
    logging.getLogger().addHandler(logging.NullHandler())
    directory = Path(tempfile.mkdtemp(prefix="coldnotify-fuzz-"))
    failures = run(directory, arguments)
    for failure in failures:
        print(f"FAILED: {failure}")
    if failures:
        print(f"seed {arguments.seed}; logs and data: {directory}")
        return 1
    shutil.rmtree(directory)
    print("all checks hold")
    return 0


def run(directory: Path, arguments: argparse.Namespace) -> Sequence[str]:
    """The failures."""
    with running(directory, "--gateways=2", "--matchers=2") as up:
        crowd = Crowd(
            arguments.seed,
            DOMAIN,
            GROUPS,
            CLIENTS,
            OBJECTS,
            kafka=up.kafka,
            gateway=up.gateway,
            directory=directory,
            late_s=arguments.late_s,
        )
        fuzz = Fuzz(up, crowd, arguments)
        try:
            fuzz.run()
        except (AssertionError, OSError, KafkaException) as error:
            fuzz.failures.append(f"the run ended early: {error}")
        finally:
            crowd.end()
    return fuzz.failures


if __name__ == "__main__":
    sys.exit(main())
