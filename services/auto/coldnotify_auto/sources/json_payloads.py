"""Payloads of files and answers: any bytes; white space around JSON is left out."""

import json


def payload_from(content: bytes) -> bytes:
    """Returns the content as a payload. JSON with white space around it would be bytes to clients, and not JSON."""
    stripped = content.strip(b" \t\r\n")
    if stripped == content:
        return content
    try:
        json.loads(stripped)
    except (ValueError, RecursionError):
        return content
    return stripped
