import json
import subprocess
import sys
from unicodedata import category

SCRIPT = """
import logging, structlog
from coldnotify_common.log import configure
configure({format!r}, {level!r}, "lamp")
log = structlog.get_logger()
log.debug("too quiet")
log.info("lit", watts=7)
logging.getLogger("aiohttp").warning("careful %s", "now")
try:
    1 / 0
except ZeroDivisionError:
    log.exception("broken")
"""


def run(log_format: str, level: str = "info") -> list[str]:
    script = SCRIPT.format(format=log_format, level=level)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout == ""
    return done.stderr.splitlines()


def test_json_is_one_object_a_line_whoever_logs() -> None:
    events = [json.loads(line) for line in run("json")]
    assert [(event["event"], event["level"]) for event in events] == [
        ("lit", "info"),
        ("careful now", "warning"),
        ("broken", "error"),
    ]
    assert {event["service"] for event in events} == {"lamp"}
    assert events[0]["watts"] == 7
    assert "ZeroDivisionError" in events[2]["exception"]


def test_the_console_form_says_the_same_without_colours_into_a_pipe() -> None:
    text = "\n".join(run("console"))
    assert "lit" in text
    assert "watts=7" in text
    assert "\x1b" not in text


def test_the_level_cuts_off_what_is_less_important() -> None:
    assert any("too quiet" in line for line in run("json", "debug"))
    assert [json.loads(line)["event"] for line in run("json", "error")] == ["broken"]


STRANGERS = """
import logging
from coldnotify_common.log import configure
for _ in range(2):  # as of a process that has two services
    configure("json", "info", "lamp")
for number in range(1000):
    logging.getLogger("aiohttp.server").error("Error handling request from %s", number)
    logging.getLogger("asyncio").error(f"SSL handshake failed\\nprotocol: {number}")
    logging.getLogger("confluent").warning("ours to know")
logging.getLogger("asyncio").filters[0]._pace._every_s = 0
logging.getLogger("asyncio").error("SSL handshake failed\\nprotocol: the last")
"""


def test_what_strangers_make_libraries_say_comes_once_a_second_and_nothing_else_is_left_out() -> None:
    done = subprocess.run([sys.executable, "-c", STRANGERS], capture_output=True, text=True, timeout=120, check=True)
    events = [json.loads(line) for line in done.stderr.splitlines()]
    counts = {kind: sum(event["event"].startswith(kind) for event in events) for kind in ("Error", "SSL", "ours")}
    left_out = sum(event.get("left_out", 0) for event in events if event["event"].startswith("SSL"))
    assert counts["ours"] == 1000
    assert counts["Error"] < 100  # one, unless the machine stands still for seconds
    assert counts["SSL"] + left_out == 1001
    assert "the last" in events[-1]["event"]


HOSTILE = "lamp\x1b]0;owned\x07\u202e\u2028\x85\r"

STEERING = f"""
import logging, structlog
from coldnotify_common.log import configure
configure({{format!r}}, "info", "lamp")
hostile = {HOSTILE!r}
log = structlog.get_logger()
log.info("named", name=hostile, spaced=hostile + " x", line="a\\nForged", many=[hostile], by={{{{hostile: hostile}}}})
log.error(hostile + "\\nForged event")
logging.getLogger("aiohttp").warning("careful %s\\nForged message", hostile)
try:
    raise ValueError(hostile + "\\nForged error")
except ValueError:
    log.exception("broken")
"""


def steered(log_format: str) -> list[str]:
    script = STEERING.format(format=log_format)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=120, check=True)
    text = done.stderr.decode()
    assert {category(one) for one in text if one != "\n"}.isdisjoint({"Cc", "Cf", "Zl", "Zp"})
    return text.splitlines()


def test_what_is_logged_for_people_steers_no_terminal_and_forges_no_line() -> None:
    lines = steered("console")
    assert not [line for line in lines if line.startswith("Forged")]
    assert "\\x1b]0;owned\\x07\\u202e" in lines[0]
    assert any("ValueError" in line and "\\x1b" in line for line in lines)


def test_json_has_all_of_it() -> None:
    events = [json.loads(line) for line in steered("json")]
    assert [event["name"] for event in events if "name" in event] == [HOSTILE]
    assert HOSTILE in events[1]["event"]
