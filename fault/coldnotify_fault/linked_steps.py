"""Draws the units whose clients share a `Link`: in three groups, they describe objects, and follow patterns of
channels. Pure.
"""

from collections.abc import Iterator, Sequence
from random import Random
from typing import Any, NamedTuple

LINKED_KILLED = "linked_killed"
"""The kind of the fault: power loss of such a unit; some of its clients lose their state."""
LINKED = ("linked-1", "linked-2")
"""The units, one for each domain."""
CLIENT = "linked"
"""Its client's name, in each group."""
SHELVES = ("shelf-1", "shelf-2")
"""Objects that it alone describes and publishes, in each group."""
SHELF_QUERIES = ("Slot >= 0", 'NAME STARTS WITH "shelf-" AND Room = 1')
PATTERNS = ("^(orders|alarms|new/)", "^a", "^new/[0-4]$")
_NEW = "new/{}"
"""Channels that come later: no client names them."""
_EVERY_S = 1.2
"""So often one of its clients does something."""
_KILLED_EVERY_S = 25.0
_LAST_S = 5.0
"""Before the end none is killed."""

Drawn = tuple[float, str, str, dict[str, Any]]
"""The fields of a `schedule.ScheduledStep`."""


class LinkedClient(NamedTuple):
    """A client of such a unit, and the queries and patterns that it has when it is started first."""

    name: str
    unit: str
    queries: tuple[str, ...]
    patterns: tuple[str, ...]


def draw_clients(random: Random, domains: Sequence[str], groups: Sequence[str]) -> tuple[LinkedClient, ...]:
    """One in each group."""
    return tuple(
        LinkedClient(
            f"{domain}/{group}/{CLIENT}",
            unit,
            tuple(random.sample(SHELF_QUERIES, random.randint(1, len(SHELF_QUERIES)))),
            tuple(random.sample(PATTERNS, random.randint(1, len(PATTERNS)))),
        )
        for domain, unit in zip(domains, LINKED, strict=True)
        for group in groups
    )


def draw_steps(random: Random, seconds: float, clients: Sequence[LinkedClient]) -> Iterator[Drawn]:
    """They come and go, describe, publish, send, subscribe and unsubscribe. Not in order of time."""
    number = 0
    for client in clients:
        awake = True
        patterns = set(client.patterns)
        yield random.uniform(0, 1.0), "connect", client.name, {}
        at_s = 1.0
        while (at_s := at_s + random.expovariate(1 / _EVERY_S)) < seconds:
            drawn, number = random.random(), number + 1
            object_ = random.choice(SHELVES)
            if drawn < 0.3:
                yield at_s, "describe_by_client", client.name, {"object": object_, "patch": _patch(random, number)}
            elif drawn < 0.55:
                patch = _patch(random, number) if random.random() < 0.6 else None
                said = {"object": object_, "version": number, "payload": {"number": number}, "patch": patch}
                yield at_s, "publish_by_client", client.name, said
            elif drawn < 0.75:
                group = client.name.rpartition("/")[0]
                channel = f"{group}/{_NEW.format(random.randrange(8))}"
                said = {"channel": channel, "message": f"l{number}", "payload": number, "to": [], "priority": None}
                yield at_s, "send_by_client", client.name, said
            elif drawn < 0.87:
                awake = not awake
                yield at_s, "connect" if awake else "disconnect", client.name, {}
            elif drawn < 0.92:
                yield at_s, "fail_next", client.name, {}
            else:
                pattern = random.choice(PATTERNS)
                if pattern in patterns:
                    yield at_s, "unsubscribe", client.name, {"channel": pattern}
                else:
                    yield at_s, "subscribe", client.name, {"channel": pattern, "since": "now", "attributes": ()}
                patterns ^= {pattern}
        if not awake:
            yield seconds, "connect", client.name, {}


def draw_losses(
    random: Random, seconds: float, clients: Sequence[LinkedClient]
) -> Iterator[tuple[float, float, str, list[str]]]:
    """Yields when each unit loses its power, when it has it again, and which of its clients lose their state."""
    for unit in LINKED:
        at_s = 2.0
        while (at_s := at_s + random.expovariate(1 / _KILLED_EVERY_S)) < seconds - _LAST_S:
            back_s = at_s + random.uniform(0.1, 3.0)
            yield at_s, back_s, unit, [one.name for one in clients if one.unit == unit and random.random() < 0.2]
            at_s = back_s + 1.0


def _patch(random: Random, number: int) -> dict[str, Any]:
    """Each value is said once: a patch that is lost, or merged in the wrong order, shows."""
    patch: dict[str, Any] = {"Slot": number}
    if random.random() < 0.5:
        patch["Room"] = random.choice((1, 1, 2, None))
    if random.random() < 0.4:
        patch[random.choice(("Left", "Right"))] = random.choice((number, number, None))
    if random.random() < 0.3:
        del patch["Slot"]
    return patch or {"Slot": number}
