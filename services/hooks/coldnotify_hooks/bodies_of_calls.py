"""The bodies of calls: JSON of our own, or CloudEvents 1.0. Pure."""

import base64
import hashlib
import json
from typing import Any

from coldnotify.message import Message, Missed, position_text
from coldnotify.notification import Notification
from coldnotify_common.hooks.hook_records import Hook

OBJECT, MESSAGE, MISSED, TEST = "object", "message", "missed", "test"
_ID_CHARS = 32


def of_object(hook: Hook, notification: Notification) -> tuple[str, dict[str, Any]]:
    """Returns the id and the fields of a version. The id contains the payload: an object that was reset may have
    another one under the same version."""
    version = str(notification.version)
    said = [notification.object_id.encode(), version.encode(), str(notification.deleted).encode(), notification.data]
    fields: dict[str, Any] = {"object": notification.object_id, "version": notification.version}
    if notification.deleted:
        fields["deleted"] = True
    if notification.description is not None:
        fields["description"] = dict(notification.description)
    return _id(hook, OBJECT, *said), {**fields, **_payload(notification.payload)}


def of_message(hook: Hook, message: Message) -> tuple[str, dict[str, Any]]:
    """Returns the id and the fields of a channel's message."""
    fields: dict[str, Any] = {"channel": message.channel, "position": message.position}
    if message.id is not None:
        fields["id"] = message.id
    if message.source is not None:
        fields["source"] = message.source
    if message.published_at is not None:
        fields["published_at"] = message.published_at.isoformat()
    said = _id(hook, MESSAGE, message.channel.encode(), message.position.encode())
    return said, {**fields, **_payload(message.payload)}


def of_missed(hook: Hook, missed: Missed) -> tuple[str, dict[str, Any]]:
    """Returns the id and the fields of a gap in a channel."""
    place = f"{missed.after}-{missed.before}".encode()
    fields = {"channel": missed.channel, "after": missed.after, "before": missed.before, "reason": str(missed.reason)}
    return _id(hook, MISSED, missed.channel.encode(), place), fields


def position_of(message: Message) -> str:
    """Returns the position of a message, which rises in its channel."""
    return position_text(message.epoch, message.offset)


def encoded(hook: Hook, kind: str, message_id: str, fields: dict[str, Any]) -> tuple[bytes, str]:
    """Returns the body and its content type."""
    whole = {"type": kind, "domain": hook.domain, "group": hook.group, **fields}
    if hook.format != "cloudevents":
        return json.dumps(whole, ensure_ascii=False).encode(), "application/json"
    event = {
        "specversion": "1.0",
        "id": message_id,
        "source": f"/domains/{hook.domain}/groups/{hook.group}",
        "type": f"coldnotify.{kind}",
        "datacontenttype": "application/json",
        "data": whole,
    }
    if subject := fields.get("object") or fields.get("channel"):
        event["subject"] = subject
    return json.dumps(event, ensure_ascii=False).encode(), "application/cloudevents+json"


def _payload(payload: Any) -> dict[str, Any]:
    if isinstance(payload, bytes):
        return {"payload_base64": base64.b64encode(payload).decode()}
    return {"payload": payload}


def _id(hook: Hook, kind: str, *said: bytes) -> str:
    digest = hashlib.sha256(b"".join(len(one).to_bytes(4, "big") + one for one in (hook.key.encode(), *said)))
    return f"{kind}_{digest.hexdigest()[:_ID_CHARS]}"
