"""Wills of MQTT devices, of mosquitto's own clients and paho's, as sessions and gateways end in each way."""

import asyncio
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from coldnotify_schemas.matcher_state import WillRecord, is_wills_key
from coldnotify_schemas.mqtt.encoding import encode
from coldnotify_schemas.mqtt.packet_kinds import ProtocolVersion, Side
from coldnotify_schemas.mqtt.packets import ConnAck, Connect, Disconnect, PingReq, Will
from coldnotify_schemas.mqtt.parsing import PacketBuffer
from coldnotify_schemas.mqtt.reasons import ReasonCode
from coldnotify_schemas.partitioner import partition_of
from coldnotify_testkit.matcher_process import records_of
from coldnotify_testkit.paho_device import MQTT_5, PahoDevice
from coldnotify_testkit.stack import PARTITIONS, Stacks, Up, get_json
from coldnotify_testkit.waiting import wait_for
from msgspec.json import decode

pytestmark = pytest.mark.kafka

DOMAIN, GROUP = "animal.observer", "region-1"
DEVICES = int(os.environ.get("COLDNOTIFY_TEST_WILLS", "20"))
SPOKEN = ProtocolVersion.MQTT_5
PING_S = 30.0
LATE_S = 20.0
"""A will waits 30 s for who was sent away. A device of a busy machine may come later, and is none of a fault."""


def port_of(up: Up) -> int:
    return int(str(up.report["mqtt"]).rpartition(":")[2])


def device_of(up: Up, client: str) -> PahoDevice:
    return PahoDevice(port_of(up), f"{DOMAIN}/{GROUP}/{client}", MQTT_5, clean=True, expiry_s=0)


@pytest.mark.skipif(shutil.which("mosquitto_sub") is None, reason="there is no mosquitto_sub here (make tools)")
@pytest.mark.parametrize("protocol", ["mqttv311", "mqttv5"])
def test_a_will_is_published_once_if_its_client_does_not_take_it_back(up: Up, tmp_path: Path, protocol: str) -> None:
    topic = f"wills-{protocol}"
    # When it is terminated it says DISCONNECT, in 5.0 with the reason 0x04: its will is to be published.
    ends_with_will = [True, True] if protocol == "mqttv5" else [False, True]
    with device_of(up, f"watcher-{protocol}") as watcher:
        watcher.subscribe(f"{topic}/#")
        for retain in (True, False):
            name = f"{topic}/{'version' if retain else 'message'}"
            expected = 0
            for kills, says in zip((False, True), ends_with_will, strict=True):
                heard = tmp_path / f"{retain}-{kills}"
                flags = ["--will-topic", name, "--will-payload", "offline", "--will-qos", "1"]
                who = ["-p", str(port_of(up)), "-V", protocol, "-i", f"{DOMAIN}/{GROUP}/mortal-{protocol}"]
                mortal = ["mosquitto_sub", *who, "-t", f"{topic}/ready", *flags, *(["--will-retain"] if retain else [])]
                with heard.open("w") as output, subprocess.Popen(mortal, stdout=output) as process:
                    wait_for(partial(_hears, watcher, topic, heard), "it is connected")
                    (process.kill if kills else process.terminate)()
                    process.wait(60)
                expected += says
                wait_for(partial(_has_told, watcher, name, expected), f"{expected} wills")
        watcher.publish(f"{topic}/last", b"1")
        watcher.wait_told(f"{topic}/last", b"1")
        told = [one.topic for one in watcher.told if one.payload == b"offline"]
        assert len(told) == 2 * sum(ends_with_will)


def _has_told(watcher: PahoDevice, topic: str, number: int) -> bool:
    return len([one for one in watcher.told if one.topic == topic]) >= number


def _hears(sender: PahoDevice, topic: str, heard: Path) -> bool:
    """Returns true once a subscriber has heard what the sender says."""
    sender.publish(f"{topic}/ready", b"1")
    return bool(heard.read_text())


class LeanDevice:
    """A device of a thousand in one thread. It connects again by itself, as most clients do."""

    def __init__(self, port: int, client_id: str, will: Will) -> None:
        self.connected = False
        self.absences_s: list[float] = []
        """Seconds without a connection, for each time that it has come back."""
        self._port = port
        self._connect = encode(Connect(SPOKEN, client_id, True, 60, will=will), SPOKEN)
        self._lost_s: float | None = None

    async def run(self, ends: asyncio.Event) -> None:
        """Stays connected until the end, then says DISCONNECT."""
        while not ends.is_set():
            with contextlib.suppress(OSError):
                reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
                try:
                    writer.write(self._connect)
                    await self._read(reader, writer, ends)
                    if ends.is_set():
                        writer.write(encode(Disconnect(), SPOKEN))
                        writer.write_eof()
                        await reader.read()
                finally:
                    writer.close()
                    with contextlib.suppress(OSError):
                        await writer.wait_closed()
            if self.connected:
                self.connected, self._lost_s = False, time.monotonic()
            await asyncio.sleep(random.uniform(0.5, 2))

    async def _read(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, ends: asyncio.Event) -> None:
        packets = PacketBuffer(1_000, SPOKEN, Side.SERVER)
        end = asyncio.ensure_future(ends.wait())
        try:
            while not ends.is_set():
                data = asyncio.ensure_future(reader.read(1_000))
                await asyncio.wait((data, end), timeout=PING_S, return_when=asyncio.FIRST_COMPLETED)
                if not data.done():
                    data.cancel()
                    await asyncio.wait((data,))
                    writer.write(encode(PingReq(), SPOKEN))
                    continue
                if not data.result():
                    return
                for packet in packets.feed(data.result()):
                    if isinstance(packet, ConnAck) and packet.reason is ReasonCode.SUCCESS:
                        self.connected = True
                        if self._lost_s is not None:
                            self.absences_s.append(time.monotonic() - self._lost_s)
        finally:
            end.cancel()


class Fleet:
    """Devices that stay connected, each with a will: every other one is retained."""

    def __init__(self, up: Up, group: str, devices: dict[str, LeanDevice]) -> None:
        self.up, self.group, self.devices = up, group, devices

    def everyone_is_there(self) -> bool:
        return all(one.connected for one in self.devices.values())

    def published(self) -> dict[str, int]:
        """Returns how often the will of each device is in the topics. A repeat of one does not count."""
        partition = partition_of(DOMAIN, self.group, PARTITIONS)
        found: dict[str, set[str]] = {}
        for topic in (self.up.topics.objects, *self.up.topics.channels):
            for key, value, headers in records_of(self.up.kafka, topic, partition):
                name = (key or b"").decode().rpartition("/")[2]
                if key == f"{DOMAIN}/{self.group}/gone/{name}".encode():
                    what = headers.get("id", b"").decode() or str(json.loads(value or b"{}")["version"])
                    found.setdefault(name, set()).add(what)
        return {name: len(places) for name, places in found.items()}

    def wait_at_rest(self) -> None:
        """Waits until each device is there, with a will that is not due, and no other one is owed."""
        wait_for(lambda: self.everyone_is_there() and self._all_wait(), "all wills are those of connected devices")

    def _all_wait(self) -> bool:
        partition = partition_of(DOMAIN, self.group, PARTITIONS)
        last: dict[str, WillRecord] = {}
        for key, value, _ in records_of(self.up.kafka, self.up.topics.registrations, partition):
            name = (key or b"").decode()
            if is_wills_key(name) and name.startswith(f"{DOMAIN}/{self.group}/") and value is not None:
                last[name] = decode(value, type=WillRecord)
        at_rest = [one for one in last.values() if one.now is not None and not one.now.due and not one.owed]
        return len(at_rest) == len(self.devices)

    def of_gateway(self, part: str) -> dict[str, LeanDevice]:
        """Returns the devices that are connected to a gateway, which is named as in the ready report."""
        parts = [name for name in self.up.report["pids"] if name.startswith("gateway")]
        port = self.up.report["gateways_http"][parts.index(part)]
        id_ = get_json(f"http://{port}/v1/gateway")["gateway"]
        return {
            name: one
            for name, one in self.devices.items()
            if self.up.client(DOMAIN, self.group, name).get("gateway") == id_
        }

    def larger_gateway(self) -> tuple[str, dict[str, LeanDevice]]:
        """Returns the gateway with the most devices, and these."""
        return max(((part, self.of_gateway(part)) for part in ("gateway", "gateway-2")), key=lambda one: len(one[1]))


@contextmanager
def fleet(up: Up, group: str) -> Iterator[Fleet]:
    """They have a group of their own, and say DISCONNECT at the end."""
    devices = {}
    for number in range(DEVICES):
        name = f"device-{number}"
        will = Will(f"gone/{name}", b"gone", 1, retain=number % 2 == 0)
        devices[name] = LeanDevice(port_of(up), f"{DOMAIN}/{group}/{name}", will)
    loop, ends = asyncio.new_event_loop(), asyncio.Event()

    async def run() -> None:
        await asyncio.gather(*(one.run(ends) for one in devices.values()))

    thread = threading.Thread(target=loop.run_until_complete, args=(run(),))
    thread.start()
    try:
        yield Fleet(up, group, devices)
    finally:
        loop.call_soon_threadsafe(ends.set)
        thread.join()
        loop.close()


@pytest.fixture(scope="module")
def two_gateways(stacks: Stacks, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    with stacks.running(tmp_path_factory.mktemp("wills"), "--gateways=2") as up:
        up.shared = True
        yield up


def test_a_rolling_restart_of_all_gateways_publishes_no_will(two_gateways: Up) -> None:
    up = two_gateways
    with fleet(up, "restarted") as devices:
        devices.wait_at_rest()
        for part in ("gateway", "gateway-2"):
            before = dict(up.report["pids"])
            os.kill(before[part], signal.SIGTERM)
            up.wait_ready(other_than=before)
            devices.wait_at_rest()
        assert sum(len(one.absences_s) for one in devices.devices.values()) >= DEVICES
        late = {name for name, one in devices.devices.items() if max(one.absences_s, default=0) > LATE_S}
        print(f"{len(late)} of {DEVICES} devices came back late; {len(devices.published())} wills were published")
        assert devices.published().keys() <= late
    assert devices.published().keys() <= late, "nor when they say good-bye"


def test_a_killed_gateway_publishes_the_will_of_each_of_its_devices_once(two_gateways: Up) -> None:
    up = two_gateways
    with fleet(up, "killed") as devices:
        devices.wait_at_rest()
        part, willed = devices.larger_gateway()
        up.wait_ready(other_than=up.kill(part))
        wait_for(lambda: devices.published().keys() >= willed.keys(), "all wills")
        devices.wait_at_rest()
        lost = {name: len(one.absences_s) for name, one in devices.devices.items() if one.absences_s}
        assert willed.keys() <= lost.keys()
        published = devices.published()
    assert published == dict.fromkeys(willed, 1)
    assert devices.published() == published


def test_a_stopped_gateway_publishes_each_will_once_and_its_devices_come_back(two_gateways: Up) -> None:
    up = two_gateways
    with fleet(up, "stopped") as devices:
        devices.wait_at_rest()
        part, willed = devices.larger_gateway()
        pid = up.report["pids"][part]
        os.kill(pid, signal.SIGSTOP)
        try:
            wait_for(lambda: devices.published().keys() >= willed.keys(), "it is taken for dead")
        finally:
            os.kill(pid, signal.SIGCONT)
        wait_for(lambda: all(one.absences_s for one in willed.values()), "who was willed dead connects again")
        devices.wait_at_rest()
        slowest_s = max(max(one.absences_s) for one in willed.values())
        print(f"{len(willed)} of {DEVICES} devices were willed dead; back within {slowest_s:.1f} s")
        published = devices.published()
    assert published == dict.fromkeys(willed, 1)
    assert devices.published() == published
