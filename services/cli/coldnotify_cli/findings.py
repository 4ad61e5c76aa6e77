"""The findings of `coldnotify doctor`."""

from typing import NamedTuple

OK, WARNING, BAD = "ok", "warning", "BAD"


class CheckFinding(NamedTuple):
    """The outcome of one check."""

    state: str
    what: str
    words: str
    todo: str = ""
