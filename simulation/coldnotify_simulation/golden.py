"""Golden records: every byte that passes between clients, gateways, matchers and Kafka in a schedule, in order.

A change that is to change no behaviour reproduces them. `record` plays seeds and keeps what passed; `compare` plays
them again, and prints the first line of a seed that differs, with those before it. They are of one tree: record them
in the tree before the change. A hash seed is fixed, as the order of a set's strings is nobody's promise.
"""

import argparse
import logging
import os
import sys
import zlib
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any

import structlog

from coldnotify_simulation.schedule import Schedule, ScheduleFailed

LINES_BEFORE = 6
"""Shown in front of the first that differs."""
_HASH_SEED = "0"
_DIRECTORY = Path(".golden")


def lines_of(seed: int) -> list[str]:
    """Returns everything that passes in the schedule of this seed: time, sender, receiver, and the bytes in
    hexadecimal.
    """
    schedule = Schedule(seed)
    lines: list[str] = []
    _listen(schedule, lines)
    try:
        schedule.play()
    except Exception as error:
        lines += f"raises {ScheduleFailed(schedule, error)}".split("\n")
    return lines


def _listen(schedule: Schedule, lines: list[str]) -> None:
    world = schedule.world

    def heard(what: str, hears: Callable[..., Any], *arguments: Any) -> Any:
        said = (one.hex() if isinstance(one, bytes) else str(one) for one in arguments if _is_said(one))
        lines.append(f"{world.clock.now_s:.6f} {what} {' '.join(said)}")
        return hears(*arguments)

    places: list[tuple[str, object, str]] = [("kafka", world.kafka, "append")]
    places += [(one.name, one, "on_bytes") for one in (*world.gateways, *world.clients)]
    for what, heard_by, method in places:
        setattr(heard_by, method, partial(heard, what, getattr(heard_by, method)))


def _is_said(argument: object) -> bool:
    return argument is None or isinstance(argument, str | int | bytes | tuple)


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 0: recorded, or all is as it was. 1: something differs. 2: wrong use."""
    parser = argparse.ArgumentParser(prog="coldnotify_simulation.golden", description=__doc__)
    parser.add_argument("what", choices=("record", "compare"))
    parser.add_argument("--seeds", default="1-2000", help="one seed, or a range (default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: %(default)s)")
    parser.add_argument("--directory", type=Path, default=_DIRECTORY, help="where they are kept (default: %(default)s)")
    args = parser.parse_args(argv)
    if os.environ.get("PYTHONHASHSEED") != _HASH_SEED:
        environ = {**os.environ, "PYTHONHASHSEED": _HASH_SEED}
        arguments = sys.argv[1:] if argv is None else argv
        os.execve(sys.executable, [sys.executable, "-m", "coldnotify_simulation.golden", *arguments], environ)
    first, _, last = args.seeds.partition("-")
    if not first.isdecimal() or (last and not last.isdecimal()):
        parser.error(f"--seeds: {args.seeds!r} is neither a number nor a range like 1-2000")
    args.directory.mkdir(parents=True, exist_ok=True)
    act = partial(record if args.what == "record" else compare, args.directory)
    seeds = range(int(first), int(last or first) + 1)
    with ProcessPoolExecutor(args.jobs, initializer=_be_quiet) as pool:
        differing = [text for text in pool.map(act, seeds) if text]
    print(*differing, sep="\n", end="\n" if differing else "")
    print(f"{len(seeds)} seeds, {len(differing)} differ" if args.what == "compare" else f"{len(seeds)} seeds recorded")
    return 1 if differing else 0


def record(directory: Path, seed: int) -> str:
    """Keep what passes with this seed."""
    (directory / str(seed)).write_bytes(zlib.compress("\n".join(lines_of(seed)).encode()))
    return ""


def compare(directory: Path, seed: int) -> str:
    """Returns where this seed differs from its recording; empty if nowhere."""
    try:
        kept = zlib.decompress((directory / str(seed)).read_bytes()).decode().split("\n")
    except FileNotFoundError:
        return f"seed {seed}: is not recorded in {directory}"
    return difference(seed, kept, lines_of(seed))


def difference(seed: int, kept: Sequence[str], now: Iterable[str]) -> str:
    """The first line that differs, and those before it; empty: none does."""
    for number, (before, after) in enumerate(zip_longest(kept, now)):
        if before != after:
            shown = kept[max(0, number - LINES_BEFORE) : number]
            return "\n  ".join([f"seed {seed}, line {number}:", *shown, f"- {before}", f"+ {after}"])
    return ""


def _be_quiet() -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))


if __name__ == "__main__":
    sys.exit(main())
