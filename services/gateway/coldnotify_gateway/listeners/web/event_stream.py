"""GET /v1/events: server-sent events for a web page that only reads. Each stream is a session with a random name.

It registers like any other client, is caught up, and receives publishes. When the page closes, it is unregistered, and
forgotten a few minutes later. If the gateway dies first, the matcher forgets it after the same time. The stream begins
even if the service cannot answer yet, and carries heartbeats until there are events.
"""

import asyncio
import secrets
from math import ceil

from aiohttp import web
from coldnotify_common.http.event_streams import HEARTBEAT, HEARTBEAT_S, event_stream, retry, unavailable
from coldnotify_common.http.web import BadRequest
from coldnotify_common.played.agent import Agent, Found, PlayedDevice
from coldnotify_common.played.agent_channels import parse_mark
from coldnotify_common.steady import steady_s
from coldnotify_schemas.interests import check_query, pattern_name
from coldnotify_schemas.names import check_name, check_object, looking_name
from coldnotify_schemas.protocol import AGE_UNKNOWN_S, LOOKING_DIGITS, OBJECTS_PER_FRAME_MAX
from coldnotify_schemas.wire_pb2 import Message, Missed

from coldnotify_gateway.core import Frame, values_of
from coldnotify_gateway.device_connection import ConnectionEvents
from coldnotify_gateway.listeners.web import sync_body
from coldnotify_gateway.listeners.web.sync import identified, not_answered, session_of
from coldnotify_gateway.settings import GatewaySettings

_JUDGED_S = 1.0
"""Time within which a permanent refusal arrives, which gets a status. After it the stream begins, even if the matcher
is absent."""

_PARAMETERS = ("domain", "group", "object", "query", "descriptions", "channel", "pattern", "since")


class EventsEndpoint:
    """The handler of GET /v1/events."""

    def __init__(self, events: ConnectionEvents, settings: GatewaySettings) -> None:
        self._events = events
        self._settings = settings

    async def get(self, request: web.Request) -> web.StreamResponse:
        """Handles GET /v1/events?domain=&group=&object=...&query=...&descriptions=&channel=...&pattern=...&since="""
        refused = identified(request, self._events)
        if refused is not None:
            return refused
        agent = Agent(_device(request))
        loop = asyncio.get_running_loop()
        stream: web.StreamResponse | None = None
        due_s = loop.time() + _JUDGED_S
        ping_due_s = loop.time() + HEARTBEAT_S
        asked_s, as_of_s = steady_s(), float("-inf")
        async with session_of(request, self._events, self._settings) as connection:
            self._events.on_bytes(connection, agent.begin())
            heard_s = loop.time()
            try:
                while True:
                    waited, was_caught_up = agent.waits, agent.caught_up and not agent.waits
                    try:
                        async with asyncio.timeout_at(due_s):
                            frames: list[Frame] | None = await connection.take_frames()
                    except TimeoutError:
                        frames = None
                    if frames:
                        heard_s = loop.time()
                        if answer := agent.receive(values_of(frames)):
                            self._events.on_bytes(connection, answer)
                    # If no frame has arrived since the Hello, another session may succeed, perhaps at another gateway.
                    silent = agent.was_in_sync is None and loop.time() - heard_s >= self._settings.gateway_sync_s
                    if not agent.unanswered and (age_s := agent.age_s) is not None:
                        as_of_s = max(as_of_s, asked_s - age_s)
                    over = frames == [] or agent.closed is not None or agent.stuck or silent
                    shown = b"".join(_event(one, agent) for one in agent.found)
                    agent.found.clear()
                    if agent.waits and not waited:
                        shown += b"event: waiting\ndata: {}\n\n"
                    if agent.caught_up and not agent.waits and not was_caught_up:
                        shown += b"event: caught-up\ndata: {}\n" + _age(as_of_s)
                    if stream is None:
                        if over:
                            return not_answered(agent.closed, waits=agent.waits)
                        stream = event_stream()
                        await stream.prepare(request)
                        shown = retry() + shown
                    elif frames is None and not over:
                        shown += HEARTBEAT[:-1] + _age(as_of_s)
                    if loop.time() >= ping_due_s:  # a client that receives many events sends nothing else
                        asked_s = asked_s if agent.unanswered else steady_s()
                        self._events.on_bytes(connection, agent.ping())
                        ping_due_s = loop.time() + HEARTBEAT_S
                    if over:
                        # If the refusal is permanent, the page gets its status when it reconnects.
                        shown += unavailable(not_answered(agent.closed, waits=agent.waits))
                    if shown:
                        await self._write(stream, shown)
                        due_s = loop.time() + HEARTBEAT_S
                    if over:
                        return stream
                    if agent.page_ended:
                        self._events.on_bytes(connection, agent.acknowledge())
            finally:
                if not connection.finished:
                    self._events.on_bytes(connection, agent.forget())

    async def _write(self, response: web.StreamResponse, data: bytes) -> None:
        async with asyncio.timeout(self._settings.gateway_sync_s):
            await response.write(data)


def _age(as_of_s: float) -> bytes:
    """Returns the end of an event, with the age of what the page was told, if known: a comment, which browsers skip."""
    age_s = steady_s() - as_of_s
    return f": age_s {ceil(age_s)}\n\n".encode() if age_s < AGE_UNKNOWN_S else b"\n"


def _device(request: web.Request) -> PlayedDevice:
    """Parses the query string into the session's client and registrations. Raises BadRequest and InvalidName."""
    query = request.query
    unknown = set(query) - set(_PARAMETERS)
    if unknown:
        raise BadRequest(min(unknown), f"is none of {', '.join(_PARAMETERS)}")
    domain, group = (check_name(field, query.get(field, "")) for field in ("domain", "group"))
    objects = list(dict.fromkeys(query.getall("object", [])))
    texts = list(dict.fromkeys(query.getall("query", [])))
    channels_wanted = query.getall("channel", []) + list(map(pattern_name, query.getall("pattern", [])))
    names = list(dict.fromkeys(channels_wanted))
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
    return PlayedDevice(
        domain,
        group,
        looking_name(secrets.token_hex(LOOKING_DIGITS // 2)),
        objects,
        queries=texts,
        descriptions=descriptions == "yes",
        channels=channels,
        # Channels without a mark begin as the page asks; so do all of them if the mark is not ours.
        mark=parse_mark(last) if channels else None,
    )


def _event(found: Found, agent: Agent) -> bytes:
    """Returns an event. The id of a channel's event tells a page that reconnects where to continue."""
    data = b"data: " + sync_body.show_line(found, agent) + b"\n\n"
    if not isinstance(found, Message | Missed):
        return data
    return b"id: " + str(agent.channels.mark_at(found)).encode() + b"\n" + data
