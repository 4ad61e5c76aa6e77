"""Bytes of payloads, as callbacks get them."""

import json
from typing import Any


def said_by(data: bytes) -> Any:
    """Returns what the bytes say as JSON, else the bytes."""
    try:
        return json.loads(data.decode(), parse_constant=_no_json)
    except (ValueError, RecursionError):
        return data


def _no_json(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")
