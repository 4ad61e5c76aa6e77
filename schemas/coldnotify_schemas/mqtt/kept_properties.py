"""The properties of a PUBLISH that outlive it: as headers of its record in Kafka, and as bytes between services.

Headers (whoever writes a record may give it these): `mqtt-qos`, `mqtt-retain`, `mqtt-payload-format`,
`mqtt-content-type`, `mqtt-response-topic`, `mqtt-correlation-data`, and `mqtt-user-` before the name of each user
property, in their order.

Bytes: one for the QoS, 3 where no header says it, and 4 more for a retained message; then the properties as MQTT 5.0
encodes them, without their length. b"" means that there are none. So the newest version of each object, and each
message in memory, has KEPT_BYTES_MAX at most.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from coldnotify_schemas.mqtt.errors import MqttError, NotEncodable
from coldnotify_schemas.mqtt.packet_kinds import PacketType, Side
from coldnotify_schemas.mqtt.packets import Publish
from coldnotify_schemas.mqtt.primitives import Reader, varint_bytes
from coldnotify_schemas.mqtt.properties import NO_PROPERTIES, Properties, one_property, read_properties

KEPT_BYTES_MAX = 2048
"""Most bytes of one record's properties, as they are encoded."""
PREFIX = "mqtt-"
"""Begins the name of each of these headers."""
QOS_HEADER = "mqtt-qos"
"""0, 1 or 2: the QoS of the PUBLISH, which a delivery does not exceed."""
RETAINED_HEADER = "mqtt-retain", b"1"
"""The header of a channel's message that was published with retain."""
USER_PREFIX = "mqtt-user-"
_UNSAID = 3
"""The byte of a QoS that no header says. It is none of MQTT's."""
_RETAINED = 4
_QOS_VALUES = {b"0": 0, b"1": 1, b"2": 2}
_FORMAT_VALUES = {b"0": 0, b"1": 1}
_FORMAT, _RESPONSE_TOPIC = "payload_format", "response_topic"
_FIELDS: Mapping[str, str] = {
    "mqtt-payload-format": _FORMAT,
    "mqtt-content-type": "content_type",
    "mqtt-response-topic": _RESPONSE_TOPIC,
    "mqtt-correlation-data": "correlation_data",
}
"""By header: the field in `Properties`."""
Header = tuple[str, bytes]


class KeptProperties(NamedTuple):
    """The QoS and properties of one PUBLISH."""

    qos: int | None = None
    """None: it is not said, and limits no delivery."""
    properties: Properties = NO_PROPERTIES
    """Only payload format, content type, response topic, correlation data, user properties."""
    retained: bool = False
    """True: a message that was published with retain."""


NOTHING_KEPT = KeptProperties()


class TooManyProperties(ValueError):
    """The properties of a PUBLISH have more than KEPT_BYTES_MAX bytes. The words begin with the field's name."""


class ReadHeaders(NamedTuple):
    """The properties in the headers of one record."""

    encoded: bytes = b""
    passed_over: int = 0
    """Headers with the prefix that say nothing: of an unknown name, with a bad value, or behind KEPT_BYTES_MAX."""


NO_HEADERS = ReadHeaders()


def headers_of_publish(packet: Publish) -> tuple[Header, ...]:
    """Returns the headers of a PUBLISH's record. Raises TooManyProperties."""
    qos = (QOS_HEADER, b"%d" % packet.qos)
    if packet.properties is NO_PROPERTIES:
        return (qos,)
    headers = tuple(_headers_of(packet.properties))
    size = len(_encode(packet.qos, headers).encoded) if headers else 0
    if size > KEPT_BYTES_MAX:
        raise TooManyProperties(f"properties: have {size} bytes (at most {KEPT_BYTES_MAX} are allowed)")
    return (qos, *headers)


def read_kept(headers: Iterable[tuple[str, str | bytes | None]]) -> ReadHeaders:
    """Returns what a record's headers say. What cannot be said to a device is passed over."""
    found = [(name, value) for name, value in headers if name.startswith(PREFIX)]
    if not found:
        return NO_HEADERS
    said = [(name, value.encode() if isinstance(value, str) else value or b"") for name, value in found]
    qos, wrong, others = None, 0, []
    retained = RETAINED_HEADER in said
    for name, value in said:
        if (name, value) == RETAINED_HEADER:
            continue
        if name != QOS_HEADER:
            others.append((name, value))
        elif qos is None and value in _QOS_VALUES:
            qos = _QOS_VALUES[value]
        else:
            wrong += 1
    encoded, passed_over = _encode(qos, others, KEPT_BYTES_MAX, retained=retained)
    return ReadHeaders(encoded, passed_over + wrong)


def kept_headers(encoded: bytes) -> tuple[Header, ...]:
    """Returns the headers that say the same again. Raises MqttError."""
    if not encoded:
        return ()
    qos, properties, retained = decode_kept(encoded)
    said = () if qos is None else ((QOS_HEADER, b"%d" % qos),)
    return (*said, *((RETAINED_HEADER,) if retained else ()), *_headers_of(properties))


@lru_cache(maxsize=256)
def decode_kept(encoded: bytes) -> KeptProperties:
    """Returns what was encoded. Raises MqttError."""
    if len(encoded) <= 1:
        return _of_first(encoded[0]) if encoded else NOTHING_KEPT
    body = encoded[1:]
    reader = Reader(varint_bytes(len(body)) + body)
    # A server's: it is what devices are told.
    return _of_first(encoded[0])._replace(properties=read_properties(reader, PacketType.PUBLISH, Side.SERVER))


def check_kept(encoded: bytes) -> None:
    """Raises ValueError, unless these can be bytes of `read_kept`."""
    if len(encoded) > KEPT_BYTES_MAX:
        raise ValueError(f"they have {len(encoded)} bytes (at most {KEPT_BYTES_MAX} are allowed)")
    try:
        decode_kept(encoded)
    except MqttError as error:
        raise ValueError(str(error)) from None


def _of_first(byte: int) -> KeptProperties:
    qos = byte % _RETAINED
    return KeptProperties(None if qos == _UNSAID else qos, retained=byte >= _RETAINED)


def _headers_of(properties: Properties) -> Iterable[Header]:
    for header, field in _FIELDS.items():
        value = getattr(properties, field)
        if value is not None:
            yield header, _HEADER_VALUES[type(value)](value)
    for name, value in properties.user_properties:
        yield USER_PREFIX + name, value.encode()


_HEADER_VALUES: Mapping[type, Callable[[Any], bytes]] = {
    int: lambda value: b"%d" % value,
    str: str.encode,
    bytes: bytes,
}


def _encode(
    qos: int | None, headers: Sequence[Header], bytes_max: int | None = None, *, retained: bool = False
) -> ReadHeaders:
    """Returns the properties as bytes, and how many were passed over. `bytes_max`: None without a bound."""
    first = (_UNSAID if qos is None else qos) + retained * _RETAINED
    parts, size, passed_over = [bytes((first,))], 1, 0
    seen: set[str] = set()
    for name, value in headers:
        part = b"" if name in seen else _part(name, value)
        if not part or (bytes_max is not None and size + len(part) > bytes_max):
            passed_over += 1
            continue
        if not name.startswith(USER_PREFIX):
            seen.add(name)
        parts.append(part)
        size += len(part)
    if len(parts) == 1 and first == _UNSAID:
        return ReadHeaders(b"", passed_over)
    return ReadHeaders(b"".join(parts), passed_over)


def _part(header: str, value: bytes) -> bytes:
    """Returns one property as bytes; b"" for a header that is none."""
    field = _FIELDS.get(header)
    said: object
    try:
        if header.startswith(USER_PREFIX):
            field, said = "user_properties", (header.removeprefix(USER_PREFIX), value.decode())
        elif field is None:
            return b""
        elif field == _FORMAT:
            said = _FORMAT_VALUES[value]
        else:
            said = value if field == "correlation_data" else value.decode()
        if field == _RESPONSE_TOPIC and not _is_topic(str(said)):
            return b""
        return one_property(field, said)
    except (KeyError, UnicodeDecodeError, NotEncodable):
        return b""


def _is_topic(text: str) -> bool:
    return bool(text) and "+" not in text and "#" not in text
