"""Histories as files: what is written is read back, and what is no event is named by file, line and field."""

import threading
from pathlib import Path

import pytest
from coldnotify_checker import HistoryError, HistoryWriter, now_us, read_histories
from coldnotify_checker.histories import (
    LINE_BYTES_MAX,
    CaughtUp,
    End,
    Publish,
    Published,
    Record,
    Told,
    Topic,
    parse_event,
    shown,
)

OBJECT = "animal.observer/region-1/camera"


def test_a_written_event_is_read_back_with_its_place(tmp_path: Path) -> None:
    events = [
        Publish(t=1, publisher="p", id=1, object=OBJECT, version=4, payload={"fps": [5, None]}, deleted=True),
        Published(t=2, publisher="p", id=1, outcome="acknowledged"),
        Told(t=3, client="animal.observer/region-1/c", object=OBJECT, version=None),
        CaughtUp(t=4, client="animal.observer/region-1/c", since=3),
        End(t=5, connected=["animal.observer/region-1/c"]),
        Record(t=6, topic="coldnotify.objects", partition=1, offset=0, key=OBJECT, value="no JSON"),
        Topic(t=7, topic="coldnotify.objects", partitions=1, ends=[1]),
    ]
    path = tmp_path / "history.jsonl"
    with HistoryWriter(path) as writer:
        for event in events:
            writer.write(event)
    back = read_histories([path])
    assert [shown(event) for event in back] == [
        f"{path}:{number}: {shown(event)}" for number, event in enumerate(events, 1)
    ]


def test_several_files_are_one_history_by_time(tmp_path: Path) -> None:
    one, other = tmp_path / "one.jsonl", tmp_path / "other.jsonl"
    one.write_text('{"t":3,"event":"calm"}\n{"t":1,"event":"calm"}\n')
    other.write_text('{"t":2,"event":"calm"}\n\n')
    assert [event.t for event in read_histories([one, other])] == [1, 2, 3]


def test_unknown_events_and_fields_are_ignored(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    path.write_text('{"t":1,"event":"weather","wind":[3]}\n{"t":2,"event":"fault","kind":"kill","why":"so"}\n')
    assert [event.t for event in read_histories([path])] == [2]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("[1]", "Expected `object`"),
        ("{", "is not a JSON object"),
        ('{"event":"told"', "is not a JSON object"),
        ('{"t":1}', "`event`"),
        ('{"event":"calm"}', "t: is missing"),
        ('{"t":1.5,"event":"calm"}', "t: "),
        ('{"t":1,"event":"told","client":"c"}', "`object`"),
        ('{"t":1,"event":"told","client":"c","object":"o","version":"4"}', "version: "),
        ('{"t":1,"event":"published","publisher":"p","id":1,"outcome":"perhaps"}', "outcome: "),
        ('{"t":1,"event":"end","connected":[4]}', "connected["),
        ("x" * (LINE_BYTES_MAX + 1), "has more than"),
    ],
)
def test_an_invalid_line_is_named(tmp_path: Path, line: str | bytes, words: str) -> None:
    path = tmp_path / "history.jsonl"
    data = line if isinstance(line, bytes) else line.encode()
    path.write_bytes(b'{"t":1,"event":"calm"}\n' + data + b"\n")
    with pytest.raises(HistoryError, match=r"history\.jsonl:2: ") as raised:
        read_histories([path])
    assert words in str(raised.value)


def test_a_line_torn_by_a_power_cut_is_ignored_and_swallows_no_other(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    path.write_text('{"t":1,"event":"calm"}\n{"t":2,"eve')
    assert [event.t for event in read_histories([path])] == [1]
    with HistoryWriter(path) as writer:
        writer.write({"t": 3, "event": "calm"})
    assert [event.t for event in read_histories([path])] == [1, 3]


def test_a_mapping_is_checked_before_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    with HistoryWriter(path) as writer, pytest.raises(HistoryError, match="version: "):
        writer.write({"t": 1, "event": "told", "client": "c", "object": "o", "version": "4"})
    assert path.read_bytes() == b""


def test_threads_do_not_mix_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    with HistoryWriter(path) as writer, HistoryWriter(path) as another:

        def work(which: HistoryWriter) -> None:
            for _ in range(100):
                which.write(Publish(t=now_us(), publisher="p", id=1, object=OBJECT, payload="x" * 500))

        threads = [threading.Thread(target=work, args=(which,)) for which in (writer, writer, another, another)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert len(read_histories([path])) == 400


def test_an_event_made_in_memory_is_shown_without_a_place() -> None:
    event = parse_event(b'{"t":1,"event":"fault","kind":"kill","target":"matcher-0"}')
    assert event is not None
    assert shown(event) == '{"t":1,"event":"fault","kind":"kill","target":"matcher-0"}'


def test_a_history_is_not_written_through_a_link(tmp_path: Path) -> None:
    others = tmp_path / "others"
    others.write_text("theirs")
    (tmp_path / "history").symlink_to(others)
    with pytest.raises(OSError, match="history"):
        HistoryWriter(tmp_path / "history")
    assert others.read_text() == "theirs"
