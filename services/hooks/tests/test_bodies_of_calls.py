import base64
import json
from datetime import UTC, datetime

from coldnotify.message import Message, Missed, MissedReason
from coldnotify.notification import Notification
from coldnotify_common.hooks.hook_records import Hook
from coldnotify_hooks.bodies_of_calls import encoded, of_message, of_missed, of_object

HOOK = Hook(domain="d", group="g", name="n", url="https://e.example/", objects=("a",), revision=1, rotation=1)


def test_a_version_has_one_id_and_another_version_payload_or_hook_has_another():
    told = Notification("a", 1, {"x": 1}, data=b'{"x": 1}')
    others = [
        Notification("a", 2, {"x": 1}, data=b'{"x": 1}'),
        Notification("a", 1, {"x": 2}, data=b'{"x": 2}'),
        Notification("b", 1, {"x": 1}, data=b'{"x": 1}'),
        Notification("a", 1, None, deleted=True),
    ]
    ids = {of_object(HOOK, one)[0] for one in (told, *others)}
    assert len(ids) == 5
    assert of_object(HOOK, told)[0] in ids
    assert of_object(Hook(**{**vars(HOOK), "name": "m"}), told)[0] not in ids


def test_a_payload_that_is_no_json_is_base64():
    message_id, fields = of_object(HOOK, Notification("a", 1, b"\xff", data=b"\xff"))
    body, content_type = encoded(HOOK, "object", message_id, fields)
    assert base64.b64decode(json.loads(body)["payload_base64"]) == b"\xff"
    assert content_type == "application/json"


def test_a_cloud_event_has_its_attributes():
    hook = Hook(**{**vars(HOOK), "format": "cloudevents"})
    at = datetime(2026, 1, 2, tzinfo=UTC)
    message = Message("c", {"y": 1}, 5, data=b"", id="i", source="s", published_at=at, epoch=3)
    message_id, fields = of_message(hook, message)
    body, content_type = encoded(hook, "message", message_id, fields)
    event = json.loads(body)
    assert content_type == "application/cloudevents+json"
    assert event["specversion"] == "1.0"
    assert (event["id"], event["type"]) == (message_id, "coldnotify.message")
    assert (event["source"], event["subject"]) == ("/domains/d/groups/g", "c")
    assert event["data"] == {
        "type": "message", "domain": "d", "group": "g", "channel": "c", "position": "00000003.5", "id": "i",
        "source": "s", "published_at": "2026-01-02T00:00:00+00:00", "payload": {"y": 1},
    }  # fmt: skip


def test_a_gap_is_said():
    message_id, fields = of_missed(HOOK, Missed("c", None, 9, MissedReason.RETENTION))
    assert message_id.startswith("missed_")
    assert fields == {"channel": "c", "after": None, "before": 9, "reason": "RETENTION"}
