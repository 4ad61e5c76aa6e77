"""`import_structlog` imports structlog without rich, which it takes along wherever it is installed.

It does so for tracebacks that our logs do not have, and clients wait for a service that is started again: of an idle
core's time to import the matcher, 45 of 360 ms were rich.
"""

import sys


def import_structlog() -> None:
    """To be called before anything else imports structlog. Whoever imports rich later gets it."""
    if "structlog" in sys.modules or "rich" in sys.modules:
        return
    sys.modules["rich"] = None  # type: ignore[assignment]  # as Python's documentation says, to have the import fail
    try:
        import structlog  # noqa: F401
    finally:
        del sys.modules["rich"]
