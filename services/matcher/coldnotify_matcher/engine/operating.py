"""What operators ask about a client, as requests in the log: its session is ended, or all that is known of it goes.

They are handled in the order of the requests, as everything else that a client and its gateway say. So it is decided
what comes before and what behind, also where a successor handles requests once more: an operator's request concerns the
client as it was by then. A client that has opened a session, or registered, behind it is not the same any more, and is
let be; what it said before is undone again.
"""

from collections import deque
from typing import NamedTuple

from coldnotify_schemas import internal_pb2
from coldnotify_schemas.close_codes import CloseCode

from coldnotify_matcher.engine.clients import RegisteredClient
from coldnotify_matcher.engine.forgetting import Forgetting
from coldnotify_matcher.engine.partition_state import PartitionState

OPERATED_KEPT = 1_000
"""What is remembered of such requests, for those who wait for them: far more than there are under way."""
KINDS = frozenset(("disconnect", "forget"))
"""The requests of operators."""


class Operated(NamedTuple):
    """What an operator's request has done."""

    offset: int
    """Of the request."""
    known: bool
    """False: there was no such client, or not the same any more, so nothing was done."""
    online: bool
    """It had a session, which was told to end."""
    registered: int
    """How many interests it had."""


class Operating:
    """Handles them."""

    def __init__(self, state: PartitionState, forgetting: Forgetting) -> None:
        self._state = state
        self._forgetting = forgetting
        self.done: deque[Operated] = deque(maxlen=OPERATED_KEPT)
        """The latest, in the order of their offsets."""

    def on_request(self, offset: int, key: str, request: internal_pb2.Request) -> None:
        """One of KINDS, about the client of this key."""
        client = self._state.clients.get(key)
        if client is None or offset < max(client.session_applied, client.registrations_applied):
            # Handled before, if it was: the client has come since.
            self.done.append(Operated(offset, known=False, online=False, registered=0))
            return
        self.done.append(Operated(offset, True, client.session is not None, client.registered))
        forget = request.WhichOneof("body") == "forget"
        reason = request.forget.reason if forget else request.disconnect.reason
        self._disconnect(client, reason)
        if forget:
            self._forgetting.forget(client)
            self._state.count("forgotten_by_operators")

    def _disconnect(self, client: RegisteredClient, reason: str) -> None:
        session = client.session
        if session is None:
            return
        self._state.tell_closed(session.gateway, session.number, CloseCode.DISCONNECTED, reason)
        # Should that be lost, its gateway announces the session anew. It is not to go on under this number.
        session.gateway.retire(session.number)
        self._state.end_session(client)
        self._state.count("disconnected")
