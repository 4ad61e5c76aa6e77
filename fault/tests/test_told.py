"""Following what clients are told, and the history that says it."""

import json
from pathlib import Path

from coldnotify_fault.history import HistoryFile
from coldnotify_fault.told import ToldFiles


def test_appended_events_are_taken_in(tmp_path: Path) -> None:
    history = HistoryFile(tmp_path / "a.jsonl")
    told = ToldFiles([tmp_path / "a.jsonl", tmp_path / "missing.jsonl"])
    history.write("told", client="d/g/c", object="d/g/o", version=3, incarnation=1)
    history.write("connecting", client="d/g/c")
    told.read_on()
    assert told.newest == {("d/g/c", "d/g/o"): (1, 3)}
    history.write("told", client="d/g/c", object="d/g/o", version=4, incarnation=1, failed=True)
    told.read_on()
    assert told.newest == {("d/g/c", "d/g/o"): (1, 3)}, "a callback that failed has not been told"
    assert told.told == 2
    history.write("told", client="d/g/c", object="d/g/p", version=None, incarnation=0)
    told.read_on()
    assert told.newest["d/g/c", "d/g/p"] == (-1, -1)
    history.close()


def test_a_client_counts_as_caught_up_since_its_last_connection(tmp_path: Path) -> None:
    history = HistoryFile(tmp_path / "a.jsonl")
    told = ToldFiles([tmp_path / "a.jsonl"])
    history.write("connecting", client="d/g/c")
    history.write("connecting", client="d/g/d")
    history.write("caught_up", client="d/g/c", since=0)
    told.read_on()
    assert told.caught_up == {"d/g/c"}
    history.write("stopped", client="d/g/c")
    history.write("connecting", client="d/g/c")
    told.read_on()
    assert not told.caught_up
    history.close()


def test_half_a_line_waits(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    told = ToldFiles([path])
    line = json.dumps({"event": "told", "client": "c", "object": "o", "version": 1, "incarnation": 0}) + "\n"
    path.write_text(line[:20])
    told.read_on()
    assert not told.newest
    path.write_text(line)
    told.read_on()
    assert told.newest == {("c", "o"): (0, 1)}


def test_told_members_are_kept_until_the_query_or_the_state_is_lost(tmp_path: Path) -> None:
    history = HistoryFile(tmp_path / "a.jsonl")
    told = ToldFiles([tmp_path / "a.jsonl"])
    place = {"client": "d/g/c", "query": "Room = 1"}
    history.write("started", client="d/g/c", life=0)
    history.write("members", added=["a", "b"], removed=[], **place)
    history.write("members", added=["c"], removed=[], failed=True, **place)
    history.write("members", added=[], removed=["a"], **place)
    told.read_on()
    assert told.members == {("d/g/c", "Room = 1"): {"b"}}
    history.write("started", client="d/g/c", life=1)
    told.read_on()
    assert told.members == {}
    history.close()


def test_channels_are_followed_until_unsubscribed(tmp_path: Path) -> None:
    history = HistoryFile(tmp_path / "a.jsonl")
    told = ToldFiles([tmp_path / "a.jsonl"])
    of_channel = {"client": "d/g/c", "channel": "d/g/tasks"}

    def position() -> int | None:
        told.read_on()
        return told.following["d/g/c", "d/g/tasks"].position

    history.write("started", client="d/g/c", life=0)
    history.write("subscribe", **of_channel, since="oldest", attributes=["camera"])
    assert position() is None
    history.write("message", **of_channel, offset=4)
    history.write("message", **of_channel, offset=5, failed=True)
    assert position() == 4
    history.write("missed", **of_channel, before=9, reason="retention")
    history.write("message", **of_channel, offset=7)
    assert position() == 8
    history.write("missed", **of_channel, before=1, reason="lost")
    assert position() == 0, "another log"
    following = told.following["d/g/c", "d/g/tasks"]
    assert (following.is_for([]), following.is_for(["camera"]), following.is_for(["solar"])) == (True, True, False)
    history.write("unsubscribe", **of_channel)
    told.read_on()
    assert told.following == {}
    history.write("subscribe", **of_channel, since="now", attributes=[])
    history.write("started", client="d/g/c", life=1)
    told.read_on()
    assert told.following == {}, "who has lost its state subscribes anew"
    history.close()


def test_a_client_is_stale_until_it_says_otherwise_in_its_present_connection(tmp_path: Path) -> None:
    history = HistoryFile(tmp_path / "a.jsonl")
    told = ToldFiles([tmp_path / "a.jsonl"])
    history.write("connecting", client="d/g/raw")
    for as_of, stale in ((None, True), (15_900_000, True), (16_100_000, False)):
        history.write("fresh", client="d/g/c", asked=30_000_000, as_of=as_of, keepalive_s=2)
        told.read_on()
        assert told.stale == {"d/g/c": stale}
    history.write("connecting", client="d/g/c")
    told.read_on()
    assert told.stale == {"d/g/c": True}
    history.close()
