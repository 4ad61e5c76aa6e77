"""What a frame says of a channel: its name and attributes as one text, as they were said."""

from coldnotify_matcher.engine.interests.said import said_channel
from coldnotify_schemas import wire_pb2
from coldnotify_schemas.interests import channel_text


def test_a_channel_is_one_text() -> None:
    said = said_channel(wire_pb2.Channel(name="a", attributes=["b", "c"], since=wire_pb2.SINCE_TIME, at=7))
    assert said == (channel_text("a", ["b", "c"]), wire_pb2.SINCE_TIME, 7)
