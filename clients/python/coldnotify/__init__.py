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
    tasks = notify.channel('tasks', since='oldest')
    tasks.subscribe(lambda m: do(m.payload), on_missed=lambda m: look_up(m.after, m.before))
    ...
    notify.disconnect()

`coldnotify.aio` has the same for asyncio, `coldnotify.errors` all that can go wrong, `coldnotify.testing` a service
to test against.
"""

from coldnotify._core.client import Status
from coldnotify._effect import Newest, Outcome
from coldnotify._outbox.outbox_base import Pending
from coldnotify._outbox.session_publishing import Publication
from coldnotify._registration import Channel, ChannelShare, QueryRegistration, Registration, Subscription
from coldnotify._threaded_notify import Notify
from coldnotify.connection import Connection
from coldnotify.errors import (
    CallbackFailed,
    ChannelCallbackFailed,
    ChannelParked,
    ChannelsUnknown,
    ColdNotifyError,
    DescriptionsUnknown,
    LeaseLost,
    MembersCallbackFailed,
    MessagesMissed,
    ObjectParked,
    OutboxDamaged,
    OutboxError,
    OutboxFull,
    OutboxInUse,
    PayloadUnreadable,
    PublishRefused,
    QueriesUnknown,
    QueryParked,
    RegistrationRefused,
    ServiceRefused,
    SharesUnknown,
    StateDamaged,
    StateError,
    StateInUse,
    StateMismatch,
    UsedAfterFork,
)
from coldnotify.leased_message import LeasedMessage
from coldnotify.message import Message, Missed, MissedReason
from coldnotify.notification import Notification
from coldnotify.notify_groups import NotifyGroups
from coldnotify.shared_link import Link
from coldnotify.state import State

__all__ = [
    "CallbackFailed",
    "Channel",
    "ChannelCallbackFailed",
    "ChannelParked",
    "ChannelShare",
    "ChannelsUnknown",
    "ColdNotifyError",
    "Connection",
    "DescriptionsUnknown",
    "LeaseLost",
    "LeasedMessage",
    "Link",
    "MembersCallbackFailed",
    "Message",
    "MessagesMissed",
    "Missed",
    "MissedReason",
    "Newest",
    "Notification",
    "Notify",
    "NotifyGroups",
    "ObjectParked",
    "OutboxDamaged",
    "OutboxError",
    "OutboxFull",
    "OutboxInUse",
    "Outcome",
    "PayloadUnreadable",
    "Pending",
    "Publication",
    "PublishRefused",
    "QueriesUnknown",
    "QueryParked",
    "QueryRegistration",
    "Registration",
    "RegistrationRefused",
    "ServiceRefused",
    "SharesUnknown",
    "State",
    "StateDamaged",
    "StateError",
    "StateInUse",
    "StateMismatch",
    "Status",
    "Subscription",
    "UsedAfterFork",
]
