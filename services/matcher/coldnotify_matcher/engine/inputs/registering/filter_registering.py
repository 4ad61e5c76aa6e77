"""Registrations by filter, of clients whose sets are kept: each is owed an answer, or not, as its options say."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from coldnotify_schemas import wire_pb2
from coldnotify_schemas.filters import FILTERS_MAX, InvalidFilter, check_filter
from coldnotify_schemas.interests import filter_hash

from coldnotify_matcher.engine.clients.clients import RegisteredClient
from coldnotify_matcher.engine.clients.sessions import EngineSession
from coldnotify_matcher.engine.interests.by_filter import TOLD_BY_CURSOR, RegisteredFilter
from coldnotify_matcher.engine.interests.kinds import ALL_KINDS
from coldnotify_matcher.engine.partition_state import PartitionState

_ALWAYS, _IF_NEW = 0, 1
"""Retain Handling: when a filter is answered with what is there."""


@dataclass(slots=True)
class RegisteredFilters:
    """The outcome of a request."""

    refused: list[wire_pb2.Refusal] = field(default_factory=list)
    there: list[int] = field(default_factory=list)
    """The hashes of those that were registered before."""


class FilterRegistering:
    """Registers clients for what filters fit."""

    def __init__(self, state: PartitionState) -> None:
        self._state = state

    def register(
        self,
        offset: int,
        client: RegisteredClient,
        session: EngineSession,
        said: Iterable[wire_pb2.Interest],
        *,
        restored: bool = False,
    ) -> RegisteredFilters:
        """Register the client for these. `restored`: they were registered before, and are lost here: the cursor says
        what its client was told by them."""
        outcome = RegisteredFilters()
        replayed = offset < client.registrations_applied
        for one in said:
            hash_ = filter_hash(one.text)
            registered = client.filters.get(hash_)
            is_new = registered is None
            if registered is None:
                reason = "" if replayed else self._why_not(client, one.text)
                if reason:
                    outcome.refused.append(wire_pb2.Refusal(interest=hash_, reason=f"filter: {reason}"))
                    self._state.count("filters_refused")
                if reason or replayed:
                    continue
                registered = self._add(client, session, one, restored=restored)
            elif not replayed:
                outcome.there.append(hash_)
                if registered.asked(one.options, one.identifier):
                    client.changed.add(registered.bucket)
            if replayed:
                if registered.owed and hash_ not in session.filter_answers.owed:
                    session.filter_answers.owe(hash_)
            elif _is_answered(registered, is_new=is_new, restored=restored):
                self._owe(client, session, registered)
        self._state.note_registrations(offset, client)
        client.filters.look(client.digest)
        return outcome

    def unregister(
        self, offset: int, client: RegisteredClient, session: EngineSession, hashes: Iterable[int]
    ) -> list[int]:
        """Unregister the client for these. Returns those that it was not registered for."""
        if offset < client.registrations_applied:
            return []
        absent = []
        for hash_ in hashes:
            one = client.filters.get(hash_)
            if one is None:
                absent.append(hash_)
                continue
            session.filter_answers.drop(hash_)
            self._state.filtered.forget(client, one)
            client.unregister_filter(one)
            self._state.count("filters_unregistered")
        self._state.note_registrations(offset, client)
        client.filters.look(client.digest)
        return absent

    def _add(
        self, client: RegisteredClient, session: EngineSession, said: wire_pb2.Interest, *, restored: bool
    ) -> RegisteredFilter:
        state = self._state
        one = client.register_filter(said.text, said.options, said.identifier, state.rules.bucket_objects_max)
        # What was published before it is told in its answer alone.
        one.placed(TOLD_BY_CURSOR if restored else state.position - 1, state.epoch)
        log = state.log_of(client)
        if log is not None and not restored:
            one.begin_channels(log.position - 1)
        state.filtered.hear_one(client, one)
        state.count("filters_registered")
        return one

    def _owe(self, client: RegisteredClient, session: EngineSession, one: RegisteredFilter) -> None:
        session.filter_answers.owe(one.hash)
        if not one.owed:
            one.owe()
            client.changed.add(one.bucket)

    def _why_not(self, client: RegisteredClient, text: str) -> str:
        """Returns the reason why the client cannot be registered for this; "": it can."""
        if not client.kept:
            return "the client's set is not kept by the service"
        try:
            check_filter(text)
        except InvalidFilter as error:
            return str(error).removeprefix("filter: ")
        if len(client.filters) >= FILTERS_MAX:
            return f"at most {FILTERS_MAX} filters a client"
        return self._state.why_full(client, ALL_KINDS)


def _is_answered(one: RegisteredFilter, *, is_new: bool, restored: bool) -> bool:
    if is_new:
        return one.retain_handling in (_ALWAYS, _IF_NEW)
    return one.retain_handling == _ALWAYS and not restored
