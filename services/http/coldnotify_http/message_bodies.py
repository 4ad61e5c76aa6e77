"""The bodies of requests that send messages to channels: one, or many. Pure."""

import base64
import binascii
from collections.abc import Iterator
from typing import TypeVar
from urllib.parse import unquote_to_bytes

import msgspec
from coldnotify.publisher import CheckedMessage, make_message
from coldnotify_common.http.json_items import InvalidJson, ItemTooLong, TooManyItems, list_in
from coldnotify_common.http.web import BadRequest
from coldnotify_schemas.channels import check_message
from coldnotify_schemas.interests import channel_text
from coldnotify_schemas.names import InvalidName
from coldnotify_schemas.protocol import MESSAGE_BYTES_MAX, PUBLISHES_PER_REQUEST_MAX
from coldnotify_schemas.share_names import check_no_dead_letters

from coldnotify_http.bodies import SINGLE_BODY_BYTES_MAX, end_of_path

NamedMessage = tuple[str, CheckedMessage]


class InvalidMessage(BadRequest):
    """One of many messages is wrong; `place` is its place in the list, from 0."""

    def __init__(self, place: int, error: ValueError) -> None:
        field, _, words = str(error).partition(": ")
        super().__init__(field, words)
        self.place = place


class _Message(msgspec.Struct, forbid_unknown_fields=True):
    payload: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    payload_base64: str | msgspec.UnsetType = msgspec.UNSET
    id: str | None = None
    to: list[str] = []
    expires_at: int | None = None
    source: str | None = None
    priority: str | None = None
    key: str | None = None


class _Named(_Message):
    channel: str = ""


M = TypeVar("M", bound=_Message)


def channel_of_path(raw_path: str) -> str:
    """Returns the channel's name at the end of a raw path: "/" may be unescaped or %2F. Raises InvalidName."""
    encoded = end_of_path(raw_path)
    try:
        name = unquote_to_bytes(encoded).decode()
    except UnicodeDecodeError:
        raise InvalidName(f"channel: {encoded[:80]!r} is not valid UTF-8") from None
    channel_text(check_no_dead_letters(name))
    return name


def parse_message(body: bytes, bytes_max: int = MESSAGE_BYTES_MAX) -> CheckedMessage:
    """A body with one message. Raises BadRequest."""
    try:
        return _message(_decode(body, _Message), bytes_max)
    except ValueError as error:
        raise _bad_request(error) from None


def parse_messages(body: bytes, bytes_max: int = MESSAGE_BYTES_MAX) -> Iterator[NamedMessage]:
    """{"messages": [{"channel": name, "payload": ...}, ...]}, one by one. Raises BadRequest.

    They are counted before one is looked at.
    """
    try:
        many = list_in(body, "messages", PUBLISHES_PER_REQUEST_MAX, SINGLE_BODY_BYTES_MAX)
    except TooManyItems as error:
        raise BadRequest("messages", str(error)) from None
    except (InvalidJson, ItemTooLong) as error:
        raise BadRequest("messages", f"is no list of messages with channels: {error}") from None
    for place, raw in enumerate(many):
        try:
            said = _decode(bytes(raw), _Named)
            channel_text(check_no_dead_letters(said.channel))
            message = _message(said, bytes_max)
        except ValueError as error:
            raise InvalidMessage(place, error) from None
        yield said.channel, message


def _decode(body: bytes, kind: type[M]) -> M:
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        words, _, path = str(error).partition(" - at `$.")
        raise ValueError(f"{path.rstrip('`').partition('[')[0] or 'message'}: {words}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"message: is no JSON: {error}") from None


def _message(said: _Message, bytes_max: int) -> CheckedMessage:
    json_said, bytes_said = said.payload is not msgspec.UNSET, said.payload_base64 is not msgspec.UNSET
    if json_said == bytes_said:
        raise ValueError("payload: either payload or payload_base64 must be there")
    if isinstance(said.payload_base64, str):
        try:
            payload = base64.b64decode(said.payload_base64, validate=True)
        except (binascii.Error, ValueError) as error:
            raise ValueError(f"payload_base64: {error}") from None
    else:
        payload = bytes(said.payload) if isinstance(said.payload, msgspec.Raw) else b""
        try:
            msgspec.json.decode(payload)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ValueError(f"payload: is no JSON: {error}") from None
    return make_message(
        check_message(payload, bytes_max),
        id=said.id,
        to=said.to,
        expires_at=said.expires_at,
        source=said.source,
        priority=said.priority,
        key=said.key,
    )


def _bad_request(error: ValueError) -> BadRequest:
    field, _, words = str(error).partition(": ")
    return BadRequest(field, words)
