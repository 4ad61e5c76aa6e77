"""The common part of the sync and the asyncio form of `Notify`: everything but threads, sockets and tasks."""

import os
import random
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime
from typing import Any, Literal, overload

from coldnotify_schemas.names import check_name, check_object
from coldnotify_schemas.share_names import LEASE_S_MAX, LEASE_S_MIN, PREFETCH_MAX

from coldnotify._core.application import Application
from coldnotify._core.document.document import ClientIdentity, Document, decode
from coldnotify._core.driver import Driver, Save, Status
from coldnotify._core.interests.interests import ChannelInterest as ChannelInterest
from coldnotify._core.interests.interests import (
    Interest,
    QueryInterest,
    ShareInterest,
    channel_by,
    channels_by,
    prefix_of,
    query_of,
    share_by,
)
from coldnotify._core.interests.since import since_of
from coldnotify._core.publishing.outgoing import Outgoing, check_frame, message_of, patch_of, version_of
from coldnotify._core.publishing.patches import Patch
from coldnotify._core.publishing.publications import Publications
from coldnotify._core.settings import NEWEST_BYTES_MAX, REPORTS_MAX, ClientSettings
from coldnotify._core.shares.share_member import LEASE_S, KeptShare
from coldnotify._core.wishes import Wishes
from coldnotify._forked import Owner, in_children
from coldnotify._outbox.outbox_base import Pending
from coldnotify._outbox.session_publishing import Publication, SessionPublishing
from coldnotify._payload_first import payload_first
from coldnotify._registration import Channel, ChannelShare, QueryRegistration, Registration, Subscriber, Subscription
from coldnotify._run import NotifyRun, OnError
from coldnotify._tls import ContextKeeper
from coldnotify.connection import Connection, check_seconds
from coldnotify.errors import StateDamaged, StateMismatch
from coldnotify.handed_message import HandedMessage
from coldnotify.notification import Notification
from coldnotify.shared_link import Link
from coldnotify.state import State

PUBLISHES_WAITING_MAX = 10_000
PUBLISHES_WAITING_BYTES_MAX = 16 * 1024 * 1024
"""Publishes of a device that is away for long: in memory, or in its outbox."""
GATHER_PART = 10
"""Floors and cursor wait for this part of an interval for those of other groups in the same state file."""
PREFETCH_WEB = 16
"""Prefetch of a client whose line costs nothing."""
_ID_BYTES = 12
"""Random, of a message's id."""


class NotifyShell:
    """The part of `Notify` that both forms have. Its methods may be called from any thread. In a child of fork() all
    raise UsedAfterFork once it was connected, or has published; disconnect() does nothing there."""

    _shared_message: Callable[..., HandedMessage]
    """Makes the form of a share's message that callbacks are called with."""

    def __init__(
        self,
        domain: str,
        group_id: str,
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
        outbox: str | os.PathLike[str] | None = None,
        outbox_max_records: int = PUBLISHES_WAITING_MAX,
        outbox_max_bytes: int = PUBLISHES_WAITING_BYTES_MAX,
    ) -> None:
        """A client of the group `group_id` of `domain`. Nothing is opened or connected yet.

        `on_error` is called, where callbacks run, with every problem that would otherwise go unnoticed (see
        `coldnotify.errors`). A callback that raises is tried `tries_max` times, after `retry_min_s` doubling up to
        `retry_max_s`; then its object is parked. Applied versions are written to the state file at most every
        `save_interval_s`. `newest_bytes_max`: limit on the notifications kept for `current`, in memory and in the state
        file; 0: none. `say_errors`: the ledger shows the first line of a callback's error; False: only that it failed.
        `outbox`: a directory for this client alone, in which publish() and send() make durable what they accept; None:
        it waits in memory. At most `outbox_max_records` and `outbox_max_bytes` wait. Raises ValueError, whose message
        begins with the argument's name.
        """
        check_name("domain", domain)
        check_name("group_id", group_id)
        check_name("client_id", client_id)
        if isinstance(tries_max, bool) or not isinstance(tries_max, int) or tries_max < 1:
            raise ValueError(f"tries_max: {tries_max!r} is not a whole number from 1 on")
        if isinstance(newest_bytes_max, bool) or not isinstance(newest_bytes_max, int) or newest_bytes_max < 0:
            raise ValueError(f"newest_bytes_max: {newest_bytes_max!r} is not a whole number from 0 on")
        for name, value in (
            ("retry_min_s", retry_min_s),
            ("retry_max_s", retry_max_s),
            ("save_interval_s", save_interval_s),
        ):
            check_seconds(name, value)
        self._identity = ClientIdentity(domain, group_id, client_id)
        self._state = state
        if isinstance(connection, Link):
            connection = connection.connection
        self._connection = Connection() if connection is None else connection
        self._settings = ClientSettings(
            connect_timeout_s=self._connection.connect_timeout_s,
            keepalive_s=self._connection.chosen_keepalive_s(),
            fresh_s=self._connection.fresh_s,
            silence_grace_s=self._connection.chosen_silence_grace_s(),
            request_timeout_s=self._connection.request_timeout_s,
            ack_delay_s=self._connection.ack_delay_s,
            backoff_min_s=self._connection.backoff_min_s,
            backoff_max_s=self._connection.backoff_max_s,
            address_rest_s=self._connection.address_rest_s,
            displaced_min_s=self._connection.displaced_min_s,
            displaced_max_s=self._connection.displaced_max_s,
            tries_max=tries_max,
            retry_min_s=retry_min_s,
            retry_max_s=retry_max_s,
            say_errors=say_errors,
            save_interval_s=save_interval_s,
            gather_s=save_interval_s / GATHER_PART if state.shared else 0.0,
            newest_bytes_max=newest_bytes_max,
        )
        self._contexts = ContextKeeper()
        self._on_error = on_error
        self._lock = threading.RLock()
        self._driver: Driver | None = None
        self._ended_driver: Driver | None = None
        """The driver of the last run, whose knowledge can be read until the next one."""
        self._run: NotifyRun | None = None
        """There while `_driver` is."""
        self._wishes = Wishes()
        self._subscribers: dict[int, Subscriber] = {}
        self._next_subscriber = 1
        self._untold: deque[Exception] = deque(maxlen=REPORTS_MAX)
        if outbox is not None and not os.fspath(outbox):
            raise ValueError("outbox: is empty")
        for name, limit in (("outbox_max_records", outbox_max_records), ("outbox_max_bytes", outbox_max_bytes)):
            if limit < 1:
                raise ValueError(f"{name}: {limit!r} is less than 1")
        self._outbox = outbox
        self._outbox_limits = outbox_max_records, outbox_max_bytes
        self._publications = Publications()
        self._publishing: SessionPublishing | None = None
        self._publishing_lock = threading.Lock()
        """Guards `_publishing`; `_lock` is not taken within it."""
        self._owner = self._owned()
        in_children(self)

    def _owned(self) -> Owner:
        identity = self._identity
        what = f"Notify of {identity.domain}/{identity.group}/{identity.client}"
        return Owner(what, "make another one in this process, of another client and with a state file of its own")

    def forked(self) -> None:
        """In a child, a client that was never connected and has published nothing becomes the child's own. Nobody holds
        its locks.
        """
        if self._run is None and self._publishing is None:
            self._lock, self._publishing_lock = threading.RLock(), threading.Lock()
            self._owner = self._owned()

    # What the application asks for

    def register(self, object_id: str) -> Registration:
        """Registers for the newest version of this object, at once, or as soon as there is a connection.

        Registering again changes nothing and costs nothing. Raises ValueError for an invalid name.
        """
        self._owner.check()
        check_object(object_id)
        with self._lock:
            self._asked.register(object_id)
        self._wake()
        return Registration(self, object_id)

    def unregister(self, object_id: str) -> None:
        """Unregisters this object: its subscriptions end, the service is told. Raises ValueError
        for an invalid name.
        """
        self._unregister(check_object(object_id))

    def register_only(self, object_ids: Iterable[str]) -> list[Registration]:
        """Want exactly these objects by their names: the others are unregistered. Queries and channels stay. Raises
        ValueError, before anything is changed."""
        self._owner.check()
        if isinstance(object_ids, str):
            raise ValueError("object_ids: is one text, not several")
        names = [check_object(name) for name in object_ids]
        with self._lock:
            self._asked.register_only(set(names))
            if self._ended_driver is not None:
                self._ended_driver.application.register_only(names)
            self._unsubscribe_all(lambda interest: isinstance(interest, str) and interest not in names)
        self._wake()
        return [Registration(self, name) for name in names]

    def register_query(self, text: str, *, descriptions: bool = False) -> QueryRegistration:
        """Registers for the objects of the group that match this query, and for the newest version of each.

        The service parses it. If the service refuses it, `on_error` gets a RegistrationRefused that names the place of
        the error, and nothing stays registered. `descriptions`: notifications contain the object's description, and a
        member whose description changes is told again. Registering again changes only that. Raises ValueError if the
        text is empty or too long.
        """
        return self._register_query(query_of(text), descriptions)

    def register_prefix(self, prefix: str, *, descriptions: bool = False) -> QueryRegistration:
        """Want all objects whose names begin with `prefix`: the query NAME STARTS WITH. `descriptions`: as for
        `register_query`. Raises ValueError for a prefix that is empty or too long."""
        return self._register_query(prefix_of(prefix), descriptions)

    def unregister_query(self, text: str) -> None:
        """Unregisters this query: its subscriptions end, the service is told. Raises ValueError if the text is empty or
        too long.
        """
        self._unregister(query_of(text))

    @overload
    def channel(
        self, name: str, *, since: str | datetime = "now", attributes: Iterable[str] = (), share: None = None
    ) -> Channel: ...
    @overload
    def channel(
        self,
        name: str,
        *,
        since: str | datetime = "now",
        attributes: Iterable[str] = (),
        share: str,
        lease_s: int | None = None,
        prefetch: int | None = None,
    ) -> ChannelShare: ...
    def channel(
        self,
        name: str,
        *,
        since: str | datetime = "now",
        attributes: Iterable[str] = (),
        share: str | None = None,
        lease_s: int | None = None,
        prefetch: int | None = None,
    ) -> Channel | ChannelShare:
        """Subscribes to every message of this channel; or, with `share`, becomes a member of this share of it: of its
        messages, each is handed to one member.

        `since` is the beginning: "now", "oldest" (what the log still has), "newest" (with the newest message), a
        datetime with a time zone, or the `position` of a message: after that one. It counts once: an existing
        subscription continues from its position. `attributes`: only messages that are sent to one of these, or to all.
        Each name has one set of attributes, the last one passed.

        Of a share, the first member decides where it begins, and its attributes; others have to say the same.
        `lease_s`: after so long without a connection a message may be handed to another member (seconds, 3 to 43,200);
        None: 30.
        `prefetch`: so many messages at most are handed to this client before it has settled some (1 to 1,000); None: 16
        with the profile "web", else 1. Raises ValueError, which names the argument.
        """
        if share is None:
            if lease_s is not None or prefetch is not None:
                raise ValueError("share: is missing, and lease_s and prefetch are of one")
            return self._channel(channel_by(name, attributes), since)
        interest = share_by(share, name, attributes)
        lease_s = LEASE_S if lease_s is None else lease_s
        if prefetch is None:
            prefetch = PREFETCH_WEB if self._connection.profile == "web" else 1
        _check_whole("lease_s", lease_s, LEASE_S_MIN, LEASE_S_MAX)
        _check_whole("prefetch", prefetch, 1, PREFETCH_MAX)
        self._owner.check()
        kept = KeptShare(since=since_of(since), lease_s=lease_s, prefetch=prefetch)
        with self._lock:
            self._asked.register_share(interest, kept)
        self._wake()
        return ChannelShare(self, interest)

    def channels(
        self, prefix: str = "", *, pattern: str = "", since: str | datetime = "now", attributes: Iterable[str] = ()
    ) -> Channel:
        """Subscribes to every message of all channels of the group whose names begin with `prefix`, or in whose names
        `pattern` is found, a regular expression as RE2 has it; also of channels that come later. It is one
        subscription, whose messages say their channels, in the order of the log. The rest as for `channel`. Raises
        ValueError, which names the argument.
        """
        return self._channel(channels_by(prefix, pattern, attributes), since)

    def unregister_channel(self, name: str, *, share: str | None = None) -> None:
        """Unsubscribes from this channel: its subscriptions end, the service is told. `share`: ends the membership in
        this share of it instead. Raises ValueError for an invalid name.
        """
        if share is None:
            self._unregister_channel(channel_by(name))
            return
        self._owner.check()
        interest = share_by(share, name)
        with self._lock:
            self._asked.unregister_share(name, share)
            self._unsubscribe_all(lambda other: isinstance(other, ShareInterest) and other[:2] == interest[:2])
        self._wake()

    def unregister_channels(self, prefix: str = "", *, pattern: str = "") -> None:
        """Unsubscribes from all channels of this prefix or pattern, as it was given to `channels`. Raises ValueError
        for an invalid one.
        """
        self._unregister_channel(channels_by(prefix, pattern))

    def _channel(self, interest: ChannelInterest, since: str | datetime) -> Channel:
        self._owner.check()
        begins = since_of(since)
        with self._lock:
            self._asked.register_channel(interest, begins)
        self._wake()
        return Channel(self, interest)

    def _unregister_channel(self, channel: ChannelInterest) -> None:
        self._owner.check()
        name = channel.name
        with self._lock:
            self._asked.unregister_channel(name)
            self._unsubscribe_all(lambda other: isinstance(other, ChannelInterest) and other.name == name)
        self._wake()

    # Publishing

    @overload
    def publish(
        self,
        object_id: str,
        payload: object = None,
        *,
        version: int | None = None,
        deleted: bool = False,
        expires_at: int | None = None,
        priority: str | None = None,
        description: Patch | None = None,
        acknowledged: Literal[True] = True,
    ) -> Publication: ...
    @overload
    def publish(
        self,
        object_id: str,
        payload: object = None,
        *,
        version: int | None = None,
        deleted: bool = False,
        expires_at: int | None = None,
        priority: str | None = None,
        description: Patch | None = None,
        acknowledged: bool,
    ) -> Publication | None: ...
    @payload_first
    def publish(
        self,
        object_id: str,
        payload: object = None,
        *,
        version: int | None = None,
        deleted: bool = False,
        expires_at: int | None = None,
        priority: str | None = None,
        description: Patch | None = None,
        acknowledged: bool = True,
    ) -> Publication | None:
        """Publishes a version of an object of this client's group, on its session; now, or once there is one.

        Returns once it is accepted; with an outbox, once it is durable there. It is sent until the service answers.
        `payload`: bytes, or any JSON value, with all fields at most 32 KiB; the service has its own limit, 4 KiB by
        default, and rejects what is above it. `version`: None: the time in ms, or above the newest version known here.
        `expires_at`: Unix time in ms. A newer publish of the object replaces one that waits. The other clients are
        told, not this one. `priority`: "high" is told them before what waits for them. `description`: as in
        describe(), in force before they are told; where it is refused, so is the version. `acknowledged=False`: at
        most once, in the present session, and None is returned. Raises ValueError, OutboxFull, OutboxError.
        """
        identity = self._identity
        outgoing = version_of(
            identity.domain,
            identity.group,
            object_id,
            version,
            payload,
            deleted=deleted,
            expires_at=expires_at,
            priority=priority,
            description=description,
        )
        return self._publish(outgoing, acknowledged=acknowledged)

    def describe(self, object_id: str, description: Patch) -> Publication:
        """Merges these keys into the description of an object of this client's group, and removes those with the value
        None; on its session, in the order of its publishes, and in the same way. Patches of one object that wait become
        one. Raises ValueError, OutboxFull, OutboxError.
        """
        identity = self._identity
        outgoing = patch_of(identity.domain, identity.group, object_id, description)
        self._owner.check()
        check_frame(outgoing)
        return self._open_publishing().accept(outgoing, 0)

    @overload
    def send(
        self,
        channel: str,
        payload: object,
        *,
        id: str | None = None,
        to: Iterable[str] = (),
        expires_at: int | None = None,
        priority: str | None = None,
        key: str | None = None,
        acknowledged: Literal[True] = True,
    ) -> Publication: ...
    @overload
    def send(
        self,
        channel: str,
        payload: object,
        *,
        id: str | None = None,
        to: Iterable[str] = (),
        expires_at: int | None = None,
        priority: str | None = None,
        key: str | None = None,
        acknowledged: bool,
    ) -> Publication | None: ...
    def send(
        self,
        channel: str,
        payload: object,
        *,
        id: str | None = None,  # noqa: A002  (the field's name)
        to: Iterable[str] = (),
        expires_at: int | None = None,
        priority: str | None = None,
        key: str | None = None,
        acknowledged: bool = True,
    ) -> Publication | None:
        """Sends a message to a channel of this client's group, in the same way. `payload`: bytes, or any JSON value.
        `id`: None: a new one; a repeat has the same. `to`: only subscriptions with one of these attributes are told it.
        `priority`: "high" moves what waits of this channel for a client in front of what waits of others. `key`: of
        messages with one key, members of a share are handed one after the other, in order.
        """
        identity = self._identity
        outgoing = message_of(
            identity.domain,
            identity.group,
            channel,
            payload,
            id=secrets.token_hex(_ID_BYTES) if id is None else id,
            to=to,
            expires_at=expires_at,
            priority=priority,
            key=key,
        )
        return self._publish(outgoing, acknowledged=acknowledged)

    def pending(self) -> Pending:
        """Returns how many publishes wait for answers, and for how long. Raises OutboxError."""
        self._owner.check()
        return self._open_publishing().pending()

    def _publish(self, outgoing: Outgoing, *, acknowledged: bool) -> Publication | None:
        self._owner.check()
        check_frame(outgoing)
        if acknowledged:
            with self._lock:
                floor = -1 if self._driver is None else self._driver.application.floor(outgoing.name)
            return self._open_publishing().accept(outgoing, floor + 1)
        with self._lock:
            if self._driver is not None and self._driver.connected:
                now_ms = time.time_ns() // 1_000_000
                if outgoing.is_version and outgoing.version is None:
                    version = max(now_ms, self._driver.application.floor(outgoing.name) + 1)
                    outgoing = outgoing._replace(version=version, clock_ms=now_ms if version == now_ms else None)
                if outgoing.expires_at is not None and outgoing.clock_ms is None:
                    outgoing = outgoing._replace(clock_ms=now_ms)
                self._publications.say_once(outgoing)
        self._wake()
        return None

    def _open_publishing(self) -> SessionPublishing:
        opened: SessionPublishing | None = None
        with self._publishing_lock:
            if self._publishing is None:
                identity, (records_max, bytes_max) = self._identity, self._outbox_limits
                opened = self._publishing = SessionPublishing(
                    self._publications,
                    self._lock,
                    self._wake,
                    self._outbox,
                    (identity.domain, identity.group),
                    records_max,
                    bytes_max,
                    self._tell_later,
                )
            publishing = self._publishing
        if opened is not None and opened.damage is not None:
            self._tell_later(opened.damage)
        return publishing

    def _close_publishing(self) -> None:
        """Drops publishes that wait in memory, and keeps those in an outbox."""
        with self._publishing_lock:
            publishing, self._publishing = self._publishing, None
        if publishing is not None:
            publishing.close()

    def _tell_later(self, error: Exception) -> None:
        NotifyRun.report(error)
        with self._lock:
            self._untold.append(error)
        self._wake()

    def _register_query(self, query: QueryInterest, descriptions: bool) -> QueryRegistration:
        self._owner.check()
        with self._lock:
            asked = self._asked
            asked.register(query)
            asked.ask_descriptions(query, wanted=descriptions)
        self._wake()
        return QueryRegistration(self, query)

    def _unregister(self, interest: Interest) -> None:
        self._owner.check()
        with self._lock:
            self._asked.unregister(interest)
            if self._ended_driver is not None:
                self._ended_driver.application.unregister(interest)
            self._unsubscribe_all(lambda other: other == interest)
        self._wake()

    @property
    def _asked(self) -> Application | Wishes:
        """Takes the application's requests: the client that runs, or the notes for the next one."""
        return self._wishes if self._driver is None else self._driver.application

    @property
    def _readable(self) -> Application | None:
        """Knows what the application has been told: the client that runs, or the last one."""
        driver = self._driver or self._ended_driver
        return None if driver is None else driver.application

    def _current(self, object_id: str) -> Notification | None:
        self._owner.check()
        with self._lock:
            readable = self._readable
            known = None if readable is None else readable.current(object_id)
        return None if known is None else replace(known, group=self._identity.group)

    def _members(self, query: QueryInterest) -> frozenset[str]:
        self._owner.check()
        with self._lock:
            readable = self._readable
            return frozenset() if readable is None else readable.members(query)

    def _knows_members(self, query: QueryInterest) -> bool:
        self._owner.check()
        with self._lock:
            readable = self._readable
            return readable is not None and readable.knows_members(query)

    def _descriptions(self, query: QueryInterest) -> dict[str, dict[str, Any] | None]:
        self._owner.check()
        with self._lock:
            readable = self._readable
            return {} if readable is None else readable.descriptions(query)

    def _subscribe(self, *subscribers: Subscriber) -> Subscription:
        self._owner.check()
        for one in subscribers:
            if not callable(one.callback):
                raise ValueError(f"{one.parameter}: {one.callback!r} cannot be called")
        numbers = []
        with self._lock:
            # Who is told what is missed comes first: it may be told at once.
            for one in reversed(subscribers):
                numbers.append(self._next_subscriber)
                self._subscribers[self._next_subscriber] = one
                if self._driver is not None:
                    _join(self._driver.application, self._next_subscriber, one)
                self._next_subscriber += 1
        self._wake()
        return Subscription(self, *numbers)

    def _unsubscribe(self, number: int) -> None:
        self._owner.check()
        with self._lock:
            subscriber = self._subscribers.pop(number, None)
            if subscriber is not None and self._driver is not None:
                if isinstance(subscriber.interest, QueryInterest) and subscriber.members:
                    self._driver.application.unsubscribe_members(subscriber.interest, number)
                elif isinstance(subscriber.interest, ChannelInterest | ShareInterest) and subscriber.missed:
                    self._driver.application.unsubscribe_missed(subscriber.interest, number)
                elif isinstance(subscriber.interest, ShareInterest) and subscriber.lost:
                    self._driver.application.unsubscribe_lost(subscriber.interest, number)
                else:
                    self._driver.application.unsubscribe(subscriber.interest, number)
        self._wake()

    def _unsubscribe_all(self, ends: Callable[[Interest], bool]) -> None:
        for number in [number for number, one in self._subscribers.items() if ends(one.interest)]:
            self._unsubscribe(number)

    def _callback(self, number: int) -> Callable[..., object] | None:
        """The callback of this subscriber, unless it has been disposed of."""
        with self._lock:
            subscriber = self._subscribers.get(number)
            return None if subscriber is None else subscriber.callback

    # Looking in

    @property
    def connected(self) -> bool:
        """True if there is a session: the service has answered."""
        self._owner.check()
        with self._lock:
            return self._driver is not None and self._driver.connected

    @property
    def caught_up(self) -> bool:
        """True if everything owed has been told, and all callbacks have returned."""
        self._owner.check()
        with self._lock:
            return self._run is not None and self._run.caught_up()

    @property
    def status(self) -> Status:
        """The client's status."""
        self._owner.check()
        with self._lock:
            return STOPPED if self._run is None else self._run.status()

    def network_changed(self) -> None:
        """Call it when the machine has another network: the connection is in doubt, a try that waits comes now, and
        pauses are short again. No effect on a client that does not run.
        """
        self._owner.check()
        with self._lock:
            run = self._run
        if run is not None:
            run.network_changed()

    # For the two forms

    def _wake(self) -> None:
        """Something has changed: whoever sleeps is to look."""
        raise NotImplementedError

    def _begin(self) -> NotifyRun:
        """Take the state file, and make a driver of it. Raises StateError, ValueError."""
        if self._outbox is not None:
            self._open_publishing()
        context = self._contexts.context(self._connection)
        gateways = self._connection.gateways()
        self._state.open()
        try:
            document = self._document()

            def new_driver(now: float) -> Driver:
                own = self._untold, self._publications
                return Driver(document, gateways, self._settings, random.Random(), now, *own)

            run = NotifyRun(
                new_driver,
                self._identity,
                self._lock,
                self._state,
                self._connection,
                context,
                self._callback,
                self._on_error,
                self._ended,
                self._wake,
                self._owner,
                self._shared_message,
            )
            with self._lock:
                self._wishes.apply(run.driver.application)
                self._wishes = Wishes()
                for number, subscriber in self._subscribers.items():
                    _join(run.driver.application, number, subscriber)
                self._driver, self._run = run.driver, run
                self._ended_driver = None
        except BaseException:
            self._state.close()
            raise
        return run

    def connect_through(self, connection: Connection) -> None:
        """The next start is over this one: a link's."""
        self._connection = connection

    def save_along(self) -> tuple[NotifyRun, Save] | None:
        """Returns what is to be written with another group's document, and who is to be told of it."""
        with self._lock:
            run = self._run
            save = None if run is None else run.save_along()
        return None if run is None or save is None else (run, save)

    def _ended(self) -> None:
        self._ended_driver, self._driver, self._run = self._driver, None, None

    def _document(self) -> Document:
        try:
            data = self._state.read()
            return Document(identity=self._identity) if data is None else decode(data, self._identity)
        except StateDamaged as error:
            aside = self._state.set_aside()
            report = StateDamaged(f"{self._state}: {error}; it is kept as {aside}")
            NotifyRun.report(report)
            self._untold.append(report)
            return Document(identity=self._identity)
        except StateMismatch as error:
            raise StateMismatch(f"{self._state}: {error}") from None


def _check_whole(name: str, value: int, least: int, most: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ValueError(f"{name}: {value!r} is not a whole number from {least} to {most}")


def _join(application: Application, number: int, subscriber: Subscriber) -> None:
    """The client counts with this callback from now on."""
    if isinstance(subscriber.interest, QueryInterest) and subscriber.members:
        application.subscribe_members(subscriber.interest, number)
    elif isinstance(subscriber.interest, ChannelInterest | ShareInterest) and subscriber.missed:
        application.subscribe_missed(subscriber.interest, number)
    elif isinstance(subscriber.interest, ShareInterest) and subscriber.lost:
        application.subscribe_lost(subscriber.interest, number)
    else:
        application.subscribe(subscriber.interest, number)


STOPPED = Status(
    phase="stopped",
    address=None,
    caught_up=False,
    registrations=0,
    pending=0,
    waiting=0,
    parked=(),
    epoch=None,
    cursor=None,
    last_problem=None,
    next_connect_s=None,
)
"""The status of a client that is not connected: the state file is closed, so its counts are not known."""
