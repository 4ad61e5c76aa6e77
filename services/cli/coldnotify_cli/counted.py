"""The partitions that an overview's counts cover: those of matchers without an answer are missing. Pure."""

from typing import Any

from coldnotify_cli.tables import time_of

_NAMED_MAX = 8


def uncounted(shown: dict[str, Any]) -> str:
    """Returns the partitions of an answer to GET /v1/overview that are not counted, in words; "" if all are."""
    counted, missing = _counted(shown)
    if missing == []:
        return ""
    if counted != 0 and missing is None:
        return "not all matchers answer"
    since_ms = (shown.get("partitions") or {}).get("since_ms")
    says, since = ("answers", "") if since_ms is None else ("has answered", f" since {time_of(since_ms)}")
    if counted == 0 or missing is None:
        return f"no matcher {says} for any partition{since}"
    named = ", ".join(str(one) for one in missing[:_NAMED_MAX]) + (", ..." if len(missing) > _NAMED_MAX else "")
    of = "" if counted is None else f" (of {counted + len(missing)})"
    return f"no matcher {says} for {'partition' if len(missing) == 1 else 'partitions'} {named}{of}{since}"


def nothing_counted(shown: dict[str, Any]) -> bool:
    """Returns true if no matcher has answered for any partition: then there are no counts of clients and objects."""
    return _counted(shown)[0] == 0


def _counted(shown: dict[str, Any]) -> tuple[int | None, list[int] | None]:
    """(how many partitions are counted, which are not); None: not known."""
    partitions = shown.get("partitions")
    if partitions is not None and partitions["counted"] is not None:
        return partitions["counted"], partitions["missing"]
    # An HTTP service, or a matcher, of the release before does not say.
    answered = [one["error"] is None for one in shown["matchers"]]
    return (None if any(answered) else 0), [] if answered and all(answered) else None
