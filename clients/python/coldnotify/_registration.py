"""What an application holds of what it registered for: `Registration`, `QueryRegistration`, `Channel`."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from coldnotify._core.interests import Channel as ChannelInterest
from coldnotify._core.interests import Interest, Query
from coldnotify._run import Callback, MembersCallback, MessageCallback, MissedCallback

if TYPE_CHECKING:
    import reactivex

    from coldnotify.message import Message
    from coldnotify.notification import Notification


class Subscriber(NamedTuple):
    """A callback, and what it is told of."""

    interest: Interest
    callback: Callable[..., object]
    members: bool = False
    """It is told which objects enter and leave, not their versions."""
    missed: bool = False
    """It is told what is missed of a channel, not its messages."""


class Subscribers(Protocol):
    """Who keeps callbacks: a Shell."""

    def _subscribe(self, *subscribers: Subscriber) -> "Subscription": ...

    def _unsubscribe(self, number: int) -> None: ...

    def _members(self, query: Query) -> frozenset[str]: ...

    def _knows_members(self, query: Query) -> bool: ...

    def _descriptions(self, query: Query) -> dict[str, dict[str, Any] | None]: ...

    def _current(self, object_id: str) -> "Notification | None": ...


class Subscription:
    """A callback that is being told; until `dispose`."""

    def __init__(self, shell: Subscribers, *numbers: int) -> None:
        self._shell = shell
        self._numbers = numbers

    def dispose(self) -> None:
        """Call back no more. A call that is under way goes on. Any number of times."""
        for number in self._numbers:
            self._shell._unsubscribe(number)

    def __enter__(self) -> "Subscription":
        return self

    def __exit__(self, *_: object) -> None:
        self.dispose()


class Registration:
    """The interest in one object."""

    def __init__(self, shell: Subscribers, object_id: str) -> None:
        self._shell = shell
        self.object_id = object_id

    @property
    def current(self) -> "Notification | None":
        """What its callbacks were told last, also before a restart: the state file has it. None: they were told
        nothing yet, the client has not run yet, or there is no room for it (`newest_bytes_max` of `Notify`)."""
        return self._shell._current(self.object_id)

    def subscribe(self, callback: Callback) -> Subscription:
        """Tell `callback` every newer version from now on, and what has been waiting for a subscriber.

        A version counts as applied once all subscribers of its object have returned; one that raises is told again.
        """
        return self._shell._subscribe(Subscriber(self.object_id, callback))

    def observable(self) -> "reactivex.Observable[Notification]":
        """The same as a reactivex Observable. Raises ImportError without the extra coldnotify[reactivex]."""
        from coldnotify.rx import observable

        return observable(self)

    def __repr__(self) -> str:
        return f"Registration({self.object_id!r})"


class QueryRegistration:
    """The interest in all objects that a query describes."""

    def __init__(self, shell: Subscribers, query: Query) -> None:
        self._shell = shell
        self._query = query

    @property
    def query(self) -> str:
        """Its text."""
        return self._query.text

    @property
    def members(self) -> frozenset[str]:
        """Names of the objects that are members: as the members callbacks are told, or if there are none, as the
        service said. Empty until the client runs first; from then on what it knows, or knew when it was disconnected.
        """
        return self._shell._members(self._query)

    @property
    def members_known(self) -> bool:
        """Whether `members` are all there are, as of what the client was told last. False: the service has not said yet
        who all of them are, or is being asked again, or callbacks are still to be told; then `members` are those known
        so far, and an empty set does not say that there are none."""
        return self._shell._knows_members(self._query)

    @property
    def descriptions(self) -> dict[str, dict[str, Any] | None]:
        """How its members are described, by name, as the service said last; None: the object has no description. Empty
        unless the query was registered with `descriptions`, and until the client runs first."""
        return self._shell._descriptions(self._query)

    @property
    def current(self) -> "dict[str, Notification]":
        """As `Registration.current`, of each member that has it, by name."""
        found = ((name, self._shell._current(name)) for name in self.members)
        return {name: notification for name, notification in found if notification is not None}

    def subscribe(self, callback: Callback) -> Subscription:
        """Tell `callback` the newest version of each member, and every newer one while it is one.

        An object is told after the members callbacks were told that it has entered. One that was never published has no
        version, and is told to members callbacks only. An object in several queries, or registered by its name, too,
        comes once, and all of their callbacks are told. One that is deleted is told as that before it leaves.

        Of a query that was registered with `descriptions`, the notification says how the object is described. When only
        that changes, the same version is told again; one that was never published is told, too, without a version.
        """
        return self._shell._subscribe(Subscriber(self._query, callback))

    def subscribe_members(self, callback: MembersCallback) -> Subscription:
        """Tell `callback(added, removed)`, two sets of names, whenever objects enter and leave.

        It is told what changed since it was told last, also before a restart. After a crash it may be told the same
        once more. One that is subscribed once the client was caught up is told all members as added first; so is the
        first one ever. One that raises is told the same again.
        """
        return self._shell._subscribe(Subscriber(self._query, callback, members=True))

    def observable(self) -> "reactivex.Observable[Notification]":
        """What `subscribe` tells as a reactivex Observable. Raises ImportError without the extra
        coldnotify[reactivex]."""
        from coldnotify.rx import observable

        return observable(self)

    def __repr__(self) -> str:
        return f"QueryRegistration({self.query!r})"


class Channel:
    """The interest in every message of a channel."""

    def __init__(self, shell: Subscribers, channel: ChannelInterest) -> None:
        self._shell = shell
        self._channel = channel

    @property
    def name(self) -> str:
        """Of the channel."""
        return self._channel.name

    @property
    def attributes(self) -> frozenset[str]:
        """Of the subscription."""
        return frozenset(self._channel.attributes)

    def subscribe(self, callback: MessageCallback, *, on_missed: MissedCallback | None = None) -> Subscription:
        """Tell `callback` every message, in the order of the log, and `on_missed` between which messages others may be
        missing.

        A message counts as told once all subscribers of its channel have returned. One that raises is told the same
        again; then the channel is parked, which holds neither other channels nor objects. What is missed is told in
        front of the message that comes next. Without an `on_missed` it is reported as MessagesMissed.
        """
        told = [Subscriber(self._channel, callback)]
        if on_missed is not None:
            told.append(Subscriber(self._channel, on_missed, missed=True))
        return self._shell._subscribe(*told)

    def observable(self) -> "reactivex.Observable[Message]":
        """The messages as a reactivex Observable. What is missed is reported as MessagesMissed. Raises ImportError
        without the extra coldnotify[reactivex]."""
        from coldnotify.rx import observable

        return observable(self)

    def __repr__(self) -> str:
        return f"Channel({self.name!r})"
