"""What can go wrong, as the application sees it.

    ColdNotifyError
    |-- StateError                  the state file: cannot be read, written or locked
    |   |-- StateInUse              another process (or another Notify) uses it
    |   |-- StateMismatch           it belongs to another client
    |   `-- StateDamaged            it was no state; it has been set aside      (reported)
    |-- CallbackFailed              a callback raised; it will be tried again    (reported)
    |-- ObjectParked                its callbacks raised too often               (reported)
    |-- MembersCallbackFailed       a members callback raised; likewise          (reported)
    |-- QueryParked                 they raised too often                        (reported)
    |-- QueriesUnknown              the service is older, and knows no queries   (reported)
    |-- RegistrationRefused         the service refused a registration           (reported)
    |-- PayloadUnreadable           a payload is not JSON; None is told instead  (reported)
    `-- ServiceRefused              a close code that says: do not come back     (reported)

*reported* ones are never raised: they go to the `on_error` callback and to the logger "coldnotify". A StateError is
raised by connect() and reported afterwards. A network that is away is no error; `Notify.status` tells it.
Wrong arguments raise ValueError, whose message begins with the name of the field or setting.
"""


class ColdNotifyError(Exception):
    """Every error of this library but wrong arguments."""


class StateError(ColdNotifyError):
    """The state file cannot be read, written or locked; the message begins with its name."""


class StateInUse(StateError):
    """Another process, or another Notify of this process, uses the state file."""


class StateMismatch(StateError):
    """The state file belongs to another domain, group or client, or was written by a newer library."""


class StateDamaged(StateError):
    """The state file held no state. It has been set aside; the client starts without, the service tells everything."""


class CallbackFailed(ColdNotifyError):
    """A callback raised (`__cause__`). The notification is not acknowledged and is told again after a delay."""

    def __init__(self, object_id: str, version: int | None, cause: BaseException) -> None:
        super().__init__(f"callback for {object_id!r}, version {version}, raised {cause!r}")
        self.object_id = object_id
        self.version = version
        self.__cause__ = cause


class ObjectParked(ColdNotifyError):
    """The callbacks for an object failed `tries` times. It is told again at the next connection, or when a newer
    version comes."""

    def __init__(self, object_id: str, version: int | None, tries: int) -> None:
        super().__init__(f"{object_id!r}, version {version}, is parked: its callbacks failed {tries} times")
        self.object_id = object_id
        self.version = version
        self.tries = tries


class MembersCallbackFailed(ColdNotifyError):
    """A members callback raised (`__cause__`). It is told the same again after a delay."""

    def __init__(self, query: str, cause: BaseException) -> None:
        super().__init__(f"members callback for query {query!r} raised {cause!r}")
        self.query = query
        self.__cause__ = cause


class QueryParked(ColdNotifyError):
    """The members callbacks for a query failed `tries` times. They are told again at the next connection, or when its
    members change again."""

    def __init__(self, query: str, tries: int) -> None:
        super().__init__(f"query {query!r} is parked: its members callbacks failed {tries} times")
        self.query = query
        self.tries = tries


class QueriesUnknown(ColdNotifyError):
    """The service is of an older release, and knows no queries: they wait for one that does. Told once."""

    def __init__(self) -> None:
        super().__init__("the service is older and knows no queries: they are registered once it does")


class RegistrationRefused(ColdNotifyError):
    """The service refused a registration; the object, or the query, has left the wanted set."""

    def __init__(self, object_id: str, reason: str, *, query: str | None = None) -> None:
        what = repr(object_id) if query is None else f"query {query!r}"
        super().__init__(f"registration for {what} refused: {reason}")
        self.object_id = object_id
        """"", if it is a query's."""
        self.query = query
        """Its text; None: it is an object's."""
        self.reason = reason


class PayloadUnreadable(ColdNotifyError):
    """A payload is not JSON. The version is told all the same, with None as its payload."""

    def __init__(self, object_id: str, version: int | None) -> None:
        super().__init__(f"payload of {object_id!r}, version {version}, is not JSON")
        self.object_id = object_id
        self.version = version


class ServiceRefused(ColdNotifyError):
    """The gateway ended the session for good. Nothing is tried any more until connect() is called again."""

    def __init__(self, code: int, name: str, reason: str) -> None:
        super().__init__(f"the service refuses this client: {name} ({code}): {reason}")
        self.code = code
        self.reason = reason
