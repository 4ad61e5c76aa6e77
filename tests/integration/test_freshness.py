"""P11, with real processes: a client says as of when it knows everything, and is never wrong about that."""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from urllib.request import Request

import pytest
from coldnotify import Connection, Notify, State
from coldnotify.errors import ServiceFresh, ServiceStale
from coldnotify.publisher import Publisher
from coldnotify_kafka.broker.freezing import frozen
from coldnotify_schemas.partitioner import partition_of
from coldnotify_testkit.command import coldnotify
from coldnotify_testkit.fetching import fetch
from coldnotify_testkit.fresh_judge import FreshJudge, FreshSample, JudgedClient
from coldnotify_testkit.slow_link import slow_link
from coldnotify_testkit.stack import Recorder, Up, running
from coldnotify_testkit.waiting import WAIT_S, wait_for

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600), pytest.mark.own_broker("suspends Kafka")]

DOMAIN, GROUP = "animal.observer", "region-1"
KEEPALIVE_S = 2
PARTITIONS = 2


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    with running(tmp_path_factory.mktemp("up"), f"--partitions={PARTITIONS}") as one:
        yield one


@dataclass
class Publishing:
    """Publishes rising versions of one object, and notes when each was acknowledged."""

    publisher: Publisher
    name: str
    domain: str
    group: str
    acknowledged: list[tuple[float, int]] = field(default_factory=list)

    def publish(self, count: int = 1, payload: object = None) -> int:
        for _ in range(count):
            version = len(self.acknowledged) + 1
            self.publisher.publish(self.domain, self.group, self.name, payload, version=version)
            self.acknowledged.append((time.time(), version))
        return len(self.acknowledged)


NewPublishing = Callable[..., Publishing]


@pytest.fixture
def publishing(up: Up) -> Iterator[NewPublishing]:
    with ExitStack() as stack:

        def new(name: str, domain: str = DOMAIN, group: str = GROUP) -> Publishing:
            return Publishing(stack.enter_context(up.publisher(timeout_s=WAIT_S)), name, domain, group)

        yield new


@dataclass
class Fresh(JudgedClient):
    recorder: Recorder = field(default_factory=Recorder)
    errors: list[Exception] = field(default_factory=list)

    def said(self, kind: type[Exception]) -> int:
        return sum(isinstance(error, kind) for error in list(self.errors))


@contextmanager
def client(up: Up, to: Publishing, client_id: str, *, port: int = 0, keepalive_s: int = KEEPALIVE_S) -> Iterator[Fresh]:
    """A client that is caught up."""
    host, gateway_port = up.gateway
    recorder, errors = Recorder(), list[Exception]()
    fresh_s = keepalive_s + 13
    connection = Connection(host, port or gateway_port, keepalive_s=keepalive_s, fresh_s=fresh_s, backoff_max_s=1)
    notify = Notify(to.domain, to.group, client_id, State(None), connection, on_error=errors.append)
    notify.register(to.name).subscribe(recorder)
    notify.connect()
    try:
        wait_for(lambda: notify.caught_up, "it is caught up")
        one = Fresh(
            notify, fresh_s, lambda: recorder.newest(to.name) or 0, to.acknowledged, recorder=recorder, errors=errors
        )
        yield one
    finally:
        notify.disconnect()


def caught_up_again(one: Fresh) -> None:
    since = time.time()
    wait_for(lambda: one.notify.caught_up and one.as_of > since, "it is fresh as of a later time")


def test_a_client_says_that_it_is_stale_while_kafka_is_silent(up: Up, publishing: NewPublishing) -> None:
    objects = publishing("silent/kafka")
    with client(up, objects, "silent-kafka") as one, FreshJudge(one):
        objects.publish(3)
        wait_for(lambda: one.told() == 3, "it is told")
        with frozen(up.report["pids"]["broker"]):
            wait_for(lambda: one.said(ServiceStale), "it says that it is stale")
            assert not one.notify.caught_up
            assert one.notify.connected, "its connection stays"
        wait_for(lambda: one.said(ServiceFresh), "it says that it is fresh again")
        objects.publish()
        caught_up_again(one)
        assert (one.said(ServiceStale), one.said(ServiceFresh)) == (1, 1)
        wait_for(lambda: one.told() == 4, "it is told what came since")


def test_operators_see_who_is_stale_and_for_how_long(up: Up, publishing: NewPublishing) -> None:
    objects = publishing("silent/shown")

    def shown() -> dict[str, object]:
        (row,) = fetch(f"{up.http_url}/v1/clients?id={DOMAIN}/{GROUP}/silent-shown").json()["items"]
        return dict(row)

    with client(up, objects, "silent-shown") as one, FreshJudge(one):
        wait_for(lambda: shown()["age_s"] in range(8), "its age is a few seconds")
        with frozen(up.report["pids"]["broker"]):
            wait_for(lambda: fetch(f"{up.http_url}/v1/overview").json()["stale"], "its gateway counts it")
            top = coldnotify("top", "--once", "--http", str(up.report["http"]))
            assert "stale 1" in top.stdout.splitlines()[0]
        wait_for(lambda: not fetch(f"{up.http_url}/v1/overview").json()["stale"], "it is none any more")
        caught_up_again(one)


def test_a_matcher_that_works_off_a_backlog_makes_nobody_fresh(up: Up, publishing: NewPublishing) -> None:
    objects = publishing("backlog/a")
    with client(up, objects, "backlog") as one, FreshJudge(one):
        objects.publish()
        with frozen(up.report["pids"]["matcher"]):
            objects.publish()
            first_at, _ = objects.acknowledged[-1]
            wait_for(lambda: time.time() > first_at + 12, "more is missing than an age that is left out")
            objects.publish(2000)
            assert one.told() <= 1
        caught_up_again(one)
        assert one.told() == 2002


def test_a_client_that_is_told_things_all_the_time_stays_fresh(up: Up, publishing: NewPublishing) -> None:
    objects = publishing("busy/a")
    with client(up, objects, "busy") as one, FreshJudge(one), ExitStack() as stack:
        stopping = threading.Event()

        def publish() -> None:
            while not stopping.wait(0.05):
                objects.publish()

        thread = threading.Thread(target=publish)
        thread.start()
        stack.callback(thread.join)
        stack.callback(stopping.set)
        began = time.time()
        wait_for(lambda: one.as_of > began + 4 * KEEPALIVE_S, "four keepalives later it is as fresh as before")


def test_a_slow_link_makes_nobody_wrong(up: Up, publishing: NewPublishing) -> None:
    objects = publishing("slow/a")
    host, port = up.gateway
    with (
        slow_link(host, port, bits_per_s=9_600) as link,
        client(up, objects, "slow", port=link.port) as one,
        FreshJudge(one),
    ):
        for _ in range(3):
            objects.publish(20, "x" * 400)
        caught_up_again(one)
        assert one.told() == 60


UNIT = """
import json, sys, threading, time
import coldnotify
port, name = sys.argv[1:]
connection = coldnotify.Connection("127.0.0.1", int(port), keepalive_s=1, fresh_s=13.5)
told = [0]
notify = coldnotify.Notify("animal.observer", "region-1", "suspended", coldnotify.State(None), connection)
notify.register(name).subscribe(lambda n: told.append(n.version or 0))
notify.connect()
while True:
    at = time.time()
    status = notify.status
    print(json.dumps([at, status.fresh_as_of, status.caught_up, told[-1]]), flush=True)
    time.sleep(0.002)
"""


def test_a_device_that_was_suspended_never_says_that_it_is_caught_up_by_what_is_old(
    up: Up, publishing: NewPublishing
) -> None:
    objects = publishing("suspended/a")
    argv = [sys.executable, "-c", UNIT, str(up.gateway[1]), objects.name]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as device:
        try:
            assert device.stdout is not None
            one = JudgedClient(None, 13.5, lambda: 0, objects.acknowledged)  # type: ignore[arg-type]
            lines = map(json.loads, device.stdout)

            def until_caught_up(version: int) -> None:
                said = next(sample for sample in lines if judged(sample).caught_up and sample[3] == version)
                assert said

            def judged(sample: list[float | bool | None]) -> FreshSample:
                said = FreshSample(*sample)  # type: ignore[arg-type]
                one.judge(said)
                return said

            def suspended_for_long(since: float) -> bool:
                return time.time() - since > 20

            until_caught_up(0)
            for version in (1, 2):
                since = time.time()
                with frozen(device.pid):
                    objects.publish()
                    wait_for(partial(suspended_for_long, since), "it is suspended for longer than fresh_s")
                until_caught_up(version)
            assert not one.faults, one.faults[:5]
        finally:
            device.kill()


def test_a_tenant_far_above_its_agreement_makes_no_other_one_stale(up: Up, publishing: NewPublishing) -> None:
    mine = publishing("beside/b", "tenant.b", "g")
    partition = partition_of(mine.domain, mine.group, PARTITIONS)
    group = next(name for name in map(str, range(99)) if partition_of("tenant.a", name, PARTITIONS) == partition)
    done = coldnotify("tenant", "set", "a", "--domain", "tenant.a", "--out-per-s", "10", **up.in_kafka)
    assert done.returncode == 0, done.stderr
    flood = [publishing(f"flood/{n}", "tenant.a", group) for n in range(20)]
    with ExitStack() as stack:
        theirs = [stack.enter_context(client(up, one, f"a-{n}", keepalive_s=5)) for n, one in enumerate(flood)]
        b = stack.enter_context(client(up, mine, "b", keepalive_s=5))
        stack.enter_context(FreshJudge(b, *theirs))
        stopping = threading.Event()

        def publish(one: Publishing) -> None:
            while not stopping.wait(0.1):
                one.publish()

        threads = [threading.Thread(target=publish, args=(one,)) for one in flood]
        for thread in threads:
            thread.start()
            stack.callback(thread.join)
        stack.callback(stopping.set)
        began = time.time()
        wait_for(lambda: b.as_of > began + 20, "B is as fresh as ever 20 s later")
        mine.publish()
        wait_for(lambda: b.told() == 1, "and is told at once")
        assert not b.said(ServiceStale)


def sync(up: Up, asked: Mapping[str, object]) -> dict[str, Any]:
    request = Request(f"{up.http_url}/v1/sync", json.dumps(asked).encode(), {"Content-Type": "application/json"})
    return dict(fetch(request).json())


def test_sync_says_as_of_when_its_answer_is_whole(up: Up, publishing: NewPublishing) -> None:
    objects = publishing("sync/a")
    objects.publish()
    asked = {"domain": DOMAIN, "group": GROUP, "client": "syncs", "registrations": [objects.name]}
    answer = sync(up, asked)
    assert (answer["held_s"], answer["age_s"]) == (0, 6)
    held = sync(up, {**asked, "cursor": answer["cursor"], "wait_s": 8})
    assert held["notifications"] == []
    assert held["held_s"] >= 8
    assert held["age_s"] is not None
