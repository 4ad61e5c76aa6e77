"""`python -m coldnotify_demo`: sets up ColdNotify, plays both uses, and reports each promise and whether it was kept.

Exit codes: 0 all promises kept, 1 not, 2 wrong use.
"""

import argparse
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from coldnotify_kafka.broker.jars import jars
from coldnotify_kafka.errors import BrokerError

from coldnotify_demo.company import Collapsed, Company
from coldnotify_demo.configuration_acts import ConfigurationPlay
from coldnotify_demo.observation_acts import ObservationPlay
from coldnotify_demo.planted_faults import FAULTS
from coldnotify_demo.service import DemoService
from coldnotify_demo.stage import DemoStage
from coldnotify_demo.terminal import Terminal

KEPT, BROKEN = 0, 1


def main() -> int:
    """Returns the exit code."""
    args = _arguments()
    terminal = Terminal(sys.stdout)
    for number in (signal.SIGTERM, signal.SIGHUP):
        # As Ctrl-C: everything is stopped and cleaned up.
        signal.signal(number, signal.default_int_handler)
    directory = Path(tempfile.mkdtemp(prefix="coldnotify-demo-"))
    keep = True
    try:
        code = run(directory, terminal, args.limit_s, args.fault)
        keep = code != KEPT
    except KeyboardInterrupt:
        terminal.plain("\nInterrupted; everything is stopped.")
        keep, code = False, BROKEN
    finally:
        if keep or args.keep:
            terminal.plain(f"Logs and all data are kept in {directory} (logs/service.log is ColdNotify's).")
        else:
            shutil.rmtree(directory, ignore_errors=True)
    return code


def run(directory: Path, terminal: Terminal, limit_s: float, faults: Sequence[str]) -> int:
    """Plays everything below `directory`; returns the exit code. All processes have ended then."""
    begin_s = time.monotonic()
    logs = directory / "logs"
    logs.mkdir()
    service = DemoService(directory)
    company = Company(logs, terminal.line)
    stage = DemoStage(directory, company, service, terminal, limit_s, faults)
    collapsed = None
    try:
        _set_up(stage)
        ready_s = time.monotonic()
        ConfigurationPlay(stage).play()
        ObservationPlay(stage).play()
        played_s = time.monotonic() - ready_s
        stage.act("The end")
        stage.note("stops ColdNotify")
        status = service.stop()
        stage.expect(
            "everything stops in order when asked to",
            lambda: status == 0,
            lambda: f"every OU and back-end ended with status 0 each time; coldnotify up with {status}",
        )
    except (Collapsed, BrokerError) as error:
        collapsed = str(error)
    finally:
        try:
            company.close()
        finally:
            service.stop()
    terminal.title("Summary")
    for line in stage.promises.summary():
        terminal.plain(line)
    if collapsed is not None:
        terminal.plain(f"FAILED  the demo could not go on: {collapsed}")
        return BROKEN
    terminal.plain(f"{played_s:.0f} s of play, {time.monotonic() - begin_s:.0f} s in all")
    terminal.plain('Next: `make up`, and "Sixty seconds" in README.md: the same by hand.')
    return KEPT if stage.promises.kept else BROKEN


def _set_up(stage: DemoStage) -> None:
    stage.act("Setting up")
    for fault in stage.faults:
        stage.note(f"a fault is planted: {FAULTS[fault][2]}")
    # Here, so that its progress bar has the terminal; there is none where the jars are in the cache already.
    jars()
    stage.note("starts Kafka, matcher, gateway and HTTP (coldnotify up)")
    begin_s = time.monotonic()
    stage.service.start()
    seconds = time.monotonic() - begin_s
    parts = ", ".join(f"{name} {pid}" for name, pid in stage.service.pids.items())
    stage.note(f"all are ready after {seconds:.1f} s; their processes: {parts}")
    stage.note(f"Kafka {stage.service.kafka}, gateway {stage.service.gateway}, HTTP {stage.service.http}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m coldnotify_demo",
        description="Play the two uses of ColdNotify with real processes, and check what is promised.",
    )
    parser.add_argument(
        "--limit-s", type=float, default=30.0, help="how long a promise may take (default: %(default)s)"
    )
    parser.add_argument("--keep", action="store_true", help="keep logs and data also when all went well")
    parser.add_argument(
        "--fault", action="append", default=[], choices=FAULTS, help="plant a fault, to see the demo notice it"
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
