"""GET /v1/events: server-sent events for a page that only looks. A session under a name drawn for it.

It is registered like any other client, caught up, and told what is published; when the page goes, it is unregistered,
and forgotten a few minutes later. Where the gateway dies first, the matcher forgets it as soon.
"""

import asyncio
import secrets

from aiohttp import web
from coldnotify_common.web import BadRequest
from coldnotify_schemas.interests import check_query
from coldnotify_schemas.names import check_name, check_object, looking_name
from coldnotify_schemas.protocol import LOOKING_DIGITS, OBJECTS_PER_FRAME_MAX
from coldnotify_schemas.wire_pb2 import Message, Missed

from coldnotify_gateway.agent import Agent, Device, Found
from coldnotify_gateway.agent_channels import parse_mark
from coldnotify_gateway.device_connection import ConnectionEvents
from coldnotify_gateway.listeners.web import sync_body
from coldnotify_gateway.listeners.web.sync import identified, not_answered, session_of
from coldnotify_gateway.settings import GatewaySettings

_QUIET_S = 15.0
"""After so long without an event a comment is sent: so that a page that is gone is noticed."""
_RETRY_MS = 1000
_TYPE = "text/event-stream"

_PARAMETERS = ("domain", "group", "object", "query", "descriptions", "channel", "since")


class Events:
    """The handler."""

    def __init__(self, events: ConnectionEvents, settings: GatewaySettings) -> None:
        self._events = events
        self._settings = settings

    async def get(self, request: web.Request) -> web.StreamResponse:
        """GET /v1/events?domain=&group=&object=&object=...&query=...&descriptions=&channel=...&since="""
        refused = identified(request, self._events)
        if refused is not None:
            return refused
        agent = Agent(_device(request))
        loop = asyncio.get_running_loop()
        due_s = loop.time() + self._settings.gateway_sync_s
        async with session_of(request, self._events, self._settings) as connection:
            self._events.on_bytes(connection, agent.begin())
            try:
                response: web.StreamResponse | None = None
                while True:
                    try:
                        async with asyncio.timeout_at(due_s if response is None else loop.time() + _QUIET_S):
                            data = await connection.take()
                    except TimeoutError:
                        if response is None:
                            return not_answered(None)
                        self._events.on_bytes(connection, agent.ping())
                        await self._write(response, b":\n\n")
                        continue
                    was_caught_up = agent.caught_up
                    said = agent.receive(data)
                    if said:
                        self._events.on_bytes(connection, said)
                    if response is None and not agent.found and not agent.caught_up:
                        if agent.closed is not None or not data:
                            return not_answered(agent.closed)
                        continue
                    if response is None:
                        response = web.StreamResponse(headers={"Content-Type": _TYPE, "Cache-Control": "no-store"})
                        await response.prepare(request)
                        await self._write(response, f"retry: {_RETRY_MS}\n\n".encode())
                    shown = b"".join(_event(one, agent) for one in agent.found)
                    agent.found.clear()
                    if agent.caught_up and not was_caught_up:
                        shown += b"event: caught-up\ndata: {}\n\n"
                    if shown:
                        await self._write(response, shown)
                    if agent.page_ended:
                        self._events.on_bytes(connection, agent.acknowledge())
                    if agent.closed is not None or agent.stuck or not data:
                        return response  # the page comes back by itself
            finally:
                if not connection.finished:
                    self._events.on_bytes(connection, agent.forget())

    async def _write(self, response: web.StreamResponse, data: bytes) -> None:
        async with asyncio.timeout(self._settings.gateway_sync_s):
            await response.write(data)


def _device(request: web.Request) -> Device:
    """Who looks at what. Raises BadRequest and InvalidName."""
    query = request.query
    unknown = set(query) - set(_PARAMETERS)
    if unknown:
        raise BadRequest(min(unknown), f"is none of {', '.join(_PARAMETERS)}")
    domain, group = (check_name(field, query.get(field, "")) for field in ("domain", "group"))
    objects = list(dict.fromkeys(query.getall("object", [])))
    texts = list(dict.fromkeys(query.getall("query", [])))
    names = list(dict.fromkeys(query.getall("channel", [])))
    wanted = len(objects) + len(texts) + len(names)
    if not 1 <= wanted <= OBJECTS_PER_FRAME_MAX:
        field = "channel" if names else "query" if texts else "object"
        raise BadRequest(field, f"{wanted} of them, 1 to {OBJECTS_PER_FRAME_MAX} are taken")
    descriptions = query.get("descriptions", "no")
    if descriptions not in ("yes", "no"):
        raise BadRequest("descriptions", f"is {descriptions[:80]!r}, must be yes or no")
    channels = dict(sync_body.channel_wanted(name, query.get("since", "now"), ()) for name in names)
    last = request.headers.get("Last-Event-ID", "")
    for name in objects:
        check_object(name)
    for text in texts:
        check_query(text)
    return Device(
        domain,
        group,
        looking_name(secrets.token_hex(LOOKING_DIGITS // 2)),
        objects,
        queries=texts,
        descriptions=descriptions == "yes",
        channels=channels,
        # What it does not hold for begins as the page asks; so does everything where it is none of ours.
        mark=parse_mark(last) if channels else None,
    )


def _event(found: Found, agent: Agent) -> bytes:
    """An event; one of a channel says by its id where a page that comes back goes on."""
    data = b"data: " + sync_body.show_line(found, agent) + b"\n\n"
    if not isinstance(found, Message | Missed):
        return data
    return b"id: " + str(agent.channels.mark_at(found)).encode() + b"\n" + data
