"""Registrations as reactivex Observables. Needs the extra coldnotify[reactivex]."""

from typing import TYPE_CHECKING

from coldnotify.notification import Notification

if TYPE_CHECKING:
    from coldnotify._shell import Registration

try:
    import reactivex
    from reactivex import abc
    from reactivex.disposable import Disposable
except ImportError as error:
    raise ImportError(
        "observable() needs the package reactivex: pip install 'coldnotify[reactivex]', or use subscribe()"
    ) from error


def observable(registration: "Registration") -> "reactivex.Observable[Notification]":
    """Every subscriber is told each newer version, on the thread that runs callbacks; it never completes.

    An observer that raises counts like a callback that raises: it is told again.
    """

    def subscribe(observer: abc.ObserverBase[Notification], _: abc.SchedulerBase | None = None) -> abc.DisposableBase:
        return Disposable(registration.subscribe(observer.on_next).dispose)

    return reactivex.create(subscribe)
