"""Fields that several of the matcher's pages show in the same way."""

from typing import Any

from coldnotify_matcher.engine.clients.unsettled import UnsettledRegistration


def show_unsettled(unsettled: UnsettledRegistration | None) -> dict[str, Any] | None:
    """Returns a client's report that its application has not taken a registration; null: it has, by its cursor."""
    if unsettled is None:
        return None
    return {
        "state": "parked" if unsettled.parked else "pending",
        "since_ms": unsettled.since_ms,
        "failures": unsettled.failures,
        "error": unsettled.error or None,
    }
