"""What a POST to /v1/sync asks, and what it is told: JSON. Pure.

The cursor is one text: epoch, offset and digest of the registrations that it was told about. So a client needs to keep
nothing else, and a set that has changed since voids it: everything that is asked for is told once more.
"""

import re
from typing import Any

import msgspec
from coldnotify_common.web import BadRequest
from coldnotify_schemas.digest import digest
from coldnotify_schemas.names import check_name, check_object
from coldnotify_schemas.wire_pb2 import Notification

from coldnotify_gateway.agent import Agent, Device

_SPACE_FOR_BREAKS = bytes.maketrans(b"\r\n", b"  ")
_CURSOR = re.compile(r"([0-9a-f]{1,8})\.([0-9]{0,19})\.([0-9a-f]{1,16})")


class _Body(msgspec.Struct, forbid_unknown_fields=True):
    domain: str
    group: str
    client: str
    registrations: list[str]
    cursor: str | None = None
    wait_s: float = 0


def parse(body: bytes, *, wait_s_max: float) -> tuple[Device, float]:
    """Who asks for what, and for how many seconds it would wait. Raises BadRequest and InvalidName."""
    try:
        said = msgspec.json.decode(body, type=_Body)
    except msgspec.ValidationError as error:
        words, _, path = str(error).partition(" - at `$.")
        raise BadRequest(path.rstrip("`") or "body", words) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequest("body", f"is no JSON: {error}") from None
    for field in ("domain", "group", "client"):
        check_name(field, getattr(said, field))
    for name in said.registrations:
        check_object(name)
    if not 0 <= said.wait_s <= wait_s_max:
        raise BadRequest("wait_s", f"{said.wait_s:g} is not from 0 to {wait_s_max:g}")
    registrations = list(dict.fromkeys(said.registrations))
    epoch, cursor = _parse_cursor(said.cursor, registrations)
    return Device(said.domain, said.group, said.client, registrations, epoch, cursor), said.wait_s


def _parse_cursor(text: str | None, registrations: list[str]) -> tuple[int | None, int | None]:
    if not text:
        return None, None
    match = _CURSOR.fullmatch(text)
    if match is None:
        raise BadRequest("cursor", f"{text[:80]!r} is none of the cursors that were told")
    epoch, offset, of_set = match.groups()
    if int(of_set, 16) != digest(registrations):
        return int(epoch, 16), None  # it says nothing about what has been added since
    return int(epoch, 16), int(offset) if offset else None


def cursor_of(agent: Agent) -> str | None:
    """The cursor to say next time; None: the service did not say its epoch."""
    if agent.epoch is None:
        return None
    offset = "" if agent.cursor is None else agent.cursor
    return f"{agent.epoch:x}.{offset}.{agent.digest:x}"


def show(notification: Notification) -> bytes:
    """One object's newest version, as JSON. "version" is null where nothing was ever published."""
    shown: dict[str, Any] = {"object": notification.name}
    shown["version"] = notification.version if notification.HasField("version") else None
    if notification.incarnation:
        shown["incarnation"] = notification.incarnation
    if notification.payload:
        shown["payload"] = msgspec.Raw(notification.payload)
    if notification.deleted:
        shown["deleted"] = True
    return msgspec.json.encode(shown)


def show_line(notification: Notification) -> bytes:
    """As `show`, on one line."""
    # A payload is as it was published. JSON has line breaks between its words only: in its strings they are escaped.
    return show(notification).translate(_SPACE_FOR_BREAKS)


def show_end(agent: Agent) -> bytes:
    """What follows the notifications: the fields of the answer's object, without its braces."""
    fields: dict[str, Any] = {"cursor": cursor_of(agent), "in_sync": bool(agent.was_in_sync)}
    if agent.refused:
        fields["refused"] = agent.refused
    return msgspec.json.encode(fields)[1:-1]
