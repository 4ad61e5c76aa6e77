"""Patches of objects' descriptions, as applications say them: JSON merge patches, in which None removes a key."""

import json
import math
import re
from collections.abc import Mapping

PATCH_BYTES_MAX = 16_384
"""Limit on a patch as JSON, the same as in coldnotify_schemas.description_patches, which needs an extra."""
KEYS_MAX = 64
"""Limit on the keys that a description has."""
TEXT_BYTES_MAX = 256
"""Limit on a value that is text."""
_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_/.-]{0,127}", re.ASCII)

Patch = Mapping[str, str | float | bool | None]
"""Keys with their new values; None removes a key."""


def encode_patch(patch: Patch) -> str:
    """Returns it as JSON. Raises ValueError, whose message begins with "description: "."""
    if not isinstance(patch, Mapping):
        raise ValueError(f"description: {patch!r:.80} is not a mapping of keys to values")
    said = dict(patch)
    for key, value in said.items():
        if not isinstance(key, str) or not _KEY.fullmatch(key):
            raise ValueError(f"description: {key!r:.80} is not a key (up to 128 of A-Z a-z 0-9 _ / . -)")
        _check_value(key, value)
    if sum(value is not None for value in said.values()) > KEYS_MAX:
        raise ValueError(f"description: has more than {KEYS_MAX} keys")
    text = _json(said)
    if len(text.encode()) > PATCH_BYTES_MAX:
        raise ValueError(f"description: has {len(text.encode())} bytes of JSON (at most {PATCH_BYTES_MAX})")
    return text


def composed(earlier: str, later: str) -> str | None:
    """Returns the patch that does what two do, one after the other; None: it would be too long. "" changes nothing."""
    if not earlier or not later:
        return earlier or later
    text = _json({**json.loads(earlier), **json.loads(later)})
    return text if len(text.encode()) <= PATCH_BYTES_MAX else None


def _check_value(key: str, value: object) -> None:
    if value is None or isinstance(value, bool):
        return
    if isinstance(value, str):
        try:
            size = len(value.encode())
        except UnicodeEncodeError:
            raise ValueError(f"description: the value of {key!r} is not valid UTF-8") from None
        if size > TEXT_BYTES_MAX:
            raise ValueError(f"description: the value of {key!r} has {size} bytes (at most {TEXT_BYTES_MAX})")
    elif not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"description: the value of {key!r} is neither a text, a finite number, true nor false")


def _json(said: Mapping[str, object]) -> str:
    return json.dumps(said, ensure_ascii=False, separators=(",", ":"))
