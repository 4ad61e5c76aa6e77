"""Shares through real gateways, matchers and Kafka: workers, gateways and matchers are killed with tasks in hand.

No task is lost, or in two hands before the end of a lease. WORK_FAULTS=50 draws so many kills and stops.
"""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

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
FAULTS = int(os.environ.get("WORK_FAULTS", "4"))
LEASE_S = 60
"""No test waits for the end of such a lease, however busy the machine is."""


class Event(NamedTuple):
    """Something that happened to a task at a worker."""

    at: float
    worker: str
    task: str
    what: str
    attempts: int = 0


class History:
    """All that workers did, in the order of this machine's clock."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.events: list[Event] = []

    def note(self, worker: str, task: object, what: str, attempts: int = 0) -> None:
        """Something happens now."""
        with self._lock:
            self.events.append(Event(time.monotonic(), worker, str(task), what, attempts))

    def tasks(self, what: str) -> list[str]:
        """Returns the tasks to which this happened, in order."""
        with self._lock:
            return [one.task for one in self.events if one.what == what]

    def check(self) -> None:
        """No task is begun at a worker while another one has it and has not heard that its lease is lost."""
        holders: dict[str, str] = {}
        for one in self.events:
            if one.what == "begins":
                assert one.task not in holders, f"{one} while {holders[one.task]} has it\n{self}"
                holders[one.task] = one.worker
            elif holders.get(one.task) == one.worker:
                del holders[one.task]

    def __str__(self) -> str:
        return "\n".join(f"{one.at:.3f} {one.worker} {one.task} {one.what} {one.attempts}" for one in self.events)


class Worker:
    """A client that is a member of the share, and notes what it does."""

    def __init__(
        self,
        name: str,
        history: History,
        ports: list[int],
        work: Callable[[LeasedMessage], object] = lambda _: None,
        *,
        lease_s: int = LEASE_S,
        channel: str = "tasks",
    ) -> None:
        self.name, self._history, self._work = name, history, work
        connection = Connection([f"127.0.0.1:{port}" for port in ports], backoff_max_s=0.5, address_rest_s=1.0)
        self.notify = Notify(DOMAIN, GROUP, name, State(None), connection, retry_min_s=0.0)
        share = self.notify.channel(channel, share="workers", since="oldest", lease_s=lease_s, prefetch=2)
        share.subscribe(self._on_task, on_lost=lambda task: history.note(name, task.payload, "lost"))

    def _on_task(self, task: LeasedMessage) -> None:
        self._history.note(self.name, task.payload, "begins", task.attempts)
        try:
            self._work(task)
        except BaseException:
            self._history.note(self.name, task.payload, "fails", task.attempts)
            raise
        self._history.note(self.name, task.payload, "ends", task.attempts)


class Tasks:
    """Sends tasks as a back-end does."""

    def __init__(self, bootstrap: str, channel: str = "tasks") -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
        self._channel = f"{DOMAIN}/{GROUP}/{channel}"
        self.sent: list[str] = []

    def send(self, task: str, key: str = "") -> None:
        """A task is durable when this returns."""
        headers: Any = list(message_headers(MessageHeaders(id=task, key=key)))
        self._producer.produce(TOPICS.channels_1d, f'"{task}"', self._channel, PARTITION, headers=headers)
        assert self._producer.flush(WAIT_S) == 0
        self.sent.append(task)


@contextmanager
def at_work(*workers: Worker) -> Iterator[None]:
    """These are connected, and registered."""
    with ExitStack() as stack:
        for worker in workers:
            stack.enter_context(worker.notify)
            assert worker.notify.wait_caught_up(WAIT_S)
        yield


def all_end(history: History, tasks: Tasks) -> bool:
    return set(history.tasks("ends")) >= set(tasks.sent)


def wait_done(history: History, tasks: Tasks) -> None:
    """Waits until each task has been done."""
    try:
        wait_for(partial(all_end, history, tasks), "each task is done")
    except AssertionError:
        lacking = sorted(set(tasks.sent) - set(history.tasks("ends")))
        raise AssertionError(f"not done: {lacking}\n{history}") from None


def test_three_workers_have_each_task_once(fresh_kafka: EmbeddedBroker, tmp_path: Path) -> None:
    history, tasks = History(), Tasks(fresh_kafka.bootstrap)
    with (
        MatcherProcess(fresh_kafka.bootstrap, tmp_path / "matcher.log") as matcher,
        GatewayProcess(fresh_kafka.bootstrap) as gateway,
    ):
        matcher.wait_serving()
        workers = [Worker(name, history, [gateway.port]) for name in ("a", "b", "c")]
        with at_work(*workers):
            for number in range(60):
                tasks.send(str(number))
            wait_done(history, tasks)
    history.check()
    assert Counter(history.tasks("begins")) == Counter(tasks.sent), str(history)


_KILLED = """
import sys, threading
from coldnotify import Connection, Notify, State
notify = Notify({domain!r}, {group!r}, "killed", State(None), Connection("127.0.0.1", {port}))
def work(task):
    print(task.payload, flush=True)
    threading.Event().wait()
notify.channel("tasks", share="workers", since="oldest", lease_s=5).subscribe(work)
notify.connect()
threading.Event().wait()
"""


def test_a_killed_workers_task_goes_to_another_one_after_its_lease(fresh_kafka: EmbeddedBroker, tmp_path: Path) -> None:
    history, tasks = History(), Tasks(fresh_kafka.bootstrap)
    with (
        MatcherProcess(fresh_kafka.bootstrap, tmp_path / "matcher.log") as matcher,
        GatewayProcess(fresh_kafka.bootstrap) as gateway,
    ):
        matcher.wait_serving()
        program = _KILLED.format(domain=DOMAIN, group=GROUP, port=gateway.port)
        with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as killed:
            assert killed.stdout is not None
            try:
                tasks.send("first")
                assert killed.stdout.readline() == "first\n"
                with at_work(Worker("stays", history, [gateway.port])):
                    tasks.send("second")
                    wait_for(lambda: "second" in history.tasks("ends"), "the other worker has the next task")
                    assert "first" not in history.tasks("begins"), str(history)
                    killed.kill()
                    wait_done(history, tasks)
            finally:
                killed.kill()
    attempts = {one.task: one.attempts for one in history.events if one.what == "begins"}
    assert attempts == {"first": 1, "second": 0}, str(history)


_STOPPED = """
import threading
from coldnotify import Connection, Notify, State
notify = Notify({domain!r}, {group!r}, "stopped", State(None), Connection("127.0.0.1", {port}))
lost = threading.Event()
def work(task):
    print("begins", flush=True)
    lost.wait()
    print("lost", task.is_lost, flush=True)
notify.channel("tasks", share="workers", since="oldest", lease_s=5).subscribe(work, on_lost=lambda task: lost.set())
notify.connect()
threading.Event().wait()
"""


def test_a_worker_that_was_stopped_hears_that_its_lease_is_lost(fresh_kafka: EmbeddedBroker, tmp_path: Path) -> None:
    history, tasks = History(), Tasks(fresh_kafka.bootstrap)
    with (
        MatcherProcess(fresh_kafka.bootstrap, tmp_path / "matcher.log") as matcher,
        GatewayProcess(fresh_kafka.bootstrap) as gateway,
    ):
        matcher.wait_serving()
        program = _STOPPED.format(domain=DOMAIN, group=GROUP, port=gateway.port)
        with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as stopped:
            assert stopped.stdout is not None
            try:
                tasks.send("first")
                assert stopped.stdout.readline() == "begins\n"
                stopped.send_signal(signal.SIGSTOP)
                with at_work(Worker("goes-on", history, [gateway.port])):
                    wait_done(history, tasks)
                    stopped.send_signal(signal.SIGCONT)
                    assert stopped.stdout.readline() == "lost True\n"
            finally:
                stopped.kill()
    assert history.tasks("begins") == ["first"], str(history)


def test_tasks_survive_a_killed_matcher_and_a_killed_gateway(fresh_kafka: EmbeddedBroker, tmp_path: Path) -> None:
    history, tasks = History(), Tasks(fresh_kafka.bootstrap)
    log = tmp_path / "matcher.log"
    with ExitStack() as stack:
        matcher = stack.enter_context(MatcherProcess(fresh_kafka.bootstrap, log))
        gateways = [stack.enter_context(GatewayProcess(fresh_kafka.bootstrap)) for _ in range(2)]
        matcher.wait_serving()
        ports = [one.port for one in gateways]

        def pause(_: LeasedMessage) -> None:
            time.sleep(0.05)

        workers = [
            Worker(name, history, ports[place % 2 :] + ports[: place % 2], pause) for place, name in enumerate("abcd")
        ]
        stack.enter_context(at_work(*workers))
        for number in range(200):
            tasks.send(str(number))
            if number == 50:
                wait_for(lambda: len(history.tasks("ends")) >= 20, "some are done")
                matcher.kill()
                matcher = stack.enter_context(
                    MatcherProcess(fresh_kafka.bootstrap, tmp_path / "next.log", matcher_group=group_of(log))
                )
            if number == 120:
                wait_for(lambda: len(history.tasks("ends")) >= 60, "others are done")
                gateways[0].kill()
        wait_done(history, tasks)
    history.check()


@pytest.mark.timeout(300 + 60 * FAULTS)
def test_drawn_kills_and_stops_give_no_task_to_two(fresh_kafka: EmbeddedBroker, tmp_path: Path) -> None:
    seed = random.randrange(1 << 30)
    draw, history, tasks = random.Random(seed), History(), Tasks(fresh_kafka.bootstrap)
    over = threading.Event()

    def work(task: LeasedMessage) -> None:
        number = int(str(task.payload))
        over.wait(0.02 if number % 8 else 6)  # some are in hand for longer than a takeover takes
        if number % 20 == 1 and not task.attempts:
            raise RuntimeError("each twentieth fails at first")
        if number % 7 == 0:
            task.done(WAIT_S)

    def send() -> None:
        while not over.wait(0.3):
            tasks.send(str(len(tasks.sent)), key=str(len(tasks.sent) % 40))

    with ExitStack() as stack:
        group = group_of(tmp_path / "matcher.log")

        def matcher(number: int) -> MatcherProcess:
            log = tmp_path / f"matcher-{number}.log"
            return stack.enter_context(
                MatcherProcess(fresh_kafka.bootstrap, log, matcher_group=group, matcher_id=str(number))
            )

        def gateway(port: int) -> GatewayProcess:
            return stack.enter_context(GatewayProcess(fresh_kafka.bootstrap, gateway_port=port))

        matchers, gateways = [matcher(0), matcher(1)], [gateway(0), gateway(0)]
        for one in matchers:
            one.wait_for(lambda one=one: one.ready, "it serves")  # type: ignore[misc]
        ports = [one.port for one in gateways]
        workers = [
            Worker(name, history, [*ports[place % 2 :], *ports[: place % 2]], work) for place, name in enumerate("abcd")
        ]
        stack.enter_context(at_work(*workers))
        sending = threading.Thread(target=send)
        sending.start()
        drawn: list[str] = []
        try:
            for number in range(FAULTS):
                done = len(history.tasks("ends"))
                what, place = draw.choice(("kill", "stop")), draw.randrange(4)
                drawn.append(f"{what} {'matcher' if place < 2 else 'gateway'} {place % 2}")
                here, at = (matchers, place) if place < 2 else (gateways, place - 2)
                victim = here[at]
                if what == "stop":
                    victim.send(signal.SIGSTOP)
                    time.sleep(draw.uniform(0.5, 8))  # a matcher's partitions are given to the other one after 3 s
                    victim.send(signal.SIGCONT)
                else:
                    victim.kill()
                    if place < 2:
                        matchers[at] = matcher(number + 2)
                    else:
                        gateways[at] = gateway(ports[at])
                wait_for(lambda done=done: len(history.tasks("ends")) > done + 5, "work goes on")  # type: ignore[misc]
                time.sleep(draw.uniform(0, 2))
        finally:
            over.set()
            sending.join()
        try:
            wait_done(history, tasks)
            history.check()
            assert not history.tasks("lost"), f"a lease ended before its time\n{history}"
        except AssertionError as error:
            raise AssertionError(f"seed {seed}, {drawn}: {error}") from None


def test_done_is_answered_through_another_gateway(fresh_kafka: EmbeddedBroker, tmp_path: Path) -> None:
    history, tasks = History(), Tasks(fresh_kafka.bootstrap)
    with ExitStack() as stack:
        matcher = stack.enter_context(MatcherProcess(fresh_kafka.bootstrap, tmp_path / "matcher.log"))
        gateways = [stack.enter_context(GatewayProcess(fresh_kafka.bootstrap)) for _ in range(2)]
        matcher.wait_serving()
        done = threading.Event()

        def work(task: LeasedMessage) -> None:
            if task.payload == "first":
                status = worker.notify.status
                (here,) = (one for one in gateways if str(status.address).endswith(f":{one.port}"))
                here.kill()
                task.done(WAIT_S)
                history.note("done", task.payload, "settled")
                done.set()
                raise RuntimeError("what comes behind has no effect")

        worker = Worker("a", history, [one.port for one in gateways], work)
        stack.enter_context(at_work(worker))
        tasks.send("first")
        assert done.wait(WAIT_S), str(history)
        stack.enter_context(at_work(Worker("b", history, [one.port for one in gateways])))
        tasks.send("second")
        wait_for(lambda: "second" in history.tasks("ends"), "the next task is done")
    assert history.tasks("begins").count("first") == 1, str(history)


def test_tasks_of_one_key_are_done_in_order(fresh_kafka: EmbeddedBroker, tmp_path: Path) -> None:
    history, tasks = History(), Tasks(fresh_kafka.bootstrap)

    def work(task: LeasedMessage) -> None:
        if not task.attempts and str(task.payload).endswith("3"):
            task.retry(after_s=1)

    with (
        MatcherProcess(fresh_kafka.bootstrap, tmp_path / "matcher.log") as matcher,
        GatewayProcess(fresh_kafka.bootstrap) as gateway,
    ):
        matcher.wait_serving()
        with at_work(*(Worker(name, history, [gateway.port], work) for name in ("a", "b", "c"))):
            for number in range(8):
                for key in ("x", "y"):
                    tasks.send(f"{key}{number}", key)
            wait_for(lambda: history.tasks("begins").count("x3") == history.tasks("begins").count("y3") == 2, "retries")
            wait_done(history, tasks)
    history.check()
    begun: dict[str, list[str]] = defaultdict(list)
    for task in history.tasks("begins"):
        begun[task[0]].append(task)
    for key in ("x", "y"):
        assert begun[key] == [f"{key}{n}" for n in (0, 1, 2, 3, 3, 4, 5, 6, 7)], str(history)


def test_a_task_that_fails_ten_times_is_a_dead_letter(fresh_kafka: EmbeddedBroker, tmp_path: Path) -> None:
    history, tasks = History(), Tasks(fresh_kafka.bootstrap)
    letters: list[Message] = []

    def fail(task: LeasedMessage) -> None:
        if task.payload == "bad":
            raise RuntimeError("no")

    with (
        MatcherProcess(fresh_kafka.bootstrap, tmp_path / "matcher.log") as matcher,
        GatewayProcess(fresh_kafka.bootstrap) as gateway,
    ):
        matcher.wait_serving()
        worker = Worker("a", history, [gateway.port], fail)
        worker.notify.channel("tasks.workers.dead").subscribe(letters.append)
        with at_work(worker):
            tasks.send("bad")
            tasks.send("good")
            wait_for(lambda: letters, "the dead letter")
            wait_for(lambda: "good" in history.tasks("ends"), "the other task")
    assert history.tasks("fails") == ["bad"] * 10, str(history)
    assert [one.attempts for one in history.events if one.what == "fails"] == list(range(10))
    assert (letters[0].payload, str(letters[0].id).partition("/")[0]) == ("bad", "workers")


def test_the_command_line_is_a_worker_too(fresh_kafka: EmbeddedBroker, tmp_path: Path) -> None:
    history, tasks = History(), Tasks(fresh_kafka.bootstrap)
    with (
        MatcherProcess(fresh_kafka.bootstrap, tmp_path / "matcher.log") as matcher,
        GatewayProcess(fresh_kafka.bootstrap) as gateway,
    ):
        matcher.wait_serving()
        command = [sys.executable, "-m", "coldnotify_cli.main", "watch", DOMAIN, GROUP, "looks", "--channel", "tasks"]
        command += ["--share", "workers", "--since", "oldest", "--ack", "--gateway", f"127.0.0.1:{gateway.port}"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watch:
            assert watch.stdout is not None
            try:
                tasks.send("first")
                line = watch.stdout.readline()
            finally:
                watch.terminate()
        assert line.split()[0] == "tasks"
        assert line.endswith('"first"\n')
        with at_work(Worker("a", history, [gateway.port])):
            tasks.send("second")
            wait_for(lambda: "second" in history.tasks("ends"), "the next task")
    assert history.tasks("begins") == ["second"], str(history)
