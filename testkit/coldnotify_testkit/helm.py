"""Helm for the tests of the chart. Run as a program it builds Helm with Go's tool, once for each user: `make helm`."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from coldnotify_kafka.broker.jars import cache_directory

_VERSION = "v3.22.0"
_BUILD_S = 1800


def program() -> Path:
    """Returns the path of the Helm that this builds, which need not be there yet."""
    return cache_directory(os.environ) / f"helm-{_VERSION}" / "helm"


def helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs Helm: the one built here, else one on the path. Skips the test where there is none."""
    found = program() if program().exists() else shutil.which("helm")
    if found is None:
        pytest.skip("there is no Helm: `make helm` builds it, with Go")
    return subprocess.run([found, *arguments], capture_output=True, text=True, timeout=120, check=False)


def template(chart: Path, *arguments: str) -> list[dict[str, Any]]:
    """Returns the objects that Helm makes of the chart, as the release "field" in the namespace "default"."""
    done = helm("template", "field", str(chart), *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return [one for one in yaml.safe_load_all(done.stdout) if one]


def main() -> None:
    """Builds it, if it is not there."""
    if program().exists():
        return
    go = shutil.which("go")
    if go is None:
        sys.exit("Helm is built with Go, and there is none here. Without Helm, some tests of the chart are skipped.")
    print(f"Building Helm {_VERSION}; this takes two minutes or so, and 1.5 GB of Go's caches.")
    environ = {**os.environ, "GOBIN": str(program().parent), "GOFLAGS": "-trimpath"}
    argv = [go, "install", "-ldflags=-s -w", f"helm.sh/helm/v3/cmd/helm@{_VERSION}"]
    built = subprocess.run(argv, env=environ, stderr=subprocess.PIPE, text=True, timeout=_BUILD_S, check=False)
    if built.returncode:
        sys.exit(built.stderr)
    print(program())


if __name__ == "__main__":
    main()
