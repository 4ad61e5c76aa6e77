"""Registrations by query: each is then owed an answer; a query that cannot be answered is refused."""

from collections.abc import Iterable

from coldnotify_schemas import wire_pb2
from coldnotify_schemas.interests import query_hash
from coldnotify_schemas.protocol import QUERIES_MAX

from coldnotify_matcher.engine.clients.clients import RegisteredClient
from coldnotify_matcher.engine.clients.sessions import EngineSession
from coldnotify_matcher.engine.interests.by_query.language import InvalidQuery
from coldnotify_matcher.engine.interests.by_query.query import query_of
from coldnotify_matcher.engine.partition_state import PartitionState
from coldnotify_matcher.engine.streams.answers import Answer


class QueryRegistering:
    """Registers clients for objects by queries."""

    def __init__(self, state: PartitionState) -> None:
        self._state = state

    def register(
        self,
        offset: int,
        client: RegisteredClient,
        session: EngineSession,
        said: Iterable[wire_pb2.Interest],
        *,
        goes_on: bool,
    ) -> list[wire_pb2.Refusal]:
        """Register the client for these, and owe each an answer. Returns the refused ones.

        `goes_on`: the part that the client says to have reached may count. It does not if the answer has begun in this
        session: the client may have said so before it heard that.
        """
        refused, answers = [], session.answers
        new: set[int] = set()
        for one in said:
            hash_ = query_hash(one.text)
            if hash_ not in client.queries and offset >= client.registrations_applied:
                reason = self._why_not(client, one.text)
                if reason:
                    refused.append(wire_pb2.Refusal(interest=hash_, reason=reason))
                    self._state.count("queries_refused")
                    continue
                client.register_query(one.text, self._state.rules.bucket_objects_max)
                client.queries[hash_].is_new = True
                new.add(hash_)
                self._state.query_places.price(client.group_key, hash_, query_of(one.text))
                self._state.count("queries_registered")
            if hash_ in client.queries:
                reached = one.reached if goes_on and hash_ not in answers.begun else ""
                at = one.reached_at if reached else None
                held = one.held if one.HasField("held") else None
                answers.owe(hash_, Answer(new=hash_ in new, held=held, reached=reached, at=at))
        self._state.note_registrations(offset, client)
        self._state.members.changed(client)
        return refused

    def unregister(self, offset: int, client: RegisteredClient, hashes: Iterable[int]) -> None:
        """Unregister the client for these."""
        if offset >= client.registrations_applied:
            for hash_ in hashes:
                query = client.queries.get(hash_)
                if query is not None:
                    self._state.members.forget(client, query)
                    client.unregister_query(query)
                    self._state.count("queries_unregistered")
            self._state.members.changed(client)
        self._state.note_registrations(offset, client)

    def _why_not(self, client: RegisteredClient, text: str) -> str:
        """Returns the reason why the client cannot be registered for this query; "": it can."""
        if len(client.queries) >= QUERIES_MAX:
            return f"query: at most {QUERIES_MAX} queries a client"
        try:
            query = query_of(text)
        except InvalidQuery as error:
            return f"query: {error}"
        state = self._state
        full = state.why_full(client, "objects and queries")
        full = full or state.query_places.why_no_room(
            client.group_key, query_hash(text), query, state.rules.query_places
        )
        return f"query: {full}" if full else state.members.why_no_members(client.group_key, query)
