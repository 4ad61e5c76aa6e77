"""`python -m coldnotify_demo.walkthrough`: plays it with real processes and prints the transcript.

Exit codes: 0 all came out as it must, 1 not, 2 wrong use.
"""

import argparse
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

from coldnotify_kafka.broker.jars import jars

from coldnotify_demo.walkthrough.acts import Walkthrough
from coldnotify_demo.walkthrough.ports import Ports
from coldnotify_demo.walkthrough.transcript_shell import StepFailed, TranscriptShell

DONE, FAILED = 0, 1


def main() -> int:
    """Returns the exit code."""
    args = _arguments()
    for number in (signal.SIGTERM, signal.SIGHUP):
        # As Ctrl-C: everything is stopped and cleaned up.
        signal.signal(number, signal.default_int_handler)
    jars()  # fetches Kafka, with a progress bar, before anything is being waited for
    directory = Path(tempfile.mkdtemp(prefix="coldnotify-walkthrough-"))
    begin_s = time.monotonic()
    shell = TranscriptShell(directory, args.limit_s, _write)
    code = FAILED
    try:
        try:
            Walkthrough(shell, Ports.free() if args.free_ports else Ports.usual(), page=not args.no_page).play()
        finally:
            shell.close()
        _write(f"\nAll came out as it must; {time.monotonic() - begin_s:.0f} s.")
        code = DONE
    except StepFailed as error:
        _write(f"\nFAILED: {error}\nEverything is kept in {directory} (service.log is ColdNotify's).")
        return FAILED
    except KeyboardInterrupt:
        _write("\nInterrupted; everything is stopped.")
    shutil.rmtree(directory, ignore_errors=True)
    return code


def _write(line: str) -> None:
    print(line, flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m coldnotify_demo.walkthrough",
        description="A new user's way through ColdNotify with mutual TLS, with real processes.",
    )
    parser.add_argument(
        "--limit-s", type=float, default=90.0, help="how long one thing may take (default: %(default)s)"
    )
    parser.add_argument("--free-ports", action="store_true", help="any free ports, also where the usual ones are free")
    parser.add_argument("--no-page", action="store_true", help="leave the browser out")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
