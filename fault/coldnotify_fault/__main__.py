"""`make fault`: runs campaigns seed after seed, and prints a table of what came of them."""

import signal
import sys

from coldnotify_fault.command import main

if __name__ == "__main__":
    # SIGTERM is Ctrl-C: all children are killed on the way out.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main())
