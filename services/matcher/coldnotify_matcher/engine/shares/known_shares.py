"""The shares of one partition: those that are known, and those that the next step has to look at."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from coldnotify_schemas import wire_pb2
from coldnotify_schemas.share_names import LEASE_S_MAX

from coldnotify_matcher.engine.interests.by_share import ClientShare
from coldnotify_matcher.engine.shares.one_share import Definition, KnownShare, Present
from coldnotify_matcher.engine.shares.share_rule import ShareRule

if TYPE_CHECKING:
    from coldnotify_matcher.engine.clients.clients import RegisteredClient
    from coldnotify_matcher.engine.clients.sessions import EngineSession

SHARES_MAX = 1_000
"""Shares of one partition."""
MEMBERS_MAX = 10_000
"""Registrations of shares of one partition."""


class KnownShares:
    """Shares by their keys, and by their channels."""

    def __init__(self) -> None:
        self.offered = False
        """True if Kafka has the topic of shares."""
        self.served = False
        """True once everything is read that predecessors have written about shares, and sent."""
        self.by_key: dict[str, KnownShare] = {}
        self._by_channel: dict[str, dict[str, KnownShare]] = {}
        self.due: dict[KnownShare, None] = {}
        """Shares that the next step has to look at."""
        self.answers: list[tuple[EngineSession, wire_pb2.Leases]] = []
        """Answers to the Holds of this step."""
        self.as_of_ms = 0
        """A steady time (ms): all requests that stood in the topic by then are handled."""
        self.to_forget: list[str] = []
        """Keys of shares that are to be forgotten with the next step."""

    def __iter__(self) -> Iterator[KnownShare]:
        return iter(self.by_key.values())

    @property
    def members(self) -> int:
        """Number of registrations of all shares."""
        return sum(len(share.members) for share in self)

    def of_channel(self, key: str) -> Iterable[KnownShare]:
        """Returns the shares of the channel with this key."""
        return self._by_channel.get(key, {}).values()

    def add(self, share: KnownShare) -> None:
        """Add a new share."""
        self.by_key[share.key] = share
        self._by_channel.setdefault(share.channel, {})[share.key] = share
        self.due[share] = None

    def drop(self, share: KnownShare) -> None:
        """Drop a share: its record goes with the next step."""
        del self.by_key[share.key]
        of_channel = self._by_channel[share.channel]
        del of_channel[share.key]
        if not of_channel:
            del self._by_channel[share.channel]
        self.due.pop(share, None)
        self.to_forget.append(share.key)

    def look_at(self, share: KnownShare) -> None:
        """Have the next step look at it."""
        self.due[share] = None

    def on_message(self, channel: str) -> None:
        """Note that the log has a new message of this channel."""
        for share in self.of_channel(channel) if self._by_channel else ():
            self.due[share] = None

    def serve(self, shares: Iterable[KnownShare], clients: Iterable[RegisteredClient]) -> None:
        """Begin to serve these, whose records are read, for these clients."""
        self.served = True
        for share in shares:
            self.add(share)
        for client in clients:
            for registered in client.shares.values():
                share = self.by_key.get(registered.key) or self._without_record(registered)
                share.members.add(client.name)

    def _without_record(self, registered: ClientShare) -> KnownShare:
        rule = ShareRule(registered.position)
        share = KnownShare(registered.key, None, registered.epoch, rule, frozenset(registered.attributes))
        self.add(share)
        return share

    # --- members

    def of_client(self, client: RegisteredClient) -> Iterator[KnownShare]:
        """Yields the shares that a client is registered for."""
        for registered in client.shares.values():
            share = self.by_key.get(registered.key)
            if share is not None:
                yield share

    def join(self, share: KnownShare, client: RegisteredClient, definition: Definition) -> None:
        """Note that a client is registered for it, which says what the share is."""
        share.members.add(client.name)
        if share.definition is None:
            share.define(definition)
        if share.empty_since_ms:
            share.is_empty(0)
        self.due[share] = None

    def pause(self, client: RegisteredClient) -> None:
        """Note that a client's session is over: it is handed nothing, and keeps what it holds."""
        for share in self.of_client(client):
            self.close(share, client.name)

    def outlive(self, client: RegisteredClient, expiry_s: int, steady_ms: int) -> None:
        """Have what a client holds stay its until its kept set expires: it may come back for it."""
        for share in self.of_client(client):
            share.rule.outlive(client.name, min(expiry_s, LEASE_S_MAX) * 1_000, steady_ms)
            self.due[share] = None

    def arrive(self, share: KnownShare, name: str, present: Present) -> None:
        """Note that a member's session has said all that it holds."""
        before = share.present.get(name)
        share.present[name] = present
        if before is None or before[2:] != present[2:] or before.session is not present.session:
            share.rule.join(name, present.prefetch, present.lease_s * 1_000)

    def close(self, share: KnownShare, name: str) -> None:
        """Note that a member takes no more: it keeps what it holds."""
        if share.present.pop(name, None) is not None:
            share.rule.leave(name)

    def give_back_all(self, client: RegisteredClient, offset: int, steady_ms: int) -> None:
        """Give back all that a client holds, which says in the request at this offset that it goes."""
        for share in self.of_client(client):
            if offset >= share.applied:
                share.rule.give_back_all(client.name, steady_ms)
                share.applies(offset)
                self.due[share] = None

    def leave(self, client: RegisteredClient, registered: ClientShare, steady_ms: int) -> None:
        """Note that a client is not registered for a share any more: what it holds goes to others."""
        share = self.by_key.get(registered.key)
        if share is None:
            return
        share.members.discard(client.name)
        share.present.pop(client.name, None)
        share.rule.leave(client.name)
        share.rule.give_back_all(client.name, steady_ms)
        self.due[share] = None

    def forget(self, client: RegisteredClient, steady_ms: int) -> None:
        """Note that a client is forgotten, with all its registrations."""
        for registered in client.shares.values():
            self.leave(client, registered, steady_ms)
