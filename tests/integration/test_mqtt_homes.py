"""What Home Assistant and zigbee2mqtt do over MQTT, as paho says it: discovery, birth and will, states and commands."""

import json

import pytest
from coldnotify_testkit.paho_device import MQTT_3_1_1, PahoDevice
from coldnotify_testkit.stack import Stacks, Up
from coldnotify_testkit.waiting import wait_for

pytestmark = pytest.mark.kafka

BRIDGE_BYTES = 37_000
"""zigbee2mqtt retains a list of its devices, with all that each can do."""
LAMPS = 12


def home(up: Up, client: str, *, clean: bool = True) -> PahoDevice:
    port = int(str(up.report["mqtt"]).rpartition(":")[2])
    return PahoDevice(port, client, MQTT_3_1_1, clean=clean)


def discovery(number: int) -> bytes:
    """A light as zigbee2mqtt has Home Assistant know it."""
    topic = f"zigbee2mqtt/lamp-{number}"
    said = {
        "availability": [{"topic": "zigbee2mqtt/bridge/state", "value_template": "{{ value_json.state }}"}],
        "command_topic": f"{topic}/set",
        "state_topic": topic,
        "schema": "json",
        "unique_id": f"0x00158d{number:010x}_light_zigbee2mqtt",
        "device": {"identifiers": [f"zigbee2mqtt_0x00158d{number:010x}"], "name": f"lamp-{number}"},
        "effect_list": [f"effect-{effect}" for effect in range(100)],
    }
    return json.dumps(said).encode()


def test_home_assistant_and_zigbee2mqtt(stacks: Stacks, tmp_path_factory: pytest.TempPathFactory) -> None:
    ways = {"gateway_mqtt_domain": "house", "gateway_mqtt_group": "ground", "object_payload_bytes_max": "65536"}
    with stacks.running(tmp_path_factory.mktemp("home"), **ways) as up:
        with home(up, "mqttjs_bridge") as bridge:
            bridge.publish("zigbee2mqtt/bridge/state", b'{"state":"online"}', retain=True)
            bridge.publish("zigbee2mqtt/bridge/devices", b"[" + b" " * BRIDGE_BYTES + b"]", retain=True)
            for number in range(LAMPS):
                bridge.publish(f"homeassistant/light/0x{number:x}/light/config", discovery(number), retain=True)
                bridge.publish(f"zigbee2mqtt/lamp-{number}", b'{"state":"OFF"}', retain=True)
            for topic in ("zigbee2mqtt/#", "homeassistant/status"):
                bridge.subscribe(topic)
            with home(up, "home-assistant") as assistant:
                for topic in ("homeassistant/+/+/config", "homeassistant/+/+/+/config"):
                    assistant.subscribe(topic, 0)
                wait_for(lambda: len(assistant.told) == LAMPS, "what is discovered")
                assert all(one.retain for one in assistant.told)
                assert {one.payload for one in assistant.told} == {discovery(number) for number in range(LAMPS)}
                assistant.publish("homeassistant/status", b"online", qos=1)
                bridge.wait_told("homeassistant/status", b"online")
                assistant.subscribe("zigbee2mqtt/#", 0)
                assistant.wait_told("zigbee2mqtt/bridge/devices", b"[" + b" " * BRIDGE_BYTES + b"]")
                assistant.wait_told("zigbee2mqtt/lamp-3", b'{"state":"OFF"}')
                assistant.publish("zigbee2mqtt/lamp-3/set", b'{"state":"ON"}')
                bridge.wait_told("zigbee2mqtt/lamp-3/set", b'{"state":"ON"}')
                bridge.publish("zigbee2mqtt/lamp-3", b'{"state":"ON"}', retain=True)
                assistant.wait_told("zigbee2mqtt/lamp-3", b'{"state":"ON"}')
                bridge.publish("homeassistant/light/0x3/light/config", b"", retain=True)
                assistant.wait_told("homeassistant/light/0x3/light/config", b"")
        with home(up, "home-assistant") as again:
            again.subscribe("homeassistant/#", 0)
            wait_for(lambda: len([one for one in again.told if one.retain]) == LAMPS - 1, "all but the removed one")
