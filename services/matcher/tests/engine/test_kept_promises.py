"""Devices that keep nothing, played at random with a matcher that dies at any write: nothing is lost or goes back.

What a device is told within a connection is checked as it comes (`kept_device`); at the end it must have the newest
version, or know of the deletion, of every object that its filters fit.
"""

from random import Random

import pytest
from coldnotify_matcher.engine import Rules
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
        self.deaf: dict[KeptDevice, set[str]] = {one: set() for one in self.devices}
        """Names whose deletions a device has missed, perhaps, as no filter of it fitted them for some time."""
        self.newest: dict[str, int | None] = {}
        self.version = 0

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
            device.unsubscribe(self.random.choice(sorted(device.filters)))
            fitting = {name for name in NAMES if any(fits(text, name) for text in device.filters)}
            self.deaf[device] |= set(NAMES) - fitting
        else:
            device.subscribe(*self.random.sample(FILTERS, self.random.choice([1, 1, 2])))

    def connect(self, device: KeptDevice) -> None:
        """A connection, perhaps to another gateway, perhaps clean."""
        self.note(device)
        device.gateway.forget(device)
        device.gateway = self.random.choice(self.gateways)
        device.reads = True
        device.connect(clean=self.random.random() < 0.15)

    def crash(self) -> None:
        """The matcher dies in the middle of a step; another one takes over."""
        step = self.bench.step()
        writes = len([*step.state, *step.seals, *step.tombstones])
        lost = self.random.randint(0, writes)
        if lost:
            self.bench.make_durable(step, writes_lost=lost, inboxes_lost=len(step.inboxes))
        else:
            self.bench.make_durable(step, inboxes_lost=self.random.randint(0, len(step.inboxes)))
        for gateway in self.gateways:
            gateway.hand_over(self.bench.told[gateway.id].take())
        self.bench.load()
        for gateway in self.gateways:
            for device in list(gateway.devices.values()):
                device.announce()

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


@pytest.mark.parametrize("seed", range(60))
def test_a_device_that_keeps_nothing_has_the_newest_in_the_end(seed: int) -> None:
    Played(seed).play()
