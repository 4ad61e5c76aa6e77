"""Receives: PUBLISHes of QoS 2 are held in their client's kept set, until the client has released them.

A request may be handled again after a takeover, when the set is that of later ones. So what is held says the offset of
its request: an earlier request changes nothing of it.
"""

from coldnotify_schemas import internal_pb2
from coldnotify_schemas.matcher_state import UnreleasedRecord
from coldnotify_schemas.protocol import PUBLISHES_UNANSWERED_MAX

from coldnotify_matcher.engine.clients.clients import RegisteredClient
from coldnotify_matcher.engine.clients.sessions import EngineSession
from coldnotify_matcher.engine.partition_state import PartitionState


class Receiving:
    """Handles these requests."""

    def __init__(self, state: PartitionState) -> None:
        self._state = state

    def on_receive(
        self, offset: int, client: RegisteredClient, session: EngineSession, said: internal_pb2.Receive, now_ms: int
    ) -> None:
        """Holds what was received, then drops what is released, and answers what is held."""
        held = []
        if client.kept:
            for one in said.received:
                record = self._hold(offset, client, one, now_ms)
                if record is not None:
                    held.append(unreleased_of(record))
            for identifier in said.released:
                self._release(offset, client, identifier)
        noted = internal_pb2.Noted(session=session.number, ask=said.ask, received=held)
        session.gateway.tell(internal_pb2.Item(noted=noted))

    def _hold(
        self, offset: int, client: RegisteredClient, said: internal_pb2.Unreleased, now_ms: int
    ) -> UnreleasedRecord | None:
        state, own = self._state, client.filters.unreleased
        found = own.get(said.identifier)
        if found is not None:
            return found
        if len(own) >= PUBLISHES_UNANSWERED_MAX:
            return None
        version = 0
        if said.object:
            version = state.unreleased.version_for(f"{client.group_key}/{said.object}", now_ms)
        record = UnreleasedRecord(said.identifier, offset, said.id, said.object, version)
        state.unreleased.put(client, record)
        state.changed[client] = None
        return record

    def _release(self, offset: int, client: RegisteredClient, identifier: int) -> None:
        found = client.filters.unreleased.get(identifier)
        if found is not None and found.applied < offset:
            self._state.unreleased.drop(client, found)
            self._state.changed[client] = None


def unreleased_of(record: UnreleasedRecord) -> internal_pb2.Unreleased:
    """Returns what is held, as gateways are told."""
    return internal_pb2.Unreleased(
        identifier=record.identifier,
        id=record.id,
        object=record.object,
        version=record.version if record.object else None,
        written=record.written,
    )
