"""A step that wants nothing done is false."""

from coldnotify_matcher.engine.outputs import ProducedRecord, Step
from coldnotify_schemas import internal_pb2


def test_an_empty_step_is_false_any_other_is_true() -> None:
    write = ProducedRecord("topic", 1, b"key", None)

    assert not Step()
    assert Step(state=[write])
    assert Step(seals=[write])
    assert Step(tombstones=[write])
    assert Step(inboxes=[(0, internal_pb2.Inbox())])
