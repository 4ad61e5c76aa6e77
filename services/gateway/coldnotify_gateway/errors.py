"""What makes a gateway begin anew, or not begin at all."""

from coldnotify_common.errors import ServiceError


class ListenError(ServiceError):
    """The devices' port cannot be opened; the message names setting, address and reason."""


class Reload(Exception):
    """What the gateway knows no longer holds (topics made anew, a producer that failed for good): it begins anew."""
