"""Patches of objects' descriptions: JSON merge patches that clients publish, and the header of what they made.

The matcher merges them in the order of the requests that bring them. The record of what a patch made says in its header
which request was the last, so that a request that is handled again changes nothing.
"""

from collections.abc import Mapping

from coldnotify_schemas.descriptions import DESCRIPTION_BYTES_MAX, Value, merge_patch, parse_patch
from coldnotify_schemas.records import InvalidRecord
from coldnotify_schemas.whole_numbers import offset_in_epoch

PATCH_BYTES_MAX = 2 * DESCRIPTION_BYTES_MAX
"""Limit on a patch as JSON: a whole description, and as much for keys that it removes."""
REQUEST_HEADER = "coldnotify-request"
"""Says, in the record of a description, the last request whose patch is in it."""

Patch = Mapping[str, Value | None]
"""Keys and their new values; None removes a key."""


def request_header(epoch: int, offset: int) -> tuple[str, bytes]:
    """Returns the header for the request at this offset. `epoch`: of the topic of requests."""
    return REQUEST_HEADER, b"%08x/%d" % (epoch, offset)


def request_in(value: bytes, epoch: int, most: int) -> int:
    """Returns the offset in a REQUEST_HEADER; -1 if it is invalid, of another epoch, or above `most`."""
    offset = offset_in_epoch(value, epoch, most) if value else None
    return -1 if offset is None else offset


def parse_description_patch(value: bytes) -> Patch:
    """Returns a patch, whose keys and values are valid. Raises InvalidRecord, which names the field.

    What it makes of a description may be too large for one nevertheless.
    """
    if len(value) > PATCH_BYTES_MAX:
        raise InvalidRecord(f"patch: has {len(value)} bytes (at most {PATCH_BYTES_MAX} are allowed)")
    patch = parse_patch(value)
    return {**merge_patch(None, patch), **{key: None for key, said in patch.items() if said is None}}
