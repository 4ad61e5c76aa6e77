"""Shares by POST /v1/sync: workers that know HTTP alone, through real gateways, matchers and Kafka.

A lease goes on between requests, also at another gateway; what was told as settled is handed to nobody again.
"""

import json
import re
import signal
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from coldnotify import Connection, LeasedMessage, Message, Notify, State
from coldnotify_kafka.broker import EmbeddedBroker
from coldnotify_schemas.channels import MessageHeaders, message_headers
from coldnotify_schemas.topics import TopicNames
from coldnotify_testkit.gateway_process import GatewayProcess
from coldnotify_testkit.matcher_process import DOMAIN, GROUP, PARTITION, MatcherProcess, group_of
from coldnotify_testkit.waiting import WAIT_S, wait_for
from confluent_kafka import Producer

pytestmark = pytest.mark.kafka

TOPICS = TopicNames()
LONG_S = 600
"""No test waits for the end of such a lease, however busy the machine is."""


class Sender:
    """Sends tasks as a back-end does."""

    def __init__(self, bootstrap: str) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})

    def send(self, *tasks: str, key: str = "", payload: bytes | None = None, expires_at: int = 0) -> None:
        """Tasks are durable when this returns."""
        for task in tasks:
            said = MessageHeaders(id=task, key=key, expires_at=expires_at or None)
            headers: Any = list(message_headers(said))
            value = json.dumps(task).encode() if payload is None else payload
            self._producer.produce(TOPICS.channels_1d, value, f"{DOMAIN}/{GROUP}/tasks", PARTITION, headers=headers)
        assert self._producer.flush(WAIT_S) == 0


class Curl:
    """A worker without a library: one request after the other, each at the first gateway that answers."""

    def __init__(self, name: str, *gateways: GatewayProcess, **share: Any) -> None:
        self.name = name
        self.gateways = list(gateways)
        self.share = {"channel": "tasks", "share": "workers", "since": "oldest", "lease_s": LONG_S, **share}
        self.refused = 0
        """Number of requests that were not answered with 200."""

    def ask(self, held: dict[str, str] | None = None, *, after_s: int = 0, **more: Any) -> dict[str, Any]:
        """Asks until it is answered, for at most WAIT_S. `held`: the state of each lease. Returns what the answer says
        of the share."""
        said = [
            {"lease": lease, "state": state, **({"after_s": after_s} if state in ("failed", "back") else {})}
            for lease, state in (held or {}).items()
        ]
        end = time.monotonic() + WAIT_S
        while time.monotonic() < end:
            for gateway in self.gateways:
                status, answer = self.post(gateway, {"shares": [{**self.share, "held": said}], **more})
                if status == 200:
                    (share,) = answer["shares"]
                    return dict(share)
                assert status in (0, 409, 503), answer
                self.refused += 1
                time.sleep(0.2)
        raise AssertionError(f"{self.name} has no answer")

    def post(self, gateway: GatewayProcess, fields: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """One request. Returns the status, and 0 without an answer."""
        who = {"domain": DOMAIN, "group": GROUP, "client": self.name, "registrations": []}
        body = json.dumps({**who, **fields}).encode()
        url = f"http://127.0.0.1:{gateway.web_port}/v1/sync"
        request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=WAIT_S) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())
        except (OSError, ValueError):
            return 0, {}

    def take(self, held: dict[str, str] | None = None, count: int = 1, **more: Any) -> list[dict[str, Any]]:
        """Asks until so much is handed out at once."""
        end = time.monotonic() + WAIT_S
        while time.monotonic() < end:
            handed = self.ask(held, wait_s=5, **more)["handed"]
            if handed:
                assert len(handed) == count, handed
                return list(handed)
        raise AssertionError(f"{self.name} is handed nothing")


@pytest.fixture
def matcher(fresh_kafka: EmbeddedBroker, tmp_path: Path) -> Iterator[MatcherProcess]:
    with MatcherProcess(fresh_kafka.bootstrap, tmp_path / "matcher.log") as running:
        running.wait_serving()
        yield running


@pytest.fixture
def gateway(fresh_kafka: EmbeddedBroker, matcher: MatcherProcess) -> Iterator[GatewayProcess]:
    with GatewayProcess(fresh_kafka.bootstrap) as running:
        yield running.wait_ready()


@pytest.fixture
def sender(fresh_kafka: EmbeddedBroker) -> Sender:
    return Sender(fresh_kafka.bootstrap)


def payloads(handed: list[dict[str, Any]]) -> list[str]:
    return [one["payload"] for one in handed]


def test_workers_by_http_and_by_the_library_have_each_task_once(gateway: GatewayProcess, sender: Sender) -> None:
    tasks = [f"t-{number}" for number in range(40)]
    done: list[tuple[str, str]] = []
    over = threading.Event()

    def work(name: str) -> None:
        curl, held = Curl(name, gateway, prefetch=2), dict[str, str]()
        while not over.is_set() or held:
            share = curl.ask(held, wait_s=0 if over.is_set() else 1)
            assert sorted(share["settled"]) == sorted(held)
            assert not share["lost"]
            done.extend((name, payload) for payload in payloads(share["handed"]))
            held = {one["lease"]: "done" for one in share["handed"]}

    library = Notify(DOMAIN, GROUP, "library", State(None), Connection("127.0.0.1", gateway.port))
    share = library.channel("tasks", share="workers", since="oldest", lease_s=LONG_S)
    share.subscribe(lambda task: done.append(("library", task.payload)))
    threads = [threading.Thread(target=work, args=(name,)) for name in ("a", "b", "c")]
    with library:
        assert library.wait_caught_up(WAIT_S)
        for thread in threads:
            thread.start()
        try:
            for task in tasks:
                sender.send(task)
            wait_for(lambda: len(done) >= len(tasks), "each task is done")
        finally:
            over.set()
            for thread in threads:
                thread.join(WAIT_S)
    assert Counter(payload for _, payload in done) == Counter(tasks), done
    assert len({name for name, _ in done}) > 1, "several of them had some"


def test_a_dead_workers_task_goes_to_another_one_after_its_lease_and_not_before(
    gateway: GatewayProcess, sender: Sender
) -> None:
    sender.send("first")
    dies, stays = Curl("dies", gateway, lease_s=6), Curl("stays", gateway)
    (task,) = dies.take()
    asked_at = time.monotonic()
    share = dies.ask({task["lease"]: "begun"})
    ends_in_s = share["held"][task["lease"]]
    assert 3 < ends_in_s <= 5.7, "95 % of the lease from the answer's making"
    assert stays.ask()["handed"] == [], "its lease goes on without a session"
    sender.send("second")
    (second,) = stays.take()
    assert second["payload"] == "second"
    (again,) = stays.take({second["lease"]: "done"})
    assert time.monotonic() - asked_at >= ends_in_s, "it was handed out before its lease was over"
    assert (again["payload"], again["attempts"], task["attempts"]) == ("first", 1, 0)
    dies.share["prefetch"] = 0
    late = dies.ask({task["lease"]: "done"})
    assert (late["lost"], late["settled"]) == ([task["lease"]], [])
    assert stays.ask({again["lease"]: "done"})["settled"] == [again["lease"]]


def test_an_attempt_counts_only_when_begun_and_a_lost_answer_comes_again(
    gateway: GatewayProcess, sender: Sender
) -> None:
    sender.send("first")
    curl = Curl("a", gateway)
    (task,) = curl.take()
    (again,) = curl.take()  # as if the answer had not arrived: it names nothing
    assert (again["lease"], again["attempts"]) == (task["lease"], 0)
    given = curl.ask({task["lease"]: "back"}, wait_s=5)
    assert given["settled"] == [task["lease"]]
    (third,) = given["handed"] or curl.take()
    assert (third["attempts"], third["lease"] == task["lease"]) == (0, False)
    (fourth,) = curl.take({third["lease"]: "failed"})
    assert fourth["attempts"] == 1


def test_settled_is_told_when_it_is_durable_and_holds_for_the_next_matcher(
    fresh_kafka: EmbeddedBroker, matcher: MatcherProcess, sender: Sender, tmp_path: Path
) -> None:
    sender.send("first", "second")
    with GatewayProcess(fresh_kafka.bootstrap, gateway_sync_s=1) as gateway:
        gateway.wait_ready()
        curl = Curl("a", gateway)
        (task,) = curl.take()
        settles = {"shares": [{**curl.share, "prefetch": 0, "held": [{"lease": task["lease"], "state": "done"}]}]}
        matcher.send(signal.SIGSTOP)
        try:
            status, answer = curl.post(gateway, settles)
            assert status == 503, answer
        finally:
            matcher.send(signal.SIGCONT)
        end = time.monotonic() + WAIT_S
        while status != 200:
            assert time.monotonic() < end, answer
            status, answer = curl.post(gateway, settles)
        assert answer["shares"][0]["settled"] == [task["lease"]]
        matcher.kill()
        log = tmp_path / "matcher.log"
        with MatcherProcess(fresh_kafka.bootstrap, tmp_path / "next.log", matcher_group=group_of(log)):
            other = Curl("b", gateway, prefetch=5)
            assert payloads(other.take()) == ["second"]


def test_a_lease_goes_on_at_another_gateway_and_behind_a_takeover(
    fresh_kafka: EmbeddedBroker, matcher: MatcherProcess, sender: Sender, tmp_path: Path
) -> None:
    sender.send("first", "second")
    with ExitStack() as stack:
        here, there = (stack.enter_context(GatewayProcess(fresh_kafka.bootstrap)).wait_ready() for _ in range(2))
        curl, other = Curl("a", here, there), Curl("b", there, prefetch=5)
        (task,) = curl.take()
        here.kill()
        assert list(curl.ask({task["lease"]: "begun"})["held"]) == [task["lease"]]
        assert curl.refused, "the killed one did not answer"
        (second,) = other.take()
        assert second["payload"] == "second"
        matcher.kill()
        log = tmp_path / "matcher.log"
        stack.enter_context(MatcherProcess(fresh_kafka.bootstrap, tmp_path / "next.log", matcher_group=group_of(log)))
        share = other.ask({second["lease"]: "done"})
        assert (share["handed"], share["settled"]) == ([], [second["lease"]])
        share = curl.ask({task["lease"]: "waits"})
        assert (list(share["held"]), share["lost"]) == ([task["lease"]], [])
        assert curl.ask({task["lease"]: "done"})["settled"] == [task["lease"]]
        assert curl.ask({task["lease"]: "done"})["settled"] == [task["lease"]], "an answer that was lost is asked again"


def test_a_matcher_and_a_gateway_die_while_workers_ask(
    fresh_kafka: EmbeddedBroker, matcher: MatcherProcess, sender: Sender, tmp_path: Path
) -> None:
    tasks = [f"t-{number}" for number in range(60)]
    begun: list[str] = []
    settled: list[str] = []
    over = threading.Event()
    failures: list[BaseException] = []

    def work(name: str, *gateways: GatewayProcess) -> None:
        curl = Curl(name, *gateways)
        held: dict[str, str] = {}
        names: dict[str, str] = {}
        try:
            while not over.is_set() or held:
                share = curl.ask(held, wait_s=0 if over.is_set() else 1)
                assert not share["lost"], share
                settled.extend(names[lease] for lease in share["settled"])
                names |= {one["lease"]: one["payload"] for one in share["handed"]}
                begun.extend(payloads(share["handed"]))
                held = {one["lease"]: "done" for one in share["handed"]}
        except BaseException as error:
            failures.append(error)

    with ExitStack() as stack:
        here, there = (stack.enter_context(GatewayProcess(fresh_kafka.bootstrap)).wait_ready() for _ in range(2))
        threads = [threading.Thread(target=work, args=(name, here, there)) for name in ("a", "b")]
        threads += [threading.Thread(target=work, args=(name, there, here)) for name in ("c", "d")]
        for thread in threads:
            thread.start()
        try:
            for number, task in enumerate(tasks):
                sender.send(task)
                if number == 20:
                    wait_for(lambda: len(settled) > 5 or failures, "some are settled")
                    matcher.kill()
                    log = tmp_path / "matcher.log"
                    stack.enter_context(
                        MatcherProcess(fresh_kafka.bootstrap, tmp_path / "next.log", matcher_group=group_of(log))
                    )
                if number == 40:
                    wait_for(lambda: len(settled) > 25 or failures, "others are settled")
                    here.kill()
            wait_for(lambda: set(settled) == set(tasks) or failures, "all are settled")
        finally:
            over.set()
            for thread in threads:
                thread.join(WAIT_S)
    assert not failures, failures
    assert Counter(settled) == Counter(tasks)
    # Twice in a hand only if its answer was lost on the way; each was settled by one.
    assert set(begun) == set(tasks)


def test_tasks_of_one_key_come_in_order_also_across_a_retry(gateway: GatewayProcess, sender: Sender) -> None:
    for number in range(4):
        for key in ("x", "y"):
            sender.send(f"{key}{number}", key=key)
    curl = Curl("a", gateway, prefetch=10)
    told: dict[str, list[str]] = defaultdict(list)
    held: dict[str, str] = {}
    end = time.monotonic() + WAIT_S
    while sum(map(len, told.values())) < 10:
        assert time.monotonic() < end, told
        share = curl.ask(held, wait_s=5, after_s=1)
        held.clear()
        for one in share["handed"]:
            key = one["payload"][0]
            assert one["key"] == key
            told[key].append(one["payload"])
            failed = one["payload"].endswith("2") and not one["attempts"]
            held[one["lease"]] = "failed" if failed else "done"
    for key in ("x", "y"):
        assert told[key] == [f"{key}{number}" for number in (0, 1, 2, 2, 3)]


def test_a_task_that_fails_ten_times_or_is_rejected_is_a_dead_letter(gateway: GatewayProcess, sender: Sender) -> None:
    letters: list[Message] = []
    watcher = Notify(DOMAIN, GROUP, "watcher", State(None), Connection("127.0.0.1", gateway.port))
    watcher.channel("tasks.workers.dead").subscribe(letters.append)
    with watcher:
        assert watcher.wait_caught_up(WAIT_S)
        sender.send("bad", "worse")
        curl = Curl("a", gateway, prefetch=2)
        first = {one["payload"]: one["lease"] for one in curl.take(count=2)}
        share = curl.ask({first["worse"]: "rejected", first["bad"]: "failed"}, wait_s=5)
        assert sorted(share["settled"]) == sorted(first.values())
        handed = share["handed"] or curl.take()
        for attempts in range(1, 10):
            assert [(one["payload"], one["attempts"]) for one in handed] == [("bad", attempts)]
            lease = handed[0]["lease"]
            handed = curl.take({lease: "failed"}) if attempts < 9 else curl.ask({lease: "failed"}, wait_s=1)["handed"]
        assert handed == []
        wait_for(lambda: len(letters) == 2, "both dead letters")
    assert sorted(str(one.payload) for one in letters) == ["bad", "worse"]


def test_a_wait_prolongs_what_is_in_hand_and_ends_with_a_task(gateway: GatewayProcess, sender: Sender) -> None:
    sender.send("first")
    curl, other = Curl("a", gateway, lease_s=3, prefetch=2), Curl("b", gateway)
    (task,) = curl.take()
    answers: list[dict[str, Any]] = []
    thread = threading.Thread(target=lambda: answers.append(curl.ask({task["lease"]: "begun"}, wait_s=60)))
    begun = time.monotonic()
    thread.start()
    assert other.ask(wait_s=7)["handed"] == [], "it is prolonged as long as the request waits"
    sender.send("second")
    thread.join(WAIT_S)
    (share,) = answers
    assert 7 <= time.monotonic() - begun < 60, share
    assert payloads(share["handed"]) == ["second"]
    assert sorted(share["held"]) == sorted([task["lease"], share["handed"][0]["lease"]])
    assert all(1.5 < ends_in_s <= 2.85 for ends_in_s in share["held"].values())


def test_a_task_without_room_in_the_answer_is_given_back(gateway: GatewayProcess, sender: Sender) -> None:
    for number in range(4):
        sender.send(f"t-{number}", payload=json.dumps(f"{number}" * 700).encode())
    curl = Curl("a", gateway, prefetch=4)
    found: list[str] = []
    held: dict[str, str] = {}
    while len(found) < 4:
        (one,) = curl.take(held, bytes_max=1024)
        found.append(one["payload"][0])
        assert one["attempts"] == 0
        held = {one["lease"]: "done"}
    assert found == ["0", "1", "2", "3"]


def test_missing_tasks_are_told_to_one_and_settled_by_it(gateway: GatewayProcess, sender: Sender) -> None:
    sender.send("gone", expires_at=int(time.time() * 1000) - 1_000)
    sender.send("there")
    curl = Curl("a", gateway, prefetch=2)
    share = curl.ask(wait_s=5)
    found = share["handed"]
    end = time.monotonic() + WAIT_S
    while len(found) < 2:
        assert time.monotonic() < end, found
        found += curl.ask({one["lease"]: "waits" for one in found}, wait_s=5)["handed"]
    missed = next(one["missed"] for one in found if "missed" in one)
    assert (missed["before"], missed["reason"]) == (1, "expired")
    leases = [one["lease"] for one in found]
    assert sorted(curl.ask(dict.fromkeys(leases, "done"))["settled"]) == sorted(leases)


def test_the_shell_of_the_page_is_a_worker(gateway: GatewayProcess, sender: Sender) -> None:
    page = (Path(__file__).parents[2] / "docs" / "queues.md").read_text(encoding="utf-8")
    (shell,) = (one for one in re.findall(r"^```sh\n(.*?)^```", page, re.MULTILINE | re.DOTALL) if "/v1/sync" in one)
    for said, here in (("55002", str(gateway.web_port)), ("animal.observer", DOMAIN), ("region-1", GROUP)):
        assert said in shell
        shell = shell.replace(said, here)
    sender.send("north", "south")
    done = subprocess.run(["sh", "-ec", shell], capture_output=True, text=True, timeout=WAIT_S)
    assert done.returncode == 0, done.stderr
    first, begun, second = (json.loads(line)["shares"][0] for line in done.stdout.splitlines())
    lease = first["handed"][0]["lease"]
    assert (payloads(first["handed"]), list(begun["held"]), second["settled"]) == (["north"], [lease], [lease])
    assert payloads(second["handed"]) == ["south"]


def test_another_definition_of_the_share_is_refused(gateway: GatewayProcess) -> None:
    Curl("a", gateway).ask()
    share = Curl("b", gateway, attributes=["camera"]).ask(wait_s=60)
    assert share.keys() == {"channel", "share", "refused"}
    assert share["refused"].startswith("attributes: the share workers has none")


def test_leaving_the_share_gives_back_all_in_hand(gateway: GatewayProcess, sender: Sender) -> None:
    sender.send("first")
    leaves, stays = Curl("a", gateway), Curl("b", gateway)
    (task,) = leaves.take()
    assert stays.ask()["handed"] == []
    status, answer = leaves.post(gateway, {"shares": []})
    assert (status, "shares" in answer) == (200, False)
    (again,) = stays.take()
    assert (again["payload"], again["lease"] == task["lease"]) == ("first", False)


def test_a_library_member_takes_over_from_a_worker_that_gives_back(gateway: GatewayProcess, sender: Sender) -> None:
    sender.send("first")
    curl = Curl("a", gateway)
    (task,) = curl.take()
    told: list[LeasedMessage] = []
    library = Notify(DOMAIN, GROUP, "library", State(None), Connection("127.0.0.1", gateway.port))
    library.channel("tasks", share="workers", since="oldest", lease_s=LONG_S).subscribe(told.append)
    with library:
        assert library.wait_caught_up(WAIT_S)
        curl.share["prefetch"] = 0
        assert curl.ask({task["lease"]: "failed"})["settled"] == [task["lease"]]
        wait_for(lambda: told, "the library has it")
    assert (told[0].payload, told[0].attempts) == ("first", 1)
