"""The files in schemas/transcripts are what `make transcripts` gives.

Stands for: recorder, transcript_unit, channel_transcripts, unsettled_transcripts, moving_transcripts
"""

import json
from pathlib import Path

import pytest
from coldnotify_simulation.transcripts import main, transcripts

FOLDER = Path(__file__).parents[2] / "schemas" / "transcripts"
EVENTS = {
    *(
        "register",
        "unregister",
        "register_only",
        "subscribe",
        "link",
        "frames",
        "saved",
        "called",
        "stop",
        "named",
        "unnamed",
    ),
    *("register_channel", "unregister_channel", "subscribe_channel", "subscribe_missed"),
}
ACTIONS = {"connect", "save", "frames", "call", "end_sending", "close", "end", "ask_directory", "number"}


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    return transcripts()


def test_the_transcripts_in_the_tree_are_up_to_date(texts: dict[str, str]) -> None:
    stored = {path.relative_to(FOLDER).as_posix(): path.read_text(encoding="utf-8") for path in FOLDER.rglob("*.jsonl")}
    differing = sorted(name for name in stored.keys() | texts.keys() if stored.get(name) != texts.get(name))
    assert differing == [], "make transcripts writes them anew; a difference is a change of what clients do"


def test_every_event_and_action_occurs(texts: dict[str, str]) -> None:
    lines = [json.loads(line) for text in texts.values() for line in text.splitlines()[1:]]
    assert {name for line in lines for event in line["do"] for name in event} >= EVENTS
    assert {name for line in lines for action in line["then"] for name in action} == ACTIONS


def test_every_kind_of_frame_occurs(texts: dict[str, str]) -> None:
    lines = [json.loads(line) for text in texts.values() for line in text.splitlines()[1:]]

    def kinds(side: str) -> set[str]:
        return {kind for line in lines for step in line[side] for frame in step.get("frames", ()) for kind in frame}

    usual = {"hello", "register", "unregister", "sync", "ack", "ping", "use_names", "bye"}
    assert kinds("then") == {*usual, "unsettled"}
    assert kinds("do") == {
        *("welcome", "notification", "caught_up", "registered", "unregistered", "page_end", "pong", "wait", "close"),
        *("message", "missed"),
    }


def test_transcripts_of_channels_and_unsettled_ones_have_their_own_folders(texts: dict[str, str]) -> None:
    of_unsettled = {name for name in texts if name.startswith("unsettled/")}
    assert {name for name, text in texts.items() if "unsettled" in text} == of_unsettled
    assert {name for name, text in texts.items() if "channel" in text} - of_unsettled == {
        name for name in texts if name.startswith("channels/")
    }


def test_obsolete_transcripts_are_removed(tmp_path: Path, texts: dict[str, str]) -> None:
    (tmp_path / "old.jsonl").write_text("{}\n")
    (tmp_path / "README.md").write_text("stays")
    assert main([str(tmp_path)]) == 0
    left = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()}
    assert left == {*texts, "README.md"}
