"""Whether the usage job can run here: Faust comes with an extra of its own."""

import importlib.util

EXTRA = "coldnotify-server[usage]"


def is_installed() -> bool:
    """Whether Faust can be imported; it is not."""
    return importlib.util.find_spec("faust") is not None
