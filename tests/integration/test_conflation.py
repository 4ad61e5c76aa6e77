"""Publishes of one object in quick succession leave as few, the last of them the newest; the cursor waits for it."""

import re
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path

import pytest
from coldnotify import Connection, Notify, State
from coldnotify.publisher import Publisher
from coldnotify_kafka.broker import EmbeddedBroker
from coldnotify_kafka.broker.freezing import freeze, thaw
from coldnotify_schemas.partitioner import partition_of
from coldnotify_schemas.topics import TopicNames
from coldnotify_testkit.gateway_process import GatewayProcess
from coldnotify_testkit.kafka import committed
from coldnotify_testkit.matcher_process import PARTITIONS, MatcherProcess, group_of
from coldnotify_testkit.stack import Recorder, Stacks, Up, notify
from coldnotify_testkit.waiting import wait_for

TOPICS = TopicNames()

pytestmark = pytest.mark.kafka

DOMAIN, GROUP = "animal.observer", "region-1"
VERSIONS = 500
TUNED = "tuned.observer"
_INTERVAL = re.compile(rf'^coldnotify_matcher_conflation_interval_seconds{{domain="{TUNED}"}} (\S+)$', re.MULTILINE)


@pytest.fixture(scope="module")
def slowed(stacks: Stacks, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """Everything running; what follows a publish within 3 s is held, in another domain as long as gateways need."""
    conflation = f"{DOMAIN}=3000,{TUNED}=auto,*=0"
    with stacks.running(tmp_path_factory.mktemp("up"), matcher_conflation=conflation) as one:
        yield one


def settle(ou: Notify, told: Recorder, *names: str) -> None:
    """It is registered for these, and has been told what there is."""
    for name in names:
        ou.register(name).subscribe(told)
    assert ou.wait_caught_up(60)
    wait_for(lambda: ou.status.pending == 0, "all registrations are settled")


def test_of_many_versions_the_client_sees_few_and_the_newest_at_last(slowed: Up, tmp_path: Path) -> None:
    told = Recorder()
    with notify(slowed, "few", tmp_path / "state.json") as ou:
        settle(ou, told, "busy", "calm")
        with slowed.publisher() as publisher:
            for version in range(1, VERSIONS + 1):
                publisher.publish(DOMAIN, GROUP, "busy", version=version)
        wait_for(lambda: told.newest("busy") == VERSIONS, "the newest is told")
        versions = [n.version for n in told.seen if n.object_id == "busy" and n.version is not None]
        print(f"\n{VERSIONS} publishes, {len(versions)} told: {versions}")
        assert len(versions) <= VERSIONS // 10
        assert versions == sorted(versions)


def test_another_object_does_not_move_the_cursor_over_one_that_is_held(slowed: Up, tmp_path: Path) -> None:
    told = Recorder()
    with notify(slowed, "cursor", tmp_path / "state.json") as ou:
        settle(ou, told, "held", "other")
        with slowed.publisher() as publisher:
            publisher.publish(DOMAIN, GROUP, "held", version=1)
            wait_for(lambda: told.newest("held") == 1, "the first leaves at once")
            before = ou.status.cursor
            publisher.publish(DOMAIN, GROUP, "held", version=2)
            publisher.publish(DOMAIN, GROUP, "other", version=1)
            wait_for(lambda: told.newest("other") == 1, "another object's first leaves at once, too")
            cursor = ou.status.cursor
            if told.newest("held") == 1:  # it is held still: a busy machine may have taken 3 s for all this
                assert cursor == before or before is None
            wait_for(lambda: told.newest("held") == 2, "what was held leaves at the end of the interval")
            wait_for(lambda: (ou.status.cursor or 0) > (before or 0), "and the cursor moves")
    # A wake begins from what the cursor says: nothing was lost, nothing comes again.
    seen = len(told.seen)
    with notify(slowed, "cursor", tmp_path / "state.json") as ou:
        for name in ("held", "other"):
            ou.register(name).subscribe(told)
        assert ou.wait_caught_up(60)
    assert len(told.seen) == seen


def interval_s(up: Up) -> float:
    """Of the domain that tunes itself, as the matcher's metrics say."""
    with urllib.request.urlopen(f"{up.matcher_url}/metrics", timeout=60) as answer:
        said = _INTERVAL.search(answer.read().decode())
    assert said is not None
    return float(said[1])


def test_a_gateway_that_lags_makes_the_interval_grow_and_the_newest_is_told(slowed: Up) -> None:
    told, versions = Recorder(), count(1)
    host, port = slowed.gateway
    ou = Notify(domain=TUNED, group_id=GROUP, client_id="ou", state=State(None), connection=Connection(host, port))
    pids = slowed.report["pids"]
    pid = pids.get("gateway-1", pids.get("gateway"))
    with ou, slowed.publisher() as publisher:
        ou.register("busy").subscribe(told)
        wait_for(lambda: told.seen and ou.status.pending == 0, "it is registered")
        wait_for(lambda: interval_s(slowed) == 0, "nothing lags")

        def grows() -> bool:
            """The gateway runs for a moment of each second only, and says in its Beats how far it is."""
            freeze(pid)
            try:
                for _ in range(10):
                    publisher.publish(TUNED, GROUP, "busy", version=next(versions))
                    time.sleep(0.1)
            finally:
                thaw(pid)
            return interval_s(slowed) > 0

        wait_for(grows, "the interval grows")
        print(f"\nafter {next(versions) - 1} publishes: {interval_s(slowed)} s")
        newest = next(versions)
        publisher.publish(TUNED, GROUP, "busy", version=newest)
        wait_for(lambda: told.newest("busy") == newest, "the newest is told")


def test_a_matcher_killed_while_a_publish_is_held_back_owes_it(fresh_kafka: EmbeddedBroker, tmp_path: Path) -> None:
    kafka, told = fresh_kafka.bootstrap, Recorder()
    partition = partition_of(DOMAIN, GROUP, PARTITIONS)
    with ExitStack() as stack:
        gateway = stack.enter_context(GatewayProcess(kafka))
        killed = stack.enter_context(MatcherProcess(kafka, tmp_path / "killed", matcher_conflation="*=60000"))
        killed.wait_serving()
        gateway.wait_ready()
        connection = Connection("127.0.0.1", gateway.port)
        ou = Notify(domain=DOMAIN, group_id=GROUP, client_id="ou", state=State(None), connection=connection)
        stack.enter_context(ou)
        ou.register("held").subscribe(told)
        wait_for(lambda: told.seen and ou.status.pending == 0, "it is registered")
        publisher = stack.enter_context(Publisher(kafka=kafka))
        publisher.publish(DOMAIN, GROUP, "held", version=1)
        wait_for(lambda: told.newest("held") == 1, "the first leaves at once")
        held = publisher.publish(DOMAIN, GROUP, "held", version=2)
        publisher.publish(DOMAIN, GROUP, "other", version=1)
        # Whoever committed further than what is held would have nothing to owe.
        wait_for(
            lambda: committed(kafka, TOPICS.objects, partition, group_of(tmp_path / "next"))[0] >= held.offset,
            "all before it is committed",
        )
        assert told.newest("held") == 1
        killed.kill()
        stack.enter_context(MatcherProcess(kafka, tmp_path / "next", matcher_conflation="*=60000")).wait_serving()
        wait_for(lambda: told.newest("held") == 2, "what the dead one held back is told")
        assert told.versions("held") == [None, 1, 2]
