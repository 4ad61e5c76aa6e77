"""Plays schedules: `python -m coldnotify_simulation --seeds 1-5000`."""

import sys

from coldnotify_simulation.main import main

sys.exit(main())
