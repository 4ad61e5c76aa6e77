"""Operators' requests about a client, in the log: they end its session, or forget everything about it; or about a
share, which is forgotten if it has no members.

They are handled in the order of the requests, as all others of a client and its gateway. So their order is decided,
even if a successor handles requests again: an operator's request concerns the client as it was at that place. A client
that has opened a session, or registered, after it is not the same any more, and stays as it is; its earlier requests
are undone again.
"""

from collections import deque
from heapq import nsmallest
from typing import NamedTuple

from coldnotify_schemas import internal_pb2
from coldnotify_schemas.close_codes import CloseCode

from coldnotify_matcher.engine.clients.clients import RegisteredClient
from coldnotify_matcher.engine.handing.share_steps import ShareSteps
from coldnotify_matcher.engine.partition_state import PartitionState
from coldnotify_matcher.engine.upkeep.forgetting import Forgetting

MEMBERS_NAMED_MAX = 100
"""Members of a share that are named where it is not forgotten."""
OPERATED_KEPT = 1_000
"""Outcomes of such requests that are kept, for those who wait for them: far more than there are under way."""
KINDS = frozenset(("disconnect", "forget", "forget_share"))
"""The requests of operators."""


class Operated(NamedTuple):
    """The outcome of an operator's request."""

    offset: int
    """Offset of the request."""
    known: bool
    """False: there was no such client, or not the same any more, so nothing was done."""
    online: bool
    """True if it had a session, which was ended."""
    registered: int
    """Number of its interests."""
    members: tuple[str, ...] = ()
    """Clients that are members of the share, which is not forgotten therefore; the first MEMBERS_NAMED_MAX."""


class Operating:
    """Handles these requests."""

    def __init__(self, state: PartitionState, forgetting: Forgetting, shares: ShareSteps) -> None:
        self._state = state
        self._forgetting = forgetting
        self._shares = shares
        self.done: deque[Operated] = deque(maxlen=OPERATED_KEPT)
        """The latest, in the order of their offsets."""

    def on_request(self, offset: int, key: str, request: internal_pb2.Request) -> None:
        """Handle one of KINDS, about the client of this key, or about a share of its group."""
        if request.HasField("forget_share"):
            self._forget_share(offset, request)
            return
        client = self._state.clients.get(key)
        if client is None or offset < max(client.session_applied, client.registrations_applied):
            # It was handled before, if at all: the client has come since.
            self.done.append(Operated(offset, known=False, online=False, registered=0))
            return
        self.done.append(Operated(offset, True, client.session is not None, client.registered))
        forget = request.WhichOneof("body") == "forget"
        reason = request.forget.reason if forget else request.disconnect.reason
        self._disconnect(client, reason)
        if forget:
            self._forgetting.forget(client)
            self._state.count("forgotten_by_operators")

    def _forget_share(self, offset: int, request: internal_pb2.Request) -> None:
        said = request.forget_share
        share = self._state.shares.by_key.get(f"{request.domain}/{request.group}/{said.share}/{said.channel}")
        if share is None or offset < share.applied:
            # It was handled before, if at all: there is another share of this name.
            self.done.append(Operated(offset, known=False, online=False, registered=0))
            return
        members = nsmallest(MEMBERS_NAMED_MAX, share.members)
        self.done.append(Operated(offset, True, False, len(share.members), tuple(members)))
        if not members:
            self._shares.drop(share)
            self._state.count("shares_forgotten")

    def outcome(self, offset: int) -> Operated | None:
        """Returns the outcome of the request at this offset; None: it was not handled, or is long past."""
        return next((one for one in reversed(self.done) if one.offset == offset), None)

    def _disconnect(self, client: RegisteredClient, reason: str) -> None:
        session = client.session
        if session is None:
            return
        self._state.tell_closed(session.gateway, session.number, CloseCode.DISCONNECTED, reason)
        # If that is lost, its gateway announces the session again. It must not go on under this number.
        session.gateway.retire(session.number)
        self._state.end_session(client)
        self._state.count("disconnected")
