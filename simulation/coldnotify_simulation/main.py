"""The command: plays schedules of many seeds, and prints the trace of the first one that fails."""

import argparse
import logging
import os
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from functools import partial
from itertools import islice

import structlog

from coldnotify_simulation.schedule import ScheduleFailed, play

_SEEDS_A_TASK = 20
_TRACE_LINES = 200
_COUNTED = {
    "evaluated": "evaluated",
    "entered": "members entered",
    "left": "left",
    "queries_answered": "answers",
    "queries_held": "unchanged",
    "sets_digests": "sets digests",
    "told entered": "told as entered",
    "told left": "told as left",
    "told descriptions": "told descriptions",
    "judged": "judged at wakes",
}
"""Counters of matchers, and of what applications were told."""
_OF_RETENTION = {
    "removed": "objects removed",
    "descriptions_removed": "descriptions",
    "nulls_void": "nulls that removed nothing",
}
"""Counters of matchers."""

_OF_CHANNELS = {
    "told messages": "messages told",
    "missed retention": "missed by retention",
    "missed expired": "expired",
    "missed lost": "lost",
    "blocks_served": "sessions served by blocks",
    "messages_paged": "messages in pages",
    "messages_repeated": "repeats",
    "messages_moved": "moved",
    "wakes with channels": "judged at wakes",
}
"""Counters of matchers, and of what applications were told."""

_OF_AGREEMENTS = {
    "conflated": "publishes that were merged",
    "turned_away": "clients that were one too many",
    "refused": "registrations that were one too many",
    "channel_sessions_put_off": "sessions whose channels had to wait",
}
"""Counters of matchers."""


_OF_SYNCS = {
    "sync answered": "answers",
    "sync divided": "divided answers",
    "sync judged": "held against the log",
    "sync broken off": "broken off",
    "sync closed": "closed",
    "sync stuck": "given up",
    "frames judged": "versions of members on sessions held against what was told before",
    "sets judged": "sets held against the log",
}
"""Counters of a device that wakes by sync, and of frames that sessions were sent."""


_OF_SHARES = {
    "handed": "hand-outs",
    "begun": "callbacks",
    "settled": "answered as settled",
    "settled in callbacks": "of these before their callback returned",
    "lost": "lost leases",
    "told lost": "told to a callback",
    "keys judged": "keys judged",
    "missed expired": "expired",
    "missed retention": "removed",
    "missed unreadable": "unreadable",
    "dead letters": "dead letters",
}
"""Counters of workers, and of what they were handed."""


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 0: all promises held. 1: one was broken. 2: wrong use."""
    parser = argparse.ArgumentParser(prog="coldnotify_simulation", description=__doc__)
    parser.add_argument("--seeds", default="1-1000", help="one seed, or a range: 1-5000 (default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: %(default)s)")
    parser.add_argument("--trace", type=int, default=_TRACE_LINES, help="last lines of a failure's trace; 0: all")
    parser.add_argument("--meters", action="store_true", help="with MQTT devices")
    parser.add_argument("--conditions", action="store_true", help="with publishes that have a condition")
    parser.add_argument("--shares", action="store_true", help="with workers that are members of shares")
    args = parser.parse_args(argv)
    seeds = _seeds(args.seeds)
    if seeds is None:
        parser.error(f"--seeds: {args.seeds!r} is neither a number nor a range like 1-5000")
    if args.jobs < 1:
        parser.error("--jobs: must be at least 1")
    began_s = time.monotonic()
    tasks = [seeds[i : i + _SEEDS_A_TASK] for i in range(0, len(seeds), _SEEDS_A_TASK)]
    failures: list[str] = []
    counts: Counter[str] = Counter()
    with ExitStack() as stack:
        alone = args.jobs == 1 or len(seeds) == 1
        play_all = map if alone else stack.enter_context(ProcessPoolExecutor(args.jobs)).map
        drawn = {"meters": args.meters, "conditions": args.conditions, "shares": args.shares}
        for found, counted in play_all(partial(_play_all, drawn=drawn), tasks):
            failures += found
            counts.update(counted)
    took_s = time.monotonic() - began_s
    for text in failures:
        print(text)
    if failures:
        seed = int(failures[0].split()[1].rstrip(":"))
        _print_trace(seed, args.trace, drawn)
    print(
        f"{len(seeds)} schedules in {took_s:.1f} s ({len(seeds) / took_s * 60:.0f} a minute), "
        f"{len(failures)} broke a promise"
    )
    print("of queries: " + ", ".join(f"{counts[name]} {words}" for name, words in _COUNTED.items()))
    print("of retention: " + ", ".join(f"{counts[name]} {words}" for name, words in _OF_RETENTION.items()))
    print("of channels: " + ", ".join(f"{counts[name]} {words}" for name, words in _OF_CHANNELS.items()))
    print("of syncs and sessions: " + ", ".join(f"{counts[name]} {words}" for name, words in _OF_SYNCS.items()))
    print(f"of moves: {counts['moves']} to another gateway beside the session")
    print("of agreements: " + ", ".join(f"{counts[name]} {words}" for name, words in _OF_AGREEMENTS.items()))
    if args.conditions:
        print(f"of conditions: {counts['conditions']} answers; of sets: {counts['atomic sets']} answers")
    if args.shares:
        print("of shares: " + ", ".join(f"{counts[f'share {name}']} {words}" for name, words in _OF_SHARES.items()))
    return 1 if failures else 0


def _seeds(text: str) -> range | None:
    first, _, last = text.partition("-")
    if not first.isdecimal() or (last and not last.isdecimal()):
        return None
    return range(int(first), int(last or first) + 1)


def _play_all(seeds: Sequence[int], *, drawn: Mapping[str, bool]) -> tuple[list[str], Counter[str]]:
    # What the parts log of strangers' records is in the trace already.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    failures, counts = [], Counter[str]()
    for seed in seeds:
        try:
            schedule = play(seed, **drawn)
        except ScheduleFailed as failed:
            failures.append(str(failed))
            schedule = failed.schedule
        counts.update(schedule.world.counts())
        counts["conditions"] += schedule.conditioning.answers
        counts["atomic sets"] += schedule.atomic_sets.answers
        counts.update({f"share {what}": times for what, times in schedule.sharing.counts.items()})
        counts.update({f"sync {outcome}": times for outcome, times in schedule.syncing.counts.items()})
    return failures, counts


def _print_trace(seed: int, lines: int, drawn: Mapping[str, bool]) -> None:
    try:
        play(seed, **drawn)
    except ScheduleFailed as failed:
        trace = list(failed.schedule.world.trace.lines())
        start = max(0, len(trace) - lines) if lines else 0
        print(f"\nthe trace of seed {seed}" + (f" (the last {lines} of {len(trace)} lines)" if start else "") + ":")
        for line in islice(trace, start, None):
            print(line)
        more = "".join(f" --{name}" for name, is_drawn in drawn.items() if is_drawn)
        print(f'again: make simulate ARGS="--seeds {seed} --trace 0{more}"', file=sys.stderr)
