"""The gateway's pure core: bytes, inbox records and time in; bytes and requests out. No I/O, no clock, no Kafka."""

from coldnotify_gateway.core.from_matcher import Intake
from coldnotify_gateway.core.gateway import Gateway
from coldnotify_gateway.core.identified import Identified
from coldnotify_gateway.core.limits import Limits
from coldnotify_gateway.core.outputs import (
    Finish,
    HighWater,
    Output,
    Overtake,
    PauseReading,
    Peer,
    Produce,
    Publication,
    Send,
    SendAll,
    SendUrgent,
)
from coldnotify_gateway.core.overtaking import Urgent, Waiting, part_bytes
from coldnotify_gateway.core.session_publishes import TooMuch
from coldnotify_gateway.core.states import State
from coldnotify_gateway.core.told import Dialect, Frame, joined
from coldnotify_gateway.core.unidentified import Unidentified
from coldnotify_gateway.core.violation import Violation

__all__ = [
    "Dialect",
    "Finish",
    "Frame",
    "Gateway",
    "HighWater",
    "Identified",
    "Intake",
    "Limits",
    "Output",
    "Overtake",
    "PauseReading",
    "Peer",
    "Produce",
    "Publication",
    "Send",
    "SendAll",
    "SendUrgent",
    "State",
    "TooMuch",
    "Unidentified",
    "Urgent",
    "Violation",
    "Waiting",
    "joined",
    "part_bytes",
]
