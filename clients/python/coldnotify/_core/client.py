"""The whole client without its I/O: what is to be done, and its results. Read the package's docstring first.

After a `tick`, `connect_due`, `data_to_send`, `save_due` and `next_job` return what is to be done. The driver decides
the order.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

from coldnotify_schemas.close_codes import CloseCode, may_come_back

from coldnotify._core.application import Application
from coldnotify._core.delivery.callback_turns import AnyJob
from coldnotify._core.delivery.delivery import Delivery
from coldnotify._core.delivery.unsettled import UnsettledTold
from coldnotify._core.document.document import Document, encode
from coldnotify._core.interests.interests import ChannelInterest, QueryInterest, text_of
from coldnotify._core.interests.registrations import Registrations
from coldnotify._core.journal import Journal
from coldnotify._core.publishing.publications import Publications
from coldnotify._core.session.phases import Phase
from coldnotify._core.session.proofs import as_of_all
from coldnotify._core.session.reconnect import Address, Backoff, GatewayAddresses
from coldnotify._core.session.session import ClientSession, SessionEnded
from coldnotify._core.settings import (
    REPORTS_MAX,
    SAVE_INTERVAL_S_MAX,
    SAVE_LOAD,
    SAVE_RETRY_S,
    TRIES_APART_S,
    ClientSettings,
)
from coldnotify.errors import ServiceFresh, ServiceRefused, ServiceStale, StateError


@dataclass(frozen=True, slots=True)
class Status:
    """The state of a client, for inspection."""

    phase: str
    """stopped, refused, waiting (for the next try), connecting, opening, syncing, catching up, live, stopping"""
    address: str | None
    """Address of the gateway it is connected to, connects to or was last connected to."""
    caught_up: bool
    """Everything published before the session began is applied, and all callbacks have returned. After a standstill of
    the client (its machine slept, for example) it is false until the gateway has answered a Ping, or a new session has
    come as far.
    """
    registrations: int
    """Size of the wanted set: names, queries and channels."""
    pending: int
    """Operations that are not settled."""
    waiting: int
    """Objects and channels with undelivered updates, including those that wait for a subscriber."""
    parked: tuple[str, ...]
    """Objects, texts of queries, and channels, whose callbacks failed too often."""
    epoch: int | None
    cursor: int | None
    last_problem: str | None
    """Why the last connection ended or failed; None once caught up."""
    next_connect_s: float | None
    """Seconds until the next try, if it waits for one."""
    channels_epoch: int | None = None
    """Epoch of the log of its domain's channels; None: not known."""
    channels_cursor: int | None = None
    fresh_as_of: float | None = None
    """Unix time by this machine's clock: everything acknowledged to its publisher before has been told, of what was
    registered by then. None: not known since the start.
    """


class Save(NamedTuple):
    """A document to be made durable."""

    revision: int
    data: bytes
    epoch: int | None
    cursor: int | None
    begun_at: float
    channels_epoch: int | None = None
    channels_cursor: int | None = None


class Client:
    """One client, from its document to its end. Not thread-safe."""

    def __init__(
        self,
        document: Document,
        addresses: Sequence[Address],
        settings: ClientSettings,
        random: Random,
        now: float,
        publications: Publications | None = None,
    ) -> None:
        """`publications`: its publishes, which outlive it."""
        self._publications = publications
        self._identity = document.identity
        self._settings = settings
        self._journal = Journal()
        kept = {QueryInterest(text): one for text, one in document.queries.items()}
        self._registrations = Registrations(
            self._journal, document.wanted, document.operations, kept, document.channels
        )
        self._reports: deque[Exception] = deque(maxlen=REPORTS_MAX)
        self._delivery = Delivery(
            self._journal,
            self._registrations,
            settings,
            self._reports.append,
            floors=document.floors,
            epoch=document.epoch,
            cursor=document.cursor,
            newest=document.newest,
            queries=kept,
            channels=document.channels,
            channels_epoch=document.channels_epoch,
            channels_cursor=document.channels_cursor,
        )
        self._channels = self._delivery.channels
        self.application = Application(self._registrations, self._delivery)
        self._unsettled = UnsettledTold(
            self._journal, self._registrations, self._delivery, settings, known=document.settled
        )
        self._addresses = GatewayAddresses(addresses, settings.address_rest_s, random)
        self._backoff = Backoff(settings, random)

        self._address: Address | None = None
        self._link = False
        self._connecting = False
        self._greeting = False
        self._doubted = False
        """The connection that is made or greeted: it may be from before a standstill."""
        self._session: ClientSession | None = None
        self._token = ""
        self._last_problem: str | None = None
        self._connect_at: float | None = now
        self._hurry_from = now
        """The next try may be brought forward to here."""
        self._refused = False

        self._saving: Save | None = None
        self._saved_at = float("-inf")
        self._save_interval_s = settings.save_interval_s
        self._save_failures = 0
        self._save_blocked_until = float("-inf")

        self._stale = False
        """The application was told of a ServiceStale last."""
        self.stopping = False
        self.abandoned = False
        """It stops, and does not wait for jobs that run."""
        self._said_bye = False
        self._give_up_saving = False

    # Stopping

    def stop(self, *, abandon: bool = False) -> None:
        """Begins no further job; when the running ones are done: saves, acknowledges, sends Bye. Then it is `finished`.

        `abandon`: do not wait for running jobs. What they tell is still owed, and told again.
        """
        self.stopping = True
        self._greeting = False
        self.abandoned = self.abandoned or abandon
        self._connect_at = None

    # The callbacks

    def next_job(self, now: float) -> AnyJob | None:
        """Callbacks to run, or None. One job after another keeps the order of versions of an object in any case."""
        return None if self.stopping else self._delivery.turns.next_job(now)

    def next_job_at(self) -> float:
        """Returns when `next_job` may have one: -inf for now; inf: when something comes."""
        return float("inf") if self.stopping else self._delivery.turns.ready_at()

    def job_done(self, job: AnyJob, failed: Mapping[int, BaseException], now: float) -> None:
        """Handles the end of a job's callbacks; `failed` contains the errors of those that raised, by subscriber."""
        self._delivery.turns.done(job, failed, now)

    # The connection

    def connect_due(self, now: float) -> Address | None:
        """Returns the address to connect to now; call `link_up` or `link_down` afterwards."""
        if self._link or self._connecting or self._connect_at is None or self._connect_at > now:
            return None
        self._connect_at = None
        self._connecting = True
        self._doubted = False
        self._address = self._addresses.next(now)
        return self._address

    def link_up(self, now: float, token: str = "") -> None:
        """The connection is established. `token` authenticates the client, if a certificate does not."""
        self._token = token
        self._connecting = False
        self._link = True
        self._greeting = not self.stopping
        self._greet(now)

    def _greet(self, now: float) -> None:
        """Sends Hello, as soon as the operations that it carries are durable."""
        if self._greeting and self._journal.is_durable(self._journal.urgent):
            self._greeting = False
            self._session = ClientSession(
                self._identity,
                self._journal,
                self._registrations,
                self._delivery,
                self._settings,
                self._reports.append,
                now,
                self._token,
                self._publications,
                self._unsettled,
            )
            if self._doubted:
                self._session.doubt(now, 0.0)

    def connect_now(self, now: float) -> None:
        """The application asks for a connection while the next try is awaited: it comes now, but not within
        TRIES_APART_S of the last one. Who was displaced waits all the same: two with one name would take turns."""
        if self._connect_at is not None:
            self._connect_at = min(self._connect_at, max(now, self._hurry_from))

    def doubt(self, now: float, stood_still_s: float) -> None:
        """The client stood still for so long (its machine slept, for example), or the network has changed (0). The
        connection may be dead, and the cause of the last failed attempts may be gone, too.
        """
        self._backoff.begin_anew()
        self.connect_now(now)
        self._doubted = self._connecting or self._greeting
        if self._session is not None:
            self._session.doubt(now, stood_still_s)

    def receive(self, data: bytes, now: float) -> None:
        """Bytes came from the gateway."""
        if self._session is not None:
            self._session.receive(data, now)
            if self._session.phase is Phase.LIVE:
                self._backoff.begin_anew()
                self._last_problem = None
            if self._session.ended is not None:
                self._session_over(self._session.ended, now)

    def data_to_send(self, now: float) -> bytes:
        """Bytes for the gateway. Ask again when these are written."""
        return b"" if self._session is None else self._session.data_to_send(now)

    @property
    def link_wanted(self) -> bool:
        """True while the connection is to stay; false: close it once everything passed to it is written."""
        return (self._greeting or self._session is not None) and not self._said_bye

    def link_down(self, reason: str, now: float) -> None:
        """The connection failed, broke, or was closed because of `link_wanted`."""
        if self._session is not None and not self._said_bye:
            self._session_over(SessionEnded(None, reason), now)
        elif self._connecting or self._greeting:
            self._come_back(None, reason, now)
        self._session = None
        self._link = self._connecting = self._greeting = False

    def _session_over(self, ended: SessionEnded, now: float) -> None:
        session, self._session = self._session, None
        assert session is not None
        if session.caught_up_at is not None and now - session.caught_up_at >= self._settings.displaced_max_s:
            self._backoff.undisturbed()
        code = ended.code
        if code is not None and not may_come_back(code):
            self._reports.append(ServiceRefused(code, _code_name(code), ended.reason))
            self._refused = True
            self._last_problem = f"{_code_name(code)}: {ended.reason}"
            return
        reason = ended.reason if code is None else f"{_code_name(code)}: {ended.reason}"
        self._come_back(code, reason, now, caught_up=session.caught_up_at is not None)

    def _come_back(self, code: int | None, reason: str, now: float, *, caught_up: bool = False) -> None:
        self._last_problem = reason
        # An address rests if it did not serve us, or said that it will not.
        if self._address is not None and (not caught_up or code in (CloseCode.GOING_AWAY, CloseCode.OVERLOADED)):
            self._addresses.failed(self._address, now)
        if not self.stopping:
            self._connect_at = now + self._backoff.delay_s(code)
            displaced = code == CloseCode.DISPLACED
            self._hurry_from = self._connect_at if displaced else now + TRIES_APART_S

    # The state

    def save_due(self, now: float) -> Save | None:
        """Returns a document to write now, one at a time; call `saved` or `save_failed` afterwards."""
        self._delivery.prepare()
        if self._saving is not None or self._save_at() > now:
            return None
        self._delivery.settle()
        self._saving = Save(
            self._journal.revision,
            encode(self._document()),
            self._delivery.epoch,
            self._delivery.cursor,
            now,
            self._channels.epoch,
            self._channels.cursor,
        )
        return self._saving

    def saved(self, save: Save, now: float) -> None:
        """This document survives a power cut from now on."""
        self._saving = None
        self._save_failures = 0
        self._journal.failing = False
        self._journal.durable = save.revision
        self._saved_at = now
        took_s = now - save.begun_at
        self._save_interval_s = max(self._settings.save_interval_s, min(SAVE_INTERVAL_S_MAX, SAVE_LOAD * took_s))
        self._greet(now)
        if self._session is not None:
            if save.epoch == self._delivery.epoch:
                self._session.acknowledge(self._session.objects, save.cursor, now)
            if save.channels_epoch == self._channels.epoch:
                self._session.acknowledge(self._session.channels, save.channels_cursor, now)

    def save_failed(self, save: Save, error: StateError, now: float) -> None:
        """It could not be written; it will be tried again. Nothing that rests on it leaves until then."""
        self._saving = None
        shortest, longest = SAVE_RETRY_S
        self._save_blocked_until = now + min(longest, shortest * 2**self._save_failures)
        self._save_failures += 1
        self._journal.failing = True
        self._reports.append(error)
        if self.stopping:
            self._give_up_saving = True

    def _document(self) -> Document:
        return Document(
            identity=self._identity,
            wanted=frozenset(self._registrations.wanted),
            pending={
                name: operation.kind for name, operation in self._registrations.pending.items() if isinstance(name, str)
            },
            queries=self._delivery.queries.kept,
            pending_queries={
                query.text: operation.kind
                for query, operation in self._registrations.pending.items()
                if isinstance(query, QueryInterest)
            },
            channels=self._channels.kept,
            pending_channels={
                channel: operation.kind
                for channel, operation in self._registrations.pending.items()
                if isinstance(channel, ChannelInterest)
            },
            channels_epoch=self._channels.epoch,
            channels_cursor=self._channels.cursor,
            applied=self._delivery.floors,
            newest=self._delivery.told_last.kept(self._delivery.floors),
            epoch=self._delivery.epoch,
            cursor=self._delivery.cursor,
            settled=self._unsettled.known,
        )

    def _save_at(self) -> float:
        """Returns when the document must be written; inf: it is on disk."""
        if self._journal.is_durable(self._journal.revision) or self._give_up_saving:
            return float("inf")
        if self.stopping:
            return float("inf") if self._jobs_awaited else float("-inf")
        urgent = not self._journal.is_durable(self._journal.urgent)
        return max(self._save_blocked_until, float("-inf") if urgent else self._saved_at + self._save_interval_s)

    # Time, and looking in

    def tick(self, now: float) -> None:
        """Does what is due."""
        self._delivery.prepare()
        self._tell_freshness(now)
        if self._session is not None and not self._said_bye:
            self._session.tick(now)
            if self._session.ended is not None:
                self._session_over(self._session.ended, now)
        if self.stopping and not self._said_bye and self._at_rest:
            if self._session is not None:
                self._session.bye(now)
            self._said_bye = True

    def deadline(self) -> float:
        """Returns when something other than a job is next to be done, if nothing happens before."""
        due = [self._save_at()] if self._saving is None else []
        if self._connect_at is not None and not self._link:
            due.append(self._connect_at)
        if self._session is not None and not self._said_bye:
            due.append(self._session.deadline())
            due.append(self._stale_at)
        return min(due, default=float("inf"))

    @property
    def _jobs_awaited(self) -> bool:
        return self._delivery.turns.running and not self.abandoned

    @property
    def _at_rest(self) -> bool:
        """True if no job is running and the document is on disk (or cannot be written)."""
        if self._jobs_awaited or self._saving is not None:
            return False
        return self._give_up_saving or self._journal.is_durable(self._journal.revision)

    @property
    def finished(self) -> bool:
        """True if it has been stopped, and everything is done and closed: also what was asked for behind Bye."""
        return self._said_bye and self._at_rest and not self._link and not self._connecting

    @property
    def refused(self) -> bool:
        """True if the service forbade this client to come back."""
        return self._refused

    @property
    def connected(self) -> bool:
        """True if a session is open: the gateway has sent Welcome."""
        return self._session is not None and self._session.phase is not Phase.OPENING

    def caught_up(self, now: float) -> bool:
        """Returns true if everything owed has been told: caught up, all registrations answered, all callbacks returned,
        and that is proved by an answer that is fresh.
        """
        session = self._session
        if session is None or not session.is_live or session.in_doubt or not self._is_fresh(now):
            return False
        return self._registrations.all_arrived and self._delivery.turns.idle

    @property
    def _fresh_as_of(self) -> float | None:
        return as_of_all(self._delivery, self._registrations)

    def _is_fresh(self, now: float) -> bool:
        as_of = self._fresh_as_of
        return as_of is not None and now - as_of <= self._settings.stale_after_s

    @property
    def _stale_at(self) -> float:
        """When the session that is live becomes stale; inf: it is, or there is none. Without a session the application
        knows that it may be told nothing."""
        as_of, session = self._fresh_as_of, self._session
        if as_of is None or self._stale or self.stopping or session is None or not session.is_live:
            return float("inf")
        return as_of + self._settings.stale_after_s

    def _tell_freshness(self, now: float) -> None:
        """Tells the application when what it knows becomes stale, and when it is fresh again."""
        as_of = self._fresh_as_of
        if as_of is None or not (self._is_fresh(now) if self._stale else self._stale_at < now):
            return
        self._stale = not self._stale
        age_s = round(now - as_of)
        self._reports.append(ServiceStale(age_s) if self._stale else ServiceFresh(age_s))

    def take_reports(self) -> list[Exception]:
        """Returns the problems since the last call that the application should hear of."""
        reports = list(self._reports)
        self._reports.clear()
        return reports

    def status(self, now: float) -> Status:
        """Returns what it is doing."""
        return Status(
            phase=self._phase(),
            address=None if self._address is None else str(self._address),
            caught_up=self.caught_up(now),
            registrations=len(self._registrations.wanted)
            + len(self._registrations.queries)
            + len(self._registrations.channels),
            pending=len(self._registrations.pending),
            waiting=self._delivery.turns.waiting,
            parked=tuple(sorted(text_of(interest) for interest in self._delivery.all_parked)),
            epoch=self._delivery.epoch,
            cursor=self._delivery.cursor,
            last_problem=self._last_problem,
            next_connect_s=None if self._connect_at is None else max(0.0, self._connect_at - now),
            channels_epoch=self._channels.epoch,
            channels_cursor=self._channels.cursor,
            fresh_as_of=self._fresh_as_of,
        )

    def _phase(self) -> str:
        if self.stopping:
            return "stopping"
        if self._refused:
            return "refused"
        if self._session is not None:
            return self._session.phase.value
        if self._greeting:
            return Phase.OPENING.value
        return "connecting" if self._connecting else "waiting"


def _code_name(code: int) -> str:
    try:
        return CloseCode(code).name
    except ValueError:
        return f"close code {code}"
