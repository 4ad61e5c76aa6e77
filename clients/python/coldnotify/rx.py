"""Registrations as reactivex Observables. Needs the extra coldnotify[reactivex]."""

from collections.abc import Callable
from typing import Protocol

from coldnotify.notification import Notification

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


class Subscribable(Protocol):
    """Of a Registration."""

    def subscribe(self, callback: Callable[[Notification], object]) -> Disposal:
        """Tell `callback` every newer version."""


def observable(registration: Subscribable) -> "reactivex.Observable[Notification]":
    """Every subscriber is told each newer version, on the thread that runs callbacks; it never completes.

    An observer that raises counts like a callback that raises: it is told again.
    """

    def subscribe(observer: abc.ObserverBase[Notification], _: abc.SchedulerBase | None = None) -> abc.DisposableBase:
        return Disposable(registration.subscribe(observer.on_next).dispose)

    return reactivex.create(subscribe)
