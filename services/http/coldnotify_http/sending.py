"""The two endpoints that send to channels: one message, and many."""

import time
from collections.abc import Sequence
from typing import Protocol

from aiohttp import web
from coldnotify.publisher import PublishError, Sent
from coldnotify_common.http.json_answers import json_answer
from coldnotify_common.http.web import BadRequest, error_response
from coldnotify_common.http.web_auth import checks_names
from coldnotify_common.http.web_shares import who_asks
from coldnotify_schemas.names import InvalidName

from coldnotify_http.entrance import Entered, Entrance
from coldnotify_http.message_bodies import (
    InvalidMessage,
    NamedMessage,
    channel_of_path,
    parse_message,
    parse_messages,
)
from coldnotify_http.metrics import Metrics
from coldnotify_http.own_names import owned_messages
from coldnotify_http.request_parts import Bodies, domain_and_group, traceparent_of, yes_or_no
from coldnotify_http.write_answers import kind_of, result_of, status_of

IN_ORDER_S = 5.0
"""Limit for a request whose messages are sent one by one: less than its caller's timeout (HttpPublisher: 15 s)."""


class MessageSender(Protocol):
    """The interface of coldnotify.publisher.Publisher that is used here."""

    async def send_messages_async(
        self, domain: str, group_id: str, messages: Sequence[NamedMessage], *, traceparent: str | None = None
    ) -> Sequence[Sent | PublishError]:
        """Returns each message's outcome, in order."""


class Sending:
    """The handlers. A request is answered when Kafka has stored its messages, or has failed to in time."""

    def __init__(self, sender: MessageSender, entrance: Entrance, metrics: Metrics, bodies: Bodies) -> None:
        """`bytes_max`: of a message."""
        self._sender = sender
        self._entrance = entrance
        self._metrics = metrics
        self._bodies = bodies

    def routes(self) -> list[web.AbstractRouteDef]:
        """The endpoints' routes."""
        base = "/v1/domains/{domain}/groups/{group}/channels"
        return [web.post(base, self.post_many), web.post(base + "/{channel:(?s:.*)}", self.post_one)]

    @checks_names
    async def post_one(self, request: web.Request) -> web.Response:
        """POST .../channels/{channel}: {"payload": ..., "id": ..., "to": [...], "expires_at": ..., "source": ...}."""
        try:
            domain, group = domain_and_group(request)
            channel = channel_of_path(request.rel_url.raw_path)
            yes_or_no(request, "outcome", default=False)
            body = await self._bodies.one(request)
            message = parse_message(body)
        except (BadRequest, InvalidName, web.HTTPException):
            self._metrics.bad_requests.inc()
            raise
        outcomes = await self._send(request, domain, group, [(channel, message)], len(channel.encode()) + len(body))
        if isinstance(outcomes, web.Response):
            return outcomes
        answer = {"domain": domain, "group": group, **result_of("channel", channel, outcomes[0])}
        return json_answer(answer, status=status_of(outcomes))

    @checks_names
    async def post_many(self, request: web.Request) -> web.Response:
        """POST .../channels?in_order=no: {"messages": [{"channel": name, "payload": ...}, ...]}; a result for each, in
        order. With in_order=yes each is sent when the one before it is acknowledged; behind one that is not, none."""
        try:
            domain, group = domain_and_group(request)
            in_order = yes_or_no(request, "in_order", default=False)
            yes_or_no(request, "outcome", default=False)
            messages, body_bytes = await self._bodies.many(request, parse_messages)
        except InvalidMessage as error:
            self._metrics.bad_requests.inc()
            return error_response(400, f"messages[{error.place}]: {error}", field=error.field, place=error.place)
        except (BadRequest, InvalidName, web.HTTPException):
            self._metrics.bad_requests.inc()
            raise
        outcomes = await self._send(request, domain, group, messages, body_bytes, in_order=in_order)
        if isinstance(outcomes, web.Response):
            return outcomes
        results = [
            result_of("channel", channel, outcome) for (channel, _), outcome in zip(messages, outcomes, strict=True)
        ]
        answer: dict[str, object] = {"domain": domain, "group": group, "results": results}
        if failed := sum(isinstance(outcome, PublishError) for outcome in outcomes):
            answer["error"] = f"{failed} of {len(outcomes)} messages were not acknowledged, see results"
        return json_answer(answer, status=status_of(outcomes))

    async def _send(
        self,
        request: web.Request,
        domain: str,
        group: str,
        messages: Sequence[NamedMessage],
        body_bytes: int,
        *,
        in_order: bool = False,
    ) -> Sequence[Sent | PublishError] | web.Response:
        """Returns each message's outcome; or the answer, if they are not admitted."""
        messages = owned_messages(request, domain, group, messages)
        at_a_time = 1 if in_order else None
        entered = self._entrance.enter(who_asks(request), domain, group, len(messages), body_bytes, at_a_time=at_a_time)
        if isinstance(entered, web.Response):
            return entered
        begin_s = time.perf_counter()
        traceparent = traceparent_of(request) or None
        if in_order:
            outcomes = await self._one_by_one(domain, group, messages, entered, traceparent)
        else:
            outcomes = await self._under_way(domain, group, messages, entered, traceparent)
        self._metrics.publish_seconds.observe(time.perf_counter() - begin_s)
        for outcome in outcomes:
            self._metrics.publishes.labels(kind_of(outcome)).inc()
        return outcomes

    async def _under_way(
        self, domain: str, group: str, messages: Sequence[NamedMessage], entered: Entered, traceparent: str | None
    ) -> Sequence[Sent | PublishError]:
        """Returns the outcomes of those that were admitted. They give their permits back then."""
        outcomes: Sequence[Sent | PublishError] = ()
        try:
            outcomes = await self._sender.send_messages_async(domain, group, messages, traceparent=traceparent)
        finally:
            self._entrance.leave(entered, outcomes)
        return outcomes

    async def _one_by_one(
        self, domain: str, group: str, messages: Sequence[NamedMessage], first: Entered, traceparent: str | None
    ) -> Sequence[Sent | PublishError]:
        """Returns each message's outcome; after the first that is not acknowledged, and after IN_ORDER_S, none is
        tried.

        A permit is for one message in progress: each takes its own when the one before it has given it back.
        """
        until_s = time.monotonic() + IN_ORDER_S
        outcomes: list[Sent | PublishError] = []
        entered = first
        words = "the messages before it took too long, or one of them was not acknowledged"
        for message in messages:
            if outcomes:
                if time.monotonic() >= until_s:
                    break
                permit = self._entrance.next(first)
                if permit is None:
                    words = "too many objects are on their way to Kafka"
                    break
                entered = permit
            outcomes += await self._under_way(domain, group, [message], entered, traceparent)
            if isinstance(outcomes[-1], PublishError):
                break
        left = len(messages) - len(outcomes)
        return [*outcomes, *(PublishError(f"not tried: {words}", indeterminate=False) for _ in range(left))]
