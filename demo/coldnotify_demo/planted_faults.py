"""Faults that can be planted, to see that the demo notices: each changes how one process is started."""

from collections.abc import Callable, Sequence

Start = tuple[str, ...]
"""Module and arguments of a process."""


def _deaf(start: Start) -> Start:
    return ("coldnotify_demo.deaf_unit", *start[1:])


def _other_region(start: Start) -> Start:
    return tuple("region-1" if argument == "region-2" else argument for argument in start)


def _liar(start: Start) -> Start:
    return (*start, "body-mass")


FAULTS: dict[str, tuple[str, Callable[[Start], Start], str]] = {
    "deaf": ("ou-1", _deaf, "ou-1's application never acts on what it is told"),
    "gossip": ("ou-4", _other_region, "ou-4, of region-2, registers in region-1"),
    "liar": ("torgersen", _liar, "torgersen answers to a request for data that it should not have"),
}
"""Name -> the process it is planted in, the change of its start, and the fault in words."""


def planted(faults: Sequence[str], name: str, start: Start) -> Start:
    """Returns how to start process `name` under these faults. Raises KeyError."""
    for fault in faults:
        victim, change, _ = FAULTS[fault]
        if name == victim:
            start = change(start)
    return start
