"""The objects that an application holds: `Registration`, `QueryRegistration`, `Channel`, `ChannelShare`."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from coldnotify._core.interests.interests import ChannelInterest as ChannelInterest
from coldnotify._core.interests.interests import Interest, QueryInterest, ShareInterest
from coldnotify._run import (
    Callback,
    HandedCallback,
    LostCallback,
    MembersCallback,
    MessageCallback,
    MissedCallback,
)

if TYPE_CHECKING:
    import reactivex

    from coldnotify.leased_message import LeasedMessage
    from coldnotify.message import Message
    from coldnotify.notification import Notification


class Subscriber(NamedTuple):
    """A callback, and the interest that it is called for."""

    interest: Interest
    callback: Callable[..., object]
    members: bool = False
    """True if it is called when objects enter and leave, and not for their versions."""
    missed: bool = False
    """True if it is called for missed messages of a channel, and not for its messages."""
    lost: bool = False
    """True if it is called for messages of a share whose leases are lost, and not for those that are handed out."""

    @property
    def parameter(self) -> str:
        """The name of the parameter that it was given as."""
        return "on_missed" if self.missed else "on_lost" if self.lost else "callback"


class CallbackKeeper(Protocol):
    """Holds the callbacks: a Shell."""

    def _subscribe(self, *subscribers: Subscriber) -> "Subscription": ...

    def _unsubscribe(self, number: int) -> None: ...

    def _members(self, query: QueryInterest) -> frozenset[str]: ...

    def _knows_members(self, query: QueryInterest) -> bool: ...

    def _descriptions(self, query: QueryInterest) -> dict[str, dict[str, Any] | None]: ...

    def _current(self, object_id: str) -> "Notification | None": ...


class Subscription:
    """An active callback; `dispose` ends it."""

    def __init__(self, shell: CallbackKeeper, *numbers: int) -> None:
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

    def __init__(self, shell: CallbackKeeper, object_id: str) -> None:
        self._shell = shell
        self.object_id = object_id

    @property
    def current(self) -> "Notification | None":
        """The notification that its callbacks last handled, even before a restart: the state file contains it. None:
        they have handled none yet, the client has not run yet, or there was no room for it (`newest_bytes_max` of
        `Notify`).
        """
        return self._shell._current(self.object_id)

    def subscribe(self, callback: Callback) -> Subscription:
        """Calls `callback` with every newer version from now on, and with the one that has been waiting for a
        subscriber.

        A version counts as applied once all subscribers of its object have returned; a callback that raises is called
        again.
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

    def __init__(self, shell: CallbackKeeper, query: QueryInterest) -> None:
        self._shell = shell
        self._query = query

    @property
    def query(self) -> str:
        """Its text."""
        return self._query.text

    @property
    def members(self) -> frozenset[str]:
        """Names of the objects that are members: as members callbacks were told, or if there are none, as the service
        reported. Empty until the client first runs; after that, the present members, or those known when it was
        disconnected.
        """
        return self._shell._members(self._query)

    @property
    def members_known(self) -> bool:
        """True if `members` is complete, as of the last update. False: the service has not reported all members yet, or
        is being asked again, or callbacks are still to be called; then `members` contains those known so far, and an
        empty set does not mean that there are none.
        """
        return self._shell._knows_members(self._query)

    @property
    def descriptions(self) -> dict[str, dict[str, Any] | None]:
        """Its members' descriptions by name, as the service last reported them; None: the object has no description.
        Empty unless the query was registered with `descriptions`, and until the client first runs.
        """
        return self._shell._descriptions(self._query)

    @property
    def current(self) -> "dict[str, Notification]":
        """`Registration.current` of each member that has it, by name."""
        found = ((name, self._shell._current(name)) for name in self.members)
        return {name: notification for name, notification in found if notification is not None}

    def subscribe(self, callback: Callback) -> Subscription:
        """Calls `callback` with the newest version of each member, and with every newer one while it is a member.

        An object's version follows the members callbacks' report that it has entered. An object that was never
        published has no version, and is reported to members callbacks only. An object in several queries, or also
        registered by its name, comes once, and all of their callbacks are called. The deletion of an object is told
        before it leaves.

        If the query was registered with `descriptions`, the notification contains the object's description. When only
        that changes, the same version is told again; an object that was never published is told, too, without a
        version.
        """
        return self._shell._subscribe(Subscriber(self._query, callback))

    def subscribe_members(self, callback: MembersCallback) -> Subscription:
        """Calls `callback(added, removed)`, two sets of names, whenever objects enter and leave.

        It is told the changes since its last call, even across a restart. After a crash it may be told the same once
        more. A callback that is subscribed after the client was caught up is told all members as added first; so is the
        first one ever. One that raises is called again with the same sets.
        """
        return self._shell._subscribe(Subscriber(self._query, callback, members=True))

    def observable(self) -> "reactivex.Observable[Notification]":
        """Returns what `subscribe` tells as a reactivex Observable. Raises ImportError without the extra
        coldnotify[reactivex].
        """
        from coldnotify.rx import observable

        return observable(self)

    def __repr__(self) -> str:
        return f"QueryRegistration({self.query!r})"


class Channel:
    """The interest in every message of a channel, or of all channels that a pattern fits."""

    def __init__(self, shell: CallbackKeeper, channel: ChannelInterest) -> None:
        self._shell = shell
        self._channel = channel

    @property
    def name(self) -> str:
        """The channel's name, or the pattern's expression."""
        return self._channel.title

    @property
    def attributes(self) -> frozenset[str]:
        """The subscription's attributes."""
        return frozenset(self._channel.attributes)

    def subscribe(self, callback: MessageCallback, *, on_missed: MissedCallback | None = None) -> Subscription:
        """Calls `callback` with every message, in the order of the log, and `on_missed` with gaps in which messages may
        be missing.

        A message counts as told once all subscribers of its channel have returned. A callback that raises is called
        again with the same message; after too many failures the channel is parked, which delays neither other channels
        nor objects. A gap is told before the message that follows it. Without an `on_missed` it is reported as
        MessagesMissed.
        """
        told = [Subscriber(self._channel, callback)]
        if on_missed is not None:
            told.append(Subscriber(self._channel, on_missed, missed=True))
        return self._shell._subscribe(*told)

    def observable(self) -> "reactivex.Observable[Message]":
        """Returns the messages as a reactivex Observable. Missed ones are reported as MessagesMissed. Raises
        ImportError without the extra coldnotify[reactivex].
        """
        from coldnotify.rx import observable

        return observable(self)

    def __repr__(self) -> str:
        return f"Channel({self.name!r})"


class ChannelShare:
    """The membership in a share of a channel: of its messages, each is handed to one member."""

    def __init__(self, shell: CallbackKeeper, share: ShareInterest) -> None:
        self._shell = shell
        self._share = share

    @property
    def channel(self) -> str:
        """The channel's name."""
        return self._share.channel

    @property
    def name(self) -> str:
        """The share's name."""
        return self._share.share

    @property
    def attributes(self) -> frozenset[str]:
        """The share takes messages that are sent to one of these, and those that are sent to all."""
        return frozenset(self._share.attributes)

    def subscribe(
        self,
        callback: HandedCallback,
        *,
        on_missed: MissedCallback | None = None,
        on_lost: LostCallback | None = None,
    ) -> Subscription:
        """Calls `callback` with each message that this client is handed, one after another.

        Returning settles the message; raising gives it back, and `message.retry(after_s=...)` does so for a time. It
        stays in this client's hand while the callback runs, however long that takes, as long as there is a connection.
        If there is none for a lease's length, `on_lost` is called beside the callback that runs, in a thread of its own
        or on the event loop; without one it is reported as LeaseLost. `on_missed` is called with gaps in which messages
        may be missing; without one they are reported as MessagesMissed. Without any subscriber nothing is handed out
        to this client.
        """
        told = [Subscriber(self._share, callback)]
        if on_missed is not None:
            told.append(Subscriber(self._share, on_missed, missed=True))
        if on_lost is not None:
            told.append(Subscriber(self._share, on_lost, lost=True))
        return self._shell._subscribe(*told)

    def observable(self) -> "reactivex.Observable[LeasedMessage]":
        """Returns the messages as a reactivex Observable: an observer that returns settles one. Raises ImportError
        without the extra coldnotify[reactivex].
        """
        from coldnotify.rx import observable

        return observable(self)

    def __repr__(self) -> str:
        return f"ChannelShare({self.name!r} of {self.channel!r})"
