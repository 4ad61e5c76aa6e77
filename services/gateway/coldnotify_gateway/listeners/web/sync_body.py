"""What a POST to /v1/sync asks, and what it is told: JSON. Pure.

The cursor is one text: epoch, offset and digest of the registrations that it was told about. So a client needs to keep
nothing else, and a set that has changed since voids it: everything that is asked for is told once more.
"""

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import msgspec
from coldnotify_common.web import BadRequest
from coldnotify_schemas.interests import check_query
from coldnotify_schemas.names import check_name, check_object
from coldnotify_schemas.protocol import QUERIES_MAX
from coldnotify_schemas.wire_pb2 import Notification, Registered

from coldnotify_gateway.agent import Agent, Device

_SPACE_FOR_BREAKS = bytes.maketrans(b"\r\n", b"  ")
_CURSOR = re.compile(r"([0-9a-f]{1,8})\.([0-9]{0,19})\.([0-9a-f]{1,16})")


class _Body(msgspec.Struct, forbid_unknown_fields=True):
    domain: str
    group: str
    client: str
    registrations: list[str]
    queries: list[str] = []
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
    registrations, queries = list(dict.fromkeys(said.registrations)), list(dict.fromkeys(said.queries))
    if len(queries) > QUERIES_MAX:
        raise BadRequest("queries", f"{len(queries)} of them, at most {QUERIES_MAX} are taken")
    for text in queries:
        check_query(text)
    device = Device(said.domain, said.group, said.client, registrations, queries=queries)
    epoch, cursor = _parse_cursor(said.cursor, Agent(device).digest)
    return replace(device, epoch=epoch, cursor=cursor), said.wait_s


def _parse_cursor(text: str | None, wanted: int) -> tuple[int | None, int | None]:
    """`wanted`: the digest of the set that is wanted now."""
    if not text:
        return None, None
    match = _CURSOR.fullmatch(text)
    if match is None:
        raise BadRequest("cursor", f"{text[:80]!r} is none of the cursors that were told")
    epoch, offset, of_set = match.groups()
    if int(of_set, 16) != wanted:
        return int(epoch, 16), None  # it says nothing about what has been added since
    return int(epoch, 16), int(offset) if offset else None


def cursor_of(agent: Agent) -> str | None:
    """The cursor to say next time; None: the service did not say its epoch."""
    if agent.epoch is None:
        return None
    offset = "" if agent.cursor is None else agent.cursor
    return f"{agent.epoch:x}.{offset}.{agent.digest:x}"


def show(found: Notification | Registered, agent: Agent) -> bytes:
    """One object's newest version, as JSON; or which queries' answers begin or end here.

    "version" is null where nothing was ever published, and is not there where nothing is said of it.
    """
    return msgspec.json.encode(_ends(found, agent) if isinstance(found, Registered) else _newest(found, agent))


def _ends(registered: Registered, agent: Agent) -> dict[str, Any]:
    ends = {"begun": _texts(registered.begun, agent), "answered": _texts(registered.answered, agent)}
    return {what: texts for what, texts in ends.items() if texts}


def _texts(hashes: Iterable[int], agent: Agent) -> list[str]:
    return [agent.queries[hash_] for hash_ in hashes if hash_ in agent.queries]


def _newest(notification: Notification, agent: Agent) -> dict[str, Any]:
    shown: dict[str, Any] = {"object": notification.name}
    if notification.HasField("version"):
        shown["version"] = notification.version
    elif not notification.left:
        shown["version"] = None
    if notification.incarnation:
        shown["incarnation"] = notification.incarnation
    if notification.payload:
        shown["payload"] = msgspec.Raw(notification.payload)
    if notification.deleted:
        shown["deleted"] = True
    for what, hashes in (("entered", notification.entered), ("left", notification.left)):
        texts = _texts(hashes, agent)
        if texts:
            shown[what] = texts
    return shown


def show_line(found: Notification | Registered, agent: Agent) -> bytes:
    """As `show`, on one line."""
    # A payload is as it was published. JSON has line breaks between its words only: in its strings they are escaped.
    return show(found, agent).translate(_SPACE_FOR_BREAKS)


def show_end(agent: Agent) -> bytes:
    """What follows the notifications: the fields of the answer's object, without its braces."""
    fields: dict[str, Any] = {"cursor": cursor_of(agent), "in_sync": bool(agent.was_in_sync)}
    if agent.refused:
        fields["refused"] = agent.refused
    return msgspec.json.encode(fields)[1:-1]
