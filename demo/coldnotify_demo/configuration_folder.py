"""A folder of configurations, FOLDER/<group>/<object>.yaml: finds changes and gives them version numbers."""

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import yaml

_LEDGER = "versions.json"


@dataclass(frozen=True)
class Configuration:
    """One version of one configuration."""

    group: str
    name: str
    version: int
    """1, 2, 3 ...: one more for each change."""
    content: bytes | None
    """The file as it is; None: it was removed."""


class ConfigurationFolder:
    """Finds changes by content, so that a file that was only touched counts as unchanged.

    FOLDER/versions.json keeps the version numbers over restarts. A number is written there before it is used: one
    number never belongs to two contents, whenever the power fails.
    """

    def __init__(self, folder: Path, on_unusable: Callable[[str], object] = lambda _words: None) -> None:
        """`on_unusable` is called for each file without a YAML mapping. Raises OSError, ValueError (the ledger)."""
        self._folder = folder
        self._on_unusable = on_unusable
        self._ledger = _read_ledger(folder / _LEDGER)
        self._given_out: dict[str, str | None] = {}
        self._unusable: dict[str, str] = {}

    def changes(self) -> list[Configuration]:
        """Returns changes since the last call. The first call returns everything: what was returned before a restart
        may not have been published, and publishing it again is harmless.
        """
        files = self._usable_files()
        changed = []
        for key in sorted(self._ledger.keys() | files.keys()):
            content = files.get(key)
            # An unusable file is not a removed one: its last good version stays.
            if key in self._unusable or (content is None and key not in self._ledger):
                continue
            content_hash = None if content is None else hashlib.sha256(content).hexdigest()
            if key in self._given_out and self._given_out[key] == content_hash:
                continue
            version, known_hash = self._ledger.get(key, (0, None))
            if version == 0 or known_hash != content_hash:
                version += 1
            self._ledger[key] = (version, content_hash)
            group, _, name = key.partition("/")
            changed.append(Configuration(group, name, version, content))
        if changed:
            _write_ledger(self._folder / _LEDGER, self._ledger)
        self._given_out |= {f"{c.group}/{c.name}": self._ledger[f"{c.group}/{c.name}"][1] for c in changed}
        return changed

    def _usable_files(self) -> dict[str, bytes]:
        """Returns contents by "group/name"."""
        usable = {}
        unusable = {}
        for path in sorted(self._folder.glob("*/*.yaml")):
            key = f"{path.parent.name}/{path.stem}"
            try:
                content = path.read_bytes()
                if not isinstance(yaml.safe_load(content), dict):
                    raise ValueError("it holds no mapping")
            except FileNotFoundError:
                continue  # removed since the listing
            except (OSError, ValueError, yaml.YAMLError) as error:
                unusable[key] = str(error)
                if self._unusable.get(key) != str(error):
                    self._on_unusable(f"{path}: {error}")
            else:
                usable[key] = content
        self._unusable = unusable
        return usable


def _read_ledger(path: Path) -> dict[str, tuple[int, str | None]]:
    try:
        text = path.read_text()
    except FileNotFoundError:
        return {}
    try:
        return {key: (int(entry["version"]), entry["sha256"]) for key, entry in json.loads(text).items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        # Beginning at 1 again would publish nothing anybody wants to hear of.
        raise ValueError(f"{path}: does not hold the versions given out so far: {error!r}") from None


def _write_ledger(path: Path, ledger: dict[str, tuple[int, str | None]]) -> None:
    new = path.with_suffix(".new")
    with new.open("w") as file:
        json.dump({key: {"version": v, "sha256": h} for key, (v, h) in sorted(ledger.items())}, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
