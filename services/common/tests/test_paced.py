"""Of what happens often, one line a second of each kind is written, and how many were not."""

import json
import logging
import threading
from typing import Any

from aiohttp.http_exceptions import LineTooLong
from coldnotify_common.paced import Pace, Paced, PacedRecords


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


class Lines:
    """Stands for a logger."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str, dict[str, Any]]] = []

    def __getattr__(self, level: str) -> Any:
        return lambda event, **fields: self.lines.append((level, event, fields))


def test_each_kind_has_a_line_a_second_and_the_next_one_says_how_many_were_left_out() -> None:
    clock, lines = Clock(), Lines()
    paced = Paced(lines, every_s=1.0, now_s=clock)
    for number in range(1000):
        paced.log("refused", number=number)
    paced.log("malformed", level="warning")
    clock.now_s += 0.99
    paced.log("refused", number=1000)
    clock.now_s += 0.01
    paced.log("refused", number=1001)
    clock.now_s += 1
    paced.log("refused", number=1002)
    assert lines.lines == [
        ("info", "refused", {"number": 0}),
        ("warning", "malformed", {}),
        ("info", "refused", {"number": 1001, "left_out": 1000}),
        ("info", "refused", {"number": 1002}),
    ]


def test_what_goes_wrong_unexpectedly_is_a_kind_by_where_it_is_raised() -> None:
    lines = Lines()
    paced = Paced(lines, every_s=1.0, now_s=Clock())
    for text in [*["x"] * 1000, "["]:
        try:
            json.loads(text) if text == "[" else int(text)
        except ValueError as error:
            paced.log("request failed", level="error", raised=error, path=text)
    said = [(level, event, type(fields["exc_info"]).__name__) for level, event, fields in lines.lines]
    assert said == [("error", "request failed", "ValueError"), ("error", "request failed", "JSONDecodeError")]


def test_kinds_are_forgotten_rather_than_piled_up() -> None:
    clock = Clock()
    pace = Pace(every_s=1.0, now_s=clock)
    for number in range(100_000):
        assert pace.take(f"kind {number}") == 0
    assert len(pace._said) <= 256
    assert pace.take("kind 99999") is None


def test_threads_lose_no_count() -> None:
    clock = Clock()
    pace = Pace(every_s=1.0, now_s=clock)
    taken: list[int | None] = []

    def take() -> None:
        taken.extend([pace.take("kind") for _ in range(1000)])

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken, key=str) == [0, *[None] * 3999]
    clock.now_s += 1
    assert pace.take("kind") == 3999


def test_what_libraries_log_is_of_one_kind_whatever_its_arguments_and_further_lines() -> None:
    clock = Clock()
    records = PacedRecords(every_s=1.0, now_s=clock)

    def record(msg: str, *args: object, level: int = logging.ERROR) -> logging.LogRecord:
        return logging.LogRecord("asyncio", level, "", 0, msg, args, None)

    assert records.filter(record("SSL handshake failed\nprotocol: <1>"))
    assert not records.filter(record("SSL handshake failed\nprotocol: <2>"))
    assert records.filter(record("Error handling request from %s", "192.0.2.1"))
    assert not records.filter(record("Error handling request from %s", "192.0.2.2"))
    assert records.filter(record("Error handling request from %s", "192.0.2.2", level=logging.WARNING))
    clock.now_s += 1
    later = record("SSL handshake failed\nprotocol: <3>")
    assert records.filter(later)
    assert getattr(later, "left_out", None) == 1


def test_malformed_http_has_its_reason_and_no_traceback(caplog: Any) -> None:
    records = PacedRecords()

    def record(error: Exception) -> logging.LogRecord:
        exc_info = (type(error), error, None)
        return logging.LogRecord("aiohttp.server", logging.ERROR, "", 0, "from %s", ("192.0.2.1",), exc_info)

    malformed = record(LineTooLong(b"Authorization: Bearer secret", 8190))
    with caplog.at_level(logging.INFO):
        assert records.filter(malformed)
    assert (malformed.levelname, malformed.exc_info) == ("INFO", None)
    assert malformed.getMessage() == "from 192.0.2.1: Got more than 8190 bytes when reading"
    with caplog.at_level(logging.ERROR):
        assert not PacedRecords().filter(record(LineTooLong(b"x", 8190))), "nobody wants to know"
    ours = record(ValueError("ours"))
    assert PacedRecords().filter(ours)
    assert ours.exc_info is not None
