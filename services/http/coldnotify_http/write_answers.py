"""Answers and counts for versions and messages that were to be written. Pure."""

from collections.abc import Sequence

from coldnotify.publisher import Published, PublishError, Sent

from coldnotify_http.metrics import ACKNOWLEDGED, INDETERMINATE, REFUSED

WriteOutcome = Published | Sent | PublishError


def kind_of(outcome: WriteOutcome) -> str:
    """The label it is counted by."""
    if isinstance(outcome, PublishError):
        return INDETERMINATE if outcome.indeterminate else REFUSED
    return ACKNOWLEDGED


def result_of(what: str, name: str, outcome: WriteOutcome) -> dict[str, object]:
    """The answer's part on one; `what`: "object" or "channel"."""
    if isinstance(outcome, PublishError):
        words = "unknown: it may be published" if outcome.indeterminate else "not published"
        return {what: name, "error": str(outcome), "outcome": words}
    return {what: name, **outcome._asdict()}


def status_of(outcomes: Sequence[WriteOutcome]) -> int:
    """200 if all are written."""
    return 503 if any(isinstance(outcome, PublishError) for outcome in outcomes) else 200
