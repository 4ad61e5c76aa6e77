"""The endpoint of an object's history: its latest records, as the objects topic has them, and how far it was read."""

import asyncio
from collections.abc import Callable
from typing import Any

from aiohttp import web
from coldnotify_common.http.json_answers import json_answer
from coldnotify_common.http.query_numbers import whole_number
from coldnotify_common.http.web import error_response
from coldnotify_common.http.web_shares import who_asks
from coldnotify_common.kafka.kafka_clients import KafkaUnavailable
from coldnotify_common.security.fair_turns import Turns
from coldnotify_common.settings import ServiceSettings
from coldnotify_schemas.names import check_object
from coldnotify_schemas.records import (
    MOVED_HEADER,
    PAYLOAD_BYTES_MAX,
    SINCE_HEADER,
    ConditionalRecord,
    InvalidRecord,
    parse_objects_record,
    says_raw,
)
from coldnotify_schemas.removals import REMOVES_HEADER, removal_of

from coldnotify_http.found_versions import versions_of
from coldnotify_http.ledger_endpoints import GROUP, RETRY_AFTER_S, answered, as_it_is, sees_addresses
from coldnotify_http.node_client import NodeClient, path
from coldnotify_http.object_history import FoundRecord, ObjectHistory, read_history
from coldnotify_http.request_parts import domain_and_group

VERSIONS_MAX = 100
VERSIONS = 20
"""The default number of versions."""
READINGS_MAX = 2
"""At once, and one of each identity: each reads up to 50,000 records, for a person who looks."""
TURN_S = 5.0
"""For which one waits for its turn."""
PAYLOAD_SHOWN_BYTES_MAX = 200
NOT_READ = "Kafka cannot be read at the moment"


class HistoryEndpoints:
    """The handler."""

    def __init__(
        self,
        asking: NodeClient,
        settings: ServiceSettings,
        *,
        read: Callable[..., ObjectHistory] = read_history,
        turn_s: float = TURN_S,
        payload_bytes_max: int = PAYLOAD_BYTES_MAX,
    ) -> None:
        self._asking = asking
        self._settings = settings
        self._read = read
        self._turn_s = turn_s
        self._payload_bytes_max = payload_bytes_max
        self._turns = Turns(READINGS_MAX, of_one=1)

    def routes(self) -> list[web.AbstractRouteDef]:
        """GET. It goes before those that take any path for an object's name."""
        return [web.get(f"{GROUP}/objects/{{object:(?s:.+)}}/history", answered(self.history))]

    async def history(self, request: web.Request) -> web.Response:
        """GET .../objects/{object}/history?limit."""
        domain, group = domain_and_group(request)
        name = check_object(request.match_info["object"])
        limit = whole_number("limit", request.query.get("limit", str(VERSIONS)), minimum=1, maximum=VERSIONS_MAX)
        who = who_asks(request)
        known = await self._asking.matcher(path("domains", domain, "groups", group, "objects", name), who=who)
        if known.status != 200:
            return as_it_is(known)
        newest_offset = known.body["offset"]
        try:
            async with self._turns.turn(who, self._turn_s):
                history = await asyncio.to_thread(
                    self._read, self._settings, (domain, group, name), newest_offset=newest_offset, records_max=limit
                )
        except TimeoutError:
            return _unavailable("other histories are being read")
        except KafkaUnavailable as error:
            return _unavailable(str(error) if sees_addresses(request) else NOT_READ)
        bytes_max = self._payload_bytes_max
        versions = versions_of(history.records, bytes_max)
        items = [show_record(one, versions.get(one.offset), bytes_max) for one in history.records]
        about = {"domain": domain, "group": group, "object": name, "partition": history.partition}
        return json_answer({**about, "items": items, **show_extent(history, limit)})


def show_extent(history: ObjectHistory, limit: int) -> dict[str, Any]:
    """Describes how far was read, and what that means for older records."""
    looked = [{"from": low, "to": high} for low, high in history.looked]
    shown: dict[str, Any] = {"looked": looked, "begin": history.begin, "end": history.end}
    if len(history.records) >= limit:
        return {**shown, "older": "more", "words": f"these are the latest {limit} records; there may be more"}
    if history.complete:
        words = "the whole partition was read: older versions, if there were any, were compacted away"
        return {**shown, "older": "compacted", "words": words}
    bound = f" (the limit of {history.stopped_by})" if history.stopped_by else ""
    words = f"not the whole partition was read{bound}: there may be older records"
    return {**shown, "older": "not_looked", "words": words}


def show_record(found: FoundRecord, version: int | None, payload_bytes_max: int = PAYLOAD_BYTES_MAX) -> dict[str, Any]:
    """Returns one record: its content, and how it came there."""
    headers = dict(found.headers)
    shown: dict[str, Any] = {
        "offset": found.offset,
        "at_ms": found.timestamp_ms,
        "bytes": len(found.value or b""),
        "rewritten": SINCE_HEADER in headers,
        "moved": MOVED_HEADER in headers,
    }
    if found.value is None:
        removal = removal_of(headers.get(REMOVES_HEADER, b""))
        return {**shown, "kind": "null", "version": None if removal is None else removal.version}
    try:
        record = parse_objects_record(found.value, raw=says_raw(found.headers), payload_bytes_max=payload_bytes_max)
    except InvalidRecord as error:
        return {**shown, "kind": "invalid", "version": None, "reason": str(error)}
    payload = record.payload_bytes
    return {
        **shown,
        "kind": "condition" if isinstance(record, ConditionalRecord) else "version",
        "version": version,
        "incarnation": record.incarnation,
        "source": record.source,
        "deleted": record.deleted,
        "expires_at": record.expires_at,
        "payload_bytes": len(payload),
        "payload_begins": payload[:PAYLOAD_SHOWN_BYTES_MAX].decode(errors="replace"),
    }


def _unavailable(words: str) -> web.Response:
    response = error_response(503, words)
    response.headers["Retry-After"] = str(RETRY_AFTER_S)
    return response
