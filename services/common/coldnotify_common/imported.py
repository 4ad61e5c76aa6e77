"""Imports an object by its name, `module:attribute`, for tables that must not import it themselves."""

import importlib
from collections.abc import Iterable
from typing import Any

from coldnotify_common.settings import Settings


def imported(name: str) -> Any:
    """Returns the attribute, or the module if the name has no attribute. Raises ImportError, AttributeError."""
    module, _, attribute = name.partition(":")
    found = importlib.import_module(module)
    return getattr(found, attribute) if attribute else found


def settings_classes(names: Iterable[str]) -> tuple[type[Settings], ...]:
    """Returns the settings classes of these names. A name may refer to a tuple of classes. Raises TypeError."""
    classes: list[type[Settings]] = []
    for name in names:
        found = imported(name)
        classes += found if isinstance(found, tuple) else (found,)
    for one in classes:
        if not (isinstance(one, type) and issubclass(one, Settings)):
            raise TypeError(f"{one!r} is not a class of settings")
    return tuple(classes)
