"""Requests about shares: they are registered and unregistered as other interests are, and Holds say what is held."""

from collections.abc import Iterable

from coldnotify_schemas import wire_pb2
from coldnotify_schemas.interests import share_hash, share_text
from coldnotify_schemas.names import InvalidName
from coldnotify_schemas.share_names import HELD_MAX
from coldnotify_schemas.wire_pb2 import HELD_BACK, HELD_BEGUN, HELD_DONE, HELD_REJECTED, SINCE_POSITION

from coldnotify_matcher.engine.channel_logs.channel_log import ChannelLog
from coldnotify_matcher.engine.channels.registering import begin_of
from coldnotify_matcher.engine.clients.clients import RegisteredClient
from coldnotify_matcher.engine.clients.sessions import EngineSession
from coldnotify_matcher.engine.interests.kinds import ALL_KINDS, share_text_of
from coldnotify_matcher.engine.partition_state import PartitionState
from coldnotify_matcher.engine.shares.known_shares import MEMBERS_MAX, SHARES_MAX
from coldnotify_matcher.engine.shares.one_share import ChannelShare, Definition, Present
from coldnotify_matcher.engine.shares.share_rule import ShareRule


class ShareRequests:
    """Handles these requests."""

    def __init__(self, state: PartitionState) -> None:
        self._state = state

    # --- registrations

    def register(
        self, offset: int, client: RegisteredClient, said: Iterable[wire_pb2.Interest]
    ) -> list[wire_pb2.Refusal]:
        """Register the client for these. Returns the refused ones."""
        state, log = self._state, self._state.log_of(client)
        refused: list[wire_pb2.Refusal] = []
        if log is None or not state.shares.offered:
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
                registered = client.register_share(text, begin, log.epoch, room)
                state.count("shares_registered")
            if registered is not None:
                share = state.shares.by_key.get(registered.key) or self._begin(log, registered.key, one, offset, client)
                state.shares.join(share, client, _definition(one))
        state.note_registrations(offset, client)
        return refused

    def _begin(
        self, log: ChannelLog, key: str, said: wire_pb2.Interest, offset: int, client: RegisteredClient
    ) -> ChannelShare:
        begin = min(begin_of(log, client, said), log.position - 1)
        share = ChannelShare(key, _definition(said), log.epoch, ShareRule(begin))
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
        if share is not None and (reason := _differs(share, _definition(said))):
            return reason
        full = self._state.why_full(client, ALL_KINDS)
        return f"share: {full}" if full else ""

    # --- holds

    def on_hold(self, offset: int, client: RegisteredClient, session: EngineSession, hold: wire_pb2.Hold) -> None:
        """Handle a Hold: it is answered with the next step, once what it says is durable."""
        shares = self._state.shares
        answer = wire_pb2.Leases(number=hold.number)
        room = HELD_MAX
        for said in hold.shares:
            registered = client.shares.get(said.share)
            share = None if registered is None else shares.by_key.get(registered.key)
            if share is None:
                lost = [one.offset for one in said.messages if one.state not in (HELD_DONE, HELD_BACK)]
            else:
                lost = self._on_held(offset, client.name, share, said)
                room -= self._note_presence(client.name, session, share, hold, said, room)
                shares.look_at(share)
            if lost:
                answer.lost.add(share=said.share, offsets=lost)
                self._state.count("leases_lost", len(lost))
        shares.answers.append((session, answer))

    def _on_held(self, offset: int, name: str, share: ChannelShare, said: wire_pb2.HeldShare) -> list[int]:
        """Handle what a member says of the leases of one share. Returns the offsets of those that it has lost."""
        rule, now_ms, lost = share.rule, self._state.steady_ms, []
        replayed = offset < share.applied
        for one in said.messages:
            place = name, one.offset, one.hand_out
            kept = True
            if one.state == HELD_DONE:
                kept = rule.settle(*place)
            elif one.state == HELD_BACK:
                if not replayed:
                    rule.give_back(*place, now_ms, one.after_s * 1_000)
            elif one.state == HELD_REJECTED:
                kept = replayed or rule.reject(*place) or rule.is_over(one.offset)
            else:
                if one.state == HELD_BEGUN:
                    rule.begin(*place)
                kept = rule.extend(*place, now_ms)
            if not kept:
                lost.append(one.offset)
        share.applies(offset)
        return lost

    def _note_presence(
        self,
        name: str,
        session: EngineSession,
        share: ChannelShare,
        hold: wire_pb2.Hold,
        said: wire_pb2.HeldShare,
        room: int,
    ) -> int:
        """Note that a member is there, and has answered. Returns the number of messages that it may have at once."""
        shares, before = self._state.shares, share.present.get(name)
        if said.prefetch:
            prefetch, lease_s = min(said.prefetch, max(room, 1)), said.lease_s
        elif before is not None and before.session is session:
            prefetch, lease_s = before.prefetch, before.lease_s
        else:
            return 0  # it has not said how long its leases are: its next Hold does, as its gateway asks it to
        shares.arrive(share, name, Present(session, said.share, hold.number, prefetch, lease_s))
        share.rule.hear(name, self._state.steady_ms)
        if hold.all:
            named = {(one.offset, one.hand_out) for one in said.messages}
            share.rule.resend(name, named, self._state.steady_ms)
        return prefetch


def _definition(said: wire_pb2.Interest) -> Definition:
    at = said.at if said.since == SINCE_POSITION else 0
    return Definition(tuple(said.attributes), said.since, at)


def _differs(share: ChannelShare, said: Definition) -> str:
    """Returns what a member says otherwise than the first one did; "": nothing."""
    is_ = share.definition
    if is_ is None or is_ == said:
        return ""
    if is_.attributes != said.attributes:
        return f"attributes: the share {share.name} has {', '.join(is_.attributes) or 'none'}, as its first member said"
    since = wire_pb2.Since.Name(is_.since).removeprefix("SINCE_").lower()
    return f"since: the share {share.name} began with {since}, as its first member said"
