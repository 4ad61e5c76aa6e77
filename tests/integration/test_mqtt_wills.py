"""Wills of MQTT devices: mosquitto's own clients through gateway, Kafka and matcher, ended in each way."""

import shutil
import subprocess
from functools import partial
from pathlib import Path

import pytest
from coldnotify_testkit.paho_device import MQTT_5, PahoDevice
from coldnotify_testkit.stack import Up
from coldnotify_testkit.waiting import wait_for

pytestmark = pytest.mark.kafka

DOMAIN, GROUP = "animal.observer", "region-1"


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
