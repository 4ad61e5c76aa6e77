"""The table of dialects. A dialect is one file, and one row here; fan-outs are written in this order.

Those that share an encoding are listed together. A connection that states no dialect speaks CRC until its Hello asks
for names.
"""

from coldnotify_gateway.core.dialects.framed import CRC, NAMES, RAW_CRC, RAW_NAMES
from coldnotify_gateway.core.dialects.json import JSON
from coldnotify_gateway.core.dialects.mqtt import MQTT
from coldnotify_gateway.core.told import Dialect

__all__ = ["CRC", "DIALECTS", "JSON", "MQTT", "NAMES", "RAW_CRC", "RAW_NAMES"]

DIALECTS: tuple[Dialect, ...] = (CRC, NAMES, RAW_CRC, RAW_NAMES, JSON, MQTT)
