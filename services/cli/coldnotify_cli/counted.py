"""The partitions that an overview's counts cover: those of matchers without an answer are missing. Pure."""

from typing import Any

_NAMED_MAX = 8


def uncounted(shown: dict[str, Any]) -> str:
    """The partitions of an answer to GET /v1/overview that are not counted, in words; "" where all are."""
    counted, missing = _counted(shown)
    if missing is None:
        return "no matcher answers for any partition" if counted == 0 else "not all matchers answer"
    if not missing:
        return ""
    noun = "partition" if len(missing) == 1 else "partitions"
    named = ", ".join(str(one) for one in missing[:_NAMED_MAX]) + (", ..." if len(missing) > _NAMED_MAX else "")
    of = "" if counted is None else f" (of {counted + len(missing)})"
    return f"no matcher answers for {noun} {named}{of}"


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
