"""The fan-out index: object -> gateway -> the sessions that are live, and how a publish goes out to them."""

from coldnotify_matcher.engine.clients import Client
from coldnotify_matcher.engine.objects import GONE_KEPT_MAX, Obj, Subscribers
from coldnotify_matcher.engine.partition_state import State
from coldnotify_matcher.engine.sessions import Session

_FIXED_BYTES_MAX = 160
"""Of an Item with a FanOut: what is neither name, payload, traceparent nor sessions, so tags, lengths and numbers."""


class Index:
    """The objects' `subscribers`, kept in step with clients and sessions."""

    def __init__(self, state: State) -> None:
        self._state = state

    def fan_out(self, obj: Obj, now_ms: int, *, complete: int) -> None:
        """Tell an object's newest version to the sessions that are in the index for it.

        `complete`: the offset at or below which nothing is held back from them any more, at most the object's own.
        """
        spared = None
        if obj.source is not None:
            source = self._state.clients.get(obj.key[: len(obj.key) - len(obj.name)] + obj.source)
            spared = source.session if source is not None else None
        behind = obj.offset - complete
        for gateway, subscribers in list(obj.subscribers.items()):
            subscribers.remove_gone(gateway)
            numbers = subscribers.numbers
            if not numbers:
                del obj.subscribers[gateway]
                continue
            if spared is not None and spared.gateway is gateway and spared.number in numbers:
                numbers = type(numbers)("I", [n for n in numbers if n != spared.number])
                if not numbers:
                    continue
            sessions = numbers.tobytes()
            fan_out = gateway.new_item(_bytes_max(obj) + len(sessions)).fan_out
            newest = fan_out.newest
            obj.fill_in(newest, now_ms)
            if behind:
                newest.behind = behind
            fan_out.sessions = sessions
            if obj.published_ms > 0:
                fan_out.published_ms = obj.published_ms
            if obj.traceparent:
                fan_out.traceparent = obj.traceparent
            self._state.count("deliveries", len(numbers))

    def join(self, client: Client) -> None:
        """The client's session is live: it is in the index for all that the client is registered for."""
        session = client.session
        if session is None or session.indexed:
            return
        session.indexed = True
        for obj in client.objects():
            self.subscribe(obj, session)

    def subscribe(self, obj: Obj, session: Session) -> None:
        """This session is told of the object's publishes from here on."""
        gateway = session.gateway
        subscribers = obj.subscribers.get(gateway)
        if subscribers is None:
            obj.forget_gone_gateways()
            subscribers = obj.subscribers[gateway] = Subscribers(gateway.retirements)
        elif len(subscribers.numbers) > 2 * obj.registered + GONE_KEPT_MAX:
            # Of an object that is hardly ever published nobody else would take out those that are gone.
            subscribers.remove_gone(gateway)
        subscribers.numbers.append(session.number)

    def unsubscribe(self, obj: Obj, session: Session) -> None:
        """It is told of them no more."""
        subscribers = obj.subscribers.get(session.gateway)
        if subscribers is not None and session.number in subscribers.numbers:
            subscribers.numbers.remove(session.number)
            if not subscribers.numbers:
                del obj.subscribers[session.gateway]


def _bytes_max(obj: Obj) -> int:
    """Of a FanOut of this object, but for the sessions."""
    return _FIXED_BYTES_MAX + 4 * len(obj.name) + len(obj.payload) + len(obj.traceparent)
