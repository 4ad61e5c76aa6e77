"""For tests: parses the lines of a stream of server-sent events, as a page receives it."""

import json
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple


class ServerSentEvent(NamedTuple):
    """One event."""

    name: str
    """"message", unless the stream names another."""
    data: Any
    """Its JSON."""
    id: str | None


def events_of(lines: Iterable[bytes]) -> Iterator[ServerSentEvent]:
    """The events, but for heartbeats, which come while a machine is busy, too."""
    fields: dict[str, str] = {}
    for line in lines:
        name, _, value = line.decode().rstrip("\n").partition(": ")
        if name:
            fields[name] = value
            continue
        event = fields.get("event", "message")
        if "data" in fields and event != "heartbeat":
            yield ServerSentEvent(event, json.loads(fields["data"]), fields.get("id"))
        fields = {}
