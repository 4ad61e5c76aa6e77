"""The exceptions of this library, as the application sees them.

    ColdNotifyError
    |-- StateError                  the state file: cannot be read, written or locked
    |   |-- StateInUse              another process (or another Notify) uses it
    |   |-- StateMismatch           it belongs to another client
    |   `-- StateDamaged            it was damaged; it has been set aside       (reported)
    |-- OutboxError                 the outbox: cannot be read, written or locked
    |   |-- OutboxInUse             another process (or another publisher) uses it
    |   |-- OutboxFull              too much waits to be published
    |   `-- OutboxDamaged           parts of it cannot be read; they have been set aside (reported)
    |-- UsedAfterFork               a child process uses its parent's object: nothing was done
    |-- PublishRefused              the service refuses a publish for ever        (also reported)
    |-- CallbackFailed              a callback raised; it will be called again   (reported)
    |-- ObjectParked                its callbacks raised too often               (reported)
    |-- MembersCallbackFailed       a members callback raised; likewise          (reported)
    |-- QueryParked                 they raised too often                        (reported)
    |-- QueriesUnknown              the service is older and has no queries      (reported)
    |-- DescriptionsUnknown         the service is older and sends none          (reported)
    |-- ChannelCallbackFailed       a channel's callback raised; likewise        (reported)
    |-- ChannelParked               they raised too often                        (reported)
    |-- MessagesMissed              no callback is subscribed to gaps            (reported)
    |-- ChannelsUnknown             the service is older and has none            (reported)
    |-- SharesUnknown               the service is older and has none            (reported)
    |-- LeaseLost                   another client may have a share's message    (also reported)
    |-- ServiceStale                nothing proves any more that the client is current (reported)
    |-- ServiceFresh                it is proved again: the end of a ServiceStale (reported)
    |-- RegistrationRefused         the service refused a registration           (reported)
    |-- PayloadUnreadable           a payload is not JSON; None is told instead  (reported)
    `-- ServiceRefused              a close code that forbids coming back        (reported)

*reported* ones are never raised: they go to the `on_error` callback and to the logger "coldnotify". A StateError is
raised by connect() and reported afterwards. A network that is away is not an error; `Notify.status` shows it.
Wrong arguments raise ValueError, whose message begins with the name of the field or setting.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coldnotify.message import Missed


class ColdNotifyError(Exception):
    """Every error of this library but wrong arguments."""

    group = ""
    """The group whose client has it, where it is a client of several."""


class StateError(ColdNotifyError):
    """The state file cannot be read, written or locked.

    The message begins with the file's name.
    """


class StateInUse(StateError):
    """Another process, or another Notify of this process, uses the state file."""


class StateMismatch(StateError):
    """The state file belongs to another domain, group or client, or was written by a newer library."""


class StateDamaged(StateError):
    """The state file was damaged. It has been set aside; the client starts without, and the service
    tells everything.
    """


class OutboxError(ColdNotifyError):
    """The outbox cannot be read, written or locked; the message begins with "outbox: " and names the file."""


class OutboxInUse(OutboxError):
    """Another process, or another publisher of this process, uses the outbox."""


class OutboxFull(OutboxError):
    """So much waits to be published that nothing more is accepted. Waiting records are kept, the refused one is not.

    The message begins with the setting.
    """


class OutboxDamaged(OutboxError):
    """Parts of the outbox's log cannot be read. They have been set aside; what can be read is kept and published."""

    def __init__(self, message: str, aside: str) -> None:
        super().__init__(message)
        self.aside = aside
        """The file that they are in."""


class UsedAfterFork(ColdNotifyError):
    """A child of fork() uses an object of its parent, which has its threads and continues to use it. Nothing was done;
    the message says what the child must do instead.
    """


class PublishRefused(ColdNotifyError):
    """The service refuses a publish, and would refuse it again.

    With an outbox it is set aside in a file there.
    """

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"publish of {name!r} refused: {reason}" if name else reason)
        self.name = name
        """The object's or channel's; "": it is the receipt's."""
        self.reason = reason


class CallbackFailed(ColdNotifyError):
    """A callback raised (`__cause__`). The notification is not acknowledged, and the callback is called again after a
    delay.
    """

    def __init__(self, object_id: str, version: int | None, cause: BaseException) -> None:
        super().__init__(f"callback for {object_id!r}, version {version}, raised {cause!r}")
        self.object_id = object_id
        self.version = version
        self.__cause__ = cause


class ObjectParked(ColdNotifyError):
    """The callbacks for an object failed `tries` times. They are called again at the next connection, or when a newer
    version comes.
    """

    def __init__(self, object_id: str, version: int | None, tries: int) -> None:
        super().__init__(f"{object_id!r}, version {version}, is parked: its callbacks failed {tries} times")
        self.object_id = object_id
        self.version = version
        self.tries = tries


class MembersCallbackFailed(ColdNotifyError):
    """A members callback raised (`__cause__`). It is called again with the same sets after a delay."""

    def __init__(self, query: str, cause: BaseException) -> None:
        super().__init__(f"members callback for query {query!r} raised {cause!r}")
        self.query = query
        self.__cause__ = cause


class QueryParked(ColdNotifyError):
    """The members callbacks for a query failed `tries` times. They are called again at the next connection, or when its
    members change again.
    """

    def __init__(self, query: str, tries: int) -> None:
        super().__init__(f"query {query!r} is parked: its members callbacks failed {tries} times")
        self.query = query
        self.tries = tries


class QueriesUnknown(ColdNotifyError):
    """The service is of an older release without queries: registrations wait for one that has them. Reported once."""

    def __init__(self) -> None:
        super().__init__("the service is older and knows no queries: they are registered once it knows them")


class DescriptionsUnknown(ColdNotifyError):
    """A gateway or matcher of an older release sends no descriptions. Reported once."""

    def __init__(self) -> None:
        super().__init__(
            "the service is older and sends no descriptions: members and versions come, descriptions once it sends them"
        )


class ServiceStale(ColdNotifyError):
    """For longer than `fresh_s`, nothing has proved that the application knows everything. Reported once, until a
    ServiceFresh.

    The gateway may be cut off from Kafka, the matcher away, or there is no connection.
    """

    def __init__(self, age_s: int) -> None:
        super().__init__(f"for {age_s} s nothing proves that everything has been told")
        self.age_s = age_s


class ServiceFresh(ColdNotifyError):
    """It is proved again that the application knows everything. Reported after a ServiceStale."""

    def __init__(self, age_s: int) -> None:
        super().__init__(f"it is proved again that everything has been told: as of {age_s} s ago")
        self.age_s = age_s


class ChannelCallbackFailed(ColdNotifyError):
    """A channel's callback raised (`__cause__`). The message counts as not told, and the callback is called again after
    a delay.
    """

    def __init__(self, channel: str, offset: int, cause: BaseException) -> None:
        super().__init__(f"callback for channel {channel!r}, offset {offset}, raised {cause!r}")
        self.channel = channel
        self.offset = offset
        self.__cause__ = cause


class ChannelParked(ColdNotifyError):
    """The callbacks for a message failed `tries` times: its channel stays at that message. They are called again at the
    next connection, when another message of the channel comes, or when another callback subscribes.
    """

    def __init__(self, channel: str, offset: int, tries: int) -> None:
        super().__init__(f"channel {channel!r} is parked at offset {offset}: its callbacks failed {tries} times")
        self.channel = channel
        self.offset = offset
        self.tries = tries


class MessagesMissed(ColdNotifyError):
    """Messages of a channel may be missing, and there is no `on_missed` callback to report it to."""

    def __init__(self, missed: Missed) -> None:
        after = "the beginning" if missed.after is None else f"offset {missed.after}"
        super().__init__(
            f"channel {missed.channel!r}: between {after} and offset {missed.before} messages may be missing: "
            f"{missed.reason}"
        )
        self.missed = missed


class ChannelsUnknown(ColdNotifyError):
    """The service is of an older release without channels: subscriptions wait for one that has them. Reported once."""

    def __init__(self) -> None:
        super().__init__("the service is older and knows no channels: they are registered once it knows them")


class SharesUnknown(ColdNotifyError):
    """The service is of an older release without shares: registrations wait for one that has them. Reported once."""

    def __init__(self) -> None:
        super().__init__("the service is older and knows no shares: they are registered once it knows them")


class LeaseLost(ColdNotifyError):
    """The lease of a share's message is over, and another member may be handed it. Raised by `done`; reported where no
    `on_lost` is subscribed.
    """

    def __init__(self, channel: str, offset: int) -> None:
        super().__init__(
            f"channel {channel!r}, offset {offset}: the lease is lost, another member may have the message"
        )
        self.channel = channel
        self.offset = offset


class RegistrationRefused(ColdNotifyError):
    """The service refused a registration; the object, query or channel has left the wanted set."""

    def __init__(
        self,
        object_id: str,
        reason: str,
        *,
        query: str | None = None,
        channel: str | None = None,
        share: str | None = None,
    ) -> None:
        named = repr(object_id) if query is None else f"query {query!r}"
        of_share = "" if share is None else f"share {share!r} of "
        what = named if channel is None else f"{of_share}channel {channel!r}"
        super().__init__(f"registration for {what} refused: {reason}")
        self.object_id = object_id
        """"", if it is a query's or a channel's."""
        self.query = query
        """The query's text; None if it is not a query."""
        self.channel = channel
        """The channel's name; None if it is not a channel."""
        self.share = share
        """The share's name; None if it is not a share of the channel."""
        self.reason = reason


class PayloadUnreadable(ColdNotifyError):
    """A payload is not JSON. The version is told nevertheless, with None as its payload."""

    def __init__(self, object_id: str, version: int | None) -> None:
        super().__init__(f"payload of {object_id!r}, version {version}, is not JSON")
        self.object_id = object_id
        self.version = version


class ServiceRefused(ColdNotifyError):
    """The gateway ended the session for good. Nothing is tried any more until connect() is called again."""

    def __init__(self, code: int, code_name: str, reason: str) -> None:
        super().__init__(f"the service refuses this client: {code_name} ({code}): {reason}")
        self.code = code
        self.reason = reason
