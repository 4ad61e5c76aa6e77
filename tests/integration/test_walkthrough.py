"""`make walkthrough` comes out as it says: mutual TLS, every kind of client, refusals, who lacks what and why."""

import re
import shutil
import signal
import subprocess
import sys

import pytest

pytestmark = pytest.mark.kafka

LIMIT_S = 480
"""Under a minute where nobody else works."""


@pytest.mark.timeout(LIMIT_S + 60)
@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl here")
def test_the_walkthrough_comes_out_as_it_must() -> None:
    # It judges each step itself, and ends with 1 at the first that is not as it must be.
    command = [sys.executable, "-m", "coldnotify_demo.walkthrough", "--free-ports", "--limit-s=60"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as play:
        try:
            said, _ = play.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            play.send_signal(signal.SIGTERM)  # it stops what it has started
            said, _ = play.communicate(timeout=60)
        finally:
            play.kill()  # only if that took too long: what has ended already hears nothing of it
    assert play.returncode == 0, said[-6000:]
    for words in (
        r"observer-1 \| told camera-config 42 \{'fps': 5\}",
        r'by-curl    \| \{"notifications":\[\{"object":"camera-config","version":42',
        "tlsv1 alert unknown ca",
        "observer-2 may not be animal.observer/region-1/observer-1",
        "1 of . lack it, 1 of them asleep\nclient .*\nobserver-2  asleep",
        "camera-config: asleep: it is not connected",
        "nobody lacks it, of . registered",
        "camera-2 +entered\ncamera-1 +left\ncamera-2 +version 1",
        r'alarms +offset 0 +\{"door": "open"\}\nalarms +offset 1 +\{"door": "closed"\}',
        r"back-end   \| at last: Applied\(applied=., lacking=0\)",
    ):
        assert re.search(words, said), f"{words}\n{said}"
    left_out = re.search("^# left out: (.*)", said, re.MULTILINE)
    if left_out:
        pytest.skip(f"all but the page: {left_out[1]}")
    assert 'page-1     | told camera-config 42 {"fps":5}' in said
