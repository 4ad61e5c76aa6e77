"""Registrations by name: a client registers for objects, and unregisters."""

from collections.abc import Iterable

from coldnotify_schemas import wire_pb2

from coldnotify_matcher.engine.clients.clients import RegisteredClient
from coldnotify_matcher.engine.clients.sessions import EngineSession
from coldnotify_matcher.engine.objects.objects import Obj
from coldnotify_matcher.engine.partition_state import PartitionState
from coldnotify_matcher.engine.telling.index import Index


class NameRegistering:
    """Registers clients for objects by their names."""

    def __init__(self, state: PartitionState, index: Index) -> None:
        self._state = state
        self._index = index

    def register(
        self, offset: int, client: RegisteredClient, session: EngineSession, names: Iterable[str]
    ) -> tuple[list[Obj], list[wire_pb2.Refusal]]:
        """Register the client. Returns (those of `names` that it is registered for now, the refused ones)."""
        registered, refused = [], []
        group = client.group_key
        replayed = offset < client.registrations_applied
        for name in names:
            obj = self._state.object_of(f"{group}/{name}")
            if not client.interested(obj) and not replayed:
                reason = self._state.why_full(client, "objects")
                if reason:
                    refused.append(wire_pb2.Refusal(object=name, reason=reason))
                    self._state.forget_if_idle(obj)
                    continue
                client.register(obj, self._state.rules.bucket_objects_max)
                self._state.count("registered")
                if session.indexed:
                    self._index.subscribe(obj, session)
            if client.interested(obj):
                registered.append(obj)
            else:
                self._state.forget_if_idle(obj)
        self._state.note_registrations(offset, client)
        return registered, refused

    def unregister(self, offset: int, client: RegisteredClient, session: EngineSession, names: Iterable[str]) -> None:
        """Unregister the client for these."""
        if offset >= client.registrations_applied:
            for name in names:
                obj = self._state.objects.get(f"{client.group_key}/{name}")
                if obj is not None and client.unregister(obj):
                    self._state.count("unregistered")
                    if session.indexed:
                        self._index.unsubscribe(obj, session)
                    self._state.forget_if_idle(obj)
        self._state.note_registrations(offset, client)

    def keep(self, offset: int, client: RegisteredClient, session: EngineSession, names: Iterable[str]) -> None:
        """Unregister the client for all others."""
        target = {self._state.object_of(f"{client.group_key}/{name}"): None for name in names}
        self.unregister(offset, client, session, [obj.name for obj in client.objects() if obj not in target])
