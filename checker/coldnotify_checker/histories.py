"""Histories: events of publishers, clients, a run and the topics, one JSON object a line.

docs/histories.md defines the format. `t` is Unix time in microseconds: when a call began, or when an answer or callback
came. It is taken before the line is written; lines may have any order.
"""

import json
import os
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

import msgspec
from coldnotify_schemas.records import PAYLOAD_BYTES_MAX

LINE_BYTES_MAX = 4 * 1024 * 1024
"""The longest line: four times Kafka's own limit of a record, because a line of a dump holds one."""


class HistoryError(ValueError):
    """A line is not an event of a history; the message names file, line and field."""


class Event(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True):
    """One line. `where` is "file:line" of an event that was read, "" of one made in memory."""

    t: int = 0
    where: str = ""


# Publishers


class Publish(Event, kw_only=True, frozen=True, omit_defaults=True, tag_field="event", tag="publish"):
    """The call begins. `id` is unique for the publisher; `object` is domain/group/object."""

    publisher: str
    id: int | str
    object: str
    version: int | None = None
    """None: the record's Kafka timestamp in ms, which `published` may tell."""
    incarnation: int = 0
    payload: Any = None
    deleted: bool = False
    source: str | None = None
    """The client that caused it: it is not owed this version."""
    expires_at: int | None = None
    """Unix ms from which on the version is told without its payload."""
    priority: Literal["high"] | None = None
    """"high": it may be told before what was published earlier."""
    patch: dict[str, Any] | None = None
    """The merge patch of its object's description that it has; a value None removes the key."""
    if_version: int | None = None
    """Its condition: that this version, of its incarnation, is the newest."""
    if_absent: bool = False
    """Its condition: that its object has no version, or is deleted."""
    if_changed: bool = False
    """Its condition: that the newest version says something else. What is answered then is the version in force."""
    atomic: str | None = None
    """The set that it is in, if it is published with others as one; unique for the publisher."""
    path: str = "kafka"


class Published(Event, kw_only=True, frozen=True, omit_defaults=True, tag_field="event", tag="published"):
    """The call's answer. failed: surely not written. unknown, or no such line: it may be written."""

    publisher: str
    id: int | str
    outcome: Literal["acknowledged", "failed", "unknown"]
    skipped: bool = False
    """Not written: the library knew it for a repeat."""
    refused: str | None = None
    """The limit of its tenant's agreement by which it was refused. Then its outcome is failed."""
    retry_after_s: float | None = None
    """The refusal's Retry-After."""
    lost: bool = False
    """Its condition, or that of another member of its set, did not hold. Then its outcome is failed."""
    newest: int | None = None
    """The newest version then, if the condition was its own."""
    version: int | None = None
    offset: int | None = None
    """Offset of a channel's message, if the publisher was told it."""


class Describe(Event, kw_only=True, frozen=True, omit_defaults=True, tag_field="event", tag="describe"):
    """The call that describes an object begins; `published` answers it. `id` is unique for the publisher."""

    publisher: str
    id: int | str
    object: str
    description: dict[str, Any] | None
    """None: the description was removed."""
    merges: bool = False
    """The description is a merge patch; a value None removes the key."""
    timestamp: int | None = None
    """Timestamp of the record in ms, which is its version; None: the publisher does not know it."""
    path: str = "kafka"


class Send(Event, kw_only=True, frozen=True, omit_defaults=True, tag_field="event", tag="send"):
    """The call that sends a message begins; `published` answers it. `channel` is domain/group/channel."""

    publisher: str
    id: int | str
    """Unique for the publisher."""
    channel: str
    message: str
    """The message's id. Sent again with the same, it is the same message."""
    payload: Any = None
    to: list[str] = []
    expires_at: int | None = None
    """Unix ms from which on nobody is told it."""
    key: str | None = None
    """Members of a share are handed messages with one key in order."""
    path: str = "kafka"
    """stray: into another partition than its own, which moves it."""


class Agreement(Event, kw_only=True, frozen=True, omit_defaults=True, tag_field="event", tag="agreement"):
    """The agreement with a tenant from now on; None: no limit."""

    tenant: str
    domains: list[str]
    in_per_s: float | None = None
    in_bytes_per_s: float | None = None
    out_per_s: float | None = None
    out_bytes_per_s: float | None = None
    burst_s: float = 2.0
    objects_max: int | None = None
    clients_max: int | None = None
    registrations_max: int | None = None


# Clients


class Started(Event, kw_only=True, frozen=True, omit_defaults=True, tag_field="event", tag="started"):
    """A process with this client began. `life` rises by one whenever its state file was lost."""

    client: str
    life: int = 0
    together: bool = False
    """Its application is told the members of a set together, as the Python library does."""


class Stopped(Event, kw_only=True, frozen=True, omit_defaults=True, tag_field="event", tag="stopped"):
    """It ended in order, its state saved."""

    client: str


class Sleep(Event, kw_only=True, frozen=True, omit_defaults=True, tag_field="event", tag="sleep"):
    """It disconnected in order and stays a process."""

    client: str


class Killed(Event, kw_only=True, frozen=True, omit_defaults=True, tag_field="event", tag="killed"):
    """Power loss."""

    client: str


class Connecting(Event, kw_only=True, frozen=True, omit_defaults=True, tag_field="event", tag="connecting"):
    """connect() is called: a wake begins."""

    client: str


class TurnedAway(Event, kw_only=True, frozen=True, omit_defaults=True, tag_field="event", tag="turned_away"):
    """The service ended a connection because its tenant has as many clients as were agreed (`clients_max`)."""

    client: str
    welcomed: bool = False
    """This very connection had been let in before."""


class CaughtUp(Event, kw_only=True, frozen=True, omit_defaults=True, tag_field="event", tag="caught_up"):
    """The library reports that it is complete. `since`: the t of the connecting that it belongs to."""

    client: str
    since: int
    parked: list[str] = []
    """As of `Fresh`."""


class Fresh(Event, kw_only=True, frozen=True, omit_defaults=True, tag_field="event", tag="fresh"):
    """The library was asked how fresh it is, and has answered by `t`."""

    client: str
    asked: int
    """Unix time in microseconds, before the question."""
    as_of: int | None = None
    """Its `status.fresh_as_of`, in microseconds; None: not known."""
    caught_up: bool = False
    pending: int = 0
    """Operations that are not settled."""
    parked: list[str] = []
    """Names within the group of objects and channels, and texts of queries, whose callbacks failed too often."""
    fresh_s: float | None = None
    """So long it counts as caught up after what was proved last."""
    keepalive_s: float | None = None


class Register(Event, kw_only=True, frozen=True, omit_defaults=True, tag_field="event", tag="register"):
    """The application asks for an object."""

    client: str
    object: str


class Unregister(Event, kw_only=True, frozen=True, omit_defaults=True, tag_field="event", tag="unregister"):
    """The application asks for an object no more."""

    client: str
    object: str


class Refused(Event, kw_only=True, frozen=True, omit_defaults=True, tag_field="event", tag="refused"):
    """The service refused a registration."""

    client: str
    object: str
    reason: str = ""


class Told(Event, kw_only=True, frozen=True, omit_defaults=True, tag_field="event", tag="told"):
    """The callback is entered."""

    client: str
    object: str
    version: int | None = None
    """None: unknown, nothing was ever published."""
    incarnation: int | None = None
    """None: the application does not know it."""
    deleted: bool = False
    payload: Any = None
    failed: bool = False
    """The callback raised, so the version is told again."""
    described: bool = False
    """The application asks for descriptions, and got `description` with this version."""
    description: dict[str, Any] | None = None


class Ledger(Event, kw_only=True, frozen=True, omit_defaults=True, tag_field="event", tag="ledger"):
    """The service was asked which clients have not applied a version of an object; it answered at `t`.

    Record it only if all clients of the group can report what their callbacks have taken, which they can from the
    release after 0.1.0 on.
    """

    asked: int
    """Unix time in microseconds."""
    object: str
    version: int
    incarnation: int = 0
    lacking: list[str]
    """domain/group/client of all clients that have not applied it, as the service answered."""


class RegisterQuery(Event, kw_only=True, frozen=True, omit_defaults=True, tag_field="event", tag="register_query"):
    """The application asks for all objects that fit a query, and which they are (it subscribes to the members)."""

    client: str
    query: str
    descriptions: bool = False
    """It asks how they are described, and has subscribed to their versions."""


class UnregisterQuery(Event, kw_only=True, frozen=True, omit_defaults=True, tag_field="event", tag="unregister_query"):
    """The application asks for a query no more."""

    client: str
    query: str


class QueryRefused(Event, kw_only=True, frozen=True, omit_defaults=True, tag_field="event", tag="query_refused"):
    """The service refused a query."""

    client: str
    query: str
    reason: str = ""


class Members(Event, kw_only=True, frozen=True, omit_defaults=True, tag_field="event", tag="members"):
    """The members callback is entered. Its first call in a process names all members."""

    client: str
    query: str
    added: list[str] = []
    """Names within the group."""
    removed: list[str] = []
    failed: bool = False
    """The callback raised, so the difference is told again."""


class Subscribe(Event, kw_only=True, frozen=True, omit_defaults=True, tag_field="event", tag="subscribe"):
    """The application subscribes to a channel: to every message, and to reports of missed ones."""

    client: str
    channel: str
    pattern: str | None = None
    """An expression: it subscribes to all channels of its group in whose names that is found. Then `channel` ends in
    the expression."""
    attributes: list[str] = []
    since: Literal["now", "oldest", "newest"] | int = "now"
    """A number: behind this offset."""


class Unsubscribe(Event, kw_only=True, frozen=True, omit_defaults=True, tag_field="event", tag="unsubscribe"):
    """The application subscribes to a channel no more."""

    client: str
    channel: str
    pattern: str | None = None
    """As of `Subscribe`."""


class MessageTold(Event, kw_only=True, frozen=True, omit_defaults=True, tag_field="event", tag="message"):
    """The callback of a channel is entered."""

    client: str
    channel: str
    """The message's own."""
    pattern: str | None = None
    """The pattern whose callback it is."""
    offset: int
    previous: int | None = None
    """The offset that the library told before, by its own account."""
    message: str | None = None
    """The message's id; None: it has none."""
    payload: Any = None
    failed: bool = False
    """The callback raised, so the message is told again."""


class MissedTold(Event, kw_only=True, frozen=True, omit_defaults=True, tag_field="event", tag="missed"):
    """The callback for missed messages is entered: messages between these offsets may be missing."""

    client: str
    channel: str
    pattern: str | None = None
    """As of `Subscribe`."""
    after: int | None = None
    before: int
    reason: str


# MQTT devices. `client` is domain/group/client, a topic is a name in its domain and group. Payloads are as in the other
# lines: JSON, or {"base64": ...} of bytes that are none, such as no bytes at all.


class MqttWill(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True):
    """The message that the service publishes when the device is gone."""

    topic: str
    payload: Any = None
    retain: bool = False
    delay_s: int = 0


class MqttFilter(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True):
    """One filter of a SUBSCRIBE, with its options."""

    filter: str
    qos: int = 0
    no_local: bool = False
    retain_as_published: bool = False
    retain_handling: int = 0


class MqttConnect(Event, kw_only=True, frozen=True, omit_defaults=True, tag_field="event", tag="mqtt_connect"):
    """A CONNECT is about to be sent."""

    client: str
    protocol: Literal[4, 5] = 5
    """4: MQTT 3.1.1."""
    clean: bool = False
    expiry_s: int = 0
    """The session outlives the connection for so long; 2^32 - 1, and 3.1.1 without a clean session: for ever."""
    packet_bytes_max: int | None = None
    """Maximum Packet Size; None: any."""
    will: MqttWill | None = None


class MqttConnected(Event, kw_only=True, frozen=True, omit_defaults=True, tag_field="event", tag="mqtt_connected"):
    """A CONNACK lets the device in."""

    client: str
    present: bool = False


class MqttSubscribe(Event, kw_only=True, frozen=True, omit_defaults=True, tag_field="event", tag="mqtt_subscribe"):
    """A SUBSCRIBE is about to be sent. `id` is unique for the device, in all its connections."""

    client: str
    id: int
    filters: list[MqttFilter]


class MqttSubscribed(Event, kw_only=True, frozen=True, omit_defaults=True, tag_field="event", tag="mqtt_subscribed"):
    """Its SUBACK came, with a code for each filter."""

    client: str
    id: int
    codes: list[int]


class MqttUnsubscribe(Event, kw_only=True, frozen=True, omit_defaults=True, tag_field="event", tag="mqtt_unsubscribe"):
    """An UNSUBSCRIBE is about to be sent."""

    client: str
    filters: list[str]


class MqttTold(Event, kw_only=True, frozen=True, omit_defaults=True, tag_field="event", tag="mqtt_told"):
    """A PUBLISH came."""

    client: str
    topic: str
    payload: Any = None
    qos: int = 0
    retain: bool = False
    dup: bool = False
    packet_id: int | None = None
    version: int | None = None
    """The user property coldnotify-version; None: it has none, as in 3.1.1."""
    offset: int | None = None
    """The user property coldnotify-offset."""
    missed: list[str] = []
    """The user properties coldnotify-missed: "AFTER-BEFORE REASON"."""


class MqttAcknowledge(Event, kw_only=True, frozen=True, omit_defaults=True, tag_field="event", tag="mqtt_acknowledge"):
    """A PUBACK for what came with this identifier is about to be sent."""

    client: str
    packet_id: int


class MqttPublish(Event, kw_only=True, frozen=True, omit_defaults=True, tag_field="event", tag="mqtt_publish"):
    """A PUBLISH is about to be sent. `id` is unique for the device; one that is sent again has another."""

    client: str
    id: int
    topic: str
    payload: Any = None
    qos: int = 0
    retain: bool = False


class MqttPublished(Event, kw_only=True, frozen=True, omit_defaults=True, tag_field="event", tag="mqtt_published"):
    """The PUBACK of a PUBLISH came; `code` is its reason: below 128 the message is in Kafka."""

    client: str
    id: int
    code: int = 0


class MqttPong(Event, kw_only=True, frozen=True, omit_defaults=True, tag_field="event", tag="mqtt_pong"):
    """A PINGRESP came for the PINGREQ that was sent at `asked`, Unix time in microseconds."""

    client: str
    asked: int


class MqttDisconnected(
    Event, kw_only=True, frozen=True, omit_defaults=True, tag_field="event", tag="mqtt_disconnected"
):
    """A connection ended, or its CONNECT failed. device: it sent DISCONNECT; crash: it just went."""

    client: str
    by: Literal["device", "crash", "service"]
    reason: str = ""


# The run


class Fault(Event, kw_only=True, frozen=True, omit_defaults=True, tag_field="event", tag="fault"):
    """Something is broken on purpose."""

    kind: str
    target: str = ""


class Healed(Event, kw_only=True, frozen=True, omit_defaults=True, tag_field="event", tag="healed"):
    """And whole again."""

    kind: str
    target: str = ""


class TopicLost(Event, kw_only=True, frozen=True, omit_defaults=True, tag_field="event", tag="topic_lost"):
    """A topic was deleted: what was published until now may be lost."""

    topic: str
    begun: int | None = None
    """When the deletion began, as `t`: records sent since may be in either topic. None: at `t`."""
    domains: list[str] = []
    """For a topic of channels: the domains whose channels it holds. None: any."""


class Deposed(Event, kw_only=True, frozen=True, omit_defaults=True, tag_field="event", tag="deposed"):
    """Since `begun`, and until `t`, a node of Kafka may have led no longer and not have known."""

    begun: int


class LogTrimmed(Event, kw_only=True, frozen=True, omit_defaults=True, tag_field="event", tag="log_trimmed"):
    """Retention, or somebody, has removed everything below `offset` of a partition, or is about to."""

    topic: str
    partition: int
    offset: int


class Removed(Event, kw_only=True, frozen=True, omit_defaults=True, tag_field="event", tag="removed"):
    """Retention has removed an object, or its description: what was published of it until now is owed to nobody."""

    object: str
    what: Literal["object", "description"] = "object"


class Forgotten(Event, kw_only=True, frozen=True, omit_defaults=True, tag_field="event", tag="forgotten"):
    """An operator has had a client forgotten: it is registered for nothing until it comes again."""

    client: str


class Calm(Event, kw_only=True, frozen=True, omit_defaults=True, tag_field="event", tag="calm"):
    """No fault and no publish from here on."""


class End(Event, kw_only=True, frozen=True, omit_defaults=True, tag_field="event", tag="end"):
    """Faults have stopped for long enough: the `connected` clients must know everything by now."""

    connected: list[str]


class Wire(Event, kw_only=True, frozen=True, omit_defaults=True, tag_field="event", tag="wire"):
    """A Notification frame passed a counting proxy."""

    client: str
    object: str
    version: int | None = None
    incarnation: int = 0


# The topics at the end


class Record(Event, kw_only=True, frozen=True, omit_defaults=True, tag_field="event", tag="record"):
    """A record in a topic. `timestamp` in ms; `value`: parsed JSON, or the text if it is not JSON."""

    topic: str
    partition: int
    offset: int
    timestamp: int = 0
    key: str | None = None
    value: Any = None
    headers: dict[str, str] = {}
    """Headers of a channel's record, as far as they are text."""
    removes: str = ""
    """For a null: the header in which an owner names what it removes."""
    arrival: str | None = None
    """The header of a version by arrival, or of one that says up to which place it is the newest."""
    raw: bool = False
    """The header says that the value's payload is bytes, in base64."""


class Topic(Event, kw_only=True, frozen=True, omit_defaults=True, tag_field="event", tag="topic"):
    """A topic all of whose records were dumped, as of `t`."""

    topic: str
    topic_id: str = ""
    partitions: int
    starts: list[int] = []
    """By partition, the offset of the first record that may still exist: retention has removed everything below."""
    ends: list[int] = []
    payload_bytes_max: int = PAYLOAD_BYTES_MAX
    """The services' limit on a version's payload, as far as who dumped knew it."""


_KINDS: dict[str, type[Event]] = {
    str(kind.__struct_config__.tag): kind
    for kind in (
        *(Publish, Published, Started, Stopped, Sleep, Killed, Connecting, CaughtUp, Register, Unregister, Refused),
        *(Told, Fault, Healed, TopicLost, Removed, Forgotten, Calm, End, Wire, Record, Topic),
        *(Describe, RegisterQuery, UnregisterQuery, QueryRefused, Members),
        *(
            Fresh,
            Deposed,
            Ledger,
            Agreement,
            TurnedAway,
            Send,
            Subscribe,
            Unsubscribe,
            MessageTold,
            MissedTold,
            LogTrimmed,
        ),
        *(MqttConnect, MqttConnected, MqttSubscribe, MqttSubscribed, MqttUnsubscribe, MqttTold, MqttAcknowledge),
        *(MqttPublish, MqttPublished, MqttPong, MqttDisconnected),
    )
}
_TIMELESS = ("record", "topic")


class _Head(msgspec.Struct):
    event: str
    t: int | None = None


_head = msgspec.json.Decoder(_Head)
_decoders = {name: msgspec.json.Decoder(kind) for name, kind in _KINDS.items()}
_encoder = msgspec.json.Encoder()


def add_kinds(kinds: Iterable[type[Event]]) -> None:
    """Has lines of further kinds read."""
    for kind in kinds:
        _decoders[str(kind.__struct_config__.tag)] = msgspec.json.Decoder(kind)


def parse_event(line: bytes | str, where: str = "") -> Event | None:
    """The event that a line is; None if it is of a kind that is not known. Raises HistoryError."""
    at = f"{where}: " if where else ""
    if len(line) > LINE_BYTES_MAX:
        raise HistoryError(f"{at}the line has more than {LINE_BYTES_MAX} bytes")
    try:
        head = _head.decode(line)
        decoder = _decoders.get(head.event)
        if decoder is None:
            return None
        event: Event = decoder.decode(line)
    except msgspec.ValidationError as error:
        words, _, path = str(error).partition(" - at `$.")
        raise HistoryError(at + (f"{path.rstrip('`')}: {words}" if path else words)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise HistoryError(f"{at}is not a JSON object: {error}") from None
    if head.t is None and head.event not in _TIMELESS:
        raise HistoryError(f"{at}t: is missing (Unix time in microseconds)")
    msgspec.structs.force_setattr(event, "where", where)
    return event


def encode_event(event: Event) -> bytes:
    """The event as a line, without the end of line."""
    fields = msgspec.to_builtins(event)
    fields.pop("where", None)
    if not isinstance(event, Record | Topic):
        fields = {"t": event.t, **fields}
    return _encoder.encode(fields)


def shown(event: Event) -> str:
    """Returns the event as evidence: its place, and its text."""
    text = encode_event(event).decode()
    text = text if len(text) <= 300 else text[:297] + "..."
    return f"{event.where}: {text}" if event.where else text


def parked_name(register: Event) -> str:
    """Returns the name by which `Fresh.parked` lists the registration of this event."""
    if isinstance(register, RegisterQuery):
        return register.query
    assert isinstance(register, Register | Subscribe)
    if isinstance(register, Subscribe) and register.pattern is not None:
        return register.pattern
    return (register.object if isinstance(register, Register) else register.channel).split("/", 2)[2]


def read_lines(path: str | Path) -> Iterator[Event]:
    """The events of one file, in its order. Raises HistoryError naming file and line, OSError.

    A last line without its end is left out: its writer was killed while it wrote.
    """
    with Path(path).open("rb") as file:
        number = 0
        while line := file.readline(LINE_BYTES_MAX + 2):
            number += 1
            if not line.endswith(b"\n") and len(line) <= LINE_BYTES_MAX:
                return
            if line.isspace():
                continue
            event = parse_event(line, f"{path}:{number}")
            if event is not None:
                yield event


def read_histories(paths: Iterable[str | Path]) -> list[Event]:
    """All events of these files as one history, by their time. Raises HistoryError, OSError."""
    return in_order(event for path in paths for event in read_lines(path))


def in_order(events: Iterable[Event]) -> list[Event]:
    """Sorts events by time; those with the same time, or none (a dump), keep their order."""
    return sorted(events, key=lambda event: event.t)


def now_us() -> int:
    """Unix time in microseconds, for `t`."""
    return time.time_ns() // 1000


class HistoryWriter:
    """Appends events to a file, each a line, written before `write` returns. Safe to use from many threads.

    Appending is atomic for lines of a few KiB, so several processes may write to one file.
    """

    def __init__(self, path: str | Path) -> None:
        """Makes the file if it is missing; a link is not followed. Raises OSError."""
        self._lock = threading.Lock()
        how = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        self._file = FileIO(os.open(path, how, 0o666), "a+")
        _remove_torn_line(self._file)

    def write(self, event: Event | Mapping[str, Any]) -> None:
        """Appends an event, or a mapping in the form of its JSON, which may have further fields. Raises HistoryError,
        OSError.
        """
        if isinstance(event, Event):
            line = encode_event(event)
        else:
            line = json.dumps(event, ensure_ascii=False, separators=(",", ":")).encode()
            parse_event(line)
        with self._lock:
            self._file.write(line + b"\n")

    def close(self) -> None:
        """May be called twice."""
        with self._lock:
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _remove_torn_line(file: FileIO) -> None:
    """Removes the part of a line that a power cut left: it would swallow the next one, and was never an event."""
    end = file.seek(0, 2)
    file.seek(max(0, end - LINE_BYTES_MAX))
    tail = file.read()
    if tail and not tail.endswith(b"\n"):
        file.truncate(end - len(tail) + tail.rfind(b"\n") + 1)
