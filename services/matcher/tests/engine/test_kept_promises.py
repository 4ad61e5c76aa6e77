"""Devices that keep nothing, played at random with a matcher that dies at any write: nothing is lost or goes back.

A set that is present has all of which its device has heard that it is registered. What a device is told within a
connection is checked as it comes (`kept_device`); at the end it must have the newest version, or know of the deletion,
of every object that its filters fit.
"""

from dataclasses import replace
from random import Random

import pytest
from coldnotify_matcher.engine import Rules
from coldnotify_matcher.engine.outputs import ProducedRecord
from coldnotify_schemas.filters import fits
from coldnotify_testkit.engine_bench import OTHER_GATEWAY, EngineBench
from coldnotify_testkit.kept_device import KeptDevice, KeptGateway

NAMES = ("a", "a/1", "a/2", "b/1", "b/1/x", "$s/1")
FILTERS = ("#", "a/#", "+/1", "a", "b/+", "b/1/x", "$s/#")
STEPS = 60


class Played:
    """One schedule, drawn from a seed."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.bench = EngineBench(rules=Rules(bucket_objects_max=self.random.choice([1, 64])))
        self.gateways = [KeptGateway(self.bench), KeptGateway(self.bench, OTHER_GATEWAY)]
        self.devices = [self.gateways[0].device(f"unit-{i}", page_bytes=1024) for i in range(3)]
        self.believed: dict[KeptDevice, dict[str, int | None]] = {one: {} for one in self.devices}
        self.began: dict[KeptDevice, int] = dict.fromkeys(self.devices, 0)
        self.checked = self.began.copy()
        self.deaf: dict[KeptDevice, set[str]] = {one: set() for one in self.devices}
        """Names whose deletions a device has missed, perhaps, as no filter of it fitted them for some time."""
        self.wanted: dict[KeptDevice, set[str]] = {one: set() for one in self.devices}
        """The filters of a device whose registration was answered, since it heard that nothing is present."""
        self.asked: dict[KeptDevice, dict[int, list[str]]] = {one: {} for one in self.devices}
        """Those of registrations without an answer, by their numbers."""
        self.newest: dict[str, int | None] = {}
        self.version = 0
        self.earlier = self.bench.committed
        """A commit that may be Kafka's last one: what came since is handled again."""

    def play(self) -> None:
        """Play it to its end, and judge."""
        for _ in range(STEPS):
            self.one_step()
        for device in self.devices:
            if not device.session:
                self.connect(device)
            device.read()
        for _ in range(3):
            self.run()
            self.bench.tick(1_000)
        self.run()
        for device in self.devices:
            self.judge(device)

    def one_step(self) -> None:
        """One thing happens."""
        if self.random.random() < 0.1:
            self.earlier = self.bench.committed
        draw, device = self.random.random(), self.random.choice(self.devices)
        if draw < 0.35:
            self.publish()
        elif draw < 0.5:
            self.subscribe(device)
        elif draw < 0.6:
            if not device.session:
                self.connect(device)
            elif self.random.random() < 0.5:
                device.leave()
            else:
                self.connect(device)
        elif draw < 0.67:
            device.reads = False
        elif draw < 0.74 and device.session:
            device.read()
        elif draw < 0.78 and device.session and device.live:
            device.catch_up()
        elif draw < 0.83:
            self.crash()
        else:
            self.run()

    def publish(self) -> None:
        """A newer version, or a deletion."""
        name = self.random.choice(NAMES)
        self.version += 1
        deleted = self.random.random() < 0.3
        said = b'{"version":%d,"deleted":true}' if deleted else b'{"version":%d}'
        self.bench.publish(name, said % self.version)
        self.newest[name] = None if deleted else self.version

    def subscribe(self, device: KeptDevice) -> None:
        """Filters more, or fewer."""
        if not device.session or device.present is None:
            return
        if device.filters and self.random.random() < 0.3:
            device.unsubscribe(gone := self.random.choice(sorted(device.filters)))
            self.wanted[device].discard(gone)
            fitting = {name for name in NAMES if any(fits(text, name) for text in device.filters)}
            self.deaf[device] |= set(NAMES) - fitting
        else:
            device.subscribe(*(new := self.random.sample(FILTERS, self.random.choice([1, 1, 2]))))
            self.asked[device][device.requests] = new

    def connect(self, device: KeptDevice) -> None:
        """A connection, perhaps to another gateway, perhaps clean."""
        self.note(device)
        device.gateway.forget(device)
        device.gateway = self.random.choice(self.gateways)
        device.reads = True
        clean = self.random.random() < 0.15
        if clean:
            self.wanted[device].clear()
        device.connect(clean=clean)

    def crash(self) -> None:
        """The matcher dies in the middle of a step; another one takes over. Each topic has an order of its own."""
        step = self.bench.step()
        state = self.some_of(step.state)
        seals = self.some_of(step.seals) if len(state) == len(step.state) else []
        if len(state) + len(seals) < len(step.state) + len(step.seals) or self.random.random() < 0.3:
            self.bench.make_durable(replace(step, state=state, seals=seals, tombstones=[], inboxes=[]))
        else:
            self.bench.make_durable(step, inboxes_lost=self.random.randint(0, len(step.inboxes)))
        for gateway in self.gateways:
            gateway.hand_over(self.bench.told[gateway.id].take())
        if self.random.random() < 0.3:
            self.bench.handle_again(self.earlier)
        self.bench.load()
        self.earlier = self.bench.committed
        for gateway in self.gateways:
            for device in list(gateway.devices.values()):
                device.announce()

    def some_of(self, records: list[ProducedRecord]) -> list[ProducedRecord]:
        """Returns the first ones of each topic, however many."""
        kept: list[ProducedRecord] = []
        for topic in sorted({one.topic for one in records}):
            own = [one for one in records if one.topic == topic]
            kept += own[: self.random.choice([0, len(own), self.random.randint(0, len(own))])]
        return kept

    def run(self) -> None:
        """Let everything happen."""
        for _ in range(200):
            items = {gateway: self.bench.items(gateway.id) for gateway in self.gateways}
            if not any(items.values()):
                break
            for gateway, some in items.items():
                gateway.hand_over(some)
        else:
            raise AssertionError("it does not come to rest")
        for device in self.devices:
            if device.closed is not None and not device.session:
                self.connect(device)
            elif device.session and device.present is not None:
                self.check(device)

    def check(self, device: KeptDevice) -> None:
        """A set that is present has all of which its device has heard that it is registered."""
        if not device.present and self.checked[device] != device.connections:
            self.wanted[device].clear()
        self.checked[device] = device.connections
        for answer in device.answered:
            self.wanted[device] |= set(self.asked[device].pop(answer.request, ())) & set(device.filters)
        assert self.wanted[device] <= set(device.filters), f"{device.name} wants {self.wanted[device]}"

    def note(self, device: KeptDevice) -> None:
        """Take over what the device was told in its last connection."""
        if device.present is False and self.began[device] != device.connections:
            self.believed[device].clear()
        self.began[device] = device.connections
        for said in device.take():
            self.believed[device][said.name] = said.version

    def judge(self, device: KeptDevice) -> None:
        """It has the newest of all that its filters fit."""
        self.note(device)
        believed = self.believed[device]
        for name, version in self.newest.items():
            if any(fits(text, name) for text in device.filters) and not name.startswith("$"):
                if version is None and name in self.deaf[device]:
                    continue
                assert believed.get(name) == version, f"{device.name} has {believed.get(name)} of {name}, not {version}"


@pytest.mark.parametrize("seed", [*range(60), 983, 1579, 2600])
def test_a_device_that_keeps_nothing_has_the_newest_in_the_end(seed: int) -> None:
    Played(seed).play()
