"""When, and where, a client may come back after a Close."""

from typing import NamedTuple


class ComeBack(NamedTuple):
    """The times in a Close, in s; 0: nothing is said."""

    retry_after_s: int = 0
    """Not before so many seconds."""
    not_here_s: int = 0
    """For so many seconds at another address, if the client knows one."""


AS_YOU_LIKE = ComeBack()
