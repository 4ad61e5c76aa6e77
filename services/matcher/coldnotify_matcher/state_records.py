"""Records of the state topics as they are read back: whose they are, and whether they can be understood at all."""

import msgspec
from coldnotify_schemas.names import REGISTRATIONS_MAX, InvalidName, check_name, check_object
from coldnotify_schemas.state import FORMAT, GENERATION_KEY, GenerationRecord, RegistrationsRecord, SessionRecord

_GENERATION_KEY = GENERATION_KEY.encode()


class Unreadable(ValueError):
    """A state record that none of our matchers wrote; the message names the field and what is wrong with it."""


class NewerFormat(Exception):
    """A state record of a later release: it must be neither used nor overwritten by this one."""


class _Head(msgspec.Struct):
    format: int
    generation: int


_head = msgspec.json.Decoder(_Head)
_registrations = msgspec.json.Decoder(RegistrationsRecord)
_session = msgspec.json.Decoder(SessionRecord)
_generation = msgspec.json.Decoder(GenerationRecord)


def is_generation_key(key: bytes | None) -> bool:
    """Whether it is the key of the partition's GenerationRecord."""
    return key == _GENERATION_KEY


def check_client_key(key: bytes) -> str:
    """The key of a session's record, if it is domain/group/client. Raises Unreadable."""
    parts = _text(key).split("/")
    if len(parts) != 3:
        raise Unreadable(f"key: {key[:80]!r} is not domain/group/client")
    try:
        for field, part in zip(("domain", "group", "client"), parts, strict=True):
            check_name(field, part)
    except InvalidName as error:
        raise Unreadable(f"key: {error}") from None
    return "/".join(parts)


def check_bucket_key(key: bytes) -> str:
    """The key of a registrations record, if it is domain/group/client/bucket. Raises Unreadable."""
    client, _, bucket = key.rpartition(b"/")
    if not (bucket.isdigit() and str(int(bucket[:9])).encode() == bucket and int(bucket) < REGISTRATIONS_MAX):
        raise Unreadable(f"key: {key[:80]!r} does not end with the number of a bucket")
    return f"{check_client_key(client)}/{bucket.decode()}"


def _text(key: bytes) -> str:
    try:
        return key.decode()
    except UnicodeDecodeError:
        raise Unreadable(f"key: {key[:80]!r} is not valid UTF-8") from None


def generation_of(value: bytes) -> int:
    """The generation that wrote any state record. Raises Unreadable, NewerFormat."""
    try:
        head = _head.decode(value)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Unreadable(f"record: {error}") from None
    if head.format > FORMAT:
        raise NewerFormat(f"a state record has format {head.format}: a matcher of this release knows {FORMAT}")
    return head.generation


def parse_generation(value: bytes) -> GenerationRecord:
    """Raises Unreadable, NewerFormat."""
    generation_of(value)
    try:
        return _generation.decode(value)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Unreadable(f"record: {error}") from None


def parse_registrations(value: bytes) -> RegistrationsRecord:
    """Raises Unreadable, NewerFormat."""
    generation_of(value)
    try:
        record = _registrations.decode(value)
        for name in record.objects:
            check_object(name)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Unreadable(f"record: {error}") from None
    except InvalidName as error:
        raise Unreadable(f"objects: {error}") from None
    return record


def parse_session(value: bytes) -> SessionRecord:
    """Raises Unreadable, NewerFormat."""
    generation_of(value)
    try:
        record = _session.decode(value)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Unreadable(f"record: {error}") from None
    if len(record.gateway) != 16 or not all(digit in "0123456789abcdef" for digit in record.gateway):
        raise Unreadable(f"gateway: {record.gateway[:80]!r} is not 16 hex digits")
    if not (0 <= record.session < 1 << 32 and 0 <= record.inbox < 1 << 31 and record.cursor < 1 << 63):
        raise Unreadable("session, inbox or cursor: is out of range")
    return record
