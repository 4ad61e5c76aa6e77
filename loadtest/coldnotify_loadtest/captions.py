"""Captions of tables and plots: the date and machine of a result, its parameters, the versions. Pure."""

import re
from collections.abc import Mapping
from typing import Any

_VERSION = re.compile(r"\d+(?:\.\d+)+")


def origin(result: Mapping[str, Any]) -> str:
    """One line: when, on what, which commit."""
    machine = result["machine"]
    changed = " with changes" if result["changed"] else ""
    tried = " **Tiny loads: only tried, no figures.**" if result["quick"] else ""
    early = f" **Ended early: {result['error']}.**" if result["error"] else ""
    return (
        f"{result['at']}, commit {result['commit']}{changed}; {machine['processor']}, {machine['cores']} cores, "
        f"{machine['memory_gib']} GiB, Linux {machine['kernel']}, load before {machine['load_before']}.{tried}{early}"
    )


def parameters(result: Mapping[str, Any]) -> str:
    """Returns one sentence with the parameters of the run."""
    return f"Parameters: {', '.join(f'{name} {_plain(value)}' for name, value in result['parameters'].items())}."


def versions(result: Mapping[str, Any]) -> str:
    """Returns one sentence with the versions of the run."""
    found = {name: _VERSION.search(text) for name, text in result["versions"].items()}
    return f"Versions: {', '.join(f'{name} {match.group()}' for name, match in found.items() if match)}."


def _plain(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
