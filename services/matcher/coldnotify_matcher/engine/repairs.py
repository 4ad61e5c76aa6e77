"""Objects whose newest version compaction would take: it is written again, behind what stands last under their key."""

from coldnotify_schemas import topics
from coldnotify_schemas.records import since_header

from coldnotify_matcher.engine.objects import Obj
from coldnotify_matcher.engine.outbox import Outbox
from coldnotify_matcher.engine.outputs import Write
from coldnotify_matcher.engine.partition_state import State


class Repairs:
    """Those of this step."""

    def __init__(self, state: State, outbox: Outbox) -> None:
        self._state = state
        self._outbox = outbox
        self._due: dict[Obj, None] = {}

    def look_at(self, obj: Obj) -> None:
        """Something came under its key."""
        if obj.needs_repair:
            self._due[obj] = None

    def write(self) -> None:
        """Write those again that still need it."""
        state = self._state
        for obj in self._due:
            if obj.needs_repair:
                state.at = topics.OBJECTS, obj.kept_offset
                headers = (since_header(state.epoch, obj.offset),)
                self._outbox.write(
                    Write(topics.OBJECTS, state.partition, obj.key.encode(), obj.repair_record(), headers)
                )
                state.count("repaired")
        self._due = {}
