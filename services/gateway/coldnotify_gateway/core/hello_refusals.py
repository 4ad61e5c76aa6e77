"""Decides which Hellos are refused: while Kafka is silent, and where another gateway serves the client better."""

from coldnotify_common.placement.fair_shares import NOTHING_KNOWN, GatewayShare, Outlook, not_here_s
from coldnotify_schemas.close_codes import CloseCode
from coldnotify_schemas.wire_pb2 import CAPABILITY_AT_HOME, CAPABILITY_MOVES, Hello

from coldnotify_gateway.core.come_back import ComeBack
from coldnotify_gateway.core.violation import Violation

RETRY_AFTER_S = 20
"""While Kafka is silent, refused clients come back after this ..."""
RETRY_SPREAD_S = 20
"""... and a part of this: one after the other, not all at once."""
CUT_OFF_NOT_HERE_S = 60
"""Clients that a gateway without Kafka sends away try it again after this."""


class HelloRefusals:
    """The state that decides over Hellos."""

    def __init__(self) -> None:
        self._silent = False
        self._alone = False
        self._known: Outlook = NOTHING_KNOWN
        self._balances = False
        self._refusals = 0

    def hear_kafka(self, *, silent: bool, alone: bool) -> None:
        """Notes that Kafka answers nothing here (`silent`), although it answers another gateway (`alone`)."""
        self._silent, self._alone = silent, alone

    def look_around(self, known: Outlook, *, balances: bool) -> None:
        """Notes how full other gateways are. `balances`: this one keeps to its share."""
        self._known, self._balances = known, balances

    def check(self, hello: Hello, own: GatewayShare) -> None:
        """Raises Violation if this Hello is refused."""
        at_home = bool(hello.capabilities & CAPABILITY_AT_HOME)
        moves = bool(hello.capabilities & CAPABILITY_MOVES)
        if self._alone:
            self._refuse_for_kafka("this gateway is cut off from Kafka", elsewhere=True)
        if self._silent and moves:
            # A client that knows no other gateway stays, and waits.
            self._refuse_for_kafka("Kafka does not answer", elsewhere=False)
        if moves and not at_home and (seconds := not_here_s(own, self._known, balances=self._balances)):
            raise Violation(CloseCode.OVERLOADED, "other gateways have more room", ComeBack(not_here_s=seconds))

    def _refuse_for_kafka(self, reason: str, *, elsewhere: bool) -> None:
        self._refusals += 1
        retry_after_s = RETRY_AFTER_S + self._refusals % RETRY_SPREAD_S
        said = ComeBack(retry_after_s, retry_after_s if elsewhere else 0)
        raise Violation(CloseCode.OVERLOADED, reason, said)
