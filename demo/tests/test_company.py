"""The company of processes: what they say is relayed, and an end that nobody asked for is noticed."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from coldnotify_demo.company import Collapsed, Company

LIMIT_S = 30.0

SPEAKER = """
import signal, sys
from coldnotify_demo.saying import say
signal.signal(signal.SIGTERM, lambda *_: sys.exit(int(sys.argv[1])))
print("a warning", file=sys.stderr, flush=True)
say("hello", event="greeting", number=1)
while True:
    signal.pause()
"""


@pytest.fixture
def lines() -> list[tuple[str, str]]:
    return []


@pytest.fixture
def company(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: list[tuple[str, str]]) -> Iterator[Company]:
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "speaker.py").write_text(SPEAKER)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "modules"))
    company = Company(tmp_path, lambda name, words: lines.append((name, words)))
    yield company
    company.close()


def speaking(company: Company, status: int = 0) -> None:
    before = len(company.start("a", "speaker", str(status)).events)
    assert company.wait_until(lambda: company["a"].said("greeting", since=before), LIMIT_S)


def test_output_is_relayed_and_its_facts_are_kept(company: Company, lines: list[tuple[str, str]]) -> None:
    speaking(company)
    assert lines == [("a", "a warning"), ("a", "hello")]
    assert company["a"].said("greeting", number=1)
    assert not company["a"].said("greeting", number=2)
    company.stop("a")
    speaking(company)
    assert len(company["a"].said("greeting")) == 2
    assert len(company["a"].said("greeting", since=2)) == 1


def test_waiting_for_a_condition_has_a_limit(company: Company) -> None:
    begin = time.monotonic()
    assert not company.wait_until(lambda: False, 0.1)
    assert time.monotonic() - begin < LIMIT_S


def test_half_a_line_waits_for_its_other_half(company: Company, tmp_path: Path, lines: list[tuple[str, str]]) -> None:
    speaking(company)
    del lines[:]
    with (tmp_path / "a.log").open("a") as log:
        log.write('{"words": "one')
        log.flush()
        company.relay()
        assert lines == []
        log.write('", "time_s": 1.5}\n')
    company.relay()
    assert lines == [("a", "one")]


def test_a_process_that_ends_by_itself_is_noticed(company: Company) -> None:
    speaking(company)
    process = company["a"].process
    assert process is not None
    os.kill(process.pid, 9)
    with pytest.raises(Collapsed, match="a ended by itself with status -9"):
        company.wait_until(lambda: False, LIMIT_S)


def test_a_failed_stop_is_noticed_and_a_kill_is_not_a_stop(company: Company) -> None:
    speaking(company, status=3)
    with pytest.raises(Collapsed, match="a was asked to stop and ended with status 3"):
        company.stop("a")
    speaking(company, status=3)
    company.kill("a")
    company.relay()


def test_closing_ends_all_processes(company: Company) -> None:
    speaking(company)
    process = company["a"].process
    company.close()
    assert process is not None
    assert process.poll() == 0
