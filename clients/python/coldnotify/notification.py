"""The notification that a callback is called with."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Notification:
    """The newest version of an object. Versions in between may have been skipped."""

    object_id: str
    version: int | None
    """None: unknown, nothing was ever published for this object (told once, when it is registered)."""
    payload: Any = None
    """`data` parsed as JSON, else `data` itself; None if there is none, or if it has expired."""
    deleted: bool = False
    """The object is gone. A version like any other."""
    description: Mapping[str, Any] | None = None
    """The object's description, by key, if it is a member of a query that asks for descriptions. None: it has none."""
    data: bytes = field(default=b"", repr=False, compare=False)
    """The bytes that were published; b"" if there are none."""
    group: str = field(default="", repr=False, compare=False)
    """The object's group."""
