"""Finds which of some objects do not exist: for those who admit publishes while a tenant is at its agreed number.

The worker's lock is not taken for that: a step may hold it for as long as Kafka takes to acknowledge, and a publish
waits for the answer.
"""

from __future__ import annotations

import msgspec
from aiohttp import web
from coldnotify_common.http.json_answers import json_answer
from coldnotify_common.http.json_items import InvalidJson, ItemTooLong, TooManyItems, list_in
from coldnotify_common.http.web import BadRequest
from coldnotify_schemas.names import InvalidName, check_name, check_object
from coldnotify_schemas.protocol import PUBLISHES_PER_REQUEST_MAX
from coldnotify_streams.core.partition_progress import OwningPhase

from coldnotify_matcher.looking.state_endpoints import HasWorker, partition_for

_NAME_BYTES_MAX = 4096
"""Maximum of a name in JSON: 255 bytes that may all be escaped."""


def routes(current: HasWorker) -> list[web.AbstractRouteDef]:
    """Routes one POST endpoint below /v1/domains/{domain}/groups/{group}. It changes nothing; names are long for a
    path."""
    return [web.post("/v1/domains/{domain}/groups/{group}/missing", Missing(current).missing)]


class Missing:
    """The handler; it runs in the event loop."""

    def __init__(self, current: HasWorker) -> None:
        self._current = current

    async def missing(self, request: web.Request) -> web.Response:
        """POST .../missing {"objects": [name, ...]}: returns {"missing": [name, ...]}, those that were never published,
        or are deleted or removed, as of now.

        503 if this matcher does not serve the group.
        """
        domain = check_name("domain", request.match_info["domain"])
        group = check_name("group", request.match_info["group"])
        names = _names(await request.read())
        partition = partition_for(self._current, domain, group)
        if partition.phase is not OwningPhase.OWNED:
            raise web.HTTPServiceUnavailable(text=f"{domain}/{group}: partition {partition.number} is being loaded")
        objects = partition.engine.state.objects
        missing = [name for name in names if not objects.is_published(f"{domain}/{group}/{name}")]
        return json_answer({"missing": missing})


def _names(body: bytes) -> list[str]:
    """Returns the names. They are counted before the first is checked. Raises BadRequest."""
    try:
        names = list_in(body, "objects", PUBLISHES_PER_REQUEST_MAX, _NAME_BYTES_MAX)
        decoded = [msgspec.json.decode(name, type=str) for name in names]
    except TooManyItems as error:
        raise BadRequest("objects", str(error)) from None
    except (InvalidJson, ItemTooLong, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadRequest("objects", f"is no list of names: {error}") from None
    try:
        return [check_object(name) for name in dict.fromkeys(decoded)]
    except InvalidName as error:
        raise BadRequest("objects", str(error)) from None
