"""The limit on open files, in a process of its own: it can be lowered only once."""

import subprocess
import sys

import pytest

ASK = """
import resource, sys
from coldnotify_gateway.open_files import connections_possible
soft, hard, wanted = map(int, sys.argv[1:])
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
print(connections_possible(wanted), resource.getrlimit(resource.RLIMIT_NOFILE)[0])
"""


@pytest.mark.parametrize(
    ("soft", "hard", "wanted", "possible", "soft_after"),
    [
        (1300, 1300, 500, 500, 1300),
        (300, 2000, 500, 500, 1256),
        (300, 1000, 5000, 244, 1000),
        (200, 200, 5000, 1, 200),
    ],
)
def test_as_many_connections_as_files_allow(soft: int, hard: int, wanted: int, possible: int, soft_after: int):
    arguments = [sys.executable, "-c", ASK, str(soft), str(hard), str(wanted)]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == f"{possible} {soft_after}"
