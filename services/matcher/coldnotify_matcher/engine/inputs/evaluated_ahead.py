"""Evaluates the queries of a group for a record of the objects topic before the record is taken in.

The time that queries take depends on their authors. So they are evaluated ahead, in as many turns as needed, while the
object has not changed for anyone. Then the record is taken in at once.
"""

from coldnotify_schemas.descriptions import KEY_PREFIX, Description
from coldnotify_schemas.records import InvalidRecord, parse_public_record
from coldnotify_streams.core.partition_turns import Spent

from coldnotify_matcher.engine.objects.description_store import NEVER, same, understood
from coldnotify_matcher.engine.partition_state import PartitionState

_NOTHING: Description = {}


class EvaluatedAhead:
    """Evaluates the queries of one partition ahead."""

    def __init__(self, state: PartitionState) -> None:
        self._state = state

    def prepare(
        self, key: bytes | None, value: bytes | None, timestamp_ms: int, spent: Spent, *, raw: bool = False
    ) -> bool:
        """Returns true if the queries that the next record concerns have been evaluated for its object. `raw`: see
        parse_public_record."""
        state = self._state
        if key is None or value is None or not state.live:
            return True
        text = key.decode(errors="replace")
        described = text.startswith(KEY_PREFIX)
        name_of = text.removeprefix(KEY_PREFIX)
        group, name = _split(name_of)
        if not state.members.sets.is_dear(group):
            return True
        try:
            if described:
                after = self._described(group, name, value, timestamp_ms)
            else:
                after = self._published(group, name, value, raw=raw)
        except InvalidRecord:
            return True  # it changes nothing
        if after is None:
            return True  # queries are not evaluated for an absent object
        before = state.members.groups.description(group, name)
        return state.members.sets.evaluate_ahead(group, name, before, after, spent)

    def _described(self, group: str, name: str, value: bytes, timestamp_ms: int) -> Description | None:
        """Returns the object's description after the record; None: there is no such object, or its description
        stays."""
        known = self._state.descriptions.of(group, name)
        description = understood(value, timestamp_ms)
        if known is not None and (timestamp_ms < known.version or same(known.description, description)):
            return None
        published = self._state.objects.is_published(f"{group}/{name}")
        if published is None:
            return description
        return (_NOTHING if description is None else description) if published else None

    def _published(self, group: str, name: str, value: bytes, *, raw: bool) -> Description | None:
        """Returns the same; None, too, if the object exists already."""
        if self._state.members.groups.description(group, name) is not None and self._state.objects.is_published(
            f"{group}/{name}"
        ):
            return None
        if parse_public_record(value, raw=raw, payload_bytes_max=self._state.rules.payload_bytes_max).deleted:
            return None
        known = self._state.descriptions.of(group, name)
        description = None if known is None or known.version == NEVER else known.description
        return _NOTHING if description is None else description


def _split(key: str) -> tuple[str, str]:
    """Returns domain/group, and the object's name, which may contain slashes."""
    domain, _, rest = key.partition("/")
    group, _, name = rest.partition("/")
    return f"{domain}/{group}", name
