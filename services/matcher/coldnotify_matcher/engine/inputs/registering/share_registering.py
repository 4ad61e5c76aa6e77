"""Registrations by share: the first member defines the share, and others have to say the same."""

from collections.abc import Iterable

from coldnotify_schemas import wire_pb2
from coldnotify_schemas.interests import share_hash, share_text
from coldnotify_schemas.names import InvalidName
from coldnotify_schemas.share_names import KEPT_SHARES_MAX, SHARES_NOT_SERVED, TOPIC_IS_AN_OBJECT
from coldnotify_schemas.wire_pb2 import SINCE_POSITION

from coldnotify_matcher.engine.channel_logs.channel_log import ChannelLog
from coldnotify_matcher.engine.channels.registering import begin_of
from coldnotify_matcher.engine.clients.clients import RegisteredClient
from coldnotify_matcher.engine.interests.kinds import ALL_KINDS, share_text_of
from coldnotify_matcher.engine.partition_state import PartitionState
from coldnotify_matcher.engine.shares.known_shares import MEMBERS_MAX, SHARES_MAX
from coldnotify_matcher.engine.shares.one_share import Definition, KnownShare
from coldnotify_matcher.engine.shares.share_rule import ShareRule


class ShareRegistering:
    """Registers clients for shares of channels."""

    def __init__(self, state: PartitionState) -> None:
        self._state = state

    def register(
        self, offset: int, client: RegisteredClient, said: Iterable[wire_pb2.Interest]
    ) -> list[wire_pb2.Refusal]:
        """Register the client for these. Returns the refused ones."""
        state, log = self._state, self._state.log_of(client)
        refused: list[wire_pb2.Refusal] = []
        if log is None or not state.shares.offered:
            if client.kept:  # it was offered no kinds, so it is told
                refused += [_refusal(one, SHARES_NOT_SERVED) for one in said]
            return refused
        for one in said:
            hash_ = share_hash(share_text_of(one))
            registered = client.shares.get(hash_)
            if registered is None and offset >= client.registrations_applied:
                if reason := self._why_not(client, one):
                    refused.append(wire_pb2.Refusal(interest=hash_, reason=reason))
                    state.count("shares_refused")
                    continue
                begin = min(begin_of(log, client, one), log.position - 1)
                text, room = share_text_of(one), state.rules.bucket_objects_max
                registered = client.register_share(text, begin, log.epoch, room, one.options, one.identifier)
                state.count("shares_registered")
            elif registered is not None and registered.asked(one.options, one.identifier):
                client.changed.add(registered.bucket)
            if registered is not None:
                share = state.shares.by_key.get(registered.key) or self._begin(log, registered.key, one, offset, client)
                state.shares.join(share, client, _definition(one))
        state.note_registrations(offset, client)
        return refused

    def _begin(
        self, log: ChannelLog, key: str, said: wire_pb2.Interest, offset: int, client: RegisteredClient
    ) -> KnownShare:
        begin = min(begin_of(log, client, said), log.position - 1)
        share = KnownShare(key, _definition(said), log.epoch, ShareRule(begin))
        share.applies(offset)
        self._state.shares.add(share)
        return share

    def unregister(self, offset: int, client: RegisteredClient, hashes: Iterable[int]) -> None:
        """Remove shares of the client's registrations: what it holds of them goes to other members."""
        state = self._state
        if offset >= client.registrations_applied:
            for hash_ in hashes:
                registered = client.shares.get(hash_)
                if registered is not None:
                    state.shares.leave(client, registered, state.steady_ms)
                    client.unregister_share(registered)
                    state.count("shares_unregistered")
        state.note_registrations(offset, client)

    def _is_object(self, client: RegisteredClient, name: str) -> bool:
        """Returns true if a name is that of a published object, and of no channel that ever had a message."""
        key, log = f"{client.group_key}/{name}", self._state.log_of(client)
        return bool(self._state.objects.is_published(key)) and (log is None or not log.last.knows(key))

    def _why_not(self, client: RegisteredClient, said: wire_pb2.Interest) -> str:
        """Returns the reason why the client cannot be registered for this; "": it can."""
        try:
            text = share_text(said.share, said.text, said.attributes)
        except InvalidName as error:
            return str(error)
        if text != share_text_of(said):
            return "attributes: are not sorted, or one is there twice"
        shares = self._state.shares
        share = shares.by_key.get(f"{client.group_key}/{said.share}/{said.text}")
        if share is None and len(shares.by_key) >= SHARES_MAX:
            return f"share: at most {SHARES_MAX} shares of groups that are in one partition"
        if shares.members >= MEMBERS_MAX:
            return f"share: at most {MEMBERS_MAX} members of shares of groups that are in one partition"
        if client.kept:
            if len(client.shares) >= KEPT_SHARES_MAX:
                return f"share: at most {KEPT_SHARES_MAX} shares of an MQTT client"
            if share is None and self._is_object(client, said.text):
                return TOPIC_IS_AN_OBJECT
        elif share is not None and (reason := _differs(share, _definition(said))):
            return reason
        full = self._state.why_full(client, ALL_KINDS)
        return f"share: {full}" if full else ""


def _refusal(said: wire_pb2.Interest, reason: str) -> wire_pb2.Refusal:
    return wire_pb2.Refusal(interest=share_hash(share_text_of(said)), reason=reason)


def _definition(said: wire_pb2.Interest) -> Definition:
    at = said.at if said.since == SINCE_POSITION else 0
    return Definition(tuple(said.attributes), said.since, at)


def _differs(share: KnownShare, said: Definition) -> str:
    """Returns what a member says otherwise than the first one did; "": nothing."""
    is_ = share.definition
    if is_ is None or is_ == said:
        return ""
    if is_.attributes != said.attributes:
        return f"attributes: the share {share.name} has {', '.join(is_.attributes) or 'none'}, as its first member said"
    since = wire_pb2.Since.Name(is_.since).removeprefix("SINCE_").lower()
    return f"since: the share {share.name} began with {since}, as its first member said"
