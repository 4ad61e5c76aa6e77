"""The HTTP service's answers to messages of channels in the service for tests."""

import base64
import secrets
from collections.abc import Callable, Mapping
from typing import Any

from coldnotify_schemas.interests import channel_text
from coldnotify_schemas.protocol import PUBLISHES_PER_REQUEST_MAX

from coldnotify._core.publishing.outgoing import Outgoing, message_of
from coldnotify.testing.service import Service
from coldnotify.testing.service_http_asked import Answer, HttpAsked, HttpRefused, known_fields, text_of
from coldnotify.testing.service_shown import PARTITION

SENDING_KINDS = {"channels": "channel"}
"""Part of a path, and what its names are."""
_ID_BYTES = 12
_MESSAGE = {"payload", "payload_base64", "id", "to", "expires_at", "source", "priority", "key"}


class ServiceSending:
    """The answers of one service."""

    def __init__(self, service: Service) -> None:
        self._service = service

    @property
    def routes(self) -> Mapping[tuple[str, str], Callable[[HttpAsked], Answer]]:
        """Returns the handlers."""
        return {("POST", "channel"): self._send, ("POST", "channels"): self._send_many}

    def _send(self, asked: HttpAsked) -> Answer:
        channel_text(asked.name)
        message = _message(asked, asked.name, asked.json("message"))
        return 200, {"domain": asked.domain, "group": asked.group, **self._sent(message)}

    def _send_many(self, asked: HttpAsked) -> Answer:
        said = known_fields(asked.json("messages"), {"messages"}, "messages").get("messages")
        if not isinstance(said, list) or len(said) > PUBLISHES_PER_REQUEST_MAX:
            raise ValueError(f"messages: must be a list of up to {PUBLISHES_PER_REQUEST_MAX} messages with channels")
        messages = []
        for place, one in enumerate(said):
            try:
                fields = dict(known_fields(one, {"channel", *_MESSAGE}, "message"))
                channel = text_of("channel", fields.pop("channel", ""))
                messages.append(_message(asked, channel, fields))
            except ValueError as error:
                words, field = f"messages[{place}]: {error}", str(error).partition(":")[0]
                raise HttpRefused(400, words, field=field, place=place) from None
        results = [self._sent(message) for message in messages]
        return 200, {"domain": asked.domain, "group": asked.group, "results": results}

    def _sent(self, message: Outgoing) -> dict[str, Any]:
        offset = self._service.send(
            *message.key,
            data=message.payload,
            id=message.id,
            source=message.source or "",
            to=message.to,
            published_ms=self._service.now_ms(),
        )
        return {"channel": message.name, "partition": PARTITION, "offset": offset, "id": message.id}


def decoded(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the fields with the bytes of `payload_base64`, if that is there, as the payload. Raises ValueError."""
    said = dict(fields)
    if "payload_base64" in said:
        try:
            said["payload"] = base64.b64decode(text_of("payload_base64", said.pop("payload_base64")), validate=True)
        except ValueError as error:
            raise ValueError(f"payload_base64: {error}") from None
    return said


def _message(asked: HttpAsked, channel: str, said: Any) -> Outgoing:
    fields = dict(known_fields(said, _MESSAGE, "message"))
    if ("payload" in fields) == ("payload_base64" in fields):
        raise ValueError("payload: either payload or payload_base64 must be there")
    fields = decoded(fields)
    id_ = fields.pop("id", None)
    message = message_of(asked.domain, asked.group, channel, **fields, id=id_ or secrets.token_hex(_ID_BYTES))
    return message._replace(id="") if id_ == "" else message
