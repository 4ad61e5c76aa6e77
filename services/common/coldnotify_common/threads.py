"""A thread that dies by an exception ends its process: the others would go on, and serve nobody."""

import os
import sys
import threading

import structlog

log = structlog.get_logger()


def end_with_any_thread() -> None:
    """From here on. The exit code is 1, and whoever supervises the process starts it again.

    A thread that expects an error handles it. What is left is a bug of ours or of a library's: confluent-kafka's poll()
    was seen to raise a SystemError of its own, behind which nobody took delivery reports any more.
    """

    def end(args: threading.ExceptHookArgs) -> None:
        name = args.thread.name if args.thread is not None else ""
        error = args.exc_value if args.exc_value is not None else args.exc_type()
        log.critical("a thread died, and the process ends with it", thread=name, exc_info=error)
        sys.stderr.flush()
        os._exit(1)

    threading.excepthook = end
