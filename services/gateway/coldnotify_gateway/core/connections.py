"""Who is connected: unidentified, identified, counted by address; how a connection ends."""

from collections import Counter
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

from coldnotify_schemas.close_codes import CloseCode
from coldnotify_schemas.partition import partition_of
from coldnotify_schemas.wire_pb2 import Hello

from coldnotify_gateway.core import encoding
from coldnotify_gateway.core.asking import Asking
from coldnotify_gateway.core.counters import Counters
from coldnotify_gateway.core.identified import Identified
from coldnotify_gateway.core.limits import Limits
from coldnotify_gateway.core.outputs import Finish, Output, Peer, Send
from coldnotify_gateway.core.partition import PartitionView
from coldnotify_gateway.core.timers import Timers
from coldnotify_gateway.core.unidentified import Unidentified
from coldnotify_gateway.core.violation import Violation

SESSION_NUMBER_MAX = (1 << 32) - 1
_SUBSCRIBER_BITS = 64
"""Of an IPv6 address; the rest is its owner's to choose, 2^64 times over."""


class Connections:
    """All connections of a gateway, and its view of each partition. One that is closed is forgotten at once."""

    def __init__(
        self,
        partitions: int,
        limits: Limits,
        counters: Counters,
        asking: Asking,
        timers: Timers[Unidentified | Identified],
    ) -> None:
        self.by_peer: dict[Peer, Unidentified | Identified] = {}
        self.views = [PartitionView(partition) for partition in range(partitions)]
        self._unidentified: dict[Peer, Unidentified] = {}
        """In the order in which they came."""
        self._by_address: Counter[IPv4Address | IPv6Network | None] = Counter()
        self._held = 0
        """Connections of another port, each for one session after the other."""
        self._in_held: set[Peer] = set()
        """Sessions in these: the connection counts, they do not."""
        self._limits = limits
        self._counters = counters
        self._asking = asking
        self._timers = timers
        self._last_number = 0

    def add(self, peer: Peer, address: str, now_s: float, *, held: bool = False) -> Unidentified:
        """A new connection. Raises Violation where there are too many. `held`: it is within one that counts already."""
        if not held:
            self._check_room(address)
        if self._last_number >= SESSION_NUMBER_MAX:
            raise Violation(CloseCode.OVERLOADED, "session numbers are used up, the gateway is to be restarted")
        connection = Unidentified(peer, address, now_s, self._limits)
        self.by_peer[peer] = connection
        self._unidentified[peer] = connection
        if held:
            self._in_held.add(peer)
        else:
            self._count(address, 1)
        return connection

    def hold(self, address: str) -> None:
        """A connection that sessions come and go in counts as one, to its `release`. Raises Violation."""
        self._check_room(address)
        self._held += 1
        self._count(address, 1)

    def release(self, address: str) -> None:
        """It is gone."""
        self._held -= 1
        self._count(address, -1)

    def _check_room(self, address: str) -> None:
        count = len(self.by_peer) - len(self._in_held) + self._held
        if count >= self._limits.connections_max:
            raise Violation(CloseCode.OVERLOADED, f"{count} connections are open, no more are taken")
        of_address, address_max = self._by_address[self._counted_as(address)], self._limits.connections_per_address_max
        if address_max and of_address >= address_max:
            raise Violation(
                CloseCode.OVERLOADED, f"{of_address} connections of this address are open, no more are taken"
            )

    def _count(self, address: str, more: int) -> None:
        counted = self._counted_as(address)
        if counted is None:
            return
        self._by_address[counted] += more
        if not self._by_address[counted]:
            del self._by_address[counted]

    def _counted_as(self, address: str) -> IPv4Address | IPv6Network | None:
        """Whose connections are counted together; None: they are not counted."""
        if not self._limits.connections_per_address_max:
            return None
        try:
            parsed = ip_address(address.partition("%")[0])
        except ValueError:
            return None
        if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is not None:
            parsed = parsed.ipv4_mapped
        if any(parsed in network for network in self._limits.addresses_exempt):
            return None
        return parsed if isinstance(parsed, IPv4Address) else IPv6Network((parsed, _SUBSCRIBER_BITS), strict=False)

    def surplus(self) -> Unidentified | None:
        """The oldest connection without a Hello, where there are too many of these.

        Who means to say Hello says it at once: so those that are to be served are among the youngest, and a flood of
        connections that say nothing drives out itself.
        """
        if len(self._unidentified) <= self._limits.unidentified_max:
            return None
        return next(iter(self._unidentified.values()))

    @property
    def unidentified_count(self) -> int:
        """Connections that have not said Hello yet."""
        return len(self._unidentified)

    def identify(self, connection: Unidentified, hello: Hello, now_s: float) -> Identified:
        """The connection is a session from here on."""
        self._last_number += 1
        view = self.views[partition_of(hello.domain, hello.group, len(self.views))]
        session = Identified(connection, hello, self._last_number, view, now_s, self._limits)
        view.add(session, now_s, self._limits.beat_s)
        self.by_peer[connection.peer] = session
        del self._unidentified[connection.peer]
        self._timers.forget(connection)
        return session

    def remove(self, connection: Unidentified | Identified, now_s: float, *, leave: bool = True) -> list[Output]:
        """It has ended. `leave`: the matcher is told, with what the client acknowledged."""
        del self.by_peer[connection.peer]
        self._timers.forget(connection)
        if connection.peer in self._in_held:
            self._in_held.remove(connection.peer)
        else:
            self._count(connection.address, -1)
        if isinstance(connection, Unidentified):
            del self._unidentified[connection.peer]
            return []
        connection.view.remove(connection, now_s)
        return [self._asking.leave(connection)] if leave else []

    def close(
        self, connection: Unidentified | Identified, code: int, reason: str, now_s: float, *, leave: bool = True
    ) -> list[Output]:
        """Close to the client, then the end of the connection."""
        return [*self.refuse(connection.peer, code, reason), *self.remove(connection, now_s, leave=leave)]

    def refuse(self, peer: Peer, code: int, reason: str) -> list[Output]:
        """Close to a connection that was never one of these."""
        self._counters.closes[code] += 1
        return [Send(peer, encoding.close(code, reason)), Finish(peer)]

    def sessions(self) -> list[Identified]:
        """All identified ones, by rising number."""
        found = [connection for connection in self.by_peer.values() if isinstance(connection, Identified)]
        return sorted(found, key=lambda session: session.number)
