"""The answer about a record's outcome, for the client that published it. Pure."""

from coldnotify_schemas import internal_pb2, wire_pb2

from coldnotify_matcher.engine.objects import history
from coldnotify_matcher.engine.objects.history import TakenRecord

_KINDS = {
    history.PUBLISHED: wire_pb2.OUTCOME_PUBLISHED,
    history.REPEATED: wire_pb2.OUTCOME_REPEATED,
    history.ALTERED: wire_pb2.OUTCOME_ALTERED,
    history.STALE: wire_pb2.OUTCOME_STALE,
    history.REJECTED: wire_pb2.OUTCOME_REJECTED,
}
_FORGOTTEN = "nothing of this record is remembered"
_OF_ANOTHER = "another record is at that offset"


def outcome_answer(
    session: int, asked: internal_pb2.AskOutcome, key: str, taken: TakenRecord | None
) -> internal_pb2.Item:
    """Returns the answer. `key`: the object's, in the asking client's group. `taken`: the outcome at that offset, if
    known."""
    outcome = wire_pb2.Outcome(ask=asked.ask)
    if taken is None or taken.key != key or taken.outcome not in _KINDS:
        # A session's own records have no conditions.
        outcome.reason = _FORGOTTEN if taken is None else _OF_ANOTHER
        return internal_pb2.Item(became=internal_pb2.Became(session=session, outcome=outcome))
    outcome.kind = _KINDS[taken.outcome]
    outcome.reason = taken.reason
    if taken.version >= 0:
        outcome.version, outcome.incarnation = taken.version, taken.incarnation
        outcome.published_ms = max(0, taken.published_ms)
    return internal_pb2.Item(became=internal_pb2.Became(session=session, outcome=outcome))
