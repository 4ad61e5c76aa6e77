"""The MQTT devices of a random schedule: meters in a group of their own, where back-ends publish, too.

A separate random generator draws all of it, at times of its own. The checker judges what they say and are told
(`mqtt_opinion`).
"""

from collections.abc import Callable
from random import Random

from coldnotify_checker.histories import Event, Fault, Healed, Published, Send
from coldnotify_schemas.channels import MessageHeaders, message_headers
from coldnotify_schemas.mqtt.packet_kinds import ProtocolVersion
from coldnotify_schemas.mqtt.packets import TopicSubscription
from coldnotify_testkit.mqtt_topics import FILTERS, MQTT_CHANNELS, MQTT_OBJECTS, RETAINED, UNRETAINED
from coldnotify_testkit.raw_mqtt_device import FOR_EVER_S, MqttManner

from coldnotify_simulation import mqtt_opinion
from coldnotify_simulation.kafka import PARTITIONS
from coldnotify_simulation.mqtt_device import SimulatedMqttDevice
from coldnotify_simulation.promises import Broken, group_partition
from coldnotify_simulation.world import DOMAIN, World

_GROUPS = [next(f"meters-{i}" for i in range(100) if group_partition(f"meters-{i}") == p) for p in range(PARTITIONS)]
_FELT_S = 25.0
"""The longest that a fault of a schedule lasts."""
_SETTLES_S = 300.0
_LOOK_S = 10.0


class Metering:
    """The meters of one schedule."""

    def __init__(self, seed: int, world: World, *, on: bool) -> None:
        """`on`: there are any."""
        self.random = Random(seed ^ 0x3E7E)
        self.on = on
        self._world = world
        self._lines: list[Event] = []
        self._numbers = 0
        self._stopped = False
        self.devices: list[SimulatedMqttDevice] = []
        if not self.on:
            return
        self._group = self.random.choice(_GROUPS)
        self._pace_s = self.random.choice([0.2, 0.6])
        self.devices = [self._draw_device(number) for number in range(self.random.choice([1, 2, 3]))]
        world.mqtt_devices |= {device.key for device in self.devices}
        for matcher in world.matchers:
            matcher.channels = True
        self._kinds: list[tuple[float, Callable[[], None]]] = [
            (8, self._publish),
            (3, self._publish_version),
            (3, self._send),
            (1.5, self._send_many),
            (1.5, self._change_filters),
            (1.5, self._come_or_go),
            (1.5, self._crash),
            (0.7, self._power_loss),
            (0.7, self._withhold),
            (0.7, self._stall),
            (0.4, self._lose_half),
        ]

    def start(self) -> None:
        """They get power, and what is drawn begins."""
        if not self.on:
            return
        for device in self.devices:
            for text in self.random.sample(FILTERS, self.random.randint(1, 3)):
                device.wanted[text] = self._subscription(text, device)
            device.awake = self.random.random() < 0.8
            device.start()
        self._later()

    def note_fault(self, kind: str) -> None:
        """Something of the schedule is broken from now on, for a while."""
        if self.on:
            t = self._world.trace.now_us
            self._lines.append(Fault(t=t, kind=kind, target=str(t)))
            self._lines.append(Healed(t=t + round(_FELT_S * 1e6), kind=kind, target=str(t)))

    def end(self) -> None:
        """Faults stop: nothing happens by chance any more."""
        for device in self.devices:
            device.start()
            if device.link is not None:
                device.link.read_on()
            device.acknowledge()
        self._stopped = True

    def settle(self) -> None:
        """Holds what they were told against what was published, also after one more wake of each. Raises Broken."""
        if not self.on:
            return
        self._must_settle("once faults have stopped")
        for device in self.devices:
            device.sleep()
        self._world.run(1.0)
        for _ in range(6):
            self.random.choice([self._publish_version, self._send])()
        self._world.run(1.0)
        self._must_settle("after one more wake")

    def _must_settle(self, when: str) -> None:
        world = self._world
        for device in self.devices:
            device.connect()
        end_s = world.clock.now_s + _SETTLES_S
        wrong = ""
        while world.clock.now_s < end_s:
            world.run(_LOOK_S)
            lacking = [device.name for device in self.devices if not device.settled]
            wrong = f"M2: {', '.join(lacking)} not connected, or waiting for answers" if lacking else self._asked()
            if not wrong:
                return
        raise Broken(f"{wrong}, {when}")

    def _asked(self) -> str:
        lines = [*self._lines, *(line for device in self.devices for line in device.lines)]
        return mqtt_opinion.ask(self._world, f"{DOMAIN}/{self._group}", lines, [one.key for one in self.devices])

    # ---- what is drawn

    def _later(self) -> None:
        self._world.clock.later(self.random.expovariate(1 / self._pace_s), self._act)

    def _act(self) -> None:
        if self._stopped:
            return
        self._later()
        weights = [weight for weight, _ in self._kinds]
        self.random.choices(self._kinds, weights)[0][1]()

    def _draw_device(self, number: int) -> SimulatedMqttDevice:
        draw, world = self.random, self._world
        protocol = draw.choice([ProtocolVersion.MQTT_5, ProtocolVersion.MQTT_3_1_1])
        kept = number == 0 or draw.random() < 0.6
        manner = MqttManner(
            protocol,
            clean=not kept,
            expiry_s=FOR_EVER_S if kept else 0,
            keep_alive_s=10,
            receive_max=draw.choice([None, None, 1, 3]) if protocol is ProtocolVersion.MQTT_5 else None,
        )
        key = f"{DOMAIN}/{self._group}/meter-{number}"
        own = Random(draw.random())
        return SimulatedMqttDevice(key, manner, world.gateways, world.clock, own, world.trace, world.witness.late_s)

    def _subscription(self, text: str, device: SimulatedMqttDevice) -> TopicSubscription:
        draw = self.random
        qos = draw.choice([0, 1, 1, 1])
        if device.manner.protocol is not ProtocolVersion.MQTT_5:
            return TopicSubscription(text, qos)
        return TopicSubscription(
            text,
            qos,
            no_local=draw.random() < 0.25,
            retain_as_published=draw.random() < 0.25,
            retain_handling=draw.choice([0, 0, 0, 1, 2]),
        )

    def _device(self) -> SimulatedMqttDevice:
        return self.random.choice(self.devices)

    def _publish(self) -> None:
        """A meter publishes, sometimes several at once."""
        device, draw = self._device(), self.random
        for _ in range(draw.choice([1, 1, 1, 4])):
            self._numbers += 1
            retain = draw.random() < 0.5
            topic = draw.choice(RETAINED if retain else UNRETAINED)
            payload = b'{"number": %d}' % self._numbers
            if retain and draw.random() < 0.1:
                payload = b""
            elif draw.random() < 0.2:
                payload = b"\xff" + payload
            device.publish(topic, payload, qos=draw.choice([0, 1, 1, 1]), retain=retain)

    def _publish_version(self) -> None:
        """A back-end publishes."""
        key = f"{DOMAIN}/{self._group}/{self.random.choice(MQTT_OBJECTS)}"
        version = self._world.highest.get(key, 0) + 1
        acknowledged, deleted = self.random.random() < 0.8, self.random.random() < 0.1
        self._world.publish(key, version, acknowledged=acknowledged, deleted=deleted)

    def _send(self) -> None:
        """A back-end sends a message."""
        self._numbers += 1
        world, message = self._world, f"q{self._numbers}"
        channel = f"{DOMAIN}/{self._group}/{self.random.choice(MQTT_CHANNELS)}"
        t = world.trace.now_us
        said = {"sent": self._numbers}
        self._lines.append(Send(t=t, publisher="q", id=self._numbers, channel=channel, message=message, payload=said))
        world.send(channel, b'{"sent":%d}' % self._numbers, message_headers(MessageHeaders(id=message)))
        if self.random.random() < 0.8:
            self._lines.append(Published(t=t, publisher="q", id=self._numbers, outcome="acknowledged"))

    def _send_many(self) -> None:
        for _ in range(self.random.choice([5, 15])):
            self._send()

    def _change_filters(self) -> None:
        device, text = self._device(), self.random.choice(FILTERS)
        if text not in device.wanted:
            device.wanted[text] = self._subscription(text, device)
        elif len(device.wanted) > 1:
            del device.wanted[text]

    def _come_or_go(self) -> None:
        device = self._device()
        if device.awake:
            device.sleep()
        else:
            device.connect()

    def _crash(self) -> None:
        self._device().crash()

    def _lose_half(self) -> None:
        """Its gateway does not notice."""
        self._device().crash(gateway_notices_s=float("inf"))

    def _power_loss(self) -> None:
        device = self._device()
        device.power_loss(wiped=self.random.random() < 0.4)
        self._world.clock.later(self.random.choice([0.1, 3.0]), device.start)

    def _withhold(self) -> None:
        device = self._device()
        if device.alive:
            device.withhold()
            self._world.clock.later(self.random.choice([1.0, 6.0, 20.0]), device.acknowledge)

    def _stall(self) -> None:
        link = self._device().link
        if link is not None:
            link.stall(self.random.choice([0.5, 3.0, 12.0]))
