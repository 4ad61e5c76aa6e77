"""Pages of channels that wait for their turn because their client's tenant is above its agreement.

The longest wait is served first, even if its page has left empty meanwhile and its client has asked for the next one.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush

from coldnotify_matcher.engine.channel_logs.channel_log import ChannelLog
from coldnotify_matcher.engine.clients.clients import RegisteredClient
from coldnotify_matcher.engine.clients.sessions import EngineSession
from coldnotify_matcher.engine.partition_state import PartitionState
from coldnotify_matcher.engine.streams.row import MessageRow
from coldnotify_matcher.engine.tenants.allowances import Allowance

PAGES_AT_ONCE = 64
"""Pages filled in one pass, once there is no limit any more: 4 MiB, some 20 ms. The others follow in the next
passes."""

_Waiting = tuple[int, int, RegisteredClient]
"""(start of its wait, its number, its client)."""


class PageTurns:
    """The waiting pages of one partition."""

    def __init__(self, state: PartitionState) -> None:
        self._state = state
        self._queues: dict[Allowance, list[_Waiting]] = {}
        """Heaps. An entry whose number is not in `_waiting` does not wait any more."""
        self._waiting: dict[RegisteredClient, tuple[int, int, ChannelLog]] = {}
        """(number, start of this page's wait, the log)."""
        self._number = 0
        self._who = ("pages", state.partition)

    def has_to_wait(self, log: ChannelLog, client: RegisteredClient, row: MessageRow, now_ms: int) -> bool:
        """Returns true if the client's page has to wait: if so, its wait begins."""
        allowance = self._state.rules.allowances.of(client.key.partition("/")[0])
        if allowance is None or (allowance not in self._queues and allowance.passes(now_ms)):
            return False
        since_ms = row.wait_turn(now_ms)
        self._number += 1
        number = self._number
        self._waiting.pop(client, None)  # it goes behind the others again
        self._waiting[client] = number, now_ms, log
        heappush(self._queues.setdefault(allowance, []), (since_ms, number, client))
        return True

    def forget(self, client: RegisteredClient) -> None:
        """End the wait of its page."""
        self._waiting.pop(client, None)

    def take_due(self, now_ms: int) -> Iterator[tuple[ChannelLog, RegisteredClient, EngineSession]]:
        """Yields the pages whose turn it is, one by one: each page is made before the next one is asked for."""
        left = PAGES_AT_ONCE
        for allowance, queue in list(self._queues.items()):
            while queue and left:
                since_ms, number, client = queue[0]
                known = self._waiting.get(client)
                session = client.session
                if known is None or known[0] != number:
                    heappop(queue)
                    continue
                if session is None or session.channels is None or session.channels.row.page is None:
                    del self._waiting[client]
                    continue
                if not allowance.may_tell(self._who, since_ms, now_ms):
                    break
                heappop(queue)
                left -= 1
                del self._waiting[client]
                yield known[2], client, session
            if not queue:
                del self._queues[allowance]
                allowance.leave(self._who)

    def take_waiting(self, log: ChannelLog, since_ms: int) -> list[tuple[ChannelLog, RegisteredClient, EngineSession]]:
        """Returns the pages of this log that have waited since `since_ms`, and ends their waits."""
        found = []
        for client, (_, waits_since_ms, its_log) in list(self._waiting.items()):
            if waits_since_ms > since_ms:
                break  # all later ones have, too
            if its_log is not log:
                continue
            session = client.session
            del self._waiting[client]
            if session is not None and session.channels is not None and session.channels.row.page is not None:
                found.append((log, client, session))
        return found

    def next_due_ms(self) -> int | None:
        """Returns the time at which `take_due` may yield a page; None: no page waits."""
        return min((allowance.free_at_ms() for allowance in self._queues), default=None)
