"""Divides the files that the process may open: each connection needs one, and another to its gateway."""

import resource
from dataclasses import dataclass

SILENT_MAX = 2_000
"""Connections that are not asking anything, as at a gateway: strangers may hold so many."""
CONNECTIONS_MAX = 20_000
_OTHER_FILES = 384
"""Kafka's connections, those to matchers, listeners, logs, pipes; with room to spare."""


@dataclass(frozen=True)
class OpenFiles:
    """The parts. At least one each, however few there are."""

    connections_max: int
    silent_max: int
    passed_on_max: int


def share_out(files: int, passed_on_max: int) -> OpenFiles:
    """`files`: how many may be open. `passed_on_max`: how many requests are to be passed on at one time."""
    left = max(4, files - _OTHER_FILES)
    silent = min(SILENT_MAX, left // 4)
    passed_on = max(1, min(passed_on_max, (left - silent) // 2))
    return OpenFiles(min(CONNECTIONS_MAX, left - passed_on), silent, passed_on)


def raised(passed_on_max: int) -> OpenFiles:
    """The same of this process's limit, raised as far as it may be."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY:
        return share_out(2 * (CONNECTIONS_MAX + passed_on_max), passed_on_max)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return share_out(hard, passed_on_max)
