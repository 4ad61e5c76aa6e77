"""Holds: members of shares say what they hold, and what has become of it."""

from coldnotify_schemas import wire_pb2
from coldnotify_schemas.share_names import HELD_MAX
from coldnotify_schemas.wire_pb2 import HELD_BACK, HELD_BEGUN, HELD_DONE, HELD_REJECTED

from coldnotify_matcher.engine.clients.clients import RegisteredClient
from coldnotify_matcher.engine.clients.sessions import EngineSession
from coldnotify_matcher.engine.partition_state import PartitionState
from coldnotify_matcher.engine.shares.one_share import KnownShare, Present


class Holds:
    """Handles these requests."""

    def __init__(self, state: PartitionState) -> None:
        self._state = state

    def on_hold(self, offset: int, client: RegisteredClient, session: EngineSession, hold: wire_pb2.Hold) -> None:
        """Handle a Hold: it is answered with the next step, once what it says is durable."""
        shares = self._state.shares
        answer = wire_pb2.Leases(number=hold.number)
        room = HELD_MAX
        for said in hold.shares:
            registered = client.shares.get(said.share)
            share = None if registered is None else shares.by_key.get(registered.key)
            if share is None:
                # Also what it says it has done: that went to others when it left, or with its registration.
                lost = [one.offset for one in said.messages if one.state != HELD_BACK]
            else:
                begun = client.kept and offset >= share.applied
                lost = self._on_held(offset, client.name, share, said)
                room -= self._note_presence(client.name, session, share, hold, said, room, begun=begun)
                shares.look_at(share)
            if lost:
                answer.lost.add(share=said.share, offsets=lost)
                self._state.count("leases_lost", len(lost))
        shares.answers.append((session, answer))

    def _on_held(self, offset: int, name: str, share: KnownShare, said: wire_pb2.HeldShare) -> list[int]:
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
        share: KnownShare,
        hold: wire_pb2.Hold,
        said: wire_pb2.HeldShare,
        room: int,
        *,
        begun: bool,
    ) -> int:
        """Note that a member is there, and has answered. Returns the number of messages that it may have at once.

        `begun`: what it has begun and does not name is told again, as its session is kept.
        """
        shares, before = self._state.shares, share.present.get(name)
        if said.closed:
            shares.close(share, name)
            return 0
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
            share.rule.resend(name, named, self._state.steady_ms, begun=begun)
        return prefetch
