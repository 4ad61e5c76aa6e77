"""Publishes in a history that grows."""

import json
from pathlib import Path

from coldnotify_load.mark_tally import MarkedPublishes
from coldnotify_load.marks import Mark, payload_of
from coldnotify_load.published_file import PublishedFile


def lines(topic: int, seq: int, version: int, outcome: str | None = "acknowledged") -> str:
    """A publish, and its answer unless it is None."""
    payload = json.loads(payload_of(Mark("0123abcd", "89abcdef", topic, seq, version, 1), 120))
    about = {"t": 1, "publisher": "p", "id": f"{topic}-{seq}"}
    said = [{"event": "publish", **about, "object": "d/g/o", "payload": payload}]
    if outcome is not None:
        said.append({"event": "published", **about, "outcome": outcome})
    return "".join(json.dumps(event) + "\n" for event in said)


def test_acknowledged_publishes_of_a_time_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    published = PublishedFile(path)
    published.read()
    assert published.published(0, 1000) == (0, {})
    path.write_text(lines(0, 1, 100) + lines(0, 2, 101) + lines(1, 1, 150, "unknown") + lines(1, 2, 160, None))
    published.read()
    assert published.published(100, 1000) == (4, {0: MarkedPublishes(2, 101)})
    assert published.published(101, 150) == (1, {0: MarkedPublishes(1, 101)})


def test_it_goes_on_in_the_middle_of_a_line(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    text = lines(3, 1, 100) + json.dumps({"event": "sleep", "t": 1, "client": "d/g/c"}) + "\n[]\n" + lines(3, 2, 200)
    published = PublishedFile(path)
    for end in range(0, len(text) + 1, 7):
        path.write_text(text[:end])
        published.read()
    path.write_text(text)
    published.read()
    assert published.published(0, 1000) == (2, {3: MarkedPublishes(2, 200)})
