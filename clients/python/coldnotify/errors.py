"""What can go wrong, as the application sees it.

    ColdNotifyError
    |-- StateError                  the state file: cannot be read, written or locked
    |   |-- StateInUse              another process (or another Notify) uses it
    |   |-- StateMismatch           it belongs to another client
    |   `-- StateDamaged            it was no state; it has been set aside      (reported)
    |-- CallbackFailed              a callback raised; it will be tried again    (reported)
    |-- ObjectParked                its callbacks raised too often               (reported)
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


class RegistrationRefused(ColdNotifyError):
    """The service refused a registration; the object has left the wanted set."""

    def __init__(self, object_id: str, reason: str) -> None:
        super().__init__(f"registration for {object_id!r} refused: {reason}")
        self.object_id = object_id
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
