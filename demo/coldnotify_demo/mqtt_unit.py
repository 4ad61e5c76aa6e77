"""An OU that knows nothing of ColdNotify: `mosquitto_sub` where it is installed, else paho-mqtt by this module.

    python -m coldnotify_demo.mqtt_unit HOST PORT CLIENT_ID FILTER...

Its session is kept: what it is owed while it is off, the service keeps for it.
"""

import shutil
import signal
import sys
from typing import Any

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion

from coldnotify_demo.saying import say

MOSQUITTO = "mosquitto_sub"


def program() -> str:
    """Returns by what the device is played."""
    return MOSQUITTO if shutil.which(MOSQUITTO) else "paho-mqtt"


def command(address: str, client_id: str, filters: list[str]) -> list[str]:
    """Returns what to run for a device at `address` (host:port); it says "told TOPIC PAYLOAD" of each message."""
    host, _, port = address.rpartition(":")
    if program() == MOSQUITTO:
        asked = [word for one in filters for word in ("-t", one)]
        return [MOSQUITTO, "-h", host, "-p", port, "-i", client_id, "-c", "-q", "1", "-F", "told %t %p", *asked]
    return [sys.executable, "-m", __name__, host, port, client_id, *filters]


def main() -> None:
    """Runs until SIGTERM."""
    host, port, client_id, *filters = sys.argv[1:]
    client = paho.Client(CallbackAPIVersion.VERSION2, client_id, clean_session=False)

    @client.connect_callback()
    def subscribe(*_: object) -> None:
        client.subscribe([(one, 1) for one in filters])

    @client.message_callback()
    def told(_client: object, _data: object, message: Any) -> None:
        say(f"told {message.topic} {message.payload.decode()}")

    signal.signal(signal.SIGTERM, lambda *_: client.disconnect())
    client.connect(host, int(port))
    client.loop_forever()


if __name__ == "__main__":
    main()
