"""Tells if the usage job can run here: Faust comes with a separate extra."""

import importlib.util

EXTRA = "coldnotify-server[usage]"


def is_installed() -> bool:
    """Returns true if Faust can be imported, without importing it."""
    return importlib.util.find_spec("faust") is not None
