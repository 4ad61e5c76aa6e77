"""Decides what a shell does next: the order of everything, without any I/O.

Theory of operation
===================
A shell has two hands. One holds the connection and the state file; it asks for its next action by `next`. The other
one runs the application's code; it asks by `next_call`. Each hand executes one action, passes the driver its result,
and asks again. If there is none, it sleeps until `deadline` or `next_call_at`, or until something happens. The
consequences and preconditions of an action are decided here and nowhere else:

1. A Save precedes whatever depends on it: no Hello, request, chunk or Ack leaves before its revision is durable, and
   no members callback begins.
2. There is one connection at a time, and at most one beside it: they have the numbers 0 and 1. `Connect` is answered by
   `link_up`, and in the end by one `link_down`; there is no other Connect of this number before. It must be established
   within `connect_timeout_s`. `AskDirectory` is answered by `named` or `unnamed`; there is one at a time.
3. There is one `SendBytes` at a time on a connection: the next one after `sent`. So what waits in a shell is limited.
4. There is one `CallCallbacks` at a time, and none once the client is stopping. `Tell` goes before `CallCallbacks`.
5. A client that stops lets its callback return, saves, acknowledges and sends Bye. When that is written: `EndSending`.
   Then the gateway has LINGER_S to close; then we `Close`. A client that was refused, or abandons its callback, closes
   at once. What changes until then is saved, too.
6. `End` is the last action of each hand: for the first once all of 5 is done, for the second after `close`.

A shell that stops asking loses nothing: the document on disk is whole at any instant (see the package's docstring).
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

from coldnotify._core.application import Application
from coldnotify._core.client import Client, Save, Status
from coldnotify._core.delivery.callback_turns import AnyJob
from coldnotify._core.delivery.slot import CallbackJob
from coldnotify._core.delivery.telling import MembersJob
from coldnotify._core.document.document import Document
from coldnotify._core.publishing.publications import Publications
from coldnotify._core.session.reconnect import Address, Gateways
from coldnotify._core.settings import LINGER_S, REPORTS_MAX, ClientSettings
from coldnotify._core.shares.share_member import ShareJob
from coldnotify._core.streams.feed import ChannelJob
from coldnotify.errors import StateError

__all__ = [
    "Action",
    "AnyJob",
    "AskDirectory",
    "CallAction",
    "CallCallbacks",
    "CallLost",
    "CallbackJob",
    "ChannelJob",
    "Close",
    "Connect",
    "Driver",
    "End",
    "EndSending",
    "MembersJob",
    "Report",
    "Save",
    "SendBytes",
    "ShareJob",
    "Status",
    "Tell",
]

# Named tuples: five times as cheap to define as frozen dataclasses, and every program that imports the library pays.


class Connect(NamedTuple):
    """Establish a connection. Call `link_up` once it is established; in any case `link_down` when it is over."""

    address: Address
    link: int = 0


class AskDirectory:
    """Ask the directory for a gateway. Call `named` or `unnamed`."""


class SendBytes(NamedTuple):
    """Write this. Tell `sent` when it is written."""

    data: bytes
    link: int = 0


class EndSending(NamedTuple):
    """Nothing more will be written: close our side of the connection. Tell `link_down` when the other side is."""

    link: int = 0


class Close(NamedTuple):
    """End the connection now, whatever is unwritten, even one that is not established yet. Call `link_down` then."""

    reason: str
    link: int = 0


class Report(NamedTuple):
    """Log this."""

    error: Exception


class Tell(NamedTuple):
    """Tell the application of this."""

    error: Exception


class CallCallbacks(NamedTuple):
    """Run the callbacks of the job's subscribers with its `arguments`. Tell `called` when they have returned."""

    job: AnyJob


class CallLost(NamedTuple):
    """Run the callbacks of the job's subscribers with its `arguments`, beside the callback that may be running. Tell
    nothing."""

    job: ShareJob


class End:
    """Nothing more is to be done."""


Action = Save | Connect | AskDirectory | SendBytes | EndSending | Close | Report | CallLost | End
"""Actions for the hand with the connection and the state file. After a Save, call `saved` or `save_failed`."""
CallAction = Report | Tell | CallCallbacks | End
"""Actions for the hand that runs the application's code."""


@dataclass(slots=True, eq=False)
class _Link:
    """A connection: it is being made, is up, or is over but for `link_down`."""

    number: int
    give_up_at: float
    up: bool = False
    sending: bool = False
    ended_sending: bool = False
    linger_until: float = float("inf")
    closed: str | None = None
    """The reason of its Close."""


class Driver:
    """One client between a start and its end. Not thread-safe: the hands take turns. Times are seconds on a clock that
    does not jump, and that counts what the machine sleeps."""

    def __init__(
        self,
        document: Document,
        gateways: Sequence[Address] | Gateways,
        settings: ClientSettings,
        random: Random,
        now: float,
        untold: "deque[Exception] | None" = None,
        publications: Publications | None = None,
    ) -> None:
        """A client with this document. `untold`: reports that wait for their Tell, kept by the shell. `publications`:
        its publishes, kept by the shell.
        """
        self._client = Client(document, gateways, settings, random, now, publications)
        self._settings = settings
        self._links: dict[int, _Link] = {}
        self._calling = False
        self._unlogged: deque[Exception] = deque()
        self._untold: deque[Exception] = deque(maxlen=REPORTS_MAX) if untold is None else untold
        self.over = False

    # The application

    @property
    def application(self) -> Application:
        """Interests of the application, and the answers to them."""
        return self._client.application

    def connect_now(self, now: float) -> None:
        """Ends the wait for the next attempt. No effect on a client that connects, or is connected."""
        self._client.connect_now(now)

    def stop(self, *, abandon: bool = False) -> None:
        """Begins to stop. `abandon`: do not wait for the running callback; what it was told is told again."""
        self._client.stop(abandon=abandon)

    def close(self) -> None:
        """The connection and the state file are given up, whatever the state: nothing is called any more."""
        self.over = True

    # The hand that has the connection and the state file

    def next(self, now: float) -> Action | None:
        """Returns what to do now; None: nothing before `deadline`, unless something happens."""
        client = self._client
        client.tick(now)
        action = self._report() or self._lost() or client.save_due(now) or self._of_links(now)
        return End() if action is None and client.finished and not self._links else action

    def _of_links(self, now: float) -> Action | None:
        client = self._client
        for link in list(self._links.values()):
            action = self._of_link(link, now)
            if action is not None:
                return action
        main = client.main_link
        if main not in self._links:
            address = client.connect_due(now)
            if address is not None:
                return self._connect(address, main, now)
        if client.question_due(now):
            return AskDirectory()
        if 1 - main not in self._links:
            address = client.beside_due(now)
            if address is not None:
                return self._connect(address, 1 - main, now)
        return None

    def _connect(self, address: Address, number: int, now: float) -> Connect:
        self._links[number] = _Link(number, now + self._settings.connect_timeout_s)
        return Connect(address, number)

    def _of_link(self, link: _Link, now: float) -> Action | None:
        client = self._client
        if link.closed is not None:
            return None
        is_main = link.number == client.main_link
        if not is_main and not client.trial_wanted:
            return self._close(link, "ended")
        if not link.up:
            if client.stopping:
                return self._close(link, "stopped")
            if link.give_up_at <= now:
                return self._close(link, f"no connection within {self._settings.connect_timeout_s:g} s")
            return None
        data = b"" if link.sending else client.data_to_send(now, link.number)
        if data:
            link.sending = True
            return SendBytes(data, link.number)
        return None if not is_main or client.link_wanted else self._end_link(link, now)

    def _end_link(self, link: _Link, now: float) -> Action | None:
        if not self._client.stopping or self._client.abandoned:
            return self._close(link, "ended")
        link.linger_until = min(link.linger_until, now + LINGER_S)
        if link.linger_until <= now:
            return self._close(link, "ended")
        if link.sending or link.ended_sending:
            return None
        link.ended_sending = True
        return EndSending(link.number)

    def _close(self, link: _Link, reason: str) -> Close:
        link.closed = reason
        return Close(reason, link.number)

    def _report(self) -> Report | None:
        if not self._unlogged:
            reports = self._client.take_reports()
            self._unlogged.extend(reports)
            self._untold.extend(reports)
        return Report(self._unlogged.popleft()) if self._unlogged else None

    def _lost(self) -> CallLost | None:
        job = self._client.next_lost()
        return None if job is None else CallLost(job)

    def deadline(self) -> float:
        """Returns when something is next to be done, if nothing happens before."""
        open_links = [link for link in self._links.values() if link.closed is None]
        return min(
            self._client.deadline(),
            *(link.linger_until if link.up else link.give_up_at for link in open_links),
            float("inf"),
        )

    def link_up(self, now: float, token: str = "", link: int = 0) -> None:
        """The connection is established. `token` authenticates the client, if a certificate does not."""
        found = self._links.get(link)
        if found is not None and found.closed is None:
            found.up = True
            self._client.link_up(now, token, link)

    def received(self, data: bytes, now: float, link: int = 0) -> None:
        """Bytes came. Behind our end of the connection nothing is heard any more."""
        found = self._links.get(link)
        if found is not None and found.closed is None and not found.ended_sending:
            self._client.receive(data, now, link)

    def sent(self, link: int = 0) -> None:
        """The bytes of the connection's last Send are written."""
        found = self._links.get(link)
        if found is not None and found.sending:
            found.sending = False
            self._client.sent(link)

    def named(self, address: Address, now: float, home_out_s: float = 0.0) -> None:
        """The directory names this gateway. `home_out_s`: it says that the client's home takes nobody for so long."""
        self._client.named(address, now, home_out_s)

    def unnamed(self, reason: str, now: float, retry_after_s: float = 0.0) -> None:
        """The directory names none, or does not answer. `retry_after_s`: it is not to be asked before."""
        self._client.unnamed(reason, now, retry_after_s)

    def doubt(self, now: float, stood_still_s: float) -> None:
        """This program stood still for so long (`standstill` decides when to report that), or its network has changed
        (0). It does not count as caught up until the gateway has answered a Ping.
        """
        self._client.doubt(now, stood_still_s)

    def link_down(self, reason: str, now: float, link: int = 0) -> None:
        """The connection could not be made, or is over."""
        found = self._links.pop(link, None)
        if found is not None:
            self._client.link_down(reason if found.closed is None else found.closed, now, link)

    def save_along(self, now: float) -> Save | None:
        """Returns a document that another client's is written with, if there is one to save; then as after a Save."""
        return self._client.save_along(now)

    def saved(self, save: Save, now: float) -> None:
        """This document survives a power cut from now on."""
        self._client.saved(save, now)

    def save_failed(self, save: Save, error: StateError, now: float) -> None:
        """It could not be written; it will be tried again."""
        self._client.save_failed(save, error, now)

    # The hand that runs the application's code

    def next_call(self, now: float) -> CallAction | None:
        """Returns what to do now; None: nothing before `next_call_at`, unless something happens."""
        report = self._report()
        if report is not None:
            return report
        if self._untold:
            return Tell(self._untold.popleft())
        if self.over:
            return End()
        job = None if self._calling else self._client.next_job(now)
        if job is None:
            return None
        self._calling = True
        return CallCallbacks(job)

    def next_call_at(self) -> float:
        """Returns when a callback may run next: -inf for now; inf: when something comes."""
        return float("inf") if self._calling else self._client.next_job_at()

    def called(self, job: AnyJob, failed: Mapping[int, BaseException], now: float) -> None:
        """Handles the end of a call's callbacks; `failed` contains the errors of those that raised, by subscriber."""
        self._calling = False
        self._client.job_done(job, failed, now)

    # Looking in

    @property
    def main_link(self) -> int:
        """The number of the connection that has the session, or is to have it."""
        return self._client.main_link

    @property
    def connected(self) -> bool:
        """True if a session is open: the gateway has sent Welcome."""
        return self._client.connected

    def caught_up(self, now: float) -> bool:
        """Returns true if everything owed has been told, and all callbacks have returned."""
        return self._client.caught_up(now)

    @property
    def needs_new_start(self) -> bool:
        """True if only a new start can help: the service refuses this client, or the driver is closed."""
        return self._client.refused or self.over

    def decided(self, now: float) -> bool:
        """Returns true if waiting to be caught up is pointless: it is, or it will not be before a new start."""
        return self._client.caught_up(now) or self._client.stopping or self.needs_new_start

    def status(self, now: float) -> Status:
        """Returns what it is doing; `fresh_as_of` on the clock of `now`."""
        return self._client.status(now)
