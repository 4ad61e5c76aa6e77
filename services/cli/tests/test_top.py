"""`coldnotify top`: what it makes of an overview, in a pipe and on a terminal.

Stands for: top_view, counted
"""

import io
import json
import os
import pty
import select
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from aiohttp import web
from coldnotify_cli.top_view import duration, old_view, plain
from coldnotify_testkit.command import COMMAND, coldnotify
from coldnotify_testkit.served_routes import served_in_a_thread
from rich.console import Console

NOW_MS = 1_700_000_000_000
OVERVIEW: dict[str, Any] = {
    "now_ms": NOW_MS, "overdue_s": 3600, "partial": False, "clients": 3, "online": 2, "lacking": 1, "overdue": 1,
    "objects": 2, "groups_count": 1, "window_s": 60.0, "connections": 2,
    "partitions": {"counted": 4, "missing": []},
    "traffic": {"publishes_per_s": 1.5, "deliveries_per_s": 3.0, "sent_bytes_per_s": 2048},
    "latency": {"p50_s": 0.0123, "p99_s": 1.5, "deliveries": 180}, "lag": {"objects": 0, "requests": 2},
    "matchers": [{"address": "m:1", "error": None}, {"address": "m:2", "error": "no answer within 3 s"}],
    "gateways": [{"address": "g:1", "error": None, "connections": 2, "ready": True}],
    "groups": [{"domain": "d", "group": "g", "objects": 2, "clients": 3, "online": 2, "lacking": 1, "overdue": 1,
                "oldest_since_ms": NOW_MS - 7_260_000, "publishes": 90}],
    "slowest": [{"domain": "d", "group": "g", "client": "tromso", "since_ms": NOW_MS - 7_260_000, "lacking": 1,
                 "state": "asleep", "last_seen_ms": NOW_MS - 90_061_000}],
    "oldest": [],
}  # fmt: skip


@contextmanager
def answering(shown: dict[str, Any], nodes: list[dict[str, Any]] | None = None) -> Iterator[str]:
    async def overview(_request: web.Request) -> web.Response:
        return web.json_response(shown)

    async def all_nodes(_request: web.Request) -> web.Response:
        return web.json_response({"items": nodes}) if nodes is not None else web.HTTPForbidden()

    routes = [web.get("/v1/overview", overview), web.get("/v1/nodes", all_nodes)]
    with served_in_a_thread(routes) as port:
        yield f"127.0.0.1:{port}"


@pytest.fixture
def node() -> Iterator[str]:
    with answering(OVERVIEW) as address:
        yield address


def test_once_is_plain_lines(node: str) -> None:
    lines = coldnotify("top", "--once", http=node).stdout.splitlines()
    assert lines[0].startswith("clients 3  online 2  behind 1  overdue 1 (longer than 1 h)")
    assert lines[1].startswith("publishes 1.5/s  deliveries 3.0/s  sent 2.0 KiB/s  over 60 s")
    assert "median 12 ms, 99% within 1.5 s" in lines[2]
    assert lines[3] == "matcher m:2 cannot be asked: no answer within 3 s"
    assert lines[-1] == ""
    text = "\n".join(lines)
    assert "\nd/g    90             3        2       2        1       1        2 h 1 min\n" in text
    assert "\nd/g/tromso  asleep  1          2 h 1 min  1 d 1 h\n" in text
    assert "\nOldest undelivered\n(none)" in text
    assert json.loads(coldnotify("top", "--once", "--json", http=node).stdout) == OVERVIEW


def test_nodes_are_shown_to_operators_the_silent_ones_first() -> None:
    ready = {"role": "gateway", "id": "g-1", "addresses": {"device": "g:1"}, "state": "ready", "age_s": 1.2,
             "connections": 3, "limit": 9, "load": 0.25, "version": "0.1.0"}  # fmt: skip
    silent = {**ready, "role": "matcher", "id": "m-1", "addresses": {}, "state": "silent", "age_s": 70, "limit": 0}
    with answering(OVERVIEW, [ready, silent]) as address:
        text = coldnotify("top", "--once", http=address).stdout
    assert "\nNodes: 1 gateway, 1 matcher\n" in text
    assert text.splitlines()[-3:-1] == [
        "matcher m-1  silent  -            25 %  0.1.0    1 min 10 s ago",
        "gateway g:1  ready   3 of 9       25 %  0.1.0    1 s ago",
    ]


def test_on_a_terminal_it_is_refreshed_until_it_is_interrupted(node: str) -> None:
    reading, terminal = pty.openpty()
    environ = os.environ | {"COLDNOTIFY_HTTP": node, "TERM": "xterm", "COLUMNS": "120", "LINES": "50"}
    process = subprocess.Popen([COMMAND, "top"], stdout=terminal, stderr=terminal, stdin=terminal, env=environ)
    os.close(terminal)
    try:
        seen = b""
        deadline_s = time.monotonic() + 60
        while seen.count(b"tromso") < 2:  # the first picture and one more
            assert time.monotonic() < deadline_s, seen
            if select.select([reading], [], [], 1)[0]:
                seen += os.read(reading, 65536)
        process.send_signal(signal.SIGINT)
        while process.poll() is None:
            assert time.monotonic() < deadline_s
            if select.select([reading], [], [], 0.1)[0]:
                try:
                    os.read(reading, 65536)
                except OSError:
                    break
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait(60)
        os.close(reading)


@pytest.mark.parametrize("partitions", [{"counted": 0, "missing": None}, {"counted": 0, "missing": [0, 1]}, None])
def test_nothing_is_counted_if_no_matcher_answers(partitions: dict[str, Any] | None) -> None:
    silent = [{"address": "m:1", "error": "no answer within 3 s"}]
    shown = OVERVIEW | dict.fromkeys(("clients", "online", "lacking", "overdue"), 0) | {"groups": [], "slowest": []}
    shown |= {"matchers": silent, "partitions": partitions}
    with answering(shown) as address:
        done = coldnotify("top", "--once", http=address)
        assert coldnotify("top", "--once", "--json", http=address).returncode == 1
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert lines[0].startswith("clients -  online -  behind -  overdue - (longer than 1 h)")
    assert lines[1].startswith("publishes -/s  deliveries 3.0/s")
    assert lines[2].endswith("lag: objects -, requests -")
    assert lines[3] == "matcher m:1 cannot be asked: no answer within 3 s"
    assert lines[4].startswith("no matcher answers for ")
    assert lines.count("(not known)") == 3
    assert done.stderr == f"Error: {lines[4]}\n"


def test_uncounted_partitions_are_reported() -> None:
    shown = OVERVIEW | {"partitions": {"counted": 6, "missing": [1, 3]}}
    with answering(shown) as address:
        done = coldnotify("top", "--once", http=address)
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert lines[0].startswith("clients 3 ")
    assert "no matcher answers for partitions 1, 3 (of 8): counts are too low" in lines
    assert "(not known)" in lines, "whether anything is undelivered there"
    assert done.stderr == "Warning: no matcher answers for partitions 1, 3 (of 8): counts are too low\n"
    since = OVERVIEW | {"partitions": {"counted": 6, "missing": [1, 3], "since_ms": NOW_MS}}
    said = "no matcher has answered for partitions 1, 3 (of 8) since 2023-11-14 22:13:20+00:00: counts are too low"
    assert said in plain(since)
    many = OVERVIEW | {"partitions": {"counted": 1, "missing": list(range(1, 12))}}
    assert "no matcher answers for partitions 1, 2, 3, 4, 5, 6, 7, 8, ... (of 12): counts are too low" in plain(many)
    one = OVERVIEW | {"partitions": {"counted": 3, "missing": [2]}}
    assert "no matcher answers for partition 2 (of 4): counts are too low" in plain(one)
    former = {name: value for name, value in OVERVIEW.items() if name != "partitions"}
    assert "not all matchers answer: counts are too low" in plain(former), "of an HTTP service of the release before"


def test_a_pipe_that_ends_without_any_answer_is_an_error() -> None:
    silent = OVERVIEW | {"partitions": {"counted": 0, "missing": [0], "since_ms": NOW_MS}}
    with answering(silent) as address:
        environ = os.environ | {"COLDNOTIFY_HTTP": address}
        pipe = subprocess.PIPE
        with subprocess.Popen(
            [COMMAND, "top", "--every-s", "1"], env=environ, text=True, stdout=pipe, stderr=pipe
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline().startswith("clients -  online -")
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=60)
    assert process.returncode == 1
    assert said.startswith("Error: no matcher has answered for any partition since 2023-11-14")


def test_the_old_view_has_the_problem_and_the_numbers_with_their_time() -> None:
    console = Console(width=160, record=True, file=io.StringIO(), force_terminal=True)
    console.print(old_view("no answer within 3 s", OVERVIEW))
    text = console.export_text(styles=True)
    assert "no answer within 3 s" in text
    assert "numbers are from 2023-11-14 22:13:20+00:00" in text
    assert "clients 3" in text.partition("\x1b[2m")[2], "dimmed"


def test_partial_sums_are_reported() -> None:
    assert any("sums are too low" in line for line in plain(OVERVIEW | {"partial": True}))


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0 s"), (59.4, "59 s"), (60, "1 min"), (200, "3 min 20 s"), (14_520, "4 h 2 min"), (1_047_600, "12 d 3 h")],
)
def test_durations(seconds: float, words: str) -> None:
    assert duration(seconds) == words
