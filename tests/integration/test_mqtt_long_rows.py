"""MQTT devices that are owed much, or for long: large answers, identifiers that wrap, kills between two packets.

The suite has small sizes. `COLDNOTIFY_TEST_MQTT_SIZE=1` has the full ones, and prints figures.
"""

import contextlib
import os
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from coldnotify.http_publisher import HttpPublisher
from coldnotify_cli.supervisor import DEATHS_MAX, DEATHS_WINDOW_S
from coldnotify_schemas.mqtt.encoding import encode
from coldnotify_schemas.mqtt.packet_kinds import ProtocolVersion, Side
from coldnotify_schemas.mqtt.packets import ConnAck, Connect, Packet, PubAck, Publish, SubAck, Subscribe
from coldnotify_schemas.mqtt.packets import TopicSubscription as Wanted
from coldnotify_schemas.mqtt.parsing import PacketBuffer
from coldnotify_schemas.mqtt.properties import Properties
from coldnotify_testkit.stack import Stacks, Up
from coldnotify_testkit.waiting import WAIT_S, wait_for

pytestmark = pytest.mark.kafka

DOMAIN, GROUP = "animal.observer", "region-1"
MQTT_5 = ProtocolVersion.MQTT_5
FULL = bool(os.environ.get("COLDNOTIFY_TEST_MQTT_SIZE"))
TOPICS = 20_000 if FULL else 400
MESSAGES = 70_000 if FULL else 3_000
CHANGES = 2_000 if FULL else 100
SUBSCRIBES = 200 if FULL else 20
KILLS = int(os.environ.get("COLDNOTIFY_TEST_PUBACK_KILLS", "3"))
KILLS_AT_ONCE, AGAIN_S = DEATHS_MAX - 2, DEATHS_WINDOW_S + 1
HELD_EVERY = 1_000 if FULL else 100
LONG_S = 600 if FULL else WAIT_S
GROWTH_BYTES_MAX = 64 * 1024 * 1024


@pytest.fixture(scope="module")
def up(stacks: Stacks, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    with stacks.running(tmp_path_factory.mktemp("long")) as up:
        up.shared = True
        yield up


class Device:
    """A device over a socket that acknowledges by hand, from one thread."""

    def __init__(self, up: Up, name: str, *, clean: bool = True, receive_max: int | None = None) -> None:
        self.told: list[Publish] = []
        self.acknowledged: set[int] = set()
        """Packet identifiers of its own publishes."""
        self.subscribed = 0
        self._packets = PacketBuffer(1 << 20, MQTT_5, Side.SERVER)
        port = int(str(up.report["mqtt"]).rpartition(":")[2])
        self._socket = socket.create_connection(("127.0.0.1", port), WAIT_S)
        said = Properties(session_expiry_s=3600, receive_max=receive_max)
        self.send(Connect(MQTT_5, f"{DOMAIN}/{GROUP}/{name}", clean, 600, properties=said))
        self.present: bool | None = None
        """Session Present; None: no CONNACK has come."""
        self.read_until(lambda: self.present is not None, self.take)

    def send(self, *packets: Packet) -> None:
        self._socket.sendall(b"".join(encode(one, MQTT_5) for one in packets))

    def subscribe(self, text: str) -> None:
        before = self.subscribed
        self.send(Subscribe(1, (Wanted(text, 1),)))
        self.read_until(lambda: self.subscribed > before, self.take)

    def take(self, packet: Packet) -> None:
        """Notes a packet, and acknowledges it."""
        self.note(packet)
        if isinstance(packet, Publish) and packet.packet_id:
            self.send(PubAck(packet.packet_id))

    def note(self, packet: Packet) -> None:
        if isinstance(packet, Publish):
            self.told.append(packet)
        elif isinstance(packet, PubAck):
            self.acknowledged.add(packet.packet_id)
        elif isinstance(packet, SubAck):
            self.subscribed += 1
        elif isinstance(packet, ConnAck):
            self.present = packet.session_present

    def read_until(self, done: Callable[[], bool], handle: Callable[[Packet], object]) -> None:
        end_s = time.monotonic() + LONG_S
        while not done():
            assert time.monotonic() < end_s, f"{len(self.told)} were told"
            self._socket.settimeout(1.0)
            try:
                data = self._socket.recv(65_536)
            except TimeoutError:
                continue
            if not data:
                raise ConnectionError
            for packet in self._packets.feed(data):
                handle(packet)

    def close(self) -> None:
        self._socket.close()


@contextlib.contextmanager
def device(up: Up, name: str, **said: Any) -> Iterator[Device]:
    one = Device(up, name, **said)
    try:
        yield one
    finally:
        one.close()


def resident_bytes(up: Up) -> int:
    pages = Path(f"/proc/{up.report['pids']['gateway']}/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def publish_all(up: Up, names: list[str], payload: int) -> None:
    with up.publisher() as publisher:
        for start in range(0, len(names), 500):
            part = names[start : start + 500]
            publisher.publish_many(DOMAIN, GROUP, [(name, {"payload": payload}) for name in part])


@pytest.mark.parametrize("receive_max", [1, 10])
def test_a_large_answer_is_told_whole_and_once(up: Up, receive_max: int) -> None:
    names = [f"large-{receive_max}/{number:05}" for number in range(TOPICS)]
    publish_all(up, names, 1)
    with device(up, f"reader-{receive_max}", receive_max=receive_max) as reader:
        before, started_s = resident_bytes(up), time.monotonic()
        reader.subscribe(f"large-{receive_max}/#")
        reader.read_until(lambda: len(reader.told) >= TOPICS, reader.take)
        took_s, growth = time.monotonic() - started_s, resident_bytes(up) - before
        publish_all(up, [f"large-{receive_max}/last"], 2)
        reader.read_until(lambda: reader.told[-1].topic.endswith("last"), reader.take)
    print(f"\n{TOPICS} topics, Receive Maximum {receive_max}: {took_s:.1f} s, gateway grew {growth / 1e6:.1f} MB")
    assert [one.topic for one in reader.told[:-1]] == names, "each once, in the order of the log"
    assert growth < GROWTH_BYTES_MAX


def test_identifiers_wrap_while_some_are_not_acknowledged(up: Up) -> None:
    held: list[int] = []
    with device(up, "wrapping") as listener, up.publisher() as publisher:
        listener.subscribe("wrapping")
        in_use: set[int] = set()

        def take(packet: Packet) -> None:
            listener.note(packet)
            if not isinstance(packet, Publish):
                return
            assert packet.packet_id
            assert packet.packet_id not in in_use, "an identifier in use is given to no other packet"
            if len(listener.told) % HELD_EVERY == 0:
                in_use.add(packet.packet_id)
                held.append(packet.packet_id)
            else:
                listener.send(PubAck(packet.packet_id))

        started_s = time.monotonic()
        sending = threading.Thread(target=_send_all, args=(publisher, "wrapping"))
        sending.start()
        listener.read_until(lambda: len(listener.told) >= MESSAGES, take)
        sending.join()
        took_s = time.monotonic() - started_s
        listener.send(*map(PubAck, held))
        in_use.clear()
        publisher.send(DOMAIN, GROUP, "wrapping", MESSAGES)
        listener.read_until(lambda: len(listener.told) > MESSAGES, take)
    print(f"\n{MESSAGES} messages, {len(held)} acknowledged last: {took_s:.1f} s")
    assert [int(one.payload) for one in listener.told] == list(range(MESSAGES + 1))
    with device(up, "wrapping", clean=False) as again:
        assert again.present
        publisher_says(up, "wrapping", "end")
        again.read_until(lambda: bool(again.told) and again.told[-1].payload == b'"end"', again.take)
        assert {one.payload for one in again.told} <= {b"%d" % MESSAGES, b'"end"'}, "all else was acknowledged"


def _send_all(publisher: Any, channel: str) -> None:
    for number in range(MESSAGES):
        publisher.send(DOMAIN, GROUP, channel, number)


def publisher_says(up: Up, channel: str, payload: object) -> None:
    with up.publisher() as publisher:
        publisher.send(DOMAIN, GROUP, channel, payload)


def test_a_deletion_is_not_forgotten_behind_many_changes_and_a_takeover(up: Up) -> None:
    publish_all(up, ["deleted/gone", "deleted/busy"], 1)
    with device(up, "forgetful") as sleeper:
        sleeper.subscribe("deleted/#")
        sleeper.read_until(lambda: len(sleeper.told) == 2, sleeper.take)
        publish_all(up, ["deleted/ready"], 1)
        sleeper.read_until(lambda: len(sleeper.told) == 3, sleeper.take)
    with HttpPublisher(up.http_url) as publisher:
        publisher.publish(DOMAIN, GROUP, "deleted/gone", deleted=True)
        for number in range(CHANGES):
            publisher.publish(DOMAIN, GROUP, "deleted/busy", payload=number + 2)
    before = up.kill("matcher")
    up.wait_ready(other_than=before)
    with device(up, "forgetful", clean=False) as awake:
        awake.read_until(lambda: any(one.topic == "deleted/busy" for one in awake.told), awake.take)
        assert awake.present
        assert [(one.topic, one.payload) for one in awake.told][:2] == [
            ("deleted/gone", b""),
            ("deleted/busy", b"%d" % (CHANGES + 1)),
        ]


def test_subscribing_again_under_publishes_loses_nothing(up: Up) -> None:
    ends, said = threading.Event(), Counter[str]()

    def publish() -> None:
        with HttpPublisher(up.http_url) as publisher:
            while not ends.wait(0.01):
                topic = f"again/{sum(said.values()) % 5}"
                said[topic] += 1
                publisher.publish(DOMAIN, GROUP, topic, payload=said[topic])

    publishing = threading.Thread(target=publish)
    publishing.start()
    try:
        with device(up, "again") as reader:
            for _ in range(SUBSCRIBES):
                reader.subscribe("again/#")
            ends.set()
            publishing.join()
            newest = {topic: b"%d" % number for topic, number in said.items()}
            wanted = dict(newest)

            def take(packet: Packet) -> None:
                reader.take(packet)
                if isinstance(packet, Publish) and wanted.get(packet.topic) == packet.payload:
                    del wanted[packet.topic]

            for one in reader.told:
                if wanted.get(one.topic) == one.payload:
                    del wanted[one.topic]
            reader.read_until(lambda: not wanted, take)
    finally:
        ends.set()
        publishing.join()
    for topic in newest:
        numbers = [int(one.payload) for one in reader.told if one.topic == topic]
        assert numbers == sorted(numbers), "versions never go back"
        fresh = [int(one.payload) for one in reader.told if one.topic == topic and not one.retain]
        assert len(fresh) == len(set(fresh)), "what answers no SUBSCRIBE is told once"
    print(f"\n{SUBSCRIBES} SUBSCRIBEs under {sum(said.values())} publishes: {len(reader.told)} told")


@pytest.mark.timeout(300 + 30 * KILLS)
def test_a_gateway_that_is_killed_before_puback_skips_nothing(up: Up) -> None:
    killed_s: list[float] = []
    with device(up, "killed-listener") as listener:
        listener.subscribe("killed/#")
    for number in range(1, KILLS + 1):
        packet = Publish("killed/a", b"%d" % number, 1, packet_id=number)
        with connected(up, "killed-talker") as talker:
            # Everything stops if a part dies too often. Behind the packet there must be no wait.
            wait_for(lambda: len(killed_s) < KILLS_AT_ONCE or time.monotonic() > killed_s[-KILLS_AT_ONCE] + AGAIN_S)
            before = dict(up.report["pids"])
            talker.send(packet)
            os.kill(before["gateway"], signal.SIGKILL)
            killed_s.append(time.monotonic())
        up.wait_ready(other_than=before)
        with connected(up, "killed-talker", clean=False) as talker:
            talker.send(Publish("killed/a", b"%d" % number, 1, dup=True, packet_id=number))
            talker.read_until(lambda: number in talker.acknowledged, talker.note)  # noqa: B023
    with connected(up, "killed-listener", clean=False) as awake:
        assert awake.present
        last = b"%d" % KILLS
        awake.read_until(lambda: bool(awake.told) and awake.told[-1].payload == last, awake.take)
    numbers = [int(one.payload) for one in awake.told]
    print(f"\n{KILLS} kills: {len(numbers)} told of {KILLS}")
    assert list(dict.fromkeys(numbers)) == list(range(1, KILLS + 1))
    assert all(after - one in (0, 1) for one, after in pairwise(numbers)), "a repeat follows its first"


@contextlib.contextmanager
def connected(up: Up, name: str, **said: Any) -> Iterator[Device]:
    """A device that connects as soon as a gateway is there."""
    found: list[Device] = []

    def connects() -> bool:
        with contextlib.suppress(OSError):
            found.append(Device(up, name, **said))
        return bool(found)

    wait_for(connects, "a gateway takes the device")
    try:
        yield found[0]
    finally:
        found[0].close()
