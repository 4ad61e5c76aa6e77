"""What `current` says, and what the document has of it."""

from coldnotify._core.delivery.newest import KeptPayload, NewestUpdates
from coldnotify._core.delivery.slot import Update
from coldnotify.notification import Notification


def test_the_last_delivered_version_survives_a_restart():
    newest = NewestUpdates(1000, {}, {})
    assert newest.get("a") is None
    newest.put("a", Update(0, 1, b'{"fps": 5}'))
    newest.put("a", Update(0, 2, b'{"fps": 6}'))
    newest.put("gone", Update(0, 3, deleted=True))
    newest.put("never-published", Update(0, None))
    floors = {"a": (0, 2), "gone": (0, 3)}
    kept = newest.kept(floors)
    assert kept == {"a": KeptPayload('{"fps": 6}'), "gone": KeptPayload("", deleted=True)}
    again = NewestUpdates(1000, kept | {"unknown": KeptPayload("7")}, floors)
    assert again.get("a") == Notification("a", 2, {"fps": 6})
    assert again.get("gone") == Notification("gone", 3, None, deleted=True)
    assert again.get("never-published") is again.get("unknown") is None


def test_the_document_has_what_its_floors_say_only():
    newest = NewestUpdates(1000, {}, {})
    newest.put("a", Update(0, 2, b"7"))
    assert newest.kept({}) == newest.kept({"a": (0, 1)}) == {}


def test_beyond_the_bound_what_was_told_first_goes():
    newest = NewestUpdates(250, {}, {})
    for name in "abc":
        newest.put(name, Update(0, 1, b'"' + b"x" * 20 + b'"'))
    assert [name for name in "abc" if newest.get(name)] == ["b", "c"]
    newest.put("b", Update(0, 2, b"1"))
    newest.put("d", Update(0, 1, b'"' + b"x" * 80 + b'"'))
    assert [name for name in "abcd" if newest.get(name)] == ["b", "d"], "b was told again since"
    newest.put("d", Update(0, 2, b'"' + b"x" * 300 + b'"'))
    assert newest.get("d") is None, "what does not fit is not there, rather than old"
    assert newest.get("b") is not None
    newest.forget("b")
    assert newest.get("b") is None
    nothing = NewestUpdates(0, {"a": KeptPayload("7")}, {"a": (0, 1)})
    assert nothing.get("a") is None


def test_bytes_survive_a_restart():
    newest = NewestUpdates(1000, {}, {})
    newest.put("a", Update(0, 1, b"\xff\x00", deleted=True, raw=True))
    kept = newest.kept({"a": (0, 1)})
    assert kept == {"a": KeptPayload("/wA=", deleted=True, raw=True)}
    again = NewestUpdates(1000, kept, {"a": (0, 1)}).get("a")
    assert again is not None
    assert (again.payload, again.data, again.deleted) == (b"\xff\x00", b"\xff\x00", True)


def test_a_payload_that_is_not_json_reads_as_none():
    newest = NewestUpdates(1000, {}, {})
    newest.put("a", Update(0, 1, b"\xff"))
    assert newest.get("a") == Notification("a", 1, None)
    assert NewestUpdates(1000, newest.kept({"a": (0, 1)}), {"a": (0, 1)}).get("a") == Notification("a", 1, None)
