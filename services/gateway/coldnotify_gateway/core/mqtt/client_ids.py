"""The client that an MQTT connection is, by its client identifier and what its certificate or token grants."""

import secrets
from typing import NamedTuple

from coldnotify_schemas.close_codes import CloseCode
from coldnotify_schemas.names import InvalidName, check_name, is_looking_name

from coldnotify_gateway.core.violation import Violation

_NAME_CHARS = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-")
_ESCAPE = ".."


class DeviceHome(NamedTuple):
    """The domain and group of a connection."""

    domain: str
    group: str


class MqttClient(NamedTuple):
    """The names of a connection's client."""

    domain: str
    group: str
    client: str


def assigned_id() -> str:
    """Returns an identifier for a client that says none."""
    return f"mqtt-{secrets.token_hex(12)}"


def client_of(client_id: str, place: DeviceHome | None) -> MqttClient:
    """Returns the client of a client identifier. `place`: its domain and group; None: the identifier must say them, as
    domain/group/client. Raises Violation.
    """
    if place is None:
        names = client_id.split("/")
        if len(names) != 3:
            reason = (
                f"client identifier: {client_id[:80]!r} is not domain/group/client, and neither the client's proof nor "
                "--gateway-mqtt-domain and --gateway-mqtt-group say them"
            )
            raise Violation(CloseCode.BAD_NAME, reason)
        place, client_id = DeviceHome(names[0], names[1]), names[2]
    client = client_name(client_id)
    if is_looking_name(client):
        raise Violation(CloseCode.BAD_NAME, f"client identifier: {client!r} is for pages that only look")
    try:
        return MqttClient(
            check_name("domain", place.domain), check_name("group", place.group), check_name("client", client)
        )
    except InvalidName as error:
        raise Violation(CloseCode.BAD_NAME, str(error)) from None


def client_name(client_id: str) -> str:
    """Returns a client identifier as a name: a byte that no name has becomes two dots and two hex digits. So do dots,
    if the identifier has two in a row.
    """
    dots = _ESCAPE in client_id
    return "".join(
        chr(byte) if byte in _NAME_CHARS and not (dots and byte == ord(".")) else f"{_ESCAPE}{byte:02x}"
        for byte in client_id.encode()
    )
