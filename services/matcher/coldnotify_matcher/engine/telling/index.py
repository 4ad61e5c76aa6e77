"""The fan-out index: object -> gateway -> live sessions, and the sending of publishes to them."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from coldnotify_schemas import internal_pb2

from coldnotify_matcher.engine.clients.clients import RegisteredClient
from coldnotify_matcher.engine.clients.memberships import Changes, ToldMember
from coldnotify_matcher.engine.clients.sessions import EngineSession
from coldnotify_matcher.engine.gateways.gateways import GatewayView
from coldnotify_matcher.engine.objects.objects import GONE_KEPT_MAX, UNKNOWN, LiveSubscribers, Obj
from coldnotify_matcher.engine.partition_state import PartitionState
from coldnotify_matcher.engine.telling.told_as_message import is_told_live, is_told_to_nobody

_FIXED_BYTES_MAX = 160
"""Bytes of an Item with a FanOut beside name, payload, properties, trace and sessions: tags, lengths and numbers."""
_MEMBER_BYTES_MAX = 20
"""Bytes of a session in it that has the object by queries alone, beside its number."""

NOBODY: Mapping[GatewayView, Collection[int]] = {}


class _Members:
    """Sessions that have an object by queries alone, and their knowledge of it, in the form of a FanOut."""

    def __init__(self) -> None:
        self.numbers = array("I")
        self.pagings: list[int] = []
        self.known_since: list[int] = []

    def add(self, session: EngineSession, since: int) -> None:
        """Add one session."""
        self.numbers.append(session.number)
        self.pagings.append(session.objects.paging)
        self.known_since.append(max(since, 0))


class Index:
    """Keeps the objects' `subscribers` in step with clients and sessions."""

    def __init__(self, state: PartitionState) -> None:
        self._state = state
        self._groups = state.members.groups
        self._filtered = state.filtered

    def heard(self, obj: Obj) -> bool:
        """Returns true if a live session receives the object's publishes."""
        if obj.subscribers or (self._groups.any and self._state.members.heard(obj)):
            return True
        return self._filtered.any and self._filtered.heard(obj)

    def gateways(self, obj: Obj) -> set[GatewayView]:
        """Returns the gateways of the live sessions that receive the object's publishes."""
        return {*obj.subscribers, *(gateway for gateway, _ in self._hearers(obj))}

    def hearing(self, obj: Obj) -> int:
        """Returns the approximate number of sessions that receive a publish: some may be gone, or count twice."""
        by_name = sum(len(subscribers.numbers) for subscribers in obj.subscribers.values())
        return by_name + sum(len(list(hearers)) for _, hearers in self._hearers(obj))

    def fan_out_set(self, members: Sequence[tuple[Obj, Changes | None]], now_ms: int, *, complete: int) -> None:
        """Send the newest versions of objects that have one offset, each with its changes of sets of queries, if any.

        Each session may pass the offset with the last version that it is sent, and not before.
        """
        if len(members) == 1:
            ((obj, changes),) = members
            self.fan_out(obj, now_ms, complete=complete, changes=changes)
            return
        later: dict[GatewayView, set[int]] = {}
        following: list[dict[GatewayView, set[int]]] = []
        for obj, changes in reversed(members):
            hearing = self._hearing(obj, changes)
            following.append({gateway: numbers & later.get(gateway, set()) for gateway, numbers in hearing.items()})
            for gateway, numbers in hearing.items():
                later.setdefault(gateway, set()).update(numbers)
        for (obj, changes), more in zip(members, reversed(following), strict=True):
            self.fan_out(obj, now_ms, complete=complete, changes=changes, following=more)

    def _hearing(self, obj: Obj, changes: Changes | None) -> dict[GatewayView, set[int]]:
        """Returns the live sessions that are sent the object's newest version, or these changes."""
        spared = self._spared(obj)
        hearing = dict(self._sessions(obj))
        if spared is not None and spared.gateway in hearing:
            hearing[spared.gateway].discard(spared.number)
        told = self._state.members.differences(changes) if changes else {}
        for gateway, by_number in told.items():
            hearing.setdefault(gateway, set()).update(by_number)
        return hearing

    def _spared(self, obj: Obj) -> EngineSession | None:
        """Returns the session that has published the version itself, if it is not to be told."""
        if obj.source is None:
            return None
        source = self._state.clients.get(obj.key[: len(obj.key) - len(obj.name)] + obj.source)
        if source is not None and (not source.kept or self._filtered.spares(source, obj)):
            return source.session
        return None

    def fan_out(
        self,
        obj: Obj,
        now_ms: int,
        *,
        complete: int,
        changes: Changes | None = None,
        urgent: bool = False,
        following: Mapping[GatewayView, Collection[int]] = NOBODY,
    ) -> None:
        """Send an object's newest version to the sessions that are in the index for it.

        `complete`: the offset at or below which nothing is held back from them any more, at most the object's own.
        `changes`: changes of sets that the version leads to. `urgent`: it is of high priority, so that sessions that
        are receiving pages get it, too; the changes of their sets come in the pages. `following`: sessions that are
        sent more of this offset.
        """
        spared = self._spared(obj)
        if not self._groups.any and not (self._filtered.any and self._filtered.heard(obj)):
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
                self._send_in_parts(gateway, obj, numbers, now_ms, complete, following, urgent=urgent)
            if urgent:
                self._tell_catching(obj, spared, now_ms, complete)
            return
        told = self._state.members.differences(changes) if changes else {}
        for gateway, hearing in self._sessions(obj):
            without = {*told.get(gateway, ())}
            if spared is not None and spared.gateway is gateway:
                without.add(spared.number)
            numbers = array("I", hearing - without)
            if numbers and urgent:
                self._send_urgent(gateway, obj, numbers, now_ms, complete)
            elif numbers:
                self._send_in_parts(gateway, obj, numbers, now_ms, complete, following)
        if urgent:
            self._tell_catching(obj, spared, now_ms, complete)
        if told:
            group = obj.key[: -len(obj.name) - 1]
            self._tell(group, obj.name, told, now_ms, obj.offset, complete, publish=True, staying=following)

    def tell(self, group: str, name: str, now_ms: int, changes: Changes, *, offset: int, complete: int) -> None:
        """Send the changes of sets that an object's new description, at `offset`, leads to, and the description to
        sessions that keep the object and want descriptions."""
        members = self._state.members
        told = members.differences(changes)
        staying = members.staying(group, name, told)
        self._tell(group, name, told, now_ms, offset, complete, publish=False, staying=staying)
        for gateway, numbers in staying.items():
            newest = newest_of(
                self._state.objects.get(f"{group}/{name}"), name, self._state.expires_ms(now_ms), say=True
            )
            newest.offset, newest.behind = offset, offset - complete
            newest.description = members.groups.description_said(group, name)
            self._say(gateway, group, newest, array("I", sorted(numbers)))
            self._state.count("redescribed", len(numbers))

    def _tell_catching(self, obj: Obj, spared: EngineSession | None, now_ms: int, complete: int) -> None:
        """Send it to the sessions that are not in the index yet: their pages may take long, and contain it later."""
        clients = self._state.clients
        group = obj.key[: -len(obj.name)]
        for gateway in self._state.gateways.values():
            numbers, members = array("I"), _Members()
            for number in gateway.catching:
                key = gateway.sessions[number]
                if not key.startswith(group):
                    continue
                client = clients[key]
                session = client.session
                if session is None or session is spared or not session.objects.under_way:
                    continue
                if client.interested(obj):
                    numbers.append(number)
                elif client.queries and (since := self._state.members.known_since(client, obj.name)) is not None:
                    members.add(session, since)
            # Its gateway may hold a session for live, because of a predecessor's answer: as an answer, this does not
            # make it pass over what the pages have.
            if numbers:
                self._send(gateway, obj, numbers, now_ms, complete, urgent=True, answer=True)
            if members.numbers:
                self._send(gateway, obj, members.numbers, now_ms, complete, urgent=True, answer=True, members=members)

    def _send_urgent(self, gateway: GatewayView, obj: Obj, numbers: array[int], now_ms: int, complete: int) -> None:
        """Send to live sessions: ahead of others if they are registered for it by name, or know it as a member."""
        by_name = obj.subscribers.get(gateway)
        named = set(by_name.numbers) if by_name is not None else set()
        members, in_turn = _Members(), array("I")
        for number in numbers:
            if number in named:
                continue
            client = self._state.clients[gateway.sessions[number]]
            session, since = client.session, self._state.members.known_since(client, obj.name)
            if session is None or since is None:
                in_turn.append(number)
            else:
                members.add(session, since)
        named.intersection_update(numbers)
        if named:
            self._send(gateway, obj, array("I", named), now_ms, complete, urgent=True)
        if members.numbers:
            self._send(gateway, obj, members.numbers, now_ms, complete, urgent=True, members=members)
        if in_turn:
            self._send(gateway, obj, in_turn, now_ms, complete)

    def _sessions(self, obj: Obj) -> Iterator[tuple[GatewayView, set[int]]]:
        """Yields the live sessions that are registered for the object, by name, query or filter, each once."""
        by_gateway: dict[GatewayView, set[int]] = {}
        for gateway, subscribers in list(obj.subscribers.items()):
            subscribers.remove_gone(gateway)
            if subscribers.numbers:
                by_gateway[gateway] = set(subscribers.numbers)
            else:
                del obj.subscribers[gateway]
        for gateway, hearers in self._hearers(obj):
            by_gateway.setdefault(gateway, set()).update(hearers)
        yield from by_gateway.items()

    def _hearers(self, obj: Obj) -> Iterator[tuple[GatewayView, Iterable[int]]]:
        """Yields the live sessions that have the object otherwise than by its name; some come several times."""
        if self._groups.any:
            yield from self._state.members.hearers(obj)
        if self._filtered.any:
            yield from self._by_filter(obj)

    def _by_filter(self, obj: Obj) -> Iterator[tuple[GatewayView, Iterable[int]]]:
        hearers = self._filtered.hearers(obj)
        if obj.message is None:
            yield from hearers
            return
        if is_told_to_nobody(self._state, obj):
            return
        for gateway, numbers in hearers:
            keys = gateway.sessions
            told = [one for one in numbers if one in keys and is_told_live(self._state, keys[one], obj)]
            if told:
                yield gateway, told

    def _send_in_parts(
        self,
        gateway: GatewayView,
        obj: Obj,
        numbers: array[int],
        now_ms: int,
        complete: int,
        following: Mapping[GatewayView, Collection[int]],
        *,
        urgent: bool = False,
    ) -> None:
        """Send to these sessions; those that are sent more of this offset may not pass it yet."""
        more = following.get(gateway)
        if not more:
            self._send(gateway, obj, numbers, now_ms, complete, urgent=urgent)
            return
        if waiting := array("I", [number for number in numbers if number in more]):
            self._send(gateway, obj, waiting, now_ms, min(complete, obj.offset - 1), urgent=urgent, more=True)
        if others := array("I", [number for number in numbers if number not in more]):
            self._send(gateway, obj, others, now_ms, complete, urgent=urgent)

    def _send(
        self,
        gateway: GatewayView,
        obj: Obj,
        numbers: array[int],
        now_ms: int,
        complete: int,
        *,
        urgent: bool = False,
        answer: bool = False,
        members: _Members | None = None,
        more: bool = False,
    ) -> None:
        """Send to these sessions. `members`: the same ones, if they have the object by queries alone. `more`: others of
        its set follow."""
        sessions = numbers.tobytes()
        more_bytes = 0 if members is None else len(numbers) * _MEMBER_BYTES_MAX
        fan_out = gateway.new_item(_bytes_max(obj) + len(sessions) + more_bytes).fan_out
        newest = fan_out.newest
        obj.fill_in(newest, self._state.expires_ms(now_ms))
        if answer:
            newest.answer = True
        if more:
            newest.more = True
        behind = obj.offset - complete
        if behind:
            newest.behind = behind
        fan_out.sessions = sessions
        if obj.published_ms > 0:
            fan_out.published_ms = obj.published_ms
        if obj.traceparent:
            fan_out.traceparent = obj.traceparent
        if urgent:
            fan_out.urgent = True
            self._state.count("urgent_deliveries", len(numbers))
        if members is not None:
            fan_out.pagings.extend(members.pagings)
            fan_out.known_since.extend(members.known_since)
        self._state.count("deliveries", len(numbers))
        self._state.deliver(obj.domain, len(numbers), len(numbers) * (len(obj.name) + len(obj.payload)))

    def _tell(
        self,
        group: str,
        name: str,
        told: dict[GatewayView, dict[int, ToldMember]],
        now_ms: int,
        offset: int,
        complete: int,
        *,
        publish: bool,
        staying: Mapping[GatewayView, Collection[int]] = NOBODY,
    ) -> None:
        """Send one frame to each session, which carries `complete` once it contains all that the change leads to.

        `staying`: sessions that receive more of this offset after it.
        """
        members, now_ms = self._state.members, self._state.expires_ms(now_ms)
        for gateway, by_number in told.items():
            describing, stays = members.describing(gateway), staying.get(gateway, ())
            alike: dict[tuple[ToldMember, bool, bool], array[int]] = {}
            for number, what in by_number.items():
                described = number in describing and bool(what.entered)
                alike.setdefault((what, described, number in stays), array("I")).append(number)
            for ((entered, left), described, more), numbers in alike.items():
                newest = newest_of(
                    self._state.objects.get(f"{group}/{name}"), name, now_ms, say=publish or bool(entered)
                )
                newest.offset = offset
                newest.behind = offset - (min(complete, offset - 1) if more else complete)
                newest.entered.extend(entered)
                newest.left.extend(left)
                newest.more = more and publish
                if described:
                    newest.description = members.groups.description_said(group, name)
                self._say(gateway, group, newest, numbers)
                self._state.count("differences", len(numbers))

    def _say(self, gateway: GatewayView, group: str, newest: internal_pb2.Newest, numbers: array[int]) -> None:
        fan_out = internal_pb2.FanOut(newest=newest, sessions=numbers.tobytes())
        gateway.tell(internal_pb2.Item(fan_out=fan_out))
        told_bytes = len(numbers) * (len(newest.name) + len(newest.payload) + len(newest.description))
        self._state.deliver(group.partition("/")[0], len(numbers), told_bytes)

    def join(self, client: RegisteredClient) -> None:
        """Add the client's session, which is live, to the index for all that the client is registered for."""
        session = client.session
        if session is None:
            return
        if client.queries:
            self._state.members.hear(client)
        if session.indexed:
            return
        session.join()
        session.gateway.catching.discard(session.number)
        if client.filters:
            self._filtered.hear(client)
        for obj in client.objects():
            self.subscribe(obj, session)

    def subscribe(self, obj: Obj, session: EngineSession) -> None:
        """Send this session the object's publishes from here on."""
        gateway = session.gateway
        subscribers = obj.subscribers.get(gateway)
        if subscribers is None:
            obj.forget_gone_gateways()
            subscribers = obj.subscribers[gateway] = LiveSubscribers(gateway.retirements)
        elif len(subscribers.numbers) > 2 * obj.registered + GONE_KEPT_MAX:
            # If an object is hardly ever published, nothing else removes sessions that are gone.
            subscribers.remove_gone(gateway)
        subscribers.numbers.append(session.number)

    def unsubscribe(self, obj: Obj, session: EngineSession) -> None:
        """Stop sending it the object's publishes."""
        subscribers = obj.subscribers.get(session.gateway)
        if subscribers is not None and session.number in subscribers.numbers:
            subscribers.numbers.remove(session.number)
            if not subscribers.numbers:
                del obj.subscribers[session.gateway]


def newest_of(obj: Obj | None, name: str, now_ms: int, *, say: bool, answer: bool = False) -> internal_pb2.Newest:
    """Returns the newest version of an object; only its name, if it has none or `say` is false."""
    newest = internal_pb2.Newest(answer=answer)
    if say and obj is not None and obj.version != UNKNOWN:
        obj.fill_in(newest, now_ms)
    else:
        newest.name = name
    return newest


def _bytes_max(obj: Obj) -> int:
    """Returns the maximum size of a FanOut of this object, without the sessions."""
    texts = len(obj.payload) + len(obj.properties) + len(obj.traceparent)
    return _FIXED_BYTES_MAX + 4 * len(obj.name) + texts
