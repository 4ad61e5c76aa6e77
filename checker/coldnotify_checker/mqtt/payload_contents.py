"""Identifies payloads: as devices, publishers and topics have them in a history's lines."""

import base64
import contextlib
import json
from typing import Any

from coldnotify_checker.histories import Record
from coldnotify_checker.publishes import fingerprint


def content(payload: Any) -> bytes:
    """Returns 16 bytes that identify the payload of a line, `null` and no bytes at all, too."""
    return fingerprint([payload])


EMPTY = content({"base64": ""})


def contents_of_record(record: Record, version: int | None) -> frozenset[bytes]:
    """Returns what devices may be told of a record. `version`: that of an object's; None: it is a message."""
    if version is None:
        return frozenset({content(record.value)})
    if record.value.get("deleted", False):
        return frozenset({EMPTY})
    payload = record.value.get("payload")
    if payload is None:
        return frozenset({content({"version": version})})
    if not record.raw:
        return frozenset({content(payload)})
    # JSON whose very bytes the record would not give back is kept as bytes, too.
    contents = {content({"base64": payload})}
    with contextlib.suppress(ValueError, RecursionError):
        contents.add(content(json.loads(base64.b64decode(payload))))
    return frozenset(contents)


def size_of(payload: Any) -> int:
    """Returns its bytes, if JSON has no spaces."""
    if isinstance(payload, dict) and payload.keys() == {"base64"} and isinstance(payload["base64"], str):
        return len(payload["base64"]) // 4 * 3
    return len(json.dumps(payload, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass"))
