"""Parts of the registrations are lost behind the service's back: client and service agree again by themselves."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest
from coldnotify import Connection, Notify, State
from coldnotify_kafka import topic_plan, topics
from coldnotify_schemas.partitioner import partition_of
from coldnotify_testkit.matcher_process import registrations_of
from coldnotify_testkit.stack import PARTITIONS, Recorder, Stacks, Up
from coldnotify_testkit.waiting import wait_for
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

pytestmark = pytest.mark.kafka

DOMAIN, GROUP = "animal.observer", "healed"
OBJECTS = {"camera-config", "release", "humidity"}
VERSIONS = count(1)
"""Whichever test comes first, what it publishes is newer than what there was."""
PARTITION = partition_of(DOMAIN, GROUP, PARTITIONS)


def stored(up: Up, client: str) -> tuple[str, set[str]]:
    """What the registrations topic holds for a client: (the key of a record, objects of all its records)."""
    prefix = f"{DOMAIN}/{GROUP}/{client}/"
    records = {
        key: one for key, one in registrations_of(up.kafka, PARTITION, up.topics).items() if key.startswith(prefix)
    }
    return next(iter(records), ""), {name for record in records.values() for name in record["objects"]}


def holds(up: Up, client: str, wanted: set[str]) -> None:
    wait_for(lambda: stored(up, client)[1] == wanted, f"the topic holds the registrations of {client}")


def lose(up: Up, key: str) -> None:
    """One record of the registrations, overwritten by a null."""
    producer = Producer({"bootstrap.servers": up.kafka, "acks": "all"})
    producer.produce(up.topics.registrations, key=key.encode(), value=None, partition=PARTITION)
    assert producer.flush(30) == 0


def remake(up: Up, topic: str) -> None:
    """A topic deleted, and made again empty."""
    admin = AdminClient({"bootstrap.servers": up.kafka})
    admin.delete_topics([topic])[topic].result(30)

    def made() -> bool:
        try:
            topic_plan.apply(admin, topics.load(partitions=PARTITIONS, names=up.topics))
        except Exception:  # the deletion is still under way
            return False
        return True

    wait_for(made, f"{topic} is there again")


class Unit:
    """One OU that wants OBJECTS."""

    def __init__(self, up: Up, name: str, state: Path, wanted: set[str] = OBJECTS) -> None:
        host, port = up.gateway
        self.name = name
        self.told = Recorder()
        self.notify = Notify(
            domain=DOMAIN,
            group_id=GROUP,
            client_id=name,
            state=State(filename=str(state)),
            connection=Connection(address=host, port=port, keepalive_s=2),
        )
        for subscription in self.notify.register_only(sorted(wanted)):
            subscription.subscribe(self.told)

    @contextmanager
    def connected(self) -> Iterator["Unit"]:
        with self.notify:
            wait_for(lambda: self.notify.caught_up, f"{self.name} is caught up")
            yield self

    def learns(self, up: Up) -> None:
        """A version of each object, published now, is told."""
        version = next(VERSIONS)
        with up.publisher(timeout_s=60) as publisher:
            for name in sorted(OBJECTS):
                publisher.publish(DOMAIN, GROUP, name, version=version)
        for name in sorted(OBJECTS):
            wait_for(self.told.reaches(name, version), f"{self.name} learns {name}")


@pytest.fixture
def unit(up: Up, tmp_path: Path, request: pytest.FixtureRequest) -> Unit:
    return Unit(up, f"healed-{request.node.name[-40:]}".replace("[", "-").replace("]", ""), tmp_path / "state.json")


def test_a_client_that_lost_its_state_and_wants_less(up: Up, tmp_path: Path, unit: Unit) -> None:
    with unit.connected():
        holds(up, unit.name, OBJECTS)
    (tmp_path / "state.json").unlink()
    less = Unit(up, unit.name, tmp_path / "state.json", wanted={"release"})
    with less.connected():
        holds(up, unit.name, {"release"})


def test_one_record_of_the_registrations_is_lost_while_its_matcher_runs(up: Up, unit: Unit) -> None:
    with unit.connected():
        holds(up, unit.name, OBJECTS)
        key, _ = stored(up, unit.name)
        lose(up, key)
        holds(up, unit.name, OBJECTS)
        unit.learns(up)


@pytest.fixture(scope="module")
def own(stacks: Stacks, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """Everything running, for what would disturb others."""
    with stacks.running(tmp_path_factory.mktemp("up")) as one:
        yield one


def test_one_record_of_the_registrations_is_lost_while_nobody_looks(own: Up, tmp_path: Path) -> None:
    unit = Unit(own, "sleeper", tmp_path / "state.json")
    with unit.connected():
        holds(own, unit.name, OBJECTS)
    key, _ = stored(own, unit.name)
    own.stop()
    lose(own, key)
    own.start()
    assert stored(own, unit.name)[1] == set()
    again = Unit(own, "sleeper", tmp_path / "state.json")
    with again.connected():
        holds(own, unit.name, OBJECTS)
        again.learns(own)


@pytest.mark.parametrize("topic", ["registrations", "sessions"])
def test_a_topic_of_the_matchers_state_is_deleted_while_a_client_is_connected(
    own: Up, tmp_path: Path, topic: str
) -> None:
    unit = Unit(own, f"loses-{topic}", tmp_path / "state.json")
    with unit.connected():
        holds(own, unit.name, OBJECTS)
        unit.learns(own)
        remake(own, own.topics.prefix + topic)
        holds(own, unit.name, OBJECTS)
        unit.learns(own)


def test_registrations_deleted_and_the_matcher_killed_at_once(own: Up, tmp_path: Path) -> None:
    unit = Unit(own, "loses-both", tmp_path / "state.json")
    with unit.connected():
        holds(own, unit.name, OBJECTS)
        before = dict(own.report["pids"])
        remake(own, own.topics.registrations)
        os.kill(before["matcher"], signal.SIGKILL)
        own.wait_ready(other_than=before)
        holds(own, unit.name, OBJECTS)
        unit.learns(own)
