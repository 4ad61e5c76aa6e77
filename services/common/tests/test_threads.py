"""A process of its own, one of whose threads dies."""

import subprocess
import sys

PROGRAM = """
import threading, time
from coldnotify_common.log import configure
from coldnotify_common.threads import end_with_any_thread

def work():
    raise SystemError("of a library's own")

configure("json", "info", "gateway")
end_with_any_thread()
threading.Thread(target=work, name="inbox-reader").start()
time.sleep(60)
"""


def test_a_thread_that_dies_ends_the_process_and_says_why() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1
    assert '"thread": "inbox-reader"' in done.stderr
    assert "of a library's own" in done.stderr
