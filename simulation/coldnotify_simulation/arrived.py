"""The version of a record by arrival, by a reading of the simulation's own."""

from coldnotify_simulation.kafka import LogEntry

HEADER = "coldnotify-arrival"
_TIMES_FROM = 10**12


def number_of(said: int | None, entry: LogEntry, newest: tuple[int, int]) -> int | None:
    """Returns a record's version; None: it has none. `said`: the version in its value; `newest`: (incarnation,
    version) of its object before it."""
    if said is not None or all(name != HEADER for name, _ in entry.headers):
        return said
    return arrival_number(newest, entry.timestamp_ms)


def arrival_number(newest: tuple[int, int], timestamp_ms: int) -> int:
    """Returns the version that a record by arrival gets behind this newest one."""
    if newest[1] < 0:
        return timestamp_ms
    return newest[1] + 1 if newest[1] < _TIMES_FROM else max(newest[1] + 1, timestamp_ms)
