"""A connection to another gateway, beside the session: make before break.

It says a Hello without operations, and keeps what comes, unheard, until it is decided. If that shows that the other
gateway serves the client, and tells it what is fresh, a session takes over from there (`ClientSession`), as if it had
begun with this Hello: it takes what was kept, and asks by requests for what is pending. Otherwise nothing has changed.

The service has one session of each name: once it has the trial's Hello, the present one ends as DISPLACED. So a session
takes over from a trial that has said Hello, too, when the present one ends.
"""

from enum import Enum
from typing import NamedTuple

from coldnotify_schemas import wire_pb2 as wire
from coldnotify_schemas.frames import FrameBuffer, FrameError, encode, parse_gateway_frame
from coldnotify_schemas.protocol import AGE_UNSAID_S, CLOSE_S_MAX, GATEWAY_FRAME_BYTES_MAX, WELCOME_S

from coldnotify._core.session.hello import SaidHello
from coldnotify._core.session.reconnect import Address
from coldnotify._core.streams.stream import FIRST

TRIAL_S = 60.0
"""A trial is over after this: nobody waits for it."""
TRIAL_BYTES_MAX = 1024 * 1024
"""A gateway that sends as much is not cut off: the session moves without waiting for the end of what it lacks."""


class Reason(Enum):
    """The reasons for a trial."""

    HOME = "home"
    STALE = "stale"


class TrialEnd(Enum):
    """The results of a trial."""

    MOVE = "move"
    STAY = "stay"


class Refusal(NamedTuple):
    """The other gateway's words on coming back, in seconds; 0: none."""

    retry_after_s: int = 0
    not_here_s: int = 0


class Trial:
    """One connection beside the session, from the decision to make it to its verdict."""

    def __init__(self, address: Address, reason: Reason, fresh_s: float, now: float) -> None:
        """`fresh_s`: what the other gateway tells must be less old than this."""
        self.address = address
        self.reason = reason
        self.refusal = Refusal()
        self.greeting = False
        """The connection stands, and Hello may leave as soon as all that it says is durable."""
        self.token = ""
        self.hello: SaidHello | None = None
        self.kept = bytearray()
        """All bytes since the Hello."""
        self.verdict: TrialEnd | None = None
        self._fresh_s = fresh_s
        self._give_up_at = now + TRIAL_S
        self._welcome_due = float("inf")
        self._frames = FrameBuffer(GATEWAY_FRAME_BYTES_MAX)
        self._out = bytearray()

    def link_up(self, token: str) -> None:
        """The connection is established."""
        self.greeting = True
        self.token = token

    def greet(self, hello: SaidHello) -> None:
        """Says Hello."""
        self.greeting = False
        self.hello = hello
        self._welcome_due = hello.at + WELCOME_S
        self._out += encode(wire.ClientFrame(hello=hello.frame))

    def receive(self, data: bytes, now: float) -> None:
        """Keeps bytes, and looks for what decides."""
        self.kept += data
        try:
            for body in self._frames.feed(data):
                if self.verdict is None:
                    self._look(parse_gateway_frame(body), now)
        except FrameError:
            self.decide(TrialEnd.STAY)
        if len(self.kept) > TRIAL_BYTES_MAX:
            self.decide(TrialEnd.MOVE)

    def _look(self, frame: wire.GatewayFrame, now: float) -> None:
        match frame.WhichOneof("frame"):
            case "close":
                close = frame.close
                self.refusal = Refusal(min(close.retry_after_s, CLOSE_S_MAX), min(close.not_here_s, CLOSE_S_MAX))
                self.decide(TrialEnd.STAY)
            case "wait":
                self._welcome_due = max(self._welcome_due, now + frame.wait.seconds + WELCOME_S)
            case "welcome":
                self._welcome_due = float("inf")
                if not frame.welcome.in_sync:
                    self.decide(TrialEnd.MOVE)  # the service asks for the whole set, and has the present one no more
            case "page_end":
                self._acknowledge(frame.page_end)
            case "caught_up":
                ages = [frame.caught_up.age_s, *(stream.age_s for stream in frame.caught_up.streams)]
                fresh = max(age or AGE_UNSAID_S for age in ages) < self._fresh_s
                self.decide(TrialEnd.MOVE if fresh else TrialEnd.STAY)

    def _acknowledge(self, end: wire.PageEnd) -> None:
        if end.stream == FIRST:
            ack = wire.Ack(streams=[wire.Stream(page=end.page)])
        else:
            ack = wire.Ack(page=0 if end.stream else end.page)
        self._out += encode(wire.ClientFrame(ack=ack))

    def decide(self, verdict: TrialEnd) -> None:
        """It is decided; the first verdict counts."""
        self.verdict = self.verdict or verdict

    def data_to_send(self) -> bytes:
        """Returns bytes for the other gateway."""
        data = bytes(self._out)
        self._out.clear()
        return data

    def tick(self, now: float) -> None:
        """Ends it when its time is over."""
        if self.deadline() <= now:
            self.decide(TrialEnd.STAY)

    def deadline(self) -> float:
        """Returns when its time is over."""
        return min(self._give_up_at, self._welcome_due)
