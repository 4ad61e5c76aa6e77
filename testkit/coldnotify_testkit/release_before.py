"""Release 0.1.0, taken from the history: what runs beside this one, and what this one is upgraded from."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from coldnotify_testkit import zygote

ROOT = Path(__file__).parents[2]
RELEASE = "c66ffa5"
_SERVICES = ("common", "gateway", "matcher", "http", "cli")
DISTRIBUTIONS = ["schemas", "clients/python", "kafka", *(f"services/{name}" for name in _SERVICES)]


def unpacked(directory: Path) -> Path:
    """Its packages, below `directory`. Skips the test where the history is not there."""
    archive = directory / "release.tar"
    made = subprocess.run(
        ["git", "archive", f"--output={archive}", RELEASE, *DISTRIBUTIONS], cwd=ROOT, check=False, capture_output=True
    )
    if made.returncode:
        pytest.skip(f"the history is not here: {made.stderr.decode(errors='replace')}")
    subprocess.run(["tar", "-xf", archive, "-C", directory], check=True)
    return directory


def python_path(release: Path) -> str:
    """The PYTHONPATH of a process that runs it."""
    return ":".join(str(release / name) for name in DISTRIBUTIONS)


@contextmanager
def started_from(monkeypatch: pytest.MonkeyPatch, release: Path | None) -> Iterator[None]:
    """Makes commands that start in here run that release; None: this one."""
    with monkeypatch.context() as patch:
        if release is not None:
            if sys.platform == "linux":
                zygote.address()  # it imports this release, so it has to run before the path changes
            patch.setenv("PYTHONPATH", python_path(release))
        yield
