"""Hostile records for a ColdNotify that runs: all topics of its Kafka are written to by somebody who means harm.

Run by `make fuzz-records ARGS="--records 100000 --seed 1"`. Batches are made by hand, byte by byte, and drawn from the
seed. Two gateways, two matchers, HTTP, the usage job, honest clients and a bystander of another domain and partition
run as always; then everything is stopped and started again on the same data. Exit code 1: a check failed, and which.
"""

import argparse
import json
import logging
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request as HttpRequest
from urllib.request import urlopen

from coldnotify.publisher import PublishError
from coldnotify_checker import read_histories
from coldnotify_checker.topic_contents import merge
from coldnotify_schemas.internal_pb2 import Request
from coldnotify_schemas.partitioner import partition_of
from coldnotify_schemas.topics import TopicNames
from coldnotify_testkit import hostile_findings
from coldnotify_testkit.bystander import Bystander
from coldnotify_testkit.crowd import Crowd, Late
from coldnotify_testkit.hostile_records.batch_kinds import AS_DRAWN, KINDS
from coldnotify_testkit.hostile_records.generator import WEIGHTS, Generator
from coldnotify_testkit.hostile_records.records import DOMAIN, HonestSession, Hostile, KnownToAttacker
from coldnotify_testkit.hostile_writer import HostileWriter, by_kind, of_topic
from coldnotify_testkit.stack import Up, get_json, running
from coldnotify_testkit.waiting import wait_for
from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient
from google.protobuf.message import DecodeError
from google.protobuf.message import Message as Protobuf
from google.protobuf.text_format import MessageToString
from prometheus_client.parser import text_string_to_metric_families

TOPICS = TopicNames()

GROUPS = tuple(f"region-{i}" for i in range(4))
CLIENTS = ("ou-0", "ou-1")
OBJECTS = tuple(f"honest-{i}" for i in range(6))
PARTITIONS, INBOXES = 8, 16
BYSTANDERS = "bystander.domain"
"""Its domain, and its tenant's name."""
BYSTANDERS_GROUP = next(
    group
    for group in (f"elsewhere-{i}" for i in range(100))
    if partition_of(BYSTANDERS, group, PARTITIONS) not in {partition_of(DOMAIN, one, PARTITIONS) for one in GROUPS}
)
RETENTIONS = f"{DOMAIN}=1h,{BYSTANDERS}=1d,others=30d"
"""So that matchers follow the logs of all three."""
PROBE = "probe"
PROBED = ("attack", "restart")
"""Tenants, of a domain of the same name each, with whom something is agreed behind hostile records."""
BEFORE_PUBLISHES = 50
"""Of the bystander's, before the attack and after it."""
ROUND_RECORDS = 150
"""Hostile records between two honest deeds."""
LATE_S = 60.0
RESTART_RELOADS_MAX = 8
"""Partitions that may be loaded anew after the restart: one for a fault of each."""
LOOK_S = 30
"""For one look at what a topic holds, or at how a part is."""
COMMAND_S = 180
SHOWN = 20
SHOWN_CHARS = 300
"""Lines of a kind that are printed."""

SET_ASIDE = "coldnotify_matcher_records_set_aside_total"
PARTITION_RELOADS = ("coldnotify_matcher_events_total", ("partition_reloads",))
RELOADS = "coldnotify_matcher_reloads_total"
WAITING = "coldnotify_matcher_partitions_waiting"
MALFORMED = "coldnotify_gateway_inbox_malformed_records_total"
REJECTED_TOTAL = "coldnotify_matcher_records_rejected_total"
Samples = dict[tuple[str, tuple[str, ...]], float]
"""By name and values of labels."""


class Fuzz:
    """One run; `failures` are the checks that failed."""

    def __init__(self, up: Up, crowd: Crowd, bystander: Bystander, arguments: argparse.Namespace) -> None:
        self._up = up
        self._crowd = crowd
        self._bystander = bystander
        self._arguments = arguments
        self._writer = HostileWriter(up.kafka)
        self._generator = Generator(
            arguments.seed, arguments.topics, newer_format=arguments.newer_format, kinds=arguments.kinds
        )
        self._pids: dict[str, int] = dict(up.report["pids"])
        self._requests_topic_id = topic_id(up.kafka)
        self._asked: defaultdict[str, deque[str]] = defaultdict(lambda: deque(maxlen=SHOWN))
        """What was asked last in the name of honest clients."""
        self._left: set[str] = set()
        """Honest clients in whose name a Leave was asked. It is believed: what is published before their gateway has
        noticed may not be told to them (docs/security.md).
        """
        self.failures: list[str] = []

    def run(self) -> None:
        """Attack, judge, start again, judge."""
        self._crowd.begin()
        self._agree(BYSTANDERS, 1_000_000)
        self._bystander.start()
        self._bystander.wait_published(BEFORE_PUBLISHES, self._arguments.late_s)
        began_s = time.monotonic()
        self._bystander.phase("during the attack")
        records = self._attack()
        print(f"{records} hostile records in {time.monotonic() - began_s:.0f} s")
        if not self._ended():
            self._settle("after the attack")
        self._table()
        self._raised()
        if not self._ended():
            self._start_again()
            self._topics_are_read()

    def end(self) -> None:
        """Say what the bystander felt, and what is in the logs."""
        self._writer.close()
        self._judge_bystander()
        self._exceptions()

    # ---- the attack --------------------------------------------------------------------------------------------

    def _attack(self) -> int:
        """Returns how many records were written."""
        until_s = time.monotonic() + self._arguments.seconds
        written = 0
        while written < self._arguments.records and time.monotonic() < until_s:
            known = self._known()
            for i in range(min(ROUND_RECORDS, self._arguments.records - written)):
                if time.monotonic() > until_s:
                    break
                if i == ROUND_RECORDS // 2:
                    self._crowd.act()
                record = self._generator.record(known)
                self._note(record)
                self._writer.write(record)
                written += 1
            # What was published a round before is to be there, while this round's records are being handled.
            self._crowd.wait()
            self._crowd.act()
            self._check(not self._unexcused(), "honest clients are told what is published, also during the attack")
            if self._unexcused():
                self._show_partitions({ou.group for ou, _ in self._crowd.late})
            if self._deaths() or self._unexcused():
                break
        return written

    def _note(self, record: Hostile) -> None:
        """Keep what is asked in the name of an honest client, for the case that it is not served."""
        values = {one.value for one in record.batch.records if one.value is not None}
        if record.topic != TOPICS.requests or record.kind != AS_DRAWN or not values:
            return
        with suppress(DecodeError):
            request = Request.FromString(values.pop())
            if request.client in CLIENTS:
                if request.HasField("leave"):
                    self._left.add(f"{request.group}/{request.client}")
                self._asked[f"{request.group}/{request.client}"].append(
                    f"{time.strftime('%H:%M:%S')} {shortest(request)[:SHOWN_CHARS]}"
                )

    def _unexcused(self) -> list[Late]:
        """Returns what came too late at clients whose sessions no stranger has ended."""
        return [late for late in self._crowd.late if late.ou.name not in self._left]

    def _known(self) -> KnownToAttacker:
        """What there is now. Only what gateways say of themselves is asked; an attacker would read it from topics."""
        gateways: dict[int, int] = {}
        sessions: list[HonestSession] = []
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
                    sessions += [HonestSession(gateway, inbox, *where)]
        now_ms = time.time_ns() // 1_000_000
        topic = self._requests_topic_id
        return KnownToAttacker(
            PARTITIONS,
            INBOXES,
            GROUPS,
            CLIENTS,
            OBJECTS,
            now_ms,
            topic,
            gateways,
            sessions,
            generations,
            numbers,
            spared_domains=(BYSTANDERS, *(f"{PROBE}.{when}" for when in PROBED)),
            spared_tenants=(BYSTANDERS, *(f"{PROBE}.{when}" for when in PROBED)),
            spared_partitions=(partition_of(BYSTANDERS, BYSTANDERS_GROUP, PARTITIONS),),
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

    def _ended(self) -> bool:
        """Whether the supervisor has given up."""
        ended = not self._up.running
        self._check(not ended, "coldnotify up goes on")
        return ended

    def _settle(self, when: str) -> None:
        """Everybody is served, everything is ready, and nothing is loaded over and over."""
        crowd, unexcused_before = self._crowd, len(self._unexcused())
        limit_s = 2 * self._arguments.late_s
        crowd.wake_all()
        crowd.wait()
        crowd.publish_all()
        crowd.wait()
        self._check(len(self._unexcused()) == unexcused_before, f"every honest client has the newest, {when}")
        self._until(lambda: not self._unready(), limit_s, f"everything is ready, {when}")
        if not self._arguments.newer_format:
            self._until(lambda: not self._sum(self._matchers(), WAITING), limit_s, f"no partition waits, {when}")
        before, late_before = self._loads(), len(crowd.late)
        crowd.publish_all()
        crowd.wait()
        self._check(len(crowd.late) == late_before, f"everybody is told what comes then, {when}")
        self._bystander.phase(when)
        self._bystander.wait_published(BEFORE_PUBLISHES, limit_s)
        self._bystander.pause()
        self._bystander.wait_told(limit_s)
        self._check_tenancy(when, limit_s)
        self._check(self._loads() == before, f"nothing is loaded anew any more, {when}")
        self._check(not crowd.wrong(), "nothing is told that was not published, and nothing goes backwards")

    def _check_tenancy(self, when: str, limit_s: float) -> None:
        """What is agreed behind hostile records is heeded, and what is used is counted and can be looked at."""
        probe = f"{PROBE}.{when.split()[-1]}"
        self._agree(probe, 0.1)
        url = f"{self._up.http_url}/v1/domains/{probe}/groups/g/objects/o"
        self._until(lambda: self._status(url, b"{}", "POST") == 429, limit_s, f"an agreement is heeded, {when}")
        look = f"{self._up.http_url}/v1/tenants/{BYSTANDERS}"

        def counted() -> bool:
            with suppress(OSError):
                return bool((get_json(look)["now"] or {}).get("gauges", {}).get("objects"))
            return False

        self._until(counted, limit_s, f"what a tenant has is counted, {when}")
        self._until(lambda: self._status(f"{look}/usage") == 200, limit_s, f"the usage history is read, {when}")

    def _agree(self, tenant: str, in_per_s: float) -> None:
        agreement = json.dumps({"domains": [tenant], "in_per_s": in_per_s, "objects_max": 1_000_000}).encode()
        url = f"{self._up.http_url}/v1/tenants/{tenant}"
        self._until(lambda: self._status(url, agreement, "PUT") == 200, self._arguments.late_s, "tenants can be set")

    def _status(self, url: str, body: bytes | None = None, method: str = "GET") -> int:
        """Of the answer; 0: none."""
        try:
            with urlopen(HttpRequest(url, body, {"Content-Type": "application/json"}, method=method), timeout=LOOK_S):
                return 200
        except HTTPError as error:
            with error:
                return error.code
        except OSError:
            return 0

    def _topics_are_read(self) -> None:
        """By who looks in, and by the checker."""
        dump = self._arguments.directory / "topics.jsonl"
        argv = [sys.executable, "-m", "coldnotify_cli.main", "topics", "dump", str(dump)]
        argv += [f"--kafka={self._up.kafka}", f"--topics-timeout-s={COMMAND_S - 10}"]
        done = subprocess.run(argv, stderr=subprocess.PIPE, timeout=COMMAND_S, check=False)
        words = done.stderr.decode(errors="replace")[-SHOWN_CHARS:]
        self._check(done.returncode == 0, f"coldnotify topics dump reads the topics ({done.returncode}: {words})")
        if done.returncode == 0:
            try:
                merge(read_histories([dump]), TopicNames())
            except Exception as error:
                self._check(False, f"the checker reads the topics ({error!r})")

    def _judge_bystander(self) -> None:
        for phase in self._bystander.phases:
            print(f"bystander {phase.words}")
            self._check(not phase.untold, f"the bystander is told all that is published, {phase.name}")
            self._check(not phase.failed, f"the bystander's publisher is served, {phase.name}")
        for line in hostile_findings.deaths(self._up.log_lines()):
            print(f"  {line[:SHOWN_CHARS]}")

    def _start_again(self) -> None:
        self._check(self._up.stop() == 0, "everything stops in order")
        self._up.start()
        self._pids = dict(self._up.report["pids"])
        self._settle("after the restart")
        samples = self._matchers()
        self._check(not self._sum(samples, RELOADS), "no run of a matcher fails after the restart")
        self._check(
            samples[PARTITION_RELOADS] <= RESTART_RELOADS_MAX,
            "few partitions are loaded anew after the restart",
        )
        self._deaths()
        print(f"restart: partition reloads {samples[PARTITION_RELOADS]:.0f}, run reloads", end=" ")
        print(f"{self._sum(samples, RELOADS):.0f}, partitions waiting {self._sum(samples, WAITING):.0f}")

    def _until(self, condition: Callable[[], object], limit_s: float, what: str) -> None:
        try:
            wait_for(condition, what, limit_s)
        except AssertionError:
            self._check(False, what)

    def _unready(self) -> list[str]:
        report = self._up.report
        found = []
        for address in (*report["matchers"], *report["gateways_http"], report["http"], report["usage"]):
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
        return self._sum(samples, RELOADS), samples[PARTITION_RELOADS]

    def _table(self) -> None:
        samples, gateways = self._matchers(), self._samples("gateways_http")
        writer = self._writer
        print(f"\n{'topic':26} {'written':>8} {'refused':>8} {'no answer':>10} {'not understood':>15} {'raised':>7}")
        for topic in WEIGHTS:
            aside = [samples.get((SET_ASIDE, (topic, why)), 0.0) for why in ("not_understood", "raised")]
            if topic == TOPICS.notifications:
                aside[0] = self._sum(gateways, MALFORMED)
            counts = [of_topic(counted, topic) for counted in (writer.written, writer.refused, writer.unanswered)]
            print(f"{topic:26} {counts[0]:8} {counts[1]:8} {counts[2]:10} {aside[0]:15.0f} {aside[1]:7.0f}")
        for kind, topics in sorted(by_kind(writer.refused).items()):
            names = Counter(name for (_, one, name), _ in writer.refused.items() if one == kind)
            print(f"refused by Kafka, {kind}: in {len(topics)} topics ({', '.join(sorted(names))})")
        for kind, topics in sorted(by_kind(writer.unanswered).items()):
            print(f"not answered by Kafka, {kind}: in {len(topics)} topics")
        print(f"rejected of objects: {self._sum(samples, REJECTED_TOTAL):.0f}")
        print(f"partition reloads {samples[PARTITION_RELOADS]:.0f}, run reloads", end=" ")
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
                    for one in shown.get("items") or shown.get("partitions", ()):
                        if one["partition"] in numbers:
                            print(f"{kind} {address}: {one}")
        for (name, labels), value in self._matchers().items():
            if name.startswith("coldnotify_matcher_lag_") and labels[0] in map(str, numbers):
                print(f"{name} of partition {labels[0]}: {value:.0f}")

    def _raised(self) -> None:
        """Records that a handler raised over are contained, and faults of ours all the same: each is named."""
        found = hostile_findings.raised(self._up.kafka)
        for one in found[:SHOWN]:
            print(f"raised {one.times} times: {one.words}\n  such as {one.example}")
        self._check(not found, "no handler of a matcher raises over a record")

    def _exceptions(self) -> None:
        for one in hostile_findings.tracebacks(self._up.log_lines())[:SHOWN]:
            print(f"traceback, {one.times} times: {one.words}\n{one.example}")


def topic_id(kafka: str) -> str:
    """Of requests, as claims name it."""
    admin = AdminClient({"bootstrap.servers": kafka})
    described = admin.describe_topics(TopicCollection([TOPICS.requests]))
    return str(described[TOPICS.requests].result(LOOK_S).topic_id)


def shortest(message: Protobuf) -> str:
    """In one line."""
    return MessageToString(message, as_one_line=True)


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0], allow_abbrev=False)
    parser.add_argument("--records", type=int, default=20_000, help="how many (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of what is drawn (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=600, help="no longer than this (default: %(default)s)")
    parser.add_argument("--topics", default=",".join(WEIGHTS), help="only these (default: all)")
    parser.add_argument("--kinds", default=",".join(KINDS), help="of batches, only these (default: all)")
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
    arguments.kinds = tuple(arguments.kinds.split(","))
    if unknown := set(arguments.kinds) - KINDS.keys() - {AS_DRAWN}:
        parser.error(f"--kinds: {', '.join(sorted(unknown))}: none of {', '.join(KINDS)}, {AS_DRAWN}")
    # The publisher's Kafka client reports what it meets while Kafka is started again.
    logging.getLogger().addHandler(logging.NullHandler())
    directory = Path(tempfile.mkdtemp(prefix="coldnotify-fuzz-"))
    arguments.directory = directory
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
    with running(directory, "--gateways=2", "--matchers=2", channel_retentions=RETENTIONS) as up:
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
        bystander = Bystander(BYSTANDERS, BYSTANDERS_GROUP, kafka=up.kafka, gateway=up.gateway, directory=directory)
        fuzz = Fuzz(up, crowd, bystander, arguments)
        try:
            fuzz.run()
        except (AssertionError, OSError, KafkaException, PublishError) as error:
            fuzz.failures.append(f"the run ended early: {error}")
        finally:
            fuzz.end()
            bystander.stop()
            crowd.end()
    return fuzz.failures


if __name__ == "__main__":
    sys.exit(main())
