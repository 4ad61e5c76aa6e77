"""Draws a campaign's work: tasks for shares, faults of their workers, and how each callback goes. Pure."""

from collections.abc import Collection, Iterator
from random import Random
from typing import Any, NamedTuple

from coldnotify_fault.channel_steps import SENDERS, Drawn

WORKERS = ("worker-1", "worker-2", "worker-3")
"""Processes. Each one has a client in both groups."""
SHARE = "crew"
TASKS = "tasks"
SHARED = {"camera.control/works/tasks": 15, "camera.control/east/tasks": 4}
"""The channels whose messages are shared out, with the length of their leases in seconds: the first one's are longer
than a takeover, the second one's shorter than most faults. The first one's partition is its own, so retention takes
nothing there; most of the second one's messages are removed before they are done."""
PREFETCH = 2
WORKER_KILLED, WORKER_PAUSED, WORKER_CUT = "worker_killed", "worker_paused", "worker_cut"
_TASKS_PER_S = 1.5
_OF_THE_FIRST = 0.7
_KEYS = ("a", "b", "c")
_KEYED = 0.5
_AGAIN = 0.1
_EXPIRES = 0.07
_EXPIRES_IN_MS = (300, 2_000)
_FAULT_EVERY_S = 6.0
_FIRST_FAULT_S = 3.0
_TAIL_S = 1.0
_REST_S = 1.0
_DURATION_S = {
    WORKER_KILLED: (0.1, 4.0),
    # Shorter than a lease, or longer: then another worker is handed what it had.
    WORKER_PAUSED: (0.5, 10.0),
    WORKER_CUT: (1.0, 10.0),
}
WORKS_S_MAX = 8.0
_SLOW = 0.15
_HOPELESS_EVERY = 40
"""So often a task's callbacks all fail."""


class Conduct(NamedTuple):
    """The way in which a callback goes."""

    seconds: float
    """So long it works."""
    ends: str
    """returns, done (which it calls, and then returns), raises, retries or rejects."""
    after_s: int = 0
    """For a retry."""


def conduct(message: str, attempts: int) -> Conduct:
    """Returns how the callback of a task goes, in this attempt."""
    random = Random(f"{message}/{attempts}")
    if int(message[1:]) % _HOPELESS_EVERY == _HOPELESS_EVERY - 1:
        return Conduct(0.01, "raises")
    seconds = random.uniform(1.0, WORKS_S_MAX) if random.random() < _SLOW else random.uniform(0.0, 0.3)
    ends = random.choices(("returns", "done", "raises", "retries", "rejects"), (12, 3, 2, 2, 1))[0]
    return Conduct(seconds, ends, random.randint(0, 2) if ends == "retries" else 0)


def draw_tasks(random: Random, seconds: float) -> Iterator[Drawn]:
    """Tasks, some with a key, some sent again, and some that expire."""
    sent: list[dict[str, Any]] = []
    at_s, number = 0.0, 0
    while (at_s := at_s + random.expovariate(_TASKS_PER_S)) < seconds:
        if sent and random.random() < _AGAIN:
            yield at_s, "send", random.choice(SENDERS), random.choice(sent[-5:])
            continue
        number += 1
        channel = tuple(SHARED)[random.random() >= _OF_THE_FIRST]
        task: dict[str, Any] = {
            "channel": channel, "message": f"t{number}", "payload": {"task": number},
            "to": [], "priority": None, "stray": False,
        }  # fmt: skip
        if random.random() < _KEYED:
            task["key"] = random.choice(_KEYS)
        if random.random() < _EXPIRES:
            task["expires_in_ms"] = random.choice(_EXPIRES_IN_MS)
        else:
            sent.append(task)
        yield at_s, "send", random.choice(SENDERS), task


def draw_faults(random: Random, seconds: float, kinds: Collection[str]) -> Iterator[Drawn]:
    """Faults of workers, each with its end; they leave other faults alone."""
    wanted = [kind for kind in _DURATION_S if kind in kinds]
    for worker in WORKERS if wanted else ():
        at_s = _FIRST_FAULT_S + random.expovariate(1 / _FAULT_EVERY_S)
        while at_s < seconds - _TAIL_S:
            kind = random.choice(wanted)
            arguments: dict[str, Any] = {"kind": kind}
            if kind == WORKER_KILLED:
                arguments["in_order"] = random.random() < 0.25
            elif kind == WORKER_CUT:
                arguments["silent"] = random.random() < 0.5
            yield at_s, "fault", worker, arguments
            at_s += random.uniform(*_DURATION_S[kind])
            yield at_s, "heal", worker, {"kind": kind}
            at_s += _REST_S + random.expovariate(1 / _FAULT_EVERY_S)
