"""Looks into the ledger become events of the history; no answer, or one that is not whole, becomes none."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from coldnotify_fault.history import HistoryFile
from coldnotify_fault.ledger_looks import LedgerLooker
from coldnotify_testkit.answering import answering
from coldnotify_testkit.waiting import wait_for

OBJECT = "d/g/månad/1"
WHOLE = {"wanted_version": 3, "incarnation": 0, "told_at_least": 0, "next": None, "items": [{"client": "c1"}]}


@pytest.fixture
def answers() -> list[tuple[int, dict[str, Any]]]:
    """What is answered next; the last one stays."""
    return [(200, WHOLE)]


@pytest.fixture
def url(answers: list[tuple[int, dict[str, Any]]]) -> Iterator[str]:
    with answering(lambda _path: answers.pop(0) if len(answers) > 1 else answers[0]) as address:
        yield f"http://{address}"


def test_incomplete_answers_are_not_recorded(
    url: str, answers: list[tuple[int, dict[str, Any]]], tmp_path: Path
) -> None:
    halves: list[dict[str, Any]] = [{"next": "c1"}, {"wanted_version": None}, {"told_at_least": 1}]
    answers[:0] = [(503, {}), *[(200, WHOLE | half) for half in halves]]
    path = tmp_path / "run.jsonl"
    history = HistoryFile(path)
    looks = LedgerLooker(url, [OBJECT], history, seed=1)
    wait_for(lambda: path.exists() and path.read_text().count("\n") >= 1, "a whole answer")
    looks.stop()
    history.close()
    first = json.loads(path.read_text().splitlines()[0])
    assert first["t"] >= first.pop("asked")
    assert {name: first[name] for name in ("event", "object", "version", "lacking")} == {
        "event": "ledger", "object": OBJECT, "version": 3, "lacking": ["d/g/c1"]
    }  # fmt: skip
    assert len(answers) == 1
