"""`python -m coldnotify.testing`."""

import sys

from coldnotify.testing.command import main

sys.exit(main(sys.argv[1:]))
