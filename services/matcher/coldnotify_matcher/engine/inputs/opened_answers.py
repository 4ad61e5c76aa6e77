"""Opened: the answer to a gateway that has announced a session, checked it, or sent a whole set of it."""

from collections.abc import Sequence

from coldnotify_schemas import internal_pb2, wire_pb2

from coldnotify_matcher.engine.channels.channel_requests import ChannelRequests
from coldnotify_matcher.engine.clients.clients import RegisteredClient
from coldnotify_matcher.engine.clients.sessions import EngineSession
from coldnotify_matcher.engine.interests.kinds import KINDS
from coldnotify_matcher.engine.partition_state import PartitionState


class OpenedAnswers:
    """Sends these answers."""

    def __init__(self, state: PartitionState, channels: ChannelRequests) -> None:
        self._state = state
        self._channels = channels

    def tell(
        self,
        client: RegisteredClient,
        session: EngineSession,
        *,
        in_sync: bool,
        client_epoch: int | None,
        refused: Sequence[wire_pb2.Refusal] = (),
        positions: Sequence[wire_pb2.Position] = (),
        kept: internal_pb2.KeptSet | None = None,
    ) -> None:
        """Send an Opened; `in_sync`: the digests are the same. `client_epoch`: the objects' epoch that the client
        knows. `kept`: what is kept for it."""
        opened = internal_pb2.Opened(
            session=session.number,
            ask=session.objects.ask,
            in_sync=in_sync,
            digest=client.digest,
            refused=refused,
            kinds=KINDS | wire_pb2.KINDS_DESCRIPTIONS if session.descriptions else KINDS,
            kept=kept,
        )
        if client_epoch != self._state.epoch:
            opened.epoch = self._state.epoch
        if session.shares and self._state.shares.offered and self._state.log_of(client) is not None:
            opened.kinds |= wire_pb2.KINDS_SHARES
        if self._state.channel_logs:
            self._channels.tell_opened(client, session, opened, positions)
        session.gateway.tell(internal_pb2.Item(opened=opened))
