"""Contexts: addresses and an identity under a name, in a file that only its owner may change."""

import difflib
import json
import os
import tempfile
from pathlib import Path

from coldnotify_common.errors import SettingError
from coldnotify_common.settings import PREFIX

Contexts = dict[str, dict[str, str]]
"""Settings by their names, by context."""

_OTHERS_MAY_WRITE = 0o022


def contexts_file() -> Path:
    """Returns the path of the file; by the XDG specification a relative directory does not count."""
    directory = Path(os.environ.get("XDG_CONFIG_HOME", ""))
    return (directory if directory.is_absolute() else Path.home() / ".config") / "coldnotify" / "contexts.json"


def read_contexts() -> Contexts:
    """Returns all contexts. Raises SettingError, if others than the owner may change the file, too: its addresses get
    the owner's token.
    """
    path = contexts_file()
    try:
        with path.open(encoding="utf-8") as file:
            stat = os.fstat(file.fileno())
            if stat.st_mode & _OTHERS_MAY_WRITE or stat.st_uid not in (0, os.geteuid()):
                raise SettingError(f"{path}: other users may change it: make it your own, and chmod go-w {path}")
            found = json.load(file)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise SettingError(f"{path}: {error.strerror}") from None
    except ValueError as error:
        raise SettingError(f"{path}: is not JSON: {error}") from None
    if not isinstance(found, dict) or not all(isinstance(one, dict) for one in found.values()):
        raise SettingError(f"{path}: is not {{context: {{setting: value}}}}")
    return {name: {setting: str(value) for setting, value in one.items()} for name, one in found.items()}


def write_contexts(contexts: Contexts) -> None:
    """Writes all of them, or leaves the file as it is. Raises OSError."""
    path = contexts_file()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent)  # readable by its owner only
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(contexts, file, indent=2)
    Path(temporary).replace(path)


def variables_of(name: str) -> dict[str, str]:
    """Returns a context's settings as variables. Raises SettingError."""
    contexts = read_contexts()
    if name not in contexts:
        near = difflib.get_close_matches(name, contexts, n=1)
        known = f"did you mean {near[0]}?" if near else "`coldnotify context list` lists them"
        raise SettingError(f"COLDNOTIFY_CONTEXT / --context: context {name!r} is not known; {known}")
    return {PREFIX + setting.upper(): value for setting, value in contexts[name].items()}
