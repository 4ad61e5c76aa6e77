"""The rules for names of domains, groups, clients and objects."""

import re
from typing import NamedTuple

from coldnotify_schemas.protocol import LOOKING_DIGITS, NAME_LENGTH_MAX
from coldnotify_schemas.protocol import OBJECT_BYTES_MAX as OBJECT_BYTES_MAX
from coldnotify_schemas.protocol import REGISTRATIONS_MAX as REGISTRATIONS_MAX

_LOOKING_BEGIN = "look."

_NAME = re.compile(rf"[A-Za-z0-9._-]{{1,{NAME_LENGTH_MAX}}}", re.ASCII)


class InvalidName(ValueError):
    """A name is not allowed; the message names the field and the fault."""


class ObjectKey(NamedTuple):
    """The parsed key of a record of the objects topic."""

    domain: str
    group: str
    object: str


def check_name(field: str, value: str) -> str:
    """`value`, if it is a domain's, group's or client's name; `field` is for the error's words."""
    if not _NAME.fullmatch(value):
        raise InvalidName(f"{field}: {value[:80]!r} is not a name (1 to {NAME_LENGTH_MAX} of A-Z a-z 0-9 . _ -)")
    return value


def check_object(value: str, field: str = "object") -> str:
    """`value`, if it can be an object's, or a channel's, name: 1 to 255 bytes of UTF-8. `field` is for the words."""
    try:
        length = len(value.encode())
    except UnicodeEncodeError:
        raise InvalidName(f"{field}: {value[:80]!r} is not valid UTF-8") from None
    if not 1 <= length <= OBJECT_BYTES_MAX:
        raise InvalidName(f"{field}: {value[:80]!r} has {length} bytes of UTF-8 (1 to {OBJECT_BYTES_MAX} are allowed)")
    return value


def looking_name(random_hex: str) -> str:
    """The client name of a page that only looks; `random_hex`: 24 hex digits, drawn for it."""
    return f"{_LOOKING_BEGIN}{random_hex}"


def is_looking_name(client: str) -> bool:
    """Returns true if a client's name was drawn for a page that only looks, and so never comes back."""
    if not client.startswith(_LOOKING_BEGIN) or len(client) != len(_LOOKING_BEGIN) + LOOKING_DIGITS:
        return False
    return all(digit in "0123456789abcdef" for digit in client[len(_LOOKING_BEGIN) :])


def object_key(domain: str, group: str, object_: str) -> str:
    """The key of an object's records, checked: domain/group/object."""
    check_name("domain", domain)
    check_name("group", group)
    return f"{domain}/{group}/{check_object(object_)}"


def parse_object_key(key: bytes | None) -> ObjectKey:
    """Returns domain, group and object of a record's key. Raises InvalidName."""
    if key is None:
        raise InvalidName("key: is missing (domain/group/object)")
    try:
        parts = key.decode().split("/", 2)
    except UnicodeDecodeError:
        raise InvalidName("key: is not valid UTF-8") from None
    if len(parts) != 3:
        raise InvalidName(f"key: {key[:80]!r} is not domain/group/object")
    domain, group, object_ = parts
    return ObjectKey(check_name("domain", domain), check_name("group", group), check_object(object_))
