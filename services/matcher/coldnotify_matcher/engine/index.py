"""The fan-out index: object -> gateway -> the sessions that are live, and how a publish goes out to them."""

from __future__ import annotations

from array import array
from collections.abc import Iterator

from coldnotify_schemas import internal_pb2

from coldnotify_matcher.engine.clients import Client
from coldnotify_matcher.engine.gateways import GatewayView
from coldnotify_matcher.engine.memberships import Changes, Told
from coldnotify_matcher.engine.objects import GONE_KEPT_MAX, UNKNOWN, Obj, Subscribers
from coldnotify_matcher.engine.partition_state import State
from coldnotify_matcher.engine.sessions import Session

_FIXED_BYTES_MAX = 160
"""Of an Item with a FanOut: what is neither name, payload, traceparent nor sessions, so tags, lengths and numbers."""


class Index:
    """The objects' `subscribers`, kept in step with clients and sessions."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._groups = state.members.groups

    def heard(self, obj: Obj) -> bool:
        """Whether a live session is to be told of the object's publishes."""
        return bool(obj.subscribers) or (self._groups.any and self._state.members.heard(obj))

    def gateways(self, obj: Obj) -> set[GatewayView]:
        """The gateways of those sessions."""
        return {*obj.subscribers, *(gateway for gateway, _ in self._state.members.hearers(obj))}

    def fan_out(self, obj: Obj, now_ms: int, *, complete: int, changes: Changes | None = None) -> None:
        """Tell an object's newest version to the sessions that are in the index for it.

        `complete`: the offset at or below which nothing is held back from them any more, at most the object's own.
        `changes`: of sets, which the version leads to.
        """
        spared = None
        if obj.source is not None:
            source = self._state.clients.get(obj.key[: len(obj.key) - len(obj.name)] + obj.source)
            spared = source.session if source is not None else None
        if not self._groups.any:
            for gateway, subscribers in list(obj.subscribers.items()):
                subscribers.remove_gone(gateway)
                numbers = subscribers.numbers
                if not numbers:
                    del obj.subscribers[gateway]
                    continue
                if spared is not None and spared.gateway is gateway and spared.number in numbers:
                    numbers = array("I", [number for number in numbers if number != spared.number])
                    if not numbers:
                        continue
                self._send(gateway, obj, numbers, now_ms, complete)
            return
        told = self._state.members.differences(changes) if changes else {}
        for gateway, hearing in self._sessions(obj):
            without = {*told.get(gateway, ())}
            if spared is not None and spared.gateway is gateway:
                without.add(spared.number)
            numbers = array("I", hearing - without)
            if numbers:
                self._send(gateway, obj, numbers, now_ms, complete)
        if told:
            self._tell(obj.key[: -len(obj.name) - 1], obj.name, told, now_ms, obj.offset, complete, publish=True)

    def tell(self, group: str, name: str, now_ms: int, changes: Changes, *, offset: int, complete: int) -> None:
        """Tell those who hear of them changes of sets that an object's description, at `offset`, leads to."""
        told = self._state.members.differences(changes)
        self._tell(group, name, told, now_ms, offset, complete, publish=False)

    def _sessions(self, obj: Obj) -> Iterator[tuple[GatewayView, set[int]]]:
        """The live sessions that are registered for the object, by name or by a query, each once."""
        by_gateway: dict[GatewayView, set[int]] = {}
        for gateway, subscribers in list(obj.subscribers.items()):
            subscribers.remove_gone(gateway)
            if subscribers.numbers:
                by_gateway[gateway] = set(subscribers.numbers)
            else:
                del obj.subscribers[gateway]
        for gateway, hearers in self._state.members.hearers(obj):
            by_gateway.setdefault(gateway, set()).update(hearers)
        yield from by_gateway.items()

    def _send(self, gateway: GatewayView, obj: Obj, numbers: array[int], now_ms: int, complete: int) -> None:
        sessions = numbers.tobytes()
        fan_out = gateway.new_item(_bytes_max(obj) + len(sessions)).fan_out
        newest = fan_out.newest
        obj.fill_in(newest, now_ms)
        behind = obj.offset - complete
        if behind:
            newest.behind = behind
        fan_out.sessions = sessions
        if obj.published_ms > 0:
            fan_out.published_ms = obj.published_ms
        if obj.traceparent:
            fan_out.traceparent = obj.traceparent
        self._state.count("deliveries", len(numbers))

    def _tell(
        self,
        group: str,
        name: str,
        told: dict[GatewayView, dict[int, Told]],
        now_ms: int,
        offset: int,
        complete: int,
        *,
        publish: bool,
    ) -> None:
        """One frame for each session, so that it says `complete` once all that the change leads to is told."""
        for gateway, by_number in told.items():
            alike: dict[Told, array[int]] = {}
            for number, what in by_number.items():
                alike.setdefault(what, array("I")).append(number)
            for (entered, left), numbers in alike.items():
                newest = newest_of(
                    self._state.objects.get(f"{group}/{name}"), name, now_ms, say=publish or bool(entered)
                )
                newest.offset, newest.behind = offset, offset - complete
                newest.entered.extend(entered)
                newest.left.extend(left)
                fan_out = internal_pb2.FanOut(newest=newest, sessions=numbers.tobytes())
                gateway.tell(internal_pb2.Item(fan_out=fan_out))
                self._state.count("differences", len(numbers))

    def join(self, client: Client) -> None:
        """The client's session is live: it is in the index for all that the client is registered for."""
        session = client.session
        if session is None:
            return
        if client.queries:
            self._state.members.hear(client)
        if session.indexed:
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


def newest_of(obj: Obj | None, name: str, now_ms: int, *, say: bool, answer: bool = False) -> internal_pb2.Newest:
    """The newest version of an object, which may have none: then its name alone. `say`: else its name alone, too."""
    newest = internal_pb2.Newest(answer=answer)
    if say and obj is not None and obj.version != UNKNOWN:
        obj.fill_in(newest, now_ms)
    else:
        newest.name = name
    return newest


def _bytes_max(obj: Obj) -> int:
    """Of a FanOut of this object, but for the sessions."""
    return _FIXED_BYTES_MAX + 4 * len(obj.name) + len(obj.payload) + len(obj.traceparent)
