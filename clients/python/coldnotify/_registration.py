"""What an application holds of what it registered for: `Registration`, `QueryRegistration`, `Subscription`."""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

from coldnotify._core.interests import Interest, Query
from coldnotify._run import Callback, MembersCallback

if TYPE_CHECKING:
    import reactivex

    from coldnotify.notification import Notification


class Subscriber(NamedTuple):
    """A callback, and what it is told of."""

    interest: Interest
    callback: Callable[..., object]
    members: bool = False
    """It is told which objects enter and leave, not their versions."""


class Subscribers(Protocol):
    """Who keeps callbacks: a Shell."""

    def _subscribe(self, subscriber: Subscriber) -> "Subscription": ...

    def _unsubscribe(self, number: int) -> None: ...

    def _members(self, query: Query) -> frozenset[str]: ...


class Subscription:
    """A callback that is being told; until `dispose`."""

    def __init__(self, shell: Subscribers, number: int) -> None:
        self._shell = shell
        self._number = number

    def dispose(self) -> None:
        """Call back no more. A call that is under way goes on. Any number of times."""
        self._shell._unsubscribe(self._number)

    def __enter__(self) -> "Subscription":
        return self

    def __exit__(self, *_: object) -> None:
        self.dispose()


class Registration:
    """The interest in one object."""

    def __init__(self, shell: Subscribers, object_id: str) -> None:
        self._shell = shell
        self.object_id = object_id

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
        service said. Empty while the client does not run."""
        return self._shell._members(self._query)

    def subscribe(self, callback: Callback) -> Subscription:
        """Tell `callback` the newest version of each member, and every newer one while it is one.

        An object is told after the members callbacks were told that it has entered. One that was never published has no
        version, and is told to members callbacks only. An object in several queries, or registered by its name, too,
        comes once, and all of their callbacks are told. One that is deleted is told as that before it leaves.
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
