"""Computes the number of connections that this process may hold, because each is an open file."""

import resource

import structlog

log = structlog.get_logger()

LINGERING_MAX = 500
"""Most sockets of closed connections, which stay open for a moment so that their clients receive the reason."""
_OTHER_FILES = 256 + LINGERING_MAX
"""Files for Kafka's connections, the HTTP port, listeners, logs and pipes, with room to spare."""


def connections_possible(wanted: int) -> int:
    """Returns `wanted`, or fewer if the limit on open files requires it. Raises that limit as far as allowed first."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + _OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < needed:
        raised = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        if raised > soft:
            resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
            soft = raised
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return wanted
    possible = max(1, soft - _OTHER_FILES)
    log.warning("fewer connections than set: the limit on open files", wanted=wanted, possible=possible, files=soft)
    return possible
