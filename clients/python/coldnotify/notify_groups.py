"""`NotifyGroups`: one client in several groups, on one connection, with one state file.

with NotifyGroups(domain=..., group_ids=["region-1", "solar"], client_id="unit-7", state=State(...),
                  connection=Connection(...)) as notify:
    notify.group("region-1").register("camera-config").subscribe(lambda n: print(n.group, n.object_id, n.version))
    notify.group("solar").publish("panel-1", {"watts": 210})
"""

import time
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Generic, Self, TypeVar

from coldnotify_schemas.names import check_name
from coldnotify_schemas.protocol import LINK_SESSIONS_MAX

from coldnotify._core.settings import NEWEST_BYTES_MAX
from coldnotify._forked import Owner
from coldnotify._groups_state import GroupsState
from coldnotify._run import OnError
from coldnotify._shell import NotifyShell
from coldnotify._threaded_notify import Notify
from coldnotify.connection import Connection
from coldnotify.errors import ColdNotifyError
from coldnotify.shared_link import Link
from coldnotify.state import State

__all__ = ["NotifyGroups"]

N = TypeVar("N", bound=NotifyShell)


class GroupsShell(Generic[N]):
    """The part of `NotifyGroups` that both forms share."""

    _client: Callable[..., N]
    """Makes a group's client."""

    def __init__(
        self,
        domain: str,
        group_ids: Iterable[str],
        client_id: str,
        state: State,
        connection: Connection | Link | None = None,
        *,
        on_error: OnError | None = None,
        tries_max: int = 5,
        retry_min_s: float = 1.0,
        retry_max_s: float = 60.0,
        save_interval_s: float = 0.5,
        newest_bytes_max: int = NEWEST_BYTES_MAX,
        say_errors: bool = True,
    ) -> None:
        """A client of each of `group_ids`, 1 to 64, of `domain`. Nothing is opened or connected yet.

        All are `client_id`, and share `state` and a link over `connection`; a `Link` may have other clients, too. The
        rest is as for `Notify`; `newest_bytes_max` is each group's. Errors that `on_error` is told have the `group`.
        Raises ValueError, whose message begins with the argument's name.
        """
        if isinstance(group_ids, str):
            raise ValueError("group_ids: is one text, not several")
        self.group_ids = tuple(group_ids)
        """The groups, in the order in which they were given."""
        for group in self.group_ids:
            check_name("group_ids", group)
        if not 1 <= len(self.group_ids) <= LINK_SESSIONS_MAX:
            raise ValueError(f"group_ids: {len(self.group_ids)} groups, 1 to {LINK_SESSIONS_MAX} can share a link")
        if len(set(self.group_ids)) < len(self.group_ids):
            raise ValueError("group_ids: names a group twice")
        self._way = Connection() if connection is None else connection
        if isinstance(self._way, Connection) and self._way.directory is not None:
            raise ValueError("directory: a link asks none, give it addresses")
        self._link: Link | None = None
        """The link that is for this client alone, while it is connected."""
        file = GroupsState(state, domain, self.group_ids, client_id)
        self._clients: dict[str, N] = {}
        for group in self.group_ids:
            client = self._clients[group] = self._client(
                domain,
                group,
                client_id,
                file.sections[group],
                self._way,
                on_error=None if on_error is None else _of_group(on_error, group),
                tries_max=tries_max,
                retry_min_s=retry_min_s,
                retry_max_s=retry_max_s,
                save_interval_s=save_interval_s,
                newest_bytes_max=newest_bytes_max,
                say_errors=say_errors,
            )
            file.sections[group].along = client.save_along
        self._owner = Owner(f"NotifyGroups of {domain}/{client_id}", "make another one in this process")

    def group(self, group_id: str) -> N:
        """Returns the group's client: it registers, subscribes, publishes there. It is connected and disconnected with
        the others. Raises ValueError: it is not one of `group_ids`.
        """
        client = self._clients.get(group_id)
        if client is None:
            raise ValueError(f"group_id: {group_id!r} is not among group_ids: {', '.join(self.group_ids)}")
        return client

    @property
    def connected(self) -> bool:
        """True if all groups have a session."""
        return all(client.connected for client in self._clients.values())

    @property
    def caught_up(self) -> bool:
        """True if all groups are caught up."""
        return all(client.caught_up for client in self._clients.values())

    def network_changed(self) -> None:
        """Call it when the machine has another network: see `Notify.network_changed`."""
        for client in self._clients.values():
            client.network_changed()

    def _open_link(self) -> None:
        """Begin to listen for the groups' clients. Raises ValueError, OSError."""
        way = self._way
        # An address of a link is one already.
        if isinstance(way, Link) or self._link is not None or any(one.scheme == "unix" for one in way.addresses()):
            return
        self._link = Link(way)
        for client in self._clients.values():
            client.connect_through(self._link.connection)

    def _close_link(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            link.close()


class NotifyGroups(GroupsShell[Notify]):
    """A client of ColdNotify in several groups; all methods may be called from any thread. Callbacks of one group run
    one at a time, beside those of other groups. `coldnotify.aio` has it for asyncio.
    """

    _client = Notify

    def connect(self, timeout_s: float | None = None) -> bool:
        """Start the client in all groups; see `Notify.connect`. Raises StateError, ValueError, OSError: then it runs in
        none.
        """
        self._owner.check()
        self._open_link()
        try:
            for client in self._clients.values():
                client.connect()
        except BaseException:
            self.disconnect()
            raise
        return self.caught_up if timeout_s is None else self.wait_caught_up(timeout_s)

    def wait_caught_up(self, timeout_s: float) -> bool:
        """Waits until all groups are caught up. Returns true if that came within `timeout_s`; see
        `Notify.wait_caught_up`.
        """
        end = time.monotonic() + timeout_s
        return all(client.wait_caught_up(max(0.0, end - time.monotonic())) for client in self._clients.values())

    def disconnect(self, timeout_s: float = 5.0) -> None:
        """Stops in all groups; see `Notify.disconnect`. Takes up to about `timeout_s`, unless callbacks go on."""
        if not self._owner.is_here:
            return
        end = time.monotonic() + timeout_s
        try:
            for client in self._clients.values():
                client.disconnect(max(0.0, end - time.monotonic()))
        finally:
            self._close_link()

    def __enter__(self) -> Self:
        self.connect()
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.disconnect()


def _of_group(on_error: OnError, group: str) -> OnError:
    def tell(error: Exception) -> object:
        if isinstance(error, ColdNotifyError):
            error.group = group
        return on_error(error)

    return tell
