"""Hooks that Schemathesis loads (SCHEMATHESIS_HOOKS): they replace drawn names by names that the test has created.

So requests get more than 404, and write to one domain only.
"""

from typing import Any

import schemathesis

from coldnotify_testkit.api_attack import DOMAIN, GROUP, KNOWN

_WAIT_S_MAX = 60
_OF_QUERIES = ("domain", "group")
"""Names that are parameters of a query where no path has them."""


@schemathesis.hook
def before_call(_context: Any, case: Any, _kwargs: Any) -> None:
    """Known names in place of half of those that are drawn, the domain and the group always; nothing is waited for."""
    if isinstance(case.path_parameters, dict):
        case.path_parameters = {name: _known(name, value) for name, value in case.path_parameters.items()}
    if isinstance(case.query, dict):
        case.query.update({name: _known(name, case.query[name]) for name in _OF_QUERIES if name in case.query})
    for said in (case.query, case.body):
        if isinstance(said, dict) and _is_wait(said.get("wait_s")):
            said["wait_s"] = 0


def _is_wait(value: Any) -> bool:
    """Returns true if a service would accept the value as a waiting time."""
    try:
        return not isinstance(value, bool) and 0 <= float(value) <= _WAIT_S_MAX
    except (TypeError, ValueError):
        return False


def _known(name: str, value: Any) -> Any:
    if not isinstance(value, str) or not value:
        return value
    valid = value.isascii() and value.replace("-", "").replace("_", "").isalnum()
    if name in ("domain", "group"):
        return (DOMAIN if name == "domain" else GROUP) if valid else value
    return KNOWN[name] if name in KNOWN and valid and len(value) % 2 else value
