"""ColdNotify for Python: the client of an observation unit here, a back-end's publisher in `coldnotify.publisher`.

    from coldnotify import Notify, State, Connection
    notify = Notify(domain='animal.observer', group_id='region-1', client_id='observer-1',
                    state=State(filename='registration-state.json'),
                    connection=Connection(address='localhost', port=55000))
    notify.connect()
    notify.register('camera-config').subscribe(lambda n: update_camera_config(n))
    lamps = notify.register_query('Room = 410 AND Kind = "lamp"')
    lamps.subscribe_members(lambda added, removed: show(added, removed))
    lamps.subscribe(lambda n: switch(n.object_id, n.payload))
    ...
    notify.disconnect()

`coldnotify.aio` has the same for asyncio, `coldnotify.errors` all that can go wrong, `coldnotify.testing` a service
to test against.
"""

from coldnotify._core.client import Status
from coldnotify._registration import QueryRegistration, Registration, Subscription
from coldnotify._threaded_notify import Notify
from coldnotify.connection import Connection
from coldnotify.errors import (
    CallbackFailed,
    ColdNotifyError,
    MembersCallbackFailed,
    ObjectParked,
    PayloadUnreadable,
    QueriesUnknown,
    QueryParked,
    RegistrationRefused,
    ServiceRefused,
    StateDamaged,
    StateError,
    StateInUse,
    StateMismatch,
)
from coldnotify.notification import Notification
from coldnotify.state import State

__all__ = [
    "CallbackFailed",
    "ColdNotifyError",
    "Connection",
    "MembersCallbackFailed",
    "Notification",
    "Notify",
    "ObjectParked",
    "PayloadUnreadable",
    "QueriesUnknown",
    "QueryParked",
    "QueryRegistration",
    "Registration",
    "RegistrationRefused",
    "ServiceRefused",
    "State",
    "StateDamaged",
    "StateError",
    "StateInUse",
    "StateMismatch",
    "Status",
    "Subscription",
]
