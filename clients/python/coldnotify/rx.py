"""Registrations as reactivex Observables. Needs the extra coldnotify[reactivex]."""

from collections.abc import Callable
from typing import Protocol, TypeVar

try:
    import reactivex
    from reactivex import abc
    from reactivex.disposable import Disposable
except ImportError as error:
    raise ImportError(
        "observable() needs the package reactivex: pip install 'coldnotify[reactivex]', or use subscribe()"
    ) from error


class Disposal(Protocol):
    """The interface of a Subscription."""

    def dispose(self) -> None:
        """Call back no more."""


T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")


class Subscribable(Protocol[T_co]):
    """The interface of Registration, QueryRegistration and Channel, which call callbacks with a Notification or a
    Message.
    """

    def subscribe(self, callback: Callable[[T_co], object]) -> Disposal:
        """Tell `callback` every newer version, or every message."""


def observable(registration: Subscribable[T]) -> "reactivex.Observable[T]":
    """Returns an Observable that calls every subscriber with each newer version or message, on the thread of callbacks;
    it never completes.

    An observer that raises counts like a callback that raises: it is called again.
    """

    def subscribe(observer: abc.ObserverBase[T], _: abc.SchedulerBase | None = None) -> abc.DisposableBase:
        return Disposable(registration.subscribe(observer.on_next).dispose)

    return reactivex.create(subscribe)
