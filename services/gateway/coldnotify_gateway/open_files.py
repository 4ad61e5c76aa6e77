"""How many connections this process may hold: each is an open file."""

import resource

import structlog

log = structlog.get_logger()

LINGERING_MAX = 500
"""Sockets of connections that are closed already, kept open for a moment so that their clients learn why."""
_OTHER_FILES = 256 + LINGERING_MAX
"""Kafka's connections, the HTTP port, listeners, logs, pipes; with room to spare."""


def connections_possible(wanted: int) -> int:
    """`wanted`, or what the limit on open files leaves of it, after raising that as far as it may be raised."""
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
