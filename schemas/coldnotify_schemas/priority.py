"""Priority: a publisher marks a version, or a channel's message, to overtake what waits."""

PRIORITY_HEADER = "priority"
"""Header of a record of the topics of objects and channels."""
HIGH = "high"
"""The only value of the priority. Without it a record has normal priority."""
HIGH_VALUE = HIGH.encode()
"""HIGH as the header's value."""


def check_priority(priority: object) -> bool:
    """Returns true if it is high, false if it is None. Raises ValueError, whose message begins with "priority: "."""
    if priority is None:
        return False
    if priority != HIGH:
        raise ValueError(f"{PRIORITY_HEADER}: {str(priority)[:80]!r} is not high")
    return True


def priority_header() -> tuple[str, bytes]:
    """The header of a record of high priority."""
    return PRIORITY_HEADER, HIGH_VALUE
