"""The whole client without its I/O: what is to be done, and its results. Read the package's docstring first.

After a `tick`, `connect_due`, `data_to_send`, `save_due` and `next_job` return what is to be done. The driver decides
the order.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

from coldnotify_schemas import wire_pb2 as wire
from coldnotify_schemas.close_codes import CloseCode, may_come_back

from coldnotify._core.application import Application
from coldnotify._core.delivery.callback_turns import AnyJob
from coldnotify._core.delivery.delivery import Delivery
from coldnotify._core.delivery.unsettled import UnsettledTold
from coldnotify._core.document.document import Document, encode
from coldnotify._core.interests.interests import ChannelInterest, QueryInterest, ShareInterest, text_of
from coldnotify._core.interests.registrations import Registrations
from coldnotify._core.journal import Journal
from coldnotify._core.publishing.publications import Publications
from coldnotify._core.session.address_book import AddressBook
from coldnotify._core.session.hello import hello_beside
from coldnotify._core.session.moves import Moves
from coldnotify._core.session.phases import Phase
from coldnotify._core.session.proofs import as_of_all, as_of_each
from coldnotify._core.session.reconnect import Address, Backoff, Gateways, gateways_of
from coldnotify._core.session.session import ClientSession, SessionEnded
from coldnotify._core.session.trial import Reason, Trial, TrialEnd
from coldnotify._core.settings import (
    OWN_HELLO_S,
    REPORTS_MAX,
    SAVE_INTERVAL_S_MAX,
    SAVE_LOAD,
    SAVE_RETRY_S,
    TRIES_APART_S,
    ClientSettings,
)
from coldnotify._core.shares.share_member import ShareJob
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
    """Size of the wanted set: names, queries, channels and shares."""
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
    streams: Mapping[str, float | None] = field(default_factory=dict)
    """The same of "objects", and of "channels" where any is registered; `fresh_as_of` is the lowest."""


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
        gateways: Sequence[Address] | Gateways,
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
            self._journal, document.wanted, document.operations, kept, document.channels, document.shares
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
            shares=document.shares,
        )
        self._channels = self._delivery.channels
        self.application = Application(self._registrations, self._delivery)
        self._unsettled = UnsettledTold(
            self._journal, self._registrations, self._delivery, settings, known=document.settled
        )
        addresses, home, directory = gateways_of(gateways)
        self._book = AddressBook(addresses, settings.address_rest_s, random, home, directory=directory)
        self._backoff = Backoff(settings, random)
        self._moves = Moves(random, settings.move_times)
        self._trial: Trial | None = None
        """The connection beside the session."""
        self._own_hello_at = float("-inf")
        """When a trial that had said Hello failed: this may displace the session yet."""
        self._asking = False
        """The directory is asked."""

        self._address: Address | None = None
        self.main_link = 0
        """The number of the connection that has the session, or is to have it: 0 or 1; the other is a trial's."""
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
        self._saved: Save | None = None
        self._saved_at = float("-inf")
        self._unsaved_since: float | None = None
        """The time at which something to be saved was noticed; None: nothing is to be, or it is being saved."""
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
        self._delivery.shares.stop()
        self._greeting = False
        self._trial = None
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
        """Returns the address to connect to now; call `link_up` or `link_down` with `main_link` afterwards."""
        if not self._is_due(now):
            return None
        address = self._book.next(now)
        if address is None:
            self._connect_at = max(now, self._book.ask_at)
            return None
        self._connect_at = None
        self._connecting = True
        self._doubted = False
        self._address = address
        return address

    def _is_due(self, now: float) -> bool:
        if self._link or self._connecting or self._asking:
            return False
        return self._connect_at is not None and self._connect_at <= now

    def link_up(self, now: float, token: str = "", link: int | None = None) -> None:
        """The connection is established. `token` authenticates the client, if a certificate does not."""
        if link is not None and link != self.main_link:
            if self._trial is not None:
                self._trial.link_up(token)
                self._greet(now)
            return
        self._token = token
        self._connecting = False
        self._link = True
        self._greeting = not self.stopping
        self._greet(now)

    def _greet(self, now: float) -> None:
        """Sends Hello, as soon as the operations that it carries are durable."""
        if not self._journal.is_durable(self._journal.urgent):
            return
        if self._greeting:
            self._greeting = False
            self._session = self._session_at(now)
            if self._doubted:
                self._session.doubt(now, 0.0)
        trial = self._trial
        if trial is not None and trial.greeting:
            parts = self._identity, self._registrations, self._delivery, self._settings, trial.token
            trial.greet(hello_beside(*parts, self._place(trial.address, now), now))

    def _session_at(self, now: float, trial: Trial | None = None) -> ClientSession:
        return ClientSession(
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
            self._place(self._address, now),
            None if trial is None else trial.hello,
        )

    def _place(self, address: Address | None, now: float) -> int:
        """Returns the bits of a Hello that say where the client is."""
        at_home = address is not None and address == self._book.home
        moves = self._book.goes_elsewhere(address, now)
        return (wire.CAPABILITY_AT_HOME if at_home else 0) | (wire.CAPABILITY_MOVES if moves else 0)

    # The directory

    def question_due(self, now: float) -> bool:
        """Returns true if the directory is to be asked now; call `named` or `unnamed` afterwards."""
        if self._asking or self.stopping or not self._book.asks(now):
            return False
        for_session = self._is_due(now) and self._book.next(now) is None
        if not for_session and not self._trial_lacks_address(now):
            return False
        self._asking = True
        self._book.asked(now)
        return True

    def named(self, address: Address, now: float, home_out_s: float = 0.0) -> None:
        """The directory names this gateway. `home_out_s`: it says that the client's home takes nobody for so long."""
        self._asking = False
        self._book.named(address, now, home_out_s)
        if self._trial_lacks_address(now):  # it names the present one
            self._moves.stale_failed(now, 0.0)

    def unnamed(self, reason: str, now: float, retry_after_s: float = 0.0) -> None:
        """The directory names none, or does not answer."""
        self._asking = False
        self._book.unnamed(now, retry_after_s)
        if self._trial_lacks_address(now):
            self._moves.stale_failed(now, retry_after_s)
        if self._is_due(now):
            self._last_problem = reason
            if self._book.next(now) is None:
                self._connect_at = max(now + self._backoff.delay_s(None), self._book.ask_at)
                self._hurry_from = self._book.ask_at

    # Make before break

    def beside_due(self, now: float) -> Address | None:
        """Returns the address of a gateway to connect to beside the session; call `link_up` or `link_down` afterwards,
        with the other link.
        """
        if self._trial is not None or self.stopping:
            return None
        session, present = self._session, self._address
        if session is None or present is None or not session.may_move:
            return None
        if self._home_trial_at <= now:
            assert self._book.home is not None
            return self._try(self._book.home, Reason.HOME, now)
        if self._moves.stale_at <= now:
            address = self._book.next_beside(now, present)
            if address is not None:
                return self._try(address, Reason.STALE, now)
            if self._book.ask_at == float("inf"):
                self._moves.stale_failed(now, 0.0)
            else:
                self._moves.stale_not_before(self._book.ask_at)
        return None

    def _try(self, address: Address, reason: Reason, now: float) -> Address:
        self._trial = Trial(address, reason, self._settings.stale_after_s, now)
        return address

    def _trial_lacks_address(self, now: float) -> bool:
        session, present = self._session, self._address
        if self._trial is not None or session is None or present is None or not session.may_move:
            return False
        return self._moves.stale_at <= now and self._book.next_beside(now, present) is None

    @property
    def _home_trial_at(self) -> float:
        """When to try the home. A session that is not live has other things to do."""
        if self._session is None or not self._session.is_live:
            return float("inf")
        return max(self._moves.home_at, self._book.home_free_at)

    def _look_elsewhere(self, now: float) -> None:
        """Notes what makes a try necessary, or needless."""
        session = self._session
        if session is None or not self._book.knows_other(self._address):
            self._moves.session_ended()
            return
        if session.is_live:
            self._moves.look_home(now, away=self._book.home is not None and self._address != self._book.home)
        stale_at = self._goes_stale_at
        self._moves.look_stale(stale_at if stale_at <= now else None, self._settings.stale_after_s)

    @property
    def _goes_stale_at(self) -> float:
        """When nothing has come for too long that proves its gateway to be current, whatever callbacks do."""
        if self._session is None:
            return float("inf")
        return self._session.fresh_as_of + self._settings.stale_after_s

    def _judge(self, trial: Trial, now: float) -> None:
        if trial.verdict is TrialEnd.MOVE:
            self._take_over(trial, now)
        elif trial.verdict is TrialEnd.STAY:
            self._trial_failed(trial, now)

    def _trial_failed(self, trial: Trial, now: float) -> None:
        self._trial = None
        if trial.hello is not None:
            self._own_hello_at = now
        refusal = trial.refusal
        self._book.failed(trial.address, now, max(refusal))
        if trial.reason is Reason.HOME:
            self._moves.home_failed(now)
        else:
            self._moves.stale_failed(now, refusal.retry_after_s)

    def _take_over(self, trial: Trial, now: float) -> None:
        """The trial's connection has the session from now on; the other one is closed."""
        self._trial = None
        self.main_link = 1 - self.main_link
        self._address, self._token = trial.address, trial.token
        self._link = True
        self._moves.session_ended()
        self._session = session = self._session_at(now, trial)
        session.take_over(bytes(trial.kept), now)
        if self._saved is not None:
            self._acknowledge(session, self._saved, now)
        self._received(session, now)

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

    def receive(self, data: bytes, now: float, link: int | None = None) -> None:
        """Bytes came from the gateway."""
        if link is not None and link != self.main_link:
            if self._trial is not None:
                self._trial.receive(data, now)
                self._judge(self._trial, now)
        elif self._session is not None:
            self._session.receive(data, now)
            self._received(self._session, now)

    def _received(self, session: ClientSession, now: float) -> None:
        if session.phase is Phase.LIVE:
            self._backoff.begin_anew()
            self._last_problem = None
        if session.ended is not None:
            self._session_over(session.ended, now)

    def sent(self, link: int) -> None:
        """The bytes that `data_to_send` returned last are written."""
        if link == self.main_link:
            self._delivery.shares.written()

    def next_lost(self) -> ShareJob | None:
        """Returns the callbacks to run of who is to hear that a lease is lost, or None. They need not be waited for."""
        return self._delivery.shares.take_lost()

    def data_to_send(self, now: float, link: int | None = None) -> bytes:
        """Bytes for the gateway. Ask again when these are written."""
        if link is not None and link != self.main_link:
            return b"" if self._trial is None else self._trial.data_to_send()
        return b"" if self._session is None else self._session.data_to_send(now)

    @property
    def trial_wanted(self) -> bool:
        """True while the connection beside the session is to stay."""
        return self._trial is not None

    @property
    def link_wanted(self) -> bool:
        """True while the connection is to stay; false: close it once everything passed to it is written."""
        return (self._greeting or self._session is not None) and not self._said_bye

    def link_down(self, reason: str, now: float, link: int | None = None) -> None:
        """The connection failed, broke, or was closed because of `link_wanted` or `trial_wanted`."""
        if link is not None and link != self.main_link:
            if self._trial is not None:
                self._trial_failed(self._trial, now)
            return
        main_link = self.main_link
        if self._session is not None and not self._said_bye:
            self._session_over(SessionEnded(None, reason), now)
            if self.main_link != main_link:
                return  # its trial has taken over
        elif self._connecting or self._greeting:
            self._come_back(SessionEnded(None, reason), reason, now)
        self._session = None
        self._link = self._connecting = self._greeting = False

    def _session_over(self, ended: SessionEnded, now: float) -> None:
        session, self._session = self._session, None
        assert session is not None
        if session.caught_up_at is not None and now - session.caught_up_at >= self._settings.displaced_max_s:
            self._backoff.undisturbed()
        trial, self._trial = self._trial, None
        code = ended.code
        if code is not None and not may_come_back(code):
            self._reports.append(ServiceRefused(code, _code_name(code), ended.reason))
            self._refused = True
            self._last_problem = f"{_code_name(code)}: {ended.reason}"
            return
        if self._address is not None and session.phase is not Phase.OPENING and code != CloseCode.DISPLACED:
            self._book.ended(self._address, now)
        if trial is not None and trial.hello is not None:
            self._note_end(ended, now, caught_up=session.caught_up_at is not None)
            self._take_over(trial, now)
            return
        reason = ended.reason if code is None else f"{_code_name(code)}: {ended.reason}"
        self._come_back(ended, reason, now, caught_up=session.caught_up_at is not None)

    def _note_end(self, ended: SessionEnded, now: float, *, caught_up: bool) -> None:
        """An address rests if it did not serve us, or said that it will not."""
        if self._address is None:
            return
        if ended.not_here_s:
            self._book.failed(self._address, now, ended.not_here_s)
        elif not caught_up or ended.silent or ended.code in (CloseCode.GOING_AWAY, CloseCode.OVERLOADED):
            self._book.failed(self._address, now, ended.retry_after_s)

    def _come_back(self, ended: SessionEnded, reason: str, now: float, *, caught_up: bool = False) -> None:
        self._last_problem = reason
        self._note_end(ended, now, caught_up=caught_up)
        if ended.code == CloseCode.DISPLACED and now - self._own_hello_at <= OWN_HELLO_S:
            ended = SessionEnded(None, ended.reason)
        self._own_hello_at = float("-inf")
        if ended.retry_after_s or ended.not_here_s:
            self._backoff.begin_anew()
        if not self.stopping:
            delay_s = self._backoff.delay_s(ended.code)
            if not self._elsewhere(now):
                delay_s += ended.retry_after_s
            self._connect_at = now + delay_s
            displaced = ended.code == CloseCode.DISPLACED
            self._hurry_from = self._connect_at if displaced else now + TRIES_APART_S

    def _elsewhere(self, now: float) -> bool:
        """Returns true if there is another gateway than the one that sent the client away."""
        present = self._address
        return present is None or self._book.asks(now) or self._book.next_beside(now, present) is not None

    # The state

    def save_due(self, now: float) -> Save | None:
        """Returns a document to write now, one at a time; call `saved` or `save_failed` afterwards."""
        self._delivery.prepare()
        if self._unsaved_since is None and self._save_at() < float("inf"):
            self._unsaved_since = now
        return None if self._save_at() > now else self.save_along(now)

    def save_along(self, now: float) -> Save | None:
        """Returns what is to be saved at some time, as another client's document is written at this one."""
        if self._saving is not None or self._save_at() == float("inf"):
            return None
        self._delivery.settle()
        self._unsaved_since = None
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
        self._saved = save
        if self._session is not None:
            self._acknowledge(self._session, save, now)

    def _acknowledge(self, session: ClientSession, save: Save, now: float) -> None:
        if save.epoch == self._delivery.epoch:
            session.acknowledge(session.objects, save.cursor, now)
        if save.channels_epoch == self._channels.epoch:
            session.acknowledge(session.channels, save.channels_cursor, now)

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
            shares=self._delivery.shares.kept,
            pending_shares={
                share: operation.kind
                for share, operation in self._registrations.pending.items()
                if isinstance(share, ShareInterest)
            },
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
        if urgent:
            return self._save_blocked_until
        since = float("-inf") if self._unsaved_since is None else self._unsaved_since + self._settings.gather_s
        return max(self._save_blocked_until, self._saved_at + self._save_interval_s, since)

    # Time, and looking in

    def tick(self, now: float) -> None:
        """Does what is due."""
        self._delivery.prepare()
        self._tell_freshness(now)
        self._delivery.shares.tick(now)
        if self._session is not None and not self._said_bye:
            self._session.tick(now)
            if self._session.ended is not None:
                self._session_over(self._session.ended, now)
        if self._trial is not None:
            self._trial.tick(now)
            self._judge(self._trial, now)
        self._look_elsewhere(now)
        if self.stopping and not self._said_bye and self._at_rest:
            if self._session is not None:
                self._session.bye(now)
            self._said_bye = True

    def deadline(self) -> float:
        """Returns when something other than a job is next to be done, if nothing happens before."""
        due = [self._save_at()] if self._saving is None else []
        due.append(self._delivery.shares.deadline())
        if self._connect_at is not None and not self._link and not self._asking:
            due.append(self._connect_at)
        if self._session is not None and not self._said_bye:
            due.append(self._session.deadline())
            due.append(self._stale_at)
            due.append(self._moves_at)
        return min(due, default=float("inf"))

    @property
    def _moves_at(self) -> float:
        """When a trial begins or ends, or may become necessary."""
        session = self._session
        if self._trial is not None:
            return self._trial.deadline()
        if session is None or not session.may_move or self._asking or not self._book.knows_other(self._address):
            return float("inf")
        stale_at = self._moves.stale_at
        if stale_at == float("inf"):
            stale_at = self._goes_stale_at
        return min(self._home_trial_at, stale_at)

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
        return as_of is not None and now < as_of + self._settings.stale_after_s

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
        if as_of is None or not (self._is_fresh(now) if self._stale else self._stale_at <= now):
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
            + len(self._registrations.channels)
            + len(self._registrations.shares),
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
            streams=as_of_each(self._delivery, self._registrations),
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
        return "connecting" if self._connecting or self._asking else "waiting"


def _code_name(code: int) -> str:
    try:
        return CloseCode(code).name
    except ValueError:
        return f"close code {code}"
