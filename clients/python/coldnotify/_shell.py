"""What the sync and the asyncio form of `Notify` have in common: everything but threads, sockets and tasks."""

import random
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable

from coldnotify_schemas.names import check_name, check_object

from coldnotify._core.document import Document, decode
from coldnotify._core.driver import Driver, Status
from coldnotify._core.interests import Interest, Query, prefix_of, query_of
from coldnotify._core.session import Identity
from coldnotify._core.settings import REPORTS_MAX, Settings
from coldnotify._core.wishes import Wishes
from coldnotify._registration import QueryRegistration, Registration, Subscriber, Subscription
from coldnotify._run import OnError, Run
from coldnotify._tls import ContextKeeper
from coldnotify.connection import Connection, check_seconds
from coldnotify.errors import StateDamaged, StateMismatch
from coldnotify.state import State


class Shell:
    """The part of `Notify` that both forms share. Its methods may be called from any thread."""

    def __init__(
        self,
        domain: str,
        group_id: str,
        client_id: str,
        state: State,
        connection: Connection | None = None,
        *,
        on_error: OnError | None = None,
        tries_max: int = 5,
        retry_min_s: float = 1.0,
        retry_max_s: float = 60.0,
        save_interval_s: float = 0.5,
    ) -> None:
        """A client of the group `group_id` of `domain`. Nothing is opened or connected yet.

        `on_error` is called with every problem that nobody else would hear of (see `coldnotify.errors`), where
        callbacks are. A callback that raises is tried `tries_max` times, after `retry_min_s` doubling up to
        `retry_max_s`; then its object is parked. Applied versions are written to the state file at most every
        `save_interval_s`. Raises ValueError, whose message begins with the argument's name.
        """
        check_name("domain", domain)
        check_name("group_id", group_id)
        check_name("client_id", client_id)
        if isinstance(tries_max, bool) or not isinstance(tries_max, int) or tries_max < 1:
            raise ValueError(f"tries_max: {tries_max!r} is not a whole number from 1 on")
        for name, value in (
            ("retry_min_s", retry_min_s),
            ("retry_max_s", retry_max_s),
            ("save_interval_s", save_interval_s),
        ):
            check_seconds(name, value)
        self._identity = Identity(domain, group_id, client_id)
        self._state = state
        self._connection = Connection() if connection is None else connection
        self._settings = Settings(
            connect_timeout_s=self._connection.connect_timeout_s,
            keepalive_s=self._connection.keepalive_s,
            silence_grace_s=self._connection.silence_grace_s,
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
            save_interval_s=save_interval_s,
        )
        self._contexts = ContextKeeper()
        self._on_error = on_error
        self._lock = threading.RLock()
        self._driver: Driver | None = None
        self._wishes = Wishes()
        self._subscribers: dict[int, Subscriber] = {}
        self._next_subscriber = 1
        self._untold: deque[Exception] = deque(maxlen=REPORTS_MAX)

    # What the application asks for

    def register(self, object_id: str) -> Registration:
        """Want to be told the newest version of this object. At once, or as soon as there is a connection.

        Registering what is registered already changes nothing and costs nothing. Raises ValueError for what is no name.
        """
        check_object(object_id)
        with self._lock:
            (self._driver or self._wishes).register(object_id)
        self._wake()
        return Registration(self, object_id)

    def unregister(self, object_id: str) -> None:
        """Want this object no more: its subscriptions end, the service is told. Raises ValueError for what is no
        name."""
        self._unregister(check_object(object_id))

    def register_only(self, object_ids: Iterable[str]) -> list[Registration]:
        """Want exactly these objects by their names: the others are unregistered. Queries stay as they are. Raises
        ValueError, before anything is changed."""
        if isinstance(object_ids, str):
            raise ValueError("object_ids: is one text, not several")
        names = [check_object(name) for name in object_ids]
        with self._lock:
            (self._driver or self._wishes).register_only(set(names))
            self._unsubscribe_all(lambda interest: isinstance(interest, str) and interest not in names)
        self._wake()
        return [Registration(self, name) for name in names]

    def register_query(self, text: str) -> QueryRegistration:
        """Want to be told which objects of the group this query describes, and the newest version of each.

        The service parses it. If it refuses it, `on_error` gets a RegistrationRefused that says where it is wrong, and
        nothing stays registered. Registering what is registered already changes nothing. Raises ValueError for a text
        that is empty or too long.
        """
        return self._register_query(query_of(text))

    def register_prefix(self, prefix: str) -> QueryRegistration:
        """Want all objects whose names begin with `prefix`: the query NAME STARTS WITH. Raises ValueError for a prefix
        that is empty or too long."""
        return self._register_query(prefix_of(prefix))

    def unregister_query(self, text: str) -> None:
        """Want this query's members no more: its subscriptions end, the service is told. Raises ValueError for a text
        that is empty or too long."""
        self._unregister(query_of(text))

    def _register_query(self, query: Query) -> QueryRegistration:
        with self._lock:
            (self._driver or self._wishes).register(query)
        self._wake()
        return QueryRegistration(self, query)

    def _unregister(self, interest: Interest) -> None:
        with self._lock:
            (self._driver or self._wishes).unregister(interest)
            self._unsubscribe_all(lambda other: other == interest)
        self._wake()

    def _members(self, query: Query) -> frozenset[str]:
        with self._lock:
            return frozenset() if self._driver is None else self._driver.members(query)

    def _subscribe(self, subscriber: Subscriber) -> Subscription:
        if not callable(subscriber.callback):
            raise ValueError(f"callback: {subscriber.callback!r} cannot be called")
        with self._lock:
            number = self._next_subscriber
            self._next_subscriber += 1
            self._subscribers[number] = subscriber
            if self._driver is not None:
                _join(self._driver, number, subscriber)
        self._wake()
        return Subscription(self, number)

    def _unsubscribe(self, number: int) -> None:
        with self._lock:
            subscriber = self._subscribers.pop(number, None)
            if subscriber is not None and self._driver is not None:
                if isinstance(subscriber.interest, Query) and subscriber.members:
                    self._driver.unsubscribe_members(subscriber.interest, number)
                else:
                    self._driver.unsubscribe(subscriber.interest, number)
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
        """Whether there is a session: the service has answered."""
        with self._lock:
            return self._driver is not None and self._driver.connected

    @property
    def caught_up(self) -> bool:
        """Whether everything owed has been told, and all callbacks have returned."""
        with self._lock:
            return self._driver is not None and self._driver.caught_up

    @property
    def status(self) -> Status:
        """What the client is doing."""
        with self._lock:
            if self._driver is None:
                return STOPPED
            return self._driver.status(time.monotonic())

    # For the two forms

    def _wake(self) -> None:
        """Something has changed: whoever sleeps is to look."""
        raise NotImplementedError

    def _begin(self) -> Run:
        """Take the state file, and make a driver of it. Raises StateError, ValueError."""
        context = self._contexts.context(self._connection)
        addresses = self._connection.addresses()
        self._state.open()
        try:
            document = self._document()
            driver = Driver(document, addresses, self._settings, random.Random(), time.monotonic(), self._untold)
            with self._lock:
                self._wishes.apply(driver)
                self._wishes = Wishes()
                for number, subscriber in self._subscribers.items():
                    _join(driver, number, subscriber)
                self._driver = driver
        except BaseException:
            self._state.close()
            raise
        connection, callback_of, on_error = self._connection, self._callback, self._on_error
        return Run(driver, self._lock, self._state, connection, context, callback_of, on_error, self._ended)

    def _ended(self) -> None:
        self._driver = None

    def _document(self) -> Document:
        data = self._state.read()
        if data is None:
            return Document(identity=self._identity)
        try:
            return decode(data, self._identity)
        except StateDamaged as error:
            aside = self._state.set_aside()
            report = StateDamaged(f"{self._state}: {error}; it is kept as {aside}")
            Run.report(report)
            self._untold.append(report)
            return Document(identity=self._identity)
        except StateMismatch as error:
            raise StateMismatch(f"{self._state}: {error}") from None


def _join(driver: Driver, number: int, subscriber: Subscriber) -> None:
    """The driver counts with this callback from now on."""
    if isinstance(subscriber.interest, Query) and subscriber.members:
        driver.subscribe_members(subscriber.interest, number)
    else:
        driver.subscribe(subscriber.interest, number)


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
"""The status of a client that is not connected: the state file is closed, so there is nothing to look at."""
