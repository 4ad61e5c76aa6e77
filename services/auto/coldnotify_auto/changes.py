"""Changes: versions of objects and messages of channels, as rules make them and outlets publish them."""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple

from coldnotify_schemas.descriptions import Description, Value, encode_description_record
from coldnotify_schemas.names import ObjectKey


class RowRejected(ValueError):
    """A row, a file or an answer cannot be mapped; the message names the field and the fault."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Put:
    """A version of an object."""

    key: ObjectKey
    version: int
    incarnation: int | None = None
    """None: the one in force."""
    payload: bytes = b""
    deleted: bool = False
    description: Mapping[str, Value] | None = None
    """None: its rule does not describe, and a description that is there stays; empty: the object has none."""
    source: str = ""
    """Name of its source, or of its rule there, that goes into the record: 'auto.plant.cameras'."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PutMessage:
    """A message of a channel."""

    domain: str
    group: str
    channel: str
    id: str
    payload: bytes = b""


Change = Put | PutMessage


class KnownNewest(NamedTuple):
    """The newest version of an object that the log contains."""

    incarnation: int
    version: int
    payload: bytes
    """Digest of the payload."""
    deleted: bool
    source: str
    """The record's `source`, "" if it has none."""
    description: bytes
    """Digest of its description, "" if there is none."""


def digest(payload: bytes) -> bytes:
    """Returns the digest of a payload, b"" if there is none."""
    return blake2b(payload, digest_size=16).digest() if payload else b""


def description_digest(description: Description | None) -> bytes:
    """Returns the digest of a description, b"" if there is none."""
    return digest(encode_description_record(description)) if description else b""


def is_changed(newest: KnownNewest | None, put: Put) -> bool:
    """Returns true unless the object's newest version says what `put` says; without a version, a deletion changes
    nothing."""
    if newest is None:
        return not put.deleted
    if put.deleted or newest.deleted:
        return put.deleted != newest.deleted
    if digest(put.payload) != newest.payload:
        return True
    return put.description is not None and description_digest(put.description) != newest.description
