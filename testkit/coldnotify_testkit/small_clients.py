"""The small clients of clients/small/, as commands: built where they must be, skipped where a tool is missing."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[2] / "clients" / "small"
LANGUAGES = {"python": "client.py", "shell": "client.sh", "c": "client.c", "go": "client.go"}
"""Their files."""
LIMIT_S = 120.0
_GO = Path("/usr/local/go/bin/go")
_BUILD_S = 600


@dataclass(frozen=True)
class Ran:
    """A command that has ended."""

    code: int
    told: list[Any]
    """Its lines, each of them JSON."""
    problem: str
    """Its stderr."""


@dataclass(frozen=True)
class SmallClient:
    """One device: the command, and what it says each time."""

    argv: list[str]
    addresses: str
    domain: str
    state: Path
    client: str = "ou-1"
    group: str = "g"
    for_s: float = 60
    options: tuple[str, ...] = ()
    environ: dict[str, str] = field(default_factory=dict)

    def other(self, **fields: Any) -> "SmallClient":
        """Returns one that differs in these fields."""
        return replace(self, **fields)

    def command(self, *words: str) -> list[str]:
        """Returns its command line."""
        options = {"addresses": self.addresses, "domain": self.domain, "group": self.group, "client": self.client}
        options |= {"state": str(self.state), "for": f"{self.for_s:g}"}
        return [
            *self.argv,
            *(part for name, text in options.items() for part in ("--" + name, text)),
            *self.options,
            *words,
        ]

    def start(self, *words: str, **more: Any) -> "subprocess.Popen[str]":
        """Starts it. The caller reads its pipes, or leaves them."""
        return subprocess.Popen(
            self.command(*words),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **self.environ},
            **more,
        )

    def run(self, *words: str) -> Ran:
        """Runs it to its end."""
        with self.start(*words) as process:
            try:
                out, problem = process.communicate(timeout=LIMIT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
        return Ran(process.returncode, [json.loads(line) for line in out.splitlines()], problem)

    def done(self, *words: str) -> list[Any]:
        """Runs it, and returns what it told. Raises AssertionError if it failed."""
        ran = self.run(*words)
        assert ran.code == 0, ran
        return ran.told

    def cursor(self) -> str | None:
        """Returns the cursor in its state file."""
        lines = self.state.read_text(encoding="utf-8").splitlines() if self.state.exists() else []
        return next((line.removeprefix("cursor ") for line in lines if line.startswith("cursor ")), None)


def command_of(language: str, directory: Path) -> list[str]:
    """Returns what starts the client of a language, built in `directory`. Skips the test if that cannot be."""
    source, built = FOLDER / LANGUAGES[language], directory / f"client-{language}"
    match language:
        case "python":
            return [sys.executable, str(source)]
        case "shell":
            return [_tool("sh"), str(source)] if _tool("curl") and _tool("awk") else []
        case "c":
            argv = [_tool("cc"), "-std=c99", "-O2", "-Wall", "-Wextra", "-Werror", "-o", str(built), str(source)]
        case _:
            argv = [_tool("go"), "build", "-o", str(built), str(source)]
    cache = {"GOCACHE": str(directory / "go"), "GOFLAGS": "-mod=mod", "GOTOOLCHAIN": "local"}
    built_by = subprocess.run(
        argv, capture_output=True, text=True, timeout=_BUILD_S, env={**cache, **os.environ}, check=False
    )
    assert built_by.returncode == 0, built_by.stderr
    return [str(built)]


def _tool(name: str) -> str:
    found = shutil.which(name) or (str(_GO) if name == "go" and _GO.exists() else None)
    if found is None:
        pytest.skip(f"there is no {name}: its small client cannot be run")
    return found
