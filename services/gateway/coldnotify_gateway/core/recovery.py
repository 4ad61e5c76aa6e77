"""Recovers sessions: an answer is missing, records are lost, or another matcher has taken over."""

from coldnotify_schemas.close_codes import CloseCode

from coldnotify_gateway.core import encoding
from coldnotify_gateway.core.connections import Connections
from coldnotify_gateway.core.counters import Counters
from coldnotify_gateway.core.identified import Identified
from coldnotify_gateway.core.limits import Limits
from coldnotify_gateway.core.outputs import Output, Send
from coldnotify_gateway.core.partition_view import PartitionView
from coldnotify_gateway.core.requests import RequestMaker
from coldnotify_gateway.core.stream import Stream

View = PartitionView[Identified]


class Recovery:
    """Chooses the request that helps: an Open, a CatchUp, or the last question."""

    def __init__(self, connections: Connections, requests: RequestMaker, limits: Limits, counters: Counters) -> None:
        self._connections = connections
        self._requests = requests
        self._limits = limits
        self._counters = counters

    def after_loss(self, view: View, now_s: float) -> list[Output]:
        """Announces every session of this partition again, because records are lost or the matcher had forgotten this
        gateway."""
        outputs: list[Output] = []
        for session in list(view.sessions.values()):
            if session.slow:
                session.doubt()
                outputs += self._ask_leases(session, now_s)
            else:
                outputs += self.announce(session, now_s)
        return outputs

    def announce(self, session: Identified, now_s: float) -> list[Output]:
        """Sends Open again. Closes the session instead if only its client knows the positions of its channels."""
        if session.opened and session.channels is not None and session.channels.behind:
            reason = "only the client knows how far its channels are"
            return self._connections.close(session, CloseCode.UNKNOWN_SESSION, reason, now_s)
        return [self._requests.open(session, now_s), *self._ask_leases(session, now_s)]

    def _ask_leases(self, session: Identified, now_s: float) -> list[Output]:
        """Asks a member of shares for all that it holds: what it was handed, and does not name, is sent again."""
        if session.device is not None:
            if session.device.shares is not None:
                session.device.shares.ask_all()
            return self._requests.say_held(session, now_s)
        if not session.holds or not session.welcomed:
            return []
        return [Send(session.peer, [encoding.say_all(session.dialect.encode)])]

    def new_matcher(self, view: View, now_s: float) -> list[Output]:
        """Repeats unanswered questions to the new matcher, because the old one may have lost them."""
        outputs: list[Output] = []
        for session in list(view.sessions.values()):
            session.question.other_matcher()
            session.claim.other_matcher()
            session.other_matcher()
            outputs += self._ask_leases(session, now_s)
            if session.question.waits_since_s(now_s) > self._limits.wait_after_s:
                outputs += self.again(session, now_s)
            elif session.opened and session.channels is not None and not session.channels.live:
                # The row of pages is lost with the old matcher.
                outputs += self.announce(session, now_s)
        return outputs

    def catch_up(self, session: Identified, stream: Stream, now_s: float) -> list[Output]:
        """Requests everything above the offset that a stream is complete to; later, if the connection is full."""
        if stream is not session.objects:
            return self._requests.catch_up_channels(session, now_s)
        if (session.question.checks or session.doubted) and not session.blocked:
            # The matcher may just have found it not in sync, or forgotten it: only an Open helps then.
            return self.announce(session, now_s)
        return self._requests.catch_up(session, now_s)

    def again(self, session: Identified, now_s: float) -> list[Output]:
        """Asks again, because no answer has arrived."""
        if self._requests.opens_again(session):
            self._counters.asked_again += 1
            session.question.unanswered()
            return self.announce(session, now_s)
        return self._requests.again(session, now_s)

    def doubt_channels(self, session: Identified, now_s: float) -> list[Output]:
        """Requests channels that are live here, because a new matcher has answered an earlier Open again: it expects to
        send pages of channels, perhaps after BeatAnswers, which would wrongly report that everything has been sent."""
        channels = session.channels
        if channels is None or not channels.live:
            return []
        return self.catch_up(session, channels, now_s)
