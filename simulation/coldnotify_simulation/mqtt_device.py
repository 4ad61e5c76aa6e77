"""An MQTT device: the raw device of the testkit on simulated connections, with a disk that has its filters.

It wants filters, and subscribes to those that its session lacks; it trusts a session that is present. Its first packet
of a connection is a PINGREQ, so that each connection is a wake.
"""

from random import Random

from coldnotify_checker.histories import Event
from coldnotify_gateway.core import MQTT
from coldnotify_schemas.mqtt.packets import TopicSubscription
from coldnotify_testkit.raw_mqtt_device import MqttManner, RawMqttDevice

from coldnotify_simulation.clock import Clock, SimulatedProcess
from coldnotify_simulation.gateway import SimulatedGateway
from coldnotify_simulation.link import SimulatedLink
from coldnotify_simulation.trace import Trace

_TICK_S = 0.5
_CONNECT_S = 8.0
_PONG_S = 15.0
_PING_S = 4.0
_BACK_OFF_S = 1.5
_ASK_AGAIN_S = 3.0
"""After a filter was refused, as while topics are missing."""
_UNANSWERED_MAX = 20
_IDS_A_LIFE = 1 << 20


class _MqttLink(SimulatedLink):
    dialect = MQTT


class SimulatedMqttDevice(SimulatedProcess):
    """One device, and the lines of its history."""

    def __init__(
        self,
        key: str,
        manner: MqttManner,
        gateways: list[SimulatedGateway],
        clock: Clock,
        random: Random,
        trace: Trace,
        late_s: float,
    ) -> None:
        """`key`: domain/group/client. `late_s`: the longest time for bytes to arrive."""
        super().__init__(clock, key.rpartition("/")[2])
        self.key = key
        self.manner = manner
        self.lines: list[Event] = []
        self.wanted: dict[str, TopicSubscription] = {}
        self.awake = False
        """It is to be connected."""
        self.link: SimulatedLink | None = None
        self.told = 0
        self._gateways = gateways
        self._random = random
        self._trace = trace
        self._late_s = late_s
        self._disk: dict[str, int] = {}
        self._asked_s: dict[str, float] = {}
        """By filter, when it was last asked for in this connection."""
        self._begun_s = self._pinged_s = self._next_s = 0.0
        self._device: RawMqttDevice

    @property
    def connected(self) -> bool:
        """Returns true if a CONNACK has let it in."""
        return self.alive and self._device.connected

    @property
    def settled(self) -> bool:
        """Returns true if it is connected, has all of its filters, and waits for no answer."""
        has_all = self.connected and self.wanted.keys() <= self._device.filters.keys()
        return has_all and not self._device.unanswered and self._device.pongs > 0

    # ---- its life

    def start(self) -> None:
        """It gets power."""
        if self.alive:
            return
        self._born()
        first_id = self.life * _IDS_A_LIFE
        self._device = RawMqttDevice(self.key, self._note, self.manner, first_id=first_id, now=self._now_us)
        self._device.filters.update(self._disk)
        self._next_s = self.clock.now_s
        self.later(0.0, self._tick)

    def power_loss(self, *, wiped: bool = False) -> None:
        """It is off from one instant to the next. `wiped`: it does not know any more which filters it has."""
        if not self.alive:
            return
        self._trace(self.name, "loses power", "and its disk" if wiped else "")
        self._disk = {} if wiped else dict(self._device.filters)
        self._died()
        self._leave("power loss")

    def connect(self) -> None:
        """It is to be connected from now on."""
        self.awake, self._next_s = True, self.clock.now_s

    def sleep(self) -> None:
        """It says DISCONNECT, and is not to be connected."""
        self.awake = False
        if self.alive and self.link is not None:
            self._device.sleep()
            self._flush()
            if self.link is not None:
                self.link.end_sending()
            self.link = None

    def crash(self, *, gateway_notices_s: float = 0.0) -> None:
        """Its connection ends without a word. `gateway_notices_s`: infinity, if only keepalives say that."""
        if self.alive and self.link is not None:
            self._device.ended("crash")
            self._leave("lost by the device", gateway_notices_s=gateway_notices_s)

    def withhold(self) -> None:
        """It acknowledges nothing from here on."""
        self._device.acknowledges = False

    def acknowledge(self) -> None:
        """It does again, and makes up for it."""
        if self.alive:
            self._device.acknowledge_all()
            self._flush()

    def publish(self, topic: str, payload: bytes, *, qos: int, retain: bool) -> None:
        """Publishes, if it is connected."""
        if self.connected and self._device.unanswered < _UNANSWERED_MAX:
            self._device.publish(topic, payload, qos=qos, retain=retain)
            self._flush()

    # ---- its connection

    def on_bytes(self, link: SimulatedLink, data: bytes) -> None:
        """The gateway has sent this."""
        if link is self.link:
            self._device.receive(data)
            self._look()

    def on_broken(self, link: SimulatedLink, reason: str) -> None:
        """The connection has ended."""
        if link is self.link:
            self._device.ended("service", reason)
            self._leave(reason)

    def _tick(self) -> None:
        self.later(_TICK_S, self._tick)
        if self.link is None:
            if self.awake and self.clock.now_s >= self._next_s:
                self._open()
            return
        device, now_s = self._device, self.clock.now_s
        if not device.connected and now_s - self._begun_s > _CONNECT_S:
            device.ended("service", "no CONNACK")
        elif device.pinged is not None and now_s - device.pinged / 1e6 > _PONG_S:
            device.ended("crash", "no PINGRESP")
        self._look()

    def _open(self) -> None:
        gateway = self._random.choice(self._gateways)
        self._begun_s = self._pinged_s = self.clock.now_s
        self._next_s = self.clock.now_s + self._random.uniform(0.1, _BACK_OFF_S)
        if not gateway.alive or gateway.stopped:
            return
        self._asked_s.clear()
        self.link = _MqttLink(self.clock, self._random, self, gateway, self._late_s)
        gateway.accept(self.link)
        self._device.connect()
        self._flush()

    def _look(self) -> None:
        """Does what is due in its connection."""
        device = self._device
        if device.connected:
            now_s = self.clock.now_s
            if (not device.pongs and device.pinged is None) or now_s >= self._pinged_s + _PING_S:
                self._pinged_s = now_s
                device.ping()
            self._ask_for_filters(now_s)
        self._flush()
        if device.over is not None and self.link is not None:
            self._leave(device.over)

    def _ask_for_filters(self, now_s: float) -> None:
        device = self._device
        unwanted = device.filters.keys() - self.wanted.keys()
        if unwanted:
            device.unsubscribe(*sorted(unwanted))
        lacking = [
            one
            for text, one in self.wanted.items()
            if text not in device.filters and now_s >= self._asked_s.get(text, 0.0) + _ASK_AGAIN_S
        ]
        if lacking:
            self._asked_s |= {one.filter: now_s for one in lacking}
            device.subscribe(*lacking)

    def _flush(self) -> None:
        data = self._device.bytes_to_send()
        if data and self.link is not None:
            self.link.up(data)

    def _leave(self, reason: str, *, gateway_notices_s: float = 0.0) -> None:
        link, self.link = self.link, None
        if link is not None:
            link.cut(reason, client_notices_s=float("inf"), gateway_notices_s=gateway_notices_s)

    def _note(self, line: Event) -> None:
        self.lines.append(line)
        self._trace(self.name, line)

    def _now_us(self) -> int:
        return round(self.clock.now_s * 1_000_000)
