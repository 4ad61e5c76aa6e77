"""`make bench`: runs experiments, writes their results and the report."""

import signal
import sys

from coldnotify_loadtest.command import main

if __name__ == "__main__":
    # SIGTERM is Ctrl-C: all children are ended on the way out.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
