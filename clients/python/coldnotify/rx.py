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
    """Of a Subscription."""

    def dispose(self) -> None:
        """Call back no more."""


T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")


class Subscribable(Protocol[T_co]):
    """Of a Registration, a QueryRegistration, a Channel: each tells its callbacks a Notification, or a Message."""

    def subscribe(self, callback: Callable[[T_co], object]) -> Disposal:
        """Tell `callback` every newer version, or every message."""


def observable(registration: Subscribable[T]) -> "reactivex.Observable[T]":
    """Every subscriber is told each newer version or message, on the thread that runs callbacks; it never completes.

    An observer that raises counts like a callback that raises: it is told again.
    """

    def subscribe(observer: abc.ObserverBase[T], _: abc.SchedulerBase | None = None) -> abc.DisposableBase:
        return Disposable(registration.subscribe(observer.on_next).dispose)

    return reactivex.create(subscribe)
