"""Priority: what a publisher says of a version, or of a channel's message, that is to come before what waits."""

PRIORITY_HEADER = "priority"
"""Header of a record of the topics of objects and channels."""
HIGH = "high"
"""The one priority that can be said. Without it a record is like all others."""
HIGH_VALUE = HIGH.encode()
"""HIGH as the header's value."""


def check_priority(priority: object) -> bool:
    """Whether it is high; None: it is not. Raises ValueError, whose message begins with "priority: "."""
    if priority is None:
        return False
    if priority != HIGH:
        raise ValueError(f"{PRIORITY_HEADER}: {str(priority)[:80]!r} is not high")
    return True


def priority_header() -> tuple[str, bytes]:
    """The header of a record of high priority."""
    return PRIORITY_HEADER, HIGH_VALUE
