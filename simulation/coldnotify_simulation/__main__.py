"""Plays schedules: `python -m coldnotify_simulation --seeds 1-5000`."""

import os
import sys

from coldnotify_simulation.main import main

if os.environ.get("PYTHONHASHSEED") != "0":
    # The order of sets is part of a schedule: a seed is the same everywhere only where hashes are.
    os.environ["PYTHONHASHSEED"] = "0"
    os.execv(sys.executable, [sys.executable, "-m", "coldnotify_simulation", *sys.argv[1:]])
sys.exit(main())
