"""Ends the process when an exception ends one of its threads: the other threads would go on, and serve nobody."""

import os
import sys
import threading

import structlog

log = structlog.get_logger()


def end_with_any_thread() -> None:
    """Makes every uncaught exception of a thread end the process with exit code 1, so that its supervisor restarts it.

    A thread handles the errors that it expects. Any other exception is a bug of ours or of a library: confluent-kafka's
    poll() was seen to raise a SystemError of its own, after which nobody read delivery reports any more.
    """

    def end(args: threading.ExceptHookArgs) -> None:
        name = args.thread.name if args.thread is not None else ""
        error = args.exc_value if args.exc_value is not None else args.exc_type()
        log.critical("a thread died, and the process ends with it", thread=name, exc_info=error)
        sys.stderr.flush()
        os._exit(1)

    threading.excepthook = end
