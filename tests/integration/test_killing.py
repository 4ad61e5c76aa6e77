"""Processes are killed with SIGKILL while a publisher goes on: nothing is lost, and nobody has to do anything."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from coldnotify.http_publisher import HttpPublisher
from coldnotify.publisher import PublishError
from coldnotify_testkit import stack
from coldnotify_testkit.stack import Recorder, Stacks, Up, notify
from coldnotify_testkit.waiting import wait_for

pytestmark = pytest.mark.kafka


class SteadyPublisher(threading.Thread):
    """Publishes rising versions of one object until stopped; knows which were acknowledged."""

    def __init__(self, up: Up, name: str) -> None:
        super().__init__(daemon=True)
        self._up, self._name = up, name
        self._stopping = threading.Event()
        self.acknowledged = 0

    def run(self) -> None:
        version = 0
        with self._up.publisher(timeout_s=60) as publisher:
            while not self._stopping.wait(0.01):
                version += 1
                try:
                    publisher.publish("animal.observer", "region-1", self._name, version=version)
                except PublishError:
                    continue  # indeterminate: neither owed nor forbidden
                self.acknowledged = version

    def wait_for_more(self, count: int) -> int:
        """Until so many more were acknowledged; returns the newest of them."""
        goal = self.acknowledged + count
        wait_for(lambda: self.acknowledged >= goal, "publishing goes on")
        return self.acknowledged

    def stop(self) -> int:
        self._stopping.set()
        self.join(120)
        assert not self.is_alive()
        return self.acknowledged


class SteadyDescriber(threading.Thread):
    """Says rising numbers of one key of an object's description, by HTTP, until stopped; others say other keys."""

    def __init__(self, up: Up, name: str, key: str) -> None:
        super().__init__(daemon=True)
        self._publisher, self._name, self.key = HttpPublisher(up.http_url), name, key
        self._stopping = threading.Event()
        self.acknowledged = 0

    def run(self) -> None:
        number = 0
        while not self._stopping.wait(0.01):
            number += 1
            try:
                self._publisher.describe("animal.observer", "region-1", self._name, {self.key: number})
            except PublishError:
                continue
            self.acknowledged = number

    def stop(self) -> int:
        self._stopping.set()
        self.join(120)
        assert not self.is_alive()
        return self.acknowledged


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """Everything running, one of each; whoever kills a part waits until it is there again."""
    with stack.running(tmp_path_factory.mktemp("up")) as one:
        yield one


@pytest.mark.own_broker("kills Kafka beside the other parts")
@pytest.mark.parametrize("parts", [("matcher", "gateway", "broker")])
def test_kill_each_part_while_a_publisher_goes_on(own: Up, tmp_path: Path, parts: tuple[str, ...]) -> None:
    told = Recorder()
    with notify(own, "survivor", tmp_path / "state.json") as ou:
        ou.register("camera-config").subscribe(told)
        publisher = SteadyPublisher(own, "camera-config")
        publisher.start()
        describers = [SteadyDescriber(own, "camera-config", key) for key in ("one", "other")]
        for describer in describers:
            describer.start()
        for part in parts:
            pids = own.kill(part)
            own.wait_ready(other_than=pids)
            goal = publisher.wait_for_more(20)
            wait_for(told.reaches("camera-config", goal), f"the client learns it after {part} was killed")
            for describer in describers:
                said = describer.acknowledged
                wait_for(lambda d=describer, said=said: d.acknowledged > said, "describing goes on")  # type: ignore[misc]
        last = publisher.stop()
        wait_for(lambda: told.newest("camera-config") == last, "the client ends on the newest version")
        acknowledged = {describer.key: describer.stop() for describer in describers}
        found = HttpPublisher(own.http_url).description("animal.observer", "region-1", "camera-config").description
        print(f"\n{acknowledged} acknowledged of {found}")
        assert found is not None
        assert {key for key, number in acknowledged.items() if int(found[key]) < number} == set(), "none undone"
    versions = [v for v in told.versions("camera-config") if v is not None]
    print(f"\n{last} publishes acknowledged, {len(versions)} told, newest {versions[-1]}")
    assert versions == sorted(set(versions)), "never backwards, nothing twice"


@pytest.mark.own_broker("kills Kafka with all other parts")
def test_registrations_survive_the_loss_of_every_process(own: Up, tmp_path: Path) -> None:
    first = Recorder()
    with notify(own, "lost", tmp_path / "state.json") as ou:
        ou.register("a").subscribe(first)
        ou.register("b").subscribe(first)
        wait_for(lambda: len(first.seen) == 2 and ou.status.pending == 0, "registered")
    own.kill_everything()
    own.start()
    client = wait_for(lambda: own.client("animal.observer", "region-1", "lost"), "the matcher knows the client")
    assert [r["object"] for r in client["registrations"]["items"]] == ["a", "b"]
    with own.publisher() as publisher:
        publisher.publish("animal.observer", "region-1", "b", version=3)
    again = Recorder()
    with notify(own, "lost", tmp_path / "state.json") as ou:
        ou.register("b").subscribe(again)
        wait_for(lambda: again.newest("b") == 3, "told after everything was lost")


def test_two_gateways_two_matchers_and_one_of_each_killed(stacks: Stacks, tmp_path: Path) -> None:
    with stacks.running(tmp_path, "--gateways=2", "--matchers=2") as up:
        recorders = {f"region-{g}": Recorder() for g in range(12)}
        clients = [notify(up, "ou", None, group=group) for group in recorders]
        for ou, told in zip(clients, recorders.values(), strict=True):
            ou.connect()
            ou.register("x").subscribe(told)
        try:
            with up.publisher(timeout_s=60) as publisher:
                for version, parts in enumerate(((), ("matcher-2",), ("gateway-2",), ("matcher", "gateway")), 1):
                    for part in parts:
                        pids = up.kill(part)
                    for group in recorders:
                        publisher.publish("animal.observer", group, "x", version=version)
                    for group, told in recorders.items():
                        wait_for(told.reaches("x", version), f"{group} is told {version} after {parts} were killed")
                    if parts:
                        up.wait_ready(other_than=pids)
        finally:
            for ou in clients:
                ou.disconnect()
