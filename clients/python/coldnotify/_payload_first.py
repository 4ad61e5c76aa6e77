"""payload_first() accepts the arguments of publish() in release 0.1.0's order, too: the version, then the payload."""

import inspect
import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar, cast

_P = ParamSpec("_P")
_R = TypeVar("_R")
_VERSION_AND_PAYLOAD = 2


def payload_first(publish: Callable[_P, _R]) -> Callable[_P, _R]:
    """Lets `publish` accept a positional version, too, with a DeprecationWarning.

    A whole number in the payload's place is taken for the version, unless `version=` is there, too. Type checkers
    refuse a payload after it.
    """
    place = list(inspect.signature(publish).parameters).index("payload")

    @wraps(publish)
    def ordered(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        names, given, keywords = args[:place], args[place:], cast(dict[str, Any], kwargs)
        if "version" in keywords or not _is_version_first(given, keywords):
            return publish(*args, **kwargs)
        warnings.warn(
            f"{publish.__name__}: version is a keyword: {publish.__name__}(..., payload, version={given[0]!r}); "
            "pass a payload that is a whole number as payload=...",
            DeprecationWarning,
            stacklevel=2,
        )
        old = dict(zip(("version", "payload"), given, strict=True)) if len(given) > 1 else {"version": given[0]}
        return cast(Callable[..., _R], publish)(*names, **old, **keywords)

    if inspect.iscoroutinefunction(publish) and hasattr(inspect, "markcoroutinefunction"):
        return cast(Callable[_P, _R], inspect.markcoroutinefunction(ordered))
    return ordered


def _is_version_first(given: tuple[object, ...], keywords: dict[str, Any]) -> bool:
    if not given or isinstance(given[0], bool) or not isinstance(given[0], int | None):
        return False
    if len(given) == _VERSION_AND_PAYLOAD:
        return "payload" not in keywords
    return len(given) == 1 and ("payload" in keywords or given[0] is not None)
