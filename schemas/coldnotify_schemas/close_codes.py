"""Why a gateway ends a session, and whether the client may come back."""

from enum import IntEnum

from coldnotify_schemas.protocol import STAY_AWAY_FROM_CODE


class CloseCode(IntEnum):
    """Below 64: come back (with back-off). From 64 on: do not, somebody must change something first."""

    GOING_AWAY = 1
    """The gateway is stopping: come back, to another gateway if there is one."""
    SILENT = 2
    """No frame came for longer than the keepalive allows."""
    TOO_SLOW = 3
    """The client does not read."""
    OVERLOADED = 4
    """The gateway takes no more connections for now."""
    DISPLACED = 5
    """The same client is connected elsewhere: come back after a minute, doubling."""
    UNKNOWN_SESSION = 6
    """The service lost sight of this session: come back at once."""
    HANDSHAKE_TIMEOUT = 7
    """No Hello came in time."""
    EXPIRED = 8
    """The client's token or certificate has expired: come back with a newer one."""
    DISCONNECTED = 9
    """An operator has ended this session: come back with back-off. The reason says why, and whether the client is
    forgotten; then it registers again.
    """
    ABOVE_AGREEMENT = 10
    """The client's tenant has as many clients connected as were agreed: come back, when others have left."""

    PROTOCOL_ERROR = 64
    """The bytes were no frames, or a frame came where it must not."""
    FRAME_TOO_LARGE = 65
    BAD_NAME = 66
    """A domain, group, client or object has an invalid name; the reason says which."""
    UNSUPPORTED_PROTOCOL = 67
    """The gateway does not speak this version of the protocol."""
    NOT_AUTHENTICATED = 68
    """Nothing that the gateway trusts identifies the client."""
    NOT_ALLOWED = 69
    """The client's certificate or token is for another domain, group or client."""

    @property
    def may_come_back(self) -> bool:
        """Returns true if a client may reconnect by itself."""
        return may_come_back(self)


def may_come_back(code: int) -> bool:
    """Returns true if a client may reconnect by itself, also after a code it does not know."""
    return code < STAY_AWAY_FROM_CODE
