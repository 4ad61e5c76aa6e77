"""The gateway's connections, identified or not: counts them by address, and closes them."""

from collections.abc import Iterator

from coldnotify_common.addresses import subscriber
from coldnotify_common.security.places import Places
from coldnotify_common.security.publish_rights import PublishRight
from coldnotify_common.security.shares import Shares
from coldnotify_schemas.close_codes import CloseCode
from coldnotify_schemas.partitioner import partition_of
from coldnotify_schemas.wire_pb2 import Hello

from coldnotify_gateway.core import encoding
from coldnotify_gateway.core.come_back import AS_YOU_LIKE, ComeBack
from coldnotify_gateway.core.counters import Counters
from coldnotify_gateway.core.dialects import CRC
from coldnotify_gateway.core.identified import Identified
from coldnotify_gateway.core.limits import Limits
from coldnotify_gateway.core.outputs import Finish, Output, Peer, Send
from coldnotify_gateway.core.partition_view import PartitionView
from coldnotify_gateway.core.requests import RequestMaker
from coldnotify_gateway.core.timers import Timers
from coldnotify_gateway.core.told import Dialect
from coldnotify_gateway.core.unidentified import Unidentified
from coldnotify_gateway.core.violation import Violation

SESSION_NUMBER_MAX = (1 << 32) - 1


class Connections:
    """All connections of a gateway, and its view of each partition. A closed connection is forgotten at once."""

    def __init__(
        self,
        partitions: int,
        limits: Limits,
        counters: Counters,
        requests: RequestMaker,
        timers: Timers[Unidentified | Identified],
    ) -> None:
        self.by_peer: dict[Peer, Unidentified | Identified] = {}
        self.home_count = 0
        """Number of sessions whose client is at home here."""
        self._peak = 0
        self.views: list[PartitionView[Identified]] = [PartitionView(partition) for partition in range(partitions)]
        self._unidentified: Places[Peer] = Places(limits.unidentified_max, limits.unidentified_share_max or None)
        self.shares = Shares(
            limits.connections_share_max,
            each_max=limits.connections_per_address_max,
            exempt=limits.addresses_exempt,
        )
        """Counts of connections by address."""
        self._held = 0
        """Number of connections of another port. Each carries one session after another."""
        self._in_held: set[Peer] = set()
        """Sessions within held connections. They do not count, because the held connection does."""
        self._limits = limits
        self._counters = counters
        self._requests = requests
        self._timers = timers
        self._last_number = 0

    def add(
        self, peer: Peer, address: str, now_s: float, *, held: bool = False, dialect: Dialect | None = None
    ) -> Unidentified:
        """Adds a connection. The caller then calls `take_place`. Raises Violation if there are too many.

        `held`: it is within a connection that counts already. `dialect`: the one that it states, if any.
        """
        if not held:
            self._check_room(address)
        if self._last_number >= SESSION_NUMBER_MAX:
            raise Violation(CloseCode.OVERLOADED, "session numbers are used up, the gateway is to be restarted")
        connection = Unidentified(peer, address, now_s, self._limits, dialect)
        self.by_peer[peer] = connection
        self._peak = max(self._peak, len(self.by_peer))
        if held:
            self._in_held.add(peer)
        else:
            self.shares.count(address, 1)
        return connection

    def take_place(self, connection: Unidentified) -> Unidentified | None:
        """Gives `connection` a place among those without a Hello. Returns the connection to close if there are too
        many.

        That is the oldest one of the address with the most places: see `Places`.
        """
        address = connection.address
        shared = self.shares.may_have_all(address)
        leaving = self._unidentified.add(connection.peer, subscriber(address), shared=shared)
        found = None if leaving is None else self.by_peer[leaving]
        return found if isinstance(found, Unidentified) else None

    def take_peak(self) -> int:
        """Returns the highest number of simultaneous connections since the last call."""
        peak, self._peak = self._peak, len(self.by_peer)
        return peak

    def move(self, connection: Unidentified, address: str) -> None:
        """Assigns a connection to another address. The caller then calls `take_place`. Raises Violation if that address
        has too many.

        A connection within a held one does not move, because the held one counts for it.
        """
        if connection.peer in self._in_held:
            return
        self._check_address(address)
        self.shares.count(connection.address, -1)
        connection.move_to(address)
        self.shares.count(address, 1)

    def hold(self, address: str) -> None:
        """Counts a connection that carries changing sessions as one, until its `release`. Raises Violation if there is
        no room."""
        self._check_room(address)
        self._held += 1
        self.shares.count(address, 1)

    def release(self, address: str) -> None:
        """Stops counting a held connection."""
        self._held -= 1
        self.shares.count(address, -1)

    def _check_room(self, address: str) -> None:
        count = len(self.by_peer) - len(self._in_held) + self._held
        if count >= self._limits.connections_max:
            raise Violation(CloseCode.OVERLOADED, f"{count} connections are open, no more are taken")
        self._check_address(address)

    def _check_address(self, address: str) -> None:
        if self.shares.is_full(address):
            raise Violation(
                CloseCode.OVERLOADED,
                f"{self.shares.of(address)} connections of this address are open, no more are taken",
            )

    def wait(self, connection: Unidentified) -> None:
        """Takes a connection whose Hello waits for its turn out of those that have said none."""
        connection.wait()
        self._unidentified.discard(connection.peer)

    def sessions_to_move(self, before_s: float) -> Iterator[Identified]:
        """Yields sessions that began before that time, of clients that know other gateways and are not at home."""
        for one in self.by_peer.values():
            if isinstance(one, Identified) and one.moves and not one.at_home and one.connected_s < before_s:
                yield one

    @property
    def unidentified_count(self) -> int:
        """Returns the number of connections without a Hello."""
        return len(self._unidentified)

    def identify(self, connection: Unidentified, hello: Hello, now_s: float, publish_right: PublishRight) -> Identified:
        """Turns a connection into a session."""
        self._last_number += 1
        view = self.views[partition_of(hello.domain, hello.group, len(self.views))]
        session = Identified(connection, hello, self._last_number, view, now_s, self._limits, publish_right)
        view.add(session, now_s, self._limits.beat_s)
        self.by_peer[connection.peer] = session
        self.home_count += session.at_home
        self._unidentified.discard(connection.peer)
        self._timers.forget(connection)
        return session

    def remove(
        self, connection: Unidentified | Identified, now_s: float, *, leave: bool = True, bye: bool = False
    ) -> list[Output]:
        """Removes an ended connection. `leave`: a Leave informs the matcher, with the client's last acknowledgement.
        `bye`: the client has said so."""
        del self.by_peer[connection.peer]
        self._timers.forget(connection)
        if connection.peer in self._in_held:
            self._in_held.remove(connection.peer)
        else:
            self.shares.count(connection.address, -1)
        if isinstance(connection, Unidentified):
            self._unidentified.discard(connection.peer)
            return []
        self.home_count -= connection.at_home
        connection.reach()
        connection.view.remove(connection, now_s)
        if not leave:
            return []
        return [*self._requests.last_hold(connection, now_s), self._requests.leave(connection, bye=bye)]

    def close(
        self,
        connection: Unidentified | Identified,
        code: int,
        reason: str,
        now_s: float,
        *,
        leave: bool = True,
        come_back: ComeBack = AS_YOU_LIKE,
    ) -> list[Output]:
        """Sends Close to the client, then ends the connection."""
        if connection.device is not None:
            self._counters.closes[code] += 1
            connection.device.closed_by(code)
            said = connection.device.farewell(code, reason)
            refused = [*([Send(connection.peer, said)] if said else ()), Finish(connection.peer)]
        else:
            refused = self.refuse(connection.peer, code, reason, connection.dialect, come_back)
        return [*refused, *self.remove(connection, now_s, leave=leave)]

    def refuse(
        self, peer: Peer, code: int, reason: str, dialect: Dialect | None, come_back: ComeBack = AS_YOU_LIKE
    ) -> list[Output]:
        """Sends Close to a connection that was never added, and ends it."""
        self._counters.closes[code] += 1
        return [Send(peer, [encoding.close(code, reason, (dialect or CRC).encode, come_back)]), Finish(peer)]

    def sessions(self) -> list[Identified]:
        """Returns all sessions, sorted by number."""
        found = [connection for connection in self.by_peer.values() if isinstance(connection, Identified)]
        return sorted(found, key=lambda session: session.number)
