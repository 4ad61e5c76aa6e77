"""The gateway's pure core: bytes, inbox records and time in; bytes and requests out. No I/O, no clock, no Kafka."""

from coldnotify_gateway.core.dialects import CRC, DIALECTS, JSON, MQTT, NAMES, RAW_CRC, RAW_NAMES
from coldnotify_gateway.core.dialects.json import values_of
from coldnotify_gateway.core.from_matcher import RecordIntake
from coldnotify_gateway.core.gateway import Gateway
from coldnotify_gateway.core.identified import Identified
from coldnotify_gateway.core.limits import Limits
from coldnotify_gateway.core.mqtt.client_ids import DeviceHome
from coldnotify_gateway.core.outputs import (
    Carry,
    Finish,
    HighWater,
    Output,
    Overtake,
    PauseReading,
    Peer,
    Produce,
    PublishBatch,
    PublishRecord,
    Send,
    SendAll,
    SendUrgent,
)
from coldnotify_gateway.core.overtaking import Urgent, WaitingFrames, part_bytes
from coldnotify_gateway.core.session_publishes import AboveAgreement
from coldnotify_gateway.core.states import SessionState
from coldnotify_gateway.core.told import Dialect, Frame, joined
from coldnotify_gateway.core.unidentified import Unidentified
from coldnotify_gateway.core.violation import Violation

__all__ = [
    "CRC",
    "DIALECTS",
    "JSON",
    "MQTT",
    "NAMES",
    "RAW_CRC",
    "RAW_NAMES",
    "AboveAgreement",
    "Carry",
    "DeviceHome",
    "Dialect",
    "Finish",
    "Frame",
    "Gateway",
    "HighWater",
    "Identified",
    "Limits",
    "Output",
    "Overtake",
    "PauseReading",
    "Peer",
    "Produce",
    "PublishBatch",
    "PublishRecord",
    "RecordIntake",
    "Send",
    "SendAll",
    "SendUrgent",
    "SessionState",
    "Unidentified",
    "Urgent",
    "Violation",
    "WaitingFrames",
    "joined",
    "part_bytes",
    "values_of",
]
