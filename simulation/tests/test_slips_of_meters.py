"""A slip in what serves MQTT devices breaks one of M1 to M5, M8 and P7 in a random schedule with meters.

Stands for: metering, mqtt_device, mqtt_opinion
"""

import sys

import pytest
from coldnotify_gateway.core.device_publishing import DevicePublishing
from coldnotify_gateway.core.from_mqtt import FromDevice
from coldnotify_gateway.core.mqtt.deliveries import SentRow
from coldnotify_gateway.core.to_mqtt import ToDevice
from coldnotify_simulation.slips import Slip, find, run_alone

SLIPS = {
    "a PUBLISH is acknowledged before it is in Kafka": Slip(
        DevicePublishing,
        "on_publish",
        "return self._publishing.on_publish(session, publish, now_s) + self._after_publishing(session, now_s)",
        "return self._pubacks(session, device, device.publishes.published(publish.request)) + "
        "self._publishing.on_publish(session, publish, now_s) + self._after_publishing(session, now_s)",
        8,
        meters=True,
    ),
    "the cursor moves over a gap": Slip(
        SentRow,
        "settle",
        "complete = max(complete, entry.complete)",
        "complete = max(complete, entry.complete, *(one.complete for one in entries))",
        9,
        meters=True,
    ),
    "the cursor passes what did not fit the Receive Maximum": Slip(
        ToDevice,
        "of_message",
        "continue  # the message is not passed over: catching up begins below it",
        "channels.told(message.offset); continue",
        43,
        meters=True,
    ),
    "what is below the highest offset is dropped": Slip(
        SentRow,
        "take_offset",
        "if offset <= complete or mark in offsets:",
        "if offset <= max((one >> _NAME_BITS for one in offsets), default=complete):",
        45,
        meters=True,
    ),
    "a session is present, whatever was kept": Slip(
        FromDevice,
        "on_opened",
        "present = kept.present and not device.clean",
        "present = True",
        1,
        meters=True,
    ),
    "a PINGRESP overtakes the first one": Slip(
        ToDevice,
        "on_ping",
        "if not device.pings and (device.woken",
        "if (device.woken",
        2,
        meters=True,
    ),
}


@pytest.mark.parametrize("slip", SLIPS)
def test_a_slip_is_found(slip: str) -> None:
    run_alone(__file__, slip)


if __name__ == "__main__":
    sys.exit(find(SLIPS, *sys.argv[1:]))
